"""A table of the operator's, declared once.

What names an object in it, when a row is due, what a claim does: candidate query, claim and source
of references are all written from it.
"""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    WithJsonSchema,
)

from filejobs_dagster.settings.conditions import (
    ColumnName,
    Condition,
    TableName,
    TimeZone,
    columns_of,
    is_column,
    name_of,
    quoted,
)
from filejobs_dagster.settings.problems import kind, mistake, shown
from filejobs_dagster.settings.rules import TransformSettings, idle_steps
from filejobs_dagster.settings.secrets import OtherDatabase
from filejobs_dagster.settings.section import Found, OneBucketSettings, Section, items, part
from filejobs_dagster.settings.statements import AuditStatement
from filejobs_dagster.settings.storage import SourceSettings
from filejobs_dagster.settings.values import Text

DueForm = Literal[
    "time", "epoch_seconds", "epoch_milliseconds", "epoch_microseconds", "uuid_v7", "text"
]

_READ_AS_MORE = re.compile(r";|\$[0-9]")
"""In the SQL of a source neither may stand, not even in a name or a text."""

_BELOW = re.compile(r"(?:[^{}]*/)?\{key\}/(?:[^{}]*/)?")

_NO_VALUE = re.compile(rf"{_READ_AS_MORE.pattern}|[\x00\\]")


def _assignments(values: Any) -> Any:
    if not isinstance(values, dict) or not values:
        raise mistake(
            f"found {kind(values) if not isinstance(values, dict) else 'nothing'} where columns "
            "and their values belong",
            "write a mapping, such as {status: expired}",
        )
    for column, value in values.items():
        if not is_column(column):
            raise mistake(f"{shown(column)} is not the name of a column", "write it as SQL does")
        if not (value is None or isinstance(value, str | int | bool)):
            raise mistake(
                f"{shown(column)} is set to {kind(value)}",
                "write a text, a whole number, true, false or null",
            )
        if isinstance(value, str) and _NO_VALUE.search(value):
            raise mistake(
                f"the value of {shown(column)} has a ;, a \\ or a parameter such as $1 in it",
                "write another word",
            )
    return values


Assignments = Annotated[
    Any,
    AfterValidator(_assignments),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
        }
    ),
]
"""Columns, each with the value that a claim gives it."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class OtherTableSettings(Section):
    """A table whose rows belong to those of another."""

    table: TableName = Field(
        description="The table, with its schema.",
        examples=["public.notification_delivery"],
    )
    column: ColumnName = Field(
        description="Its column that holds the id of the row that it belongs to. Have an index on "
        "it.",
        examples=["notification_id"],
    )


class DependentTableSettings(OtherTableSettings):
    """A table whose rows are deleted with the claimed row, before it."""

    where: Condition | None = Field(
        default=None,
        description="Only rows of that table for which this condition is true.",
        examples=["record_type = 'ActiveStorage::VariantRecord'"],
    )
    key: ColumnName | None = Field(
        default=None,
        description="The column of that table that names an object of its own in the same bucket: "
        "the object goes in the same run. With it, the table is a source of the bucket, too.",
        examples=["thumbnail_key"],
    )
    transforms: list[TransformSettings] = Field(
        default_factory=list,
        description="The steps by which a value of key becomes the key of the bucket, as in the "
        "table itself.",
        examples=[[{"prepend": "media/"}]],
    )
    min_rows: StrictInt = Field(
        default=1,
        ge=0,
        description="As in sources, of a table with a key: the fewest rows that it has. 0 says "
        "that an empty table is normal.",
        examples=[0],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what becomes a key."""
        yield from _steps_back(said)


class AlsoDeletedSettings(DependentTableSettings):
    """A table whose rows are deleted with the claimed row, and the rows that belong to those."""

    id: ColumnName = Field(
        default="id",
        description="Its own id, which the rows of also_delete below it hold.",
        examples=["id"],
    )
    also_delete: list[DependentTableSettings] = Field(
        default_factory=list,
        description="Tables whose rows belong to the rows of this one, and go before them.",
        examples=[[{"table": "public.part_note", "column": "part_id"}]],
    )


