"""An operator's query, wrapped so that it stays one query and returns one column of keys.

`ReferencesUnknown` is the one answer of a source that could not be asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.references.transforms import Transforms

# The one answer of a source that could not be asked.


class ReferencesUnknown(Exception):
    """Whether keys are referenced could not be established: nothing may be deleted.

    The message names the source, what it returned and what to do; `__cause__` has the error.
    """


# The operator's SQL is put into ours as it is: that is what this module is for.
# ruff: noqa: S608


_PARAMETER = re.compile(r"\$[0-9]+")


class Source(Protocol):
    """A query for keys in use: an entry of `sources` in `filejobs.yaml`.

    It may have more, which is read where it is there: `database` (with `url`, a secret) when the
    query is asked elsewhere, `transforms`, `recheck_sql` and `names`.
    """

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def sql(self) -> str:
        """One SELECT of one column."""
        ...

    @property
    def min_rows(self) -> int:
        """The fewest rows a sane answer has."""
        ...


@dataclass(frozen=True)
class Column:
    r"""The one column that a source returns.

    Attributes:
        is_bytes: True for bytea, whose text form would be `\x…` and match no key.
    """

    is_bytes: bool


@dataclass(frozen=True)
class OperatorQuery:
    """A source's SQL, looked at and ready to be wrapped.

    The closing parenthesis stands on a line of its own, so that a comment at the end of the
    operator's SQL cannot swallow it. `$1` is ours; psycopg's RawCursor leaves `%` alone.
    """

    source: Source

    def __post_init__(self) -> None:
        """Refuse SQL that would not stay one query.

        Raises:
            ReferencesUnknown: It holds a semicolon, a parameter or a NUL, or is empty, or its
                source has the name of a table of the project.
        """
        text = self.source.sql
        if self.source.name in {table.name for table in OWN_TABLES}:
            raise ReferencesUnknown(
                f"A source is called {self.source.name!r}, as the project's own table is, so no "
                "report could tell the two apart. Give it another name."
            )
        for found, problem, advice in (
            (not text.strip(), "is empty", "write one SELECT that returns one column of keys"),
            (";" in text, "holds a semicolon", "write one SELECT and no semicolon, not even last"),
            ("\x00" in text, "holds a NUL character", "take it out"),
            (
                _PARAMETER.search(text),
                "holds a parameter such as $1",
                "write the value itself, or put the query into a view",
            ),
            (
                self.recheck_sql is not None
                and (
                    ";" in self.recheck_sql or set(_PARAMETER.findall(self.recheck_sql)) != {"$1"}
                ),
                "has a recheck_sql that is not one SELECT with $1",
                "return those of the keys in $1::text[] that are in use, and use no semicolon",
            ),
            (
                self.recheck_sql is None and not self.transforms.invertible,
                "has transforms that cannot be inverted and no recheck_sql",
                "write recheck_sql, which says of keys whether they are in use",
            ),
        ):
            if found:
                raise ReferencesUnknown(
                    f"The SQL of source {self.source.name!r} {problem}: {advice}."
                )

    @property
    def name(self) -> str:
        """What reports call the source."""
        return self.source.name

    @property
    def min_rows(self) -> int:
        """The fewest rows a sane answer has."""
        return self.source.min_rows

    @cached_property
    def url(self) -> str | None:
        """The address of the source's own database, a secret; None for the project's."""
        database = getattr(self.source, "database", None)
        return None if database is None else str(database.url.reveal())

    @cached_property
    def transforms(self) -> Transforms:
        """The steps from a value of the query to a key."""
        return Transforms.of(getattr(self.source, "transforms", ()))

    @property
    def recheck_sql(self) -> str | None:
        """The operator's own check of keys, which stands instead of the query's values."""
        recheck: str | None = getattr(self.source, "recheck_sql", None)
        return recheck

    @property
    def names_owners(self) -> bool:
        """True when it returns what rewrites lead to, which need not be an object."""
        return getattr(self.source, "names", "keys") == "owners"

    @property
    def rows_checked_by_hand(self) -> bool:
        """True when the operator has made sure that nothing hides rows from the query."""
        return bool(getattr(self.source, "rows_checked_by_hand", False))

    def shape(self) -> str:
        """SQL that returns no row and shows the columns."""
        return f"SELECT * FROM {self._wrapped('source')} LIMIT 0"

    def keys(self, column: Column) -> str:
        """SQL that returns every value as bytea, NULL among them."""
        return f"SELECT {_bytes_of(column)} FROM {self._wrapped('source(key)')}"

    def count(self, column: Column) -> str:
        """SQL that counts keys, at most `$1` of them."""
        key = _bytes_of(column)
        return (
            f"SELECT count(*) FROM (SELECT FROM {self._wrapped('source(key)')} "
            f"WHERE octet_length({key}) > 0 LIMIT $1::bigint) AS enough"
        )

    def samples(self, column: Column) -> str:
        """SQL that returns some values as bytea, NULL and the empty one not among them.

        The first `$1`, and up to `$1` others by chance among the first `$2`; those first that a
        transform may decode or cut, because they are where two queries disagree.
        """
        key = _bytes_of(column)
        return (
            "WITH sampled AS MATERIALIZED "
            f"(SELECT {key} AS key FROM {self._wrapped('source(key)')} "
            f"WHERE octet_length({key}) > 0 LIMIT $2::bigint) "
            "(SELECT key FROM sampled LIMIT $1::bigint) UNION ALL "
            "(SELECT key FROM sampled ORDER BY "
            "position('%'::bytea IN key) + position('?'::bytea IN key) = 0, random() "
            "LIMIT $1::bigint)"
        )

    def matches(self, column: Column) -> str:
        """SQL that returns, as bytea, those of the keys in `$1` (`bytea[]`) that it names.

        Bytes are compared, because the column's collation may call different keys equal. For text,
        `$2` (`text[]`) holds the same keys: equal bytes are equal under every collation, so this
        comparison leaves nothing out, and it is the one that an index of the operator's serves.
        """
        key = _bytes_of(column)
        by_index = "" if column.is_bytes else "source.key = any($2::text[]) AND "
        return (
            f"SELECT DISTINCT {key} FROM {self._wrapped('source(key)')} "
            f"WHERE {by_index}{key} = any($1::bytea[])"
        )

    def recheck(self) -> str:
        """SQL that returns, as bytea, those of the keys in `$1` (`text[]`) that are in use."""
        return (
            "SELECT DISTINCT convert_to(recheck.key::text, 'UTF8') "
            f"FROM (\n{self.recheck_sql}\n) AS recheck(key)"
        )

    def _wrapped(self, alias: str) -> str:
        return f"(\n{self.source.sql}\n) AS {alias}"


def _bytes_of(column: Column) -> str:
    return "source.key" if column.is_bytes else "convert_to(source.key::text, 'UTF8')"
