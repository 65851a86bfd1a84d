"""A reservation source in the settings: what is refused, and with which words."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.settings import SettingsError, known_secrets
from tests.own_tables import example, reservation_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.settings import Loaded
    from tests.settings.conftest import Files

ENVIRONMENT = {
    "FILEJOBS_DATABASE_URL": "postgresql://app:hunter2@db.example.com/app",
    "FILEJOBS_APP_DATABASE_URL": "postgresql://app:hunter3@app.example.com/app",
}
TAKE = "delete from documents where id = any($1) and due < $2"


def read(files: Files, document: Mapping[str, Any]) -> Loaded:
    return files.read(yaml.safe_dump(document), ENVIRONMENT)


def documents(**changes: Any) -> dict[str, Any]:
    document = copy.deepcopy(example("public.documents"))
    document["jobs"]["upload_reservations"]["source"].update(changes)
    return document


def the_problem(loaded: Loaded, path: str) -> str:
    assert [problem.path for problem in loaded.problems] == [path], str(
        SettingsError(loaded.problems)
    )
    return str(loaded.problems[0])


def test_the_examples_of_the_page_are_accepted_and_their_secrets_known(files: Files) -> None:
    for containing in ("public.documents", "active_storage_blobs"):
        loaded = read(files, example(containing))
        assert loaded.settings is not None, str(SettingsError(loaded.problems))
        source = reservation_source(loaded.settings)
        assert source is not None
        assert ("hunter3" in known_secrets(loaded.settings)) == (source.database is not None)
        assert "hunter3" not in repr(loaded.settings)


def test_nobody_vouches_for_a_claim_unless_the_settings_say_so(files: Files) -> None:
    for changes, means in (({}, False), ({"claim_checked_by_hand": True}, True)):
        settings = read(files, documents(**changes)).settings
        assert settings is not None
        source = reservation_source(settings)
        assert source is not None
        assert source.claim_checked_by_hand is means


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_who_vouches_says_true_or_false(files: Files, value: object) -> None:
    loaded = read(files, documents(claim_checked_by_hand=value))
    said = the_problem(loaded, "jobs.upload_reservations.source.claim_checked_by_hand")
    assert "true" in said


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (TAKE, "has no RETURNING"),
        (f"{TAKE} -- returning key", "has no RETURNING"),
        (f"{TAKE} returning *", "more than the key"),
        (f"{TAKE} returning id, key", "more than the key"),
        ("delete from documents where due < $2 returning key", "does not use $1"),
        ("delete from documents where due < $2 /* $1 */ returning key", "does not use $1"),
        (f"{TAKE} and status = $3 returning key", "$3, which does not exist"),
        (f"{TAKE} and note <> 'costs $3' returning key", "$3, which does not exist"),
        (f"{TAKE} returning key; drop table documents", "has a ;"),
        ("truncate documents", "neither a DELETE nor an UPDATE"),
        ("insert into documents select from unnest($1) returning key", "neither a DELETE"),
        ("select key from documents where id = any($1)", "neither a DELETE nor an UPDATE"),
        (f"with other as ({TAKE} returning 1) {TAKE} returning key", "more than one thing"),
        ("delete from where", "could not be read"),
        (" ", "is empty"),
        (5, "found 5"),
    ],
)
def test_a_claim_that_does_not_say_what_it_won_is_refused(
    files: Files, claim: object, said: str
) -> None:
    loaded = read(files, documents(claim=claim))
    assert said in the_problem(loaded, "jobs.upload_reservations.source.claim")


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ("select id, key, due from documents where due < $1", "parameter $1"),
        ("select id, key from documents", "returns 2 columns"),
        ("select id, key, due, size, status from documents", "returns 5 columns"),
        ("select * from documents", "returns *"),
        ("select d.* from documents as d", "returns *"),
        ("select id, key, due from documents limit 5", "LIMIT"),
        ("select id, key, due from documents offset 5", "OFFSET"),
        ("select id, key, due from documents for update", "locks rows"),
        ("delete from documents returning id, key, due", "only reads"),
        ("with gone as (delete from d returning *) select id, key, due from gone", "only reads"),
        ("select id, key, due into copy from documents", "only reads"),
        ("copy documents to stdout", "only reads"),
        ("select id, key, due from documents; commit", "has a ;"),
        ("select id, key, due from documents) as x(a, b, c", "could not be read"),
        ("select id, key, due from documents /* not closed", "could not be read"),
    ],
)
def test_a_candidate_query_that_does_more_than_read_is_refused(
    files: Files, candidates: str, said: str
) -> None:
    loaded = read(files, documents(candidates=candidates))
    assert said in the_problem(loaded, "jobs.upload_reservations.source.candidates")


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        ("commit", "neither an INSERT nor a SELECT"),
        ("call write_event($1, $2, $3)", "neither an INSERT nor a SELECT"),
        ("delete from audit_log", "neither an INSERT nor a SELECT"),
        ("insert into audit_log values ($4)", "$4, which does not exist"),
        ("insert into audit_log values ($1); commit", "has a ;"),
    ],
)
def test_an_audit_statement_that_could_end_the_transaction_is_refused(
    files: Files, audit: str, said: str
) -> None:
    loaded = read(files, documents(audit=audit))
    assert said in the_problem(loaded, "jobs.upload_reservations.source.audit")


def test_a_function_of_the_operators_may_write_the_audit_event(files: Files) -> None:
    loaded = read(files, documents(audit="select write_event($1,$2,$3)"))
    assert loaded.settings is not None


def test_nothing_of_a_refused_statement_is_shown(files: Files) -> None:
    loaded = read(files, documents(claim="delete from t where password = 'hunter2' and ("))
    assert "hunter2" not in str(SettingsError(loaded.problems))


@pytest.mark.parametrize("sources", [None, [], "nonsense", "in the project's database"])
def test_a_table_whose_database_no_source_is_asked_in_is_refused(
    files: Files, sources: object
) -> None:
    document = documents()
    if sources == "in the project's database":
        sources = [{"name": "documents", "sql": "select storage_key from documents"}]
    document["buckets"]["uploads"]["sources"] = sources
    found = {problem.path for problem in read(files, document).problems}
    assert "jobs.upload_reservations.source" in found