class RowsSettings(Section):
    """A table of the operator's, and what makes a row of it go."""

    table: TableName = Field(
        description="The table, with its schema. Without one, the search path of the role decides.",
        examples=["public.documents"],
    )
    database: OtherDatabase | None = Field(
        default=None,
        description="Where the table is. Without it, in the project's own database.",
        examples=[{"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}],
    )
    id: Annotated[
        list[ColumnName],
        BeforeValidator(_listed),
        WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1}),
    ] = Field(
        default_factory=lambda: ["id"],
        min_length=1,
        description="The column that tells one row from another, or a list of them: the primary "
        "key, or what else is unique. Without it, id.",
        examples=["id"],
    )
    due: ColumnName = Field(
        description="The column that a row's time stands in. A row without a time is never taken.",
        examples=["expires_at"],
    )
    due_as: DueForm = Field(
        default="time",
        description="How that column holds a time: time (timestamptz, or a timestamp with "
        "time_zone), epoch_seconds, epoch_milliseconds, epoch_microseconds (numbers), uuid_v7 (the "
        "moment at which it was made), text (ISO 8601). What does not read as such is no time.",
        examples=["epoch_milliseconds"],
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="What a timestamp, or a text without offset, is written in; needed for such a "
        "column.",
        examples=["UTC"],
    )
    where: Condition | None = Field(
        default=None,
        description="Only rows for which this condition is true may go. NULL is not true.",
        examples=["status = 'reserved'"],
    )
    unless_named_by: list[OtherTableSettings] = Field(
        default_factory=list,
        description="Tables whose rows keep the row that they name. Each needs a foreign key to "
        "the table, without ON DELETE: what another session has not committed nobody else sees.",
        examples=[[{"table": "public.active_storage_attachments", "column": "blob_id"}]],
    )
    set: Assignments | None = Field(
        default=None,
        description="A claim updates the row to these values, and what `where` looks at to one "
        "that only a claim gives: such rows name nothing any more. Without it, a claim deletes the "
        "row.",
        examples=[{"status": "expired"}],
    )
    also_delete: list[AlsoDeletedSettings] = Field(
        default_factory=list,
        description="Tables whose rows are deleted in the claim's transaction, before the row: "
        "what a foreign key would else keep it for.",
        examples=[[{"table": "public.active_storage_variant_records", "column": "blob_id"}]],
    )
    audit: AuditStatement | None = Field(
        default=None,
        description="A statement that writes an audit event of your own in the claim's "
        "transaction. $1 is the array of ids, $2 of keys, $3 the run's id.",
        examples=[
            "insert into public.audit_log (document_id, run_id) select unnest($1::uuid[]), $3"
        ],
    )

    def dependents(self) -> Iterator[DependentTableSettings]:
        """The tables of also_delete, each with those below it behind it."""
        for child in self.also_delete:
            yield child
            yield from child.also_delete

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what no single key shows."""
        if said.get("time_zone") is not None and said.get("due_as", "time") not in ("time", "text"):
            yield (
                ("time_zone",),
                mistake(f"{said.get('due_as')} is the same in every zone", "leave it out"),
            )
        yield from _of_the_claim(said)
        if len(items(said.get("id"))) > 1:
            for each in ("unless_named_by", "also_delete"):
                if said.get(each):
                    yield (
                        (each,),
                        mistake(
                            "it names rows by one column, and the id has several",
                            "name a unique column as id",
                        ),
                    )
        for each in ("table", "key", "in_bucket"):
            if isinstance(said.get(each), str) and _READ_AS_MORE.search(said[each]):
                yield (
                    (each,),
                    mistake(
                        "it has a ; or a parameter such as $1 in it",
                        "put what is unusual into a generated column or give it another name",
                    ),
                )


class RowRuleSettings(RowsSettings):
    """A rule of an own job: rows that name no object, and go or change when they are due."""

    not_here: ClassVar[Mapping[str, str]] = {
        "key": "rows of a rule name no object; whose do belong under upload_reservations or "
        "deleted_files, where their objects go with them",
    }

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what no single key shows."""
        yield from super().across(said)
        for index, child in enumerate(items(said.get("also_delete"))):
            named = [child, *items(part(child, "also_delete"))]
            if any(part(each, "key") is not None for each in named):
                yield ("also_delete", index), mistake("a key stands in it", cls.not_here["key"])

    @property
    def name(self) -> str:
        """What reports call it: there is one table."""
        return self.table

    @property
    def key(self) -> None:
        """No column names an object."""

    @property
    def size(self) -> None:
        """There is no object that could have one."""

    @property
    def in_bucket(self) -> None:
        """No bucket is meant."""


