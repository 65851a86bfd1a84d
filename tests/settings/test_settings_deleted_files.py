"""What can be said of deleted_files: a window that nobody invents, and queries that only read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.jobs.deleted_files.settings import DeletedFilesSettings

if TYPE_CHECKING:
    from filejobs_dagster.settings import Loaded, Problem
    from tests.settings.conftest import Files

SQL = "select storage_key from thumbnail where file_id = any($1)"


def read(files: Files, *, sources: bool = True, **said: Any) -> Loaded:
    document = yaml.safe_load(files.good)
    if sources:
        document["buckets"]["uploads"]["sources"] = [
            {"name": "thumbnails", "sql": "select storage_key from thumbnail"}
        ]
    document["jobs"]["deleted_files"] = {"by_hand": True, **said}
    return files.read(yaml.safe_dump(document))


def problem(loaded: Loaded) -> Problem:
    assert loaded.settings is None
    (found,) = loaded.problems
    return found


def test_a_restore_window_and_derived_objects_are_taken(files: Files) -> None:
    loaded = read(files, restore_window="30d", derived=[{"name": "thumbnails", "sql": SQL}])
    assert loaded.settings is not None
    job = loaded.settings.jobs["deleted_files"]
    assert isinstance(job, DeletedFilesSettings)
    assert job.restore_window == timedelta(days=30)
    assert [(each.name, each.sql) for each in job.derived] == [("thumbnails", SQL)]


def test_nobody_invents_the_restore_window(files: Files) -> None:
    found = problem(read(files))
    assert found.path == "jobs.deleted_files.restore_window"
    assert "it is missing" in found.found
    assert "restore_window: 30d" in found.expected


@pytest.mark.parametrize("window", [30, "30", "-1d", "4000d"])
def test_a_window_without_unit_or_out_of_bounds_is_refused(files: Files, window: object) -> None:
    assert problem(read(files, restore_window=window)).path == "jobs.deleted_files.restore_window"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select storage_key from thumbnail", "does not use $1"),
        ("select storage_key from thumbnail -- $1", "does not use $1"),
        (f"{SQL} and 1 = $2", "$2, which does not exist"),
        ("select id, storage_key from thumbnail where file_id = any($1)", "more than the key"),
        ("select * from thumbnail where file_id = any($1)", "more than the key"),
        (f"{SQL} limit 5", "LIMIT"),
        (f"{SQL} for update", "locks rows"),
        ("delete from thumbnail where file_id = any($1) returning storage_key", "only reads"),
        (
            (
                "with gone as (delete from thumbnail where file_id = any($1) returning storage_key)"
                " select storage_key from gone"
            ),
            "only reads",
        ),
        (f"{SQL}; commit", "has a ;"),
        (f"{SQL}) as x(a", "could not be read"),
        (" ", "is empty"),
    ],
)
def test_a_derived_query_that_does_more_than_read_keys_of_some_files_is_refused(
    files: Files, sql: str, said: str
) -> None:
    found = problem(read(files, restore_window="1d", derived=[{"name": "t", "sql": sql}]))
    assert found.path == "jobs.deleted_files.derived[0].sql"
    assert said in found.found


def test_two_derived_queries_have_two_names(files: Files) -> None:
    twice = [{"name": "t", "sql": SQL}, {"name": "t", "sql": SQL}]
    found = problem(read(files, restore_window="1d", derived=twice))
    assert found.path == "jobs.deleted_files.derived[1].name"


def test_derived_objects_need_a_source_by_which_the_gate_knows_them(files: Files) -> None:
    found = problem(
        read(files, sources=False, restore_window="1d", derived=[{"name": "t", "sql": SQL}])
    )
    assert found.path == "jobs.deleted_files.derived"
    assert "the gate would not know" in found.found
