"""What `deleted_files` can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.rules import repeated_names
from filejobs_dagster.settings.section import (
    Around,
    Asked,
    Found,
    OneRun,
    Run,
    Section,
    items,
    part,
)
from filejobs_dagster.settings.statements import DerivedStatement
from filejobs_dagster.settings.tables import CollectingSettings, TableSettings
from filejobs_dagster.settings.values import Duration, Text, between, duration_in

JOB = "deleted_files"


class DerivedSettings(Section):
    """Rows that name objects which were made from files, and that go with their file."""

    name: Text = Field(
        description="What reports call these objects. Unique within the job.",
        examples=["thumbnails"],
    )
    sql: DerivedStatement = Field(
        description="One SELECT that returns one column of keys: those of the objects that were "
        "made from the files in $1 (uuid[]). Asked in the project's own database. No semicolon.",
        examples=["select storage_key from public.thumbnail where file_id = any($1)"],
    )


class DeletedTableSettings(TableSettings):
    """A table of the operator's whose rows are soft-deleted before they go."""

    after: Annotated[Duration, between(timedelta(0))] | None = Field(
        default=None,
        description="How long after the time in `due` the row may go, where that is longer than "
        "restore_window.",
        examples=["90d"],
    )


class DeletedFilesSettings(CollectingSettings):
    """What `deleted_files` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most deleted files to collect in this run, {least} to {most}; the oldest first. What "
            "is left is reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most deleted files one run removes. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run(
            "Deleted files in one transaction, {least} to {most}. Smaller batches hold row locks "
            "for a shorter time.",
            safer="less",
        ),
    ] = Field(
        default=500,
        ge=1,
        le=1000,
        description="How many deleted files one transaction claims.",
        examples=[500],
    )
    restore_window: Annotated[Duration, between(timedelta(0))] = Field(
        description="How long a deleted file can be restored for certain. What you have promised "
        "your users, so it has no default, and no run can make it shorter.",
        examples=["30d"],
    )
    derived: list[DerivedSettings] = Field(
        default_factory=list,
        description="Tables whose rows name objects that were made from files, and that a foreign "
        "key with ON DELETE CASCADE takes away with their file.",
        examples=[
            [
                {
                    "name": "thumbnails",
                    "sql": "select storage_key from public.thumbnail where file_id = any($1)",
                }
            ]
        ],
    )

    tables: list[DeletedTableSettings] = Field(
        default_factory=list,
        description="Tables of your own whose rows are soft-deleted. With any, the project's table "
        "file is left alone. Objects that `rewrites` of the bucket lead to a key, and that "
        "neither also_delete nor derived_below name, go as orphans once the key's row is gone.",
        examples=[
            [
                {
                    "name": "photos",
                    "table": "public.photos",
                    "key": "storage_key",
                    "due": "deleted_at",
                    "where": "deleted_at IS NOT NULL AND NOT legal_hold",
                }
            ]
        ],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at when it runs, at names, and at windows that are shorter than the promise."""
        yield from super().across(said)
        yield from repeated_names(said.get("derived"), "derived", "derived query")
        yield from repeated_names(said.get("tables"), "tables", "table")
        if said.get("tables") and said.get("derived"):
            yield (
                ("derived",),
                mistake(
                    "its queries get ids of the table file, which is left alone where tables are "
                    "declared",
                    "let also_delete of the table take the rows, with the key that they name, or "
                    "write derived_below for objects without a row",
                ),
            )
        promised = duration_in(said.get("restore_window"))
        for index, table in enumerate(items(said.get("tables"))):
            after = duration_in(part(table, "after"))
            if promised is not None and after is not None and after < promised:
                yield (
                    ("tables", index, "after"),
                    mistake(
                        "it is shorter than restore_window, which your users were promised",
                        "leave it out, or write more",
                    ),
                )

    def declared(self) -> Iterator[TableSettings]:
        """The operator's tables of soft-deleted rows."""
        yield from self.tables

    def asked(self) -> Iterator[Asked]:
        """The tables, and what is asked for the objects that were made from files."""
        yield from super().asked()
        for derived in self.derived:
            yield Asked(f"derived {derived.name}", None, statement=derived.sql)

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find derived objects of a bucket without a source in the project's own database."""
        if not said.get("derived") or around.entry is None:
            return
        sources = around.buckets[around.entry].get("sources")
        if any(part(one, "database") is None for one in items(sources)):
            return
        yield (
            ("jobs", JOB, "derived"),
            mistake(
                f"buckets.{around.entry}.sources has no query in the project's own database, so "
                "the gate would not know which keys the derived rows of other files still name",
                "add a source whose query returns every key of the same table",
            ),
        )


class DeletedFilesRun(OneRun, DeletedFilesSettings):
    """What one run does. The restore window is not its choice: what can be restored stays."""

    count_bytes: Annotated[
        StrictBool,
        Run(
            "Ask storage for the size of each object before it goes: at most one request an "
            "object, and the only way to know bytes freed and objects that were missing.",
            safer="either",
        ),
    ] = True