class TableSettings(RowsSettings):
    """A table of the operator's whose rows name objects, and what makes a row go."""

    name: Text = Field(
        description="What reports and audit events call it. Unique within the job.",
        examples=["documents"],
    )
    key: ColumnName = Field(
        description="The column that names the object. NULL and the empty text name none.",
        examples=["storage_key"],
    )
    transforms: list[TransformSettings] = Field(
        default_factory=list,
        description="The steps by which a value of key becomes the key of the bucket: prepend, "
        "strip_base and strip_suffix. Without any, it is the key.",
        examples=[[{"prepend": "media/"}]],
    )
    size: ColumnName | None = Field(
        default=None,
        description="The column that holds the object's size in bytes, if there is one.",
        examples=["byte_size"],
    )
    derived_below: list[Text] = Field(
        default_factory=list,
        description="Folders in which objects that were made from the row's object lie, without a "
        "row of their own. What lies directly in one since before the row was due, up to 100,000 "
        "objects, goes in the same run, unless something names it or the object itself.",
        examples=[["variants/{key}/"]],
    )
    in_bucket: Condition | None = Field(
        default=None,
        description="Only rows for which this condition is true have their object in this bucket. "
        "The others are never taken, and name nothing here unless it is NULL.",
        examples=["service_name = 'amazon'"],
    )
    min_rows: StrictInt = Field(
        default=1,
        ge=0,
        description="As in sources: the fewest rows that the table has. 0 says that an empty table "
        "is normal.",
        examples=[0],
    )
    keys_checked_by_hand: StrictBool = Field(
        default=False,
        description="As in sources: you have made sure of the keys although none of them has an "
        "object.",
        examples=[False],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what no single key shows."""
        yield from _steps_back(said)
        for index, folder in enumerate(items(said.get("derived_below"))):
            if isinstance(folder, str) and not _BELOW.fullmatch(folder):
                yield (
                    ("derived_below", index),
                    mistake(
                        f"{shown(folder)} is no folder of one key",
                        "write {key} once, as whole segments, and a slash at the end: "
                        "variants/{key}/",
                    ),
                )
        yield from super().across(said)


def _steps_back(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find steps that do not lead back from a key to its row."""
    yield from idle_steps(said.get("transforms"))
    for index, step in enumerate(items(said.get("transforms"))):
        for each in ("drop_query", "percent_decode"):
            if part(step, each):
                yield (
                    ("transforms", index, each),
                    mistake(
                        "from the key, the row could not be found again",
                        "write prepend, strip_base or strip_suffix; or let a generated column "
                        "hold the key",
                    ),
                )


def _of_the_claim(said: Mapping[str, Any]) -> Iterator[Found]:
    values = said.get("set")
    if not isinstance(values, Mapping):
        return
    for each in ("unless_named_by", "also_delete"):
        if said.get(each):
            yield (
                (each,),
                mistake(
                    "no foreign key refuses an UPDATE, so the claim would not be kept from a row "
                    "that is just coming into use",
                    "leave `set` out: the claim then deletes the row",
                ),
            )
    # Not `due`: a row in use has no time, or the one that stands for none.
    looked_at: set[str] = set()
    condition = said.get("where")
    if isinstance(condition, str):
        try:
            looked_at = columns_of(condition)
        except ValueError:
            return  # reported at the condition itself
    columns = {name_of(column) for column in values if isinstance(column, str)}
    known_by = [*items(_listed(said.get("id", "id"))), said.get("key")]
    fixed = {name_of(each) for each in known_by if isinstance(each, str)}
    for column in columns & fixed:
        yield (
            ("set",),
            mistake(
                f"it changes {shown(column)}, by which the row is known",
                "set the column that says what the row is",
            ),
        )
    marks = {name_of(column) for column, value in values.items() if value is not None}
    if not marks & looked_at:
        yield (
            ("set",),
            mistake(
                "it sets no column that `where` looks at to a value other than null, so rows that "
                "were claimed could not be told from those that are in use",
                "set a state that only a claim gives: {status: expired}",
            ),
        )


def set_to(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each column and its value, as SQL writes them."""
    for column, value in values.items():
        if isinstance(value, str):
            doubled = value.replace("'", "''")
            yield quoted(column), f"'{doubled}'"
        else:
            yield quoted(column), "NULL" if value is None else str(value).lower()


def sources_of(tables: Iterable[TableSettings], taken: Iterable[str]) -> list[SourceSettings]:
    """The sources of references that declared tables are, one for each table and key.

    Every row names its key, due or not: what another row still needs stays. Left out are rows
    of which it is certain: that they are of another bucket, or as a claim has left them, with the
    time by which they were due. What is brought back to life loses that time.

    Args:
        tables: Those of one bucket; several jobs may declare the same one.
        taken: Names that other sources of the bucket have.
    """
    together: dict[tuple[object, ...], list[TableSettings]] = {}
    for table in tables:
        variable = None if table.database is None else table.database.url.env
        steps = tuple(step.model_dump_json() for step in table.transforms)
        place = (variable, quoted(table.table), quoted(table.key), steps, table.in_bucket)
        together.setdefault(place, []).append(table)
    names = set(taken)
    found = []
    for child in _of_children(together.values()):
        name = f"{child.name} (also_delete)" if child.name in names else child.name
        names.add(name)
        found.append(child.model_copy(update={"name": name}))
    for group in together.values():
        first = group[0]
        name = f"{first.table}.{first.key}"
        if name in names:
            name = f"{name} ({first.name})"
        names.add(name)
        conditions = [f"(\n{first.in_bucket}\n) IS NOT FALSE"] if first.in_bucket else []
        conditions += [_not_claimed(table) for table in group if table.set is not None]
        query = f"SELECT {quoted(first.key)} FROM {quoted(first.table)}"  # noqa: S608
        found.append(
            SourceSettings.model_construct(
                name=name,
                sql=query + (f" WHERE {' AND '.join(conditions)}" if conditions else ""),
                database=first.database,
                transforms=first.transforms,
                min_rows=min(table.min_rows for table in group),
                keys_checked_by_hand=any(table.keys_checked_by_hand for table in group),
            )
        )
    return found


def _of_children(groups: Iterable[Iterable[TableSettings]]) -> Iterator[SourceSettings]:
    """A source for each table whose rows go with others, and name objects of their own."""
    seen: set[tuple[object, ...]] = set()
    for table in (table for group in groups for table in group):
        for child in table.dependents():
            if child.key is None:
                continue
            variable = None if table.database is None else table.database.url.env
            steps = tuple(step.model_dump_json() for step in child.transforms)
            place = (variable, quoted(child.table), quoted(child.key), steps)
            if place not in seen:
                seen.add(place)
                yield SourceSettings.model_construct(
                    name=f"{child.table}.{child.key}",
                    sql=f"SELECT {quoted(child.key)} FROM {quoted(child.table)}",  # noqa: S608
                    database=table.database,
                    transforms=child.transforms,
                    min_rows=child.min_rows,
                )


def _not_claimed(table: TableSettings) -> str:
    """The condition that a row is not as a claim leaves it."""
    values = dict(set_to(table.set or {}))
    gone = [f"{column} IS NOT DISTINCT FROM {value}" for column, value in values.items()]
    due = quoted(table.due)
    if due not in values:
        # As applications write that there is no time.
        none = {"time": "'infinity'", "text": "''", "uuid_v7": "NULL"}.get(table.due_as, "0")
        gone.append(f"nullif({due}, {none}) IS NOT NULL")
    return f"NOT ({' AND '.join(gone)})"


class CollectingSettings(OneBucketSettings):
    """What a job can be told that removes rows, and then the bytes that they name."""

    quarantine: StrictBool = Field(
        default=False,
        description="True keeps the bytes of what goes for as long as quarantine of the bucket "
        "says (30d if it says nothing). storage_orphans must run there: it ends what was kept.",
        examples=[True],
    )
    leave_out: list[ColumnName] = Field(
        default_factory=list,
        description="Columns whose values do not enter the audit log. Where quarantine is true, a "
        "row's event holds the whole row, for as long as the log is kept: name what is personal.",
        examples=[["original_name"]],
    )

    @property
    def rows_left_out(self) -> tuple[str, ...] | None:
        """Columns that a row's event leaves out; None where it does not hold the row."""
        return tuple(self.leave_out) if self.quarantine else None
