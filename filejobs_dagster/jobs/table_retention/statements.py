"""Every statement about the rows of a rule.

Identifiers are quoted, values are literals or parameters. The operator's conditions stand between
parentheses on lines of their own. A row is taken only where the condition is true and the
exemption is false: NULL, which means that nobody knows, keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from psycopg import sql

from filejobs_dagster.jobs.table_retention import partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.target import Child, Dangling, Target

Fate = Literal["deleted", "scrubbed"]

NAMED = "named_elsewhere"
"""What a table is called in which a row is looked for that another one names."""


@dataclass(frozen=True)
class Row:
    """A row that is locked.

    Attributes:
        key: Its key, as text.
        time: Its time, as text, as it stands in the column.
        moment: The moment that it stands for, as text in UTC.
    """

    key: tuple[str, ...]
    time: str
    moment: str


@dataclass(frozen=True)
class Statements:
    """The statements for one fate of the rows of one table.

    Attributes:
        target: The table.
        fate: What becomes of the rows.
        cutoff: Rows before it are due.
        delete_cutoff: Rows before it are deleted; only for counting what is scrubbed alone.
    """

    target: Target
    fate: Fate
    cutoff: datetime
    delete_cutoff: datetime

    def due(self) -> sql.Composed:
        """The condition that a row is due; every statement repeats all of it."""
        parts: list[sql.Composable] = [self._past(self.cutoff), *self._conditions()]
        if self.fate == "scrubbed":
            parts.append(self._unscrubbed())
        return sql.SQL("\n   AND ").join(parts)

    def _conditions(self) -> list[sql.Composable]:
        found = self._written()
        if self.target.dangling is not None:
            found.append(self._names_nothing(self.target.dangling))
        return found

    def _written(self) -> list[sql.Composable]:
        """The operator's own conditions."""
        rule = self.target.rule
        found: list[sql.Composable] = []
        if rule.where is not None:
            found.append(_true(rule.where))
        if rule.except_ is not None:
            found.append(_false(rule.except_))
        return found

    def _names_nothing(self, dangling: Dangling) -> sql.Composed:
        """The condition that the row names another one, which is nowhere."""
        column = self.target.own(dangling.column)
        parts = [sql.SQL("{} IS NOT NULL").format(column)]
        parts += [
            sql.SQL("NOT EXISTS (SELECT FROM {} AS {} WHERE {} = {})").format(
                each.relation.quoted,
                sql.Identifier(NAMED),
                sql.Identifier(NAMED, each.column.name),
                column,
            )
            for each in dangling.named
        ]
        return sql.SQL("({})").format(sql.SQL(" AND ").join(parts))

    def keep_out(self) -> Iterator[sql.Composed]:
        """SQL that lets no row come which a row of the table would name, until the end."""
        dangling = self.target.dangling
        for each in dangling.named if dangling is not None else ():
            yield sql.SQL("LOCK TABLE {} IN SHARE MODE").format(each.relation.quoted)

    def newest(self, dangling: Dangling, most: int) -> sql.Composed:
        """SQL about the newest `most` rows that the conditions mean and that name another one.

        It returns how many they are, how many of them dangle, and what they say that they name.
        """
        named = sql.SQL("{} IS NOT NULL").format(self.target.own(dangling.column))
        meant: list[sql.Composable] = [named, *self._written()]
        kind = sql.SQL("NULL") if dangling.kind is None else self.target.own(dangling.kind)
        return sql.SQL(
            "SELECT count(*), count(*) FILTER (WHERE dangles), count(DISTINCT kind)\n"
            "  FROM (SELECT {} AS dangles, {}::text AS kind FROM {}\n WHERE {}\n"
            " ORDER BY {} DESC LIMIT {}) AS newest"
        ).format(
            self._names_nothing(dangling),
            kind,
            self.target.table.quoted,
            sql.SQL(" AND ").join(meant),
            self.target.own(self.target.time),
            sql.Literal(most),
        )

    def only(self) -> str:
        """The condition of an index with no other rows than those that can be due; may be empty."""
        rule = self.target.rule
        parts = [] if rule.where is None else [f"({rule.where})"]
        if rule.except_ is not None:
            parts.append(f"NOT ({rule.except_})")
        if self.fate == "scrubbed":
            parts.append(self._unscrubbed().as_string())
        return " AND ".join(parts)

    def _meant(self) -> sql.Composed:
        """The condition that the rule means a row, whatever its time."""
        return sql.SQL(" AND ").join([sql.SQL("true"), *self._conditions()])

    def _past(self, cutoff: datetime) -> sql.Composed:
        return partitions.past(self.target.time, self.target.rule.time_zone, cutoff)

    def _unscrubbed(self) -> sql.Composed:
        columns = [
            sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in self.target.scrub
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(columns))

    def page(self, after: Row | None, size: int, *, lock: bool) -> sql.Composed:
        """SQL for the next due rows in the order of time and key, locked where asked.

        SKIP LOCKED: a row that somebody holds is not waited for. What they make of it decides.
        """
        target = self.target
        order = target.order
        since: sql.Composable = sql.SQL("")
        if after is not None:
            known = dict(zip((each.name for each in target.key), after.key, strict=True))
            known[target.time.name] = after.time
            values = sql.SQL(", ").join(
                sql.SQL("{}::{}").format(sql.Literal(known[each.name]), each.cast) for each in order
            )
            columns = sql.SQL(", ").join(each.quoted for each in order)
            since = sql.SQL("\n   AND ({}) > ({})").format(columns, values)
        return sql.SQL(
            "SELECT {time}::text, {instant}::text, {key}\n  FROM {table}\n WHERE {due}{since}"
            "\n ORDER BY {order}\n LIMIT {size}{lock}"
        ).format(
            time=target.time.quoted,
            instant=partitions.instant(target.time, target.rule.time_zone),
            key=sql.SQL(", ").join(sql.SQL("{}::text").format(each.quoted) for each in target.key),
            table=target.table.quoted,
            due=self.due(),
            since=since,
            order=sql.SQL(", ").join(target.in_order()),
            size=sql.Literal(size),
            lock=sql.SQL("\n   FOR UPDATE SKIP LOCKED" if lock else ""),
        )

    def take(self) -> sql.Composed:
        """SQL that deletes or scrubs the rows whose keys are `$1`, `$2`, … (`text[]`).

        It repeats every predicate of the page, although the rows are locked.
        """
        target = self.target
        mine = sql.SQL("{}\n   AND {}").format(self._chosen(), self.due())
        if self.fate == "deleted":
            return sql.SQL("DELETE FROM {}\n WHERE {}").format(target.table.quoted, mine)
        nulls = sql.SQL(", ").join(
            sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in target.scrub
        )
        return sql.SQL("UPDATE {}\n   SET {}\n WHERE {}").format(target.table.quoted, nulls, mine)

    def _chosen(self) -> sql.Composed:
        """The condition that a row's key is among those in `$1`, `$2`, …."""
        key = self.target.key
        numbers = range(1, len(key) + 1)
        chosen = [sql.Identifier(f"key_{number}") for number in numbers]
        return sql.SQL(
            "({keys}) IN (SELECT {casts} FROM unnest({arrays}) AS chosen ({chosen}))"
        ).format(
            keys=sql.SQL(", ").join(each.quoted for each in key),
            casts=sql.SQL(", ").join(
                sql.SQL("chosen.{}::{}").format(name, each.cast)
                for name, each in zip(chosen, key, strict=True)
            ),
            arrays=sql.SQL(", ").join(sql.SQL(f"${number}::text[]") for number in numbers),
            chosen=sql.SQL(", ").join(chosen),
        )

    def take_children(self, child: Child) -> sql.Composed:
        """SQL that deletes the rows of a child table that belong to the keys in `$1`."""
        (key,) = self.target.key
        return sql.SQL(
            "DELETE FROM {table}\n WHERE {column} IN (SELECT chosen.key_1::{cast}"
            " FROM unnest($1::text[]) AS chosen (key_1))"
        ).format(
            table=child.relation.quoted,
            column=child.column.quoted,
            cast=key.cast,
        )

    def count(self, most: int) -> sql.Composed:
        """SQL that counts due rows, up to `most`; what is deleted is not counted as scrubbed."""
        only: sql.Composable = sql.SQL("")
        if self.fate == "scrubbed":
            only = sql.SQL("\n   AND NOT {}").format(self._past(self.delete_cutoff))
        return sql.SQL(
            "SELECT count(*) FROM (SELECT FROM {} WHERE {}{}\n ORDER BY {} LIMIT {}) AS due"
        ).format(
            self.target.table.quoted,
            self.due(),
            only,
            self.target.in_order()[0],
            sql.Literal(most),
        )

    def oldest(self) -> sql.Composed:
        """SQL for the moment of the oldest due row, or no row."""
        moment = partitions.instant(self.target.time, self.target.rule.time_zone)
        # A year that no client's calendar holds would make every reader of the record fail.
        return sql.SQL(
            "SELECT greatest({}, '0001-01-03Z'::timestamptz) FROM {} WHERE {}\n ORDER BY {} LIMIT 1"
        ).format(moment, self.target.table.quoted, self.due(), self.target.in_order()[0])

    def still_meant(self) -> sql.Composed:
        """SQL that counts those of the keys in `$1`, `$2`, … which the rule would still delete.

        It returns how many are past the cutoff, and how many of these the conditions mean.
        """
        return sql.SQL(
            "SELECT count(*), count(*) FILTER (WHERE {}) FROM {}\n WHERE {}\n   AND {}"
        ).format(
            self._meant(),
            self.target.table.quoted,
            self._chosen(),
            self._past(self.cutoff),
        )

    def before_all_time(self, most: int) -> sql.Composed:
        """SQL that counts rows with a time of -infinity, up to `most`: past, and never taken."""
        return sql.SQL(
            "SELECT count(*) FROM (SELECT FROM {} WHERE {} = '-infinity' AND {} LIMIT {}) AS before"
        ).format(
            self.target.table.quoted, self.target.time.quoted, self._meant(), sql.Literal(most)
        )

    def without_time(self, most: int) -> tuple[sql.Composed, ...]:
        """SQL that looks at up to `most` rows without a time of each kind, the better way first.

        It returns how many of them the conditions mean, and how many it looked at.
        """
        meant = self._meant()
        # The conditions come behind the limit, so that rows which they do not mean cost no more
        # than the others. A partial index serves only where they stand before it.
        return tuple(
            self._timeless(shown, condition, most)
            for shown, condition in ((meant, sql.SQL("true")), (sql.SQL("true"), meant))
        )

    def _timeless(
        self, meant: sql.Composable, condition: sql.Composable, most: int
    ) -> sql.Composed:
        # Three look-ups instead of one OR: each is served by the index on the time.
        each = [
            sql.SQL("(SELECT {} AS meant FROM {} WHERE {} {} AND {} LIMIT {})").format(
                meant,
                self.target.table.quoted,
                self.target.time.quoted,
                test,
                condition,
                sql.Literal(most),
            )
            for test in (sql.SQL("IS NULL"), sql.SQL("= 'infinity'"), sql.SQL("= '-infinity'"))
        ]
        return sql.SQL(
            "SELECT count(*) FILTER (WHERE meant), count(*) FROM ({}) AS timeless"
        ).format(sql.SQL(" UNION ALL ").join(each))


def keys_as_arrays(rows: Sequence[Row]) -> list[list[str]]:
    """The keys of rows, an array for each of their columns."""
    return [list(column) for column in zip(*(row.key for row in rows), strict=True)]


def row_of(answer: Sequence[str]) -> Row:
    """A row of a page."""
    time, moment, *key = answer
    return Row(tuple(key), time, moment)


def _true(condition: str) -> sql.Composed:
    # On lines of its own, so that nothing which closes it can be swallowed. Not `IS TRUE`, which
    # says the same in a WHERE, but would hide the condition from partial indexes.
    return sql.SQL("(\n{}\n)").format(sql.SQL(condition))


def _false(condition: str) -> sql.Composed:
    return sql.SQL("NOT {}").format(_true(condition))
