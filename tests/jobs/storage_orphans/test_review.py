"""A reviewed list: only what it agrees to, and what a fresh check finds too, may go."""

from __future__ import annotations

import csv
import io
import json
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs.storage_orphans import Override, ReportSettings
from filejobs_dagster.jobs.storage_orphans.judging import fingerprint
from filejobs_dagster.jobs.storage_orphans.outcome import FormerOwners
from filejobs_dagster.jobs.storage_orphans.review import (
    OF_A_DUMP,
    Expectation,
    Rehearsed,
    of_a_dump,
    unescape_key,
)
from filejobs_dagster.jobs.storage_orphans.settings import UNREHEARSED
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.primary import server_state
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from filejobs_dagster.references.own_tables import Claim
    from tests.jobs.storage_orphans.conftest import Sweeper

ORPHANS = ("files/a", "files/b with é and %", "files/c", "files/=d")
HEADING_ROWS = 10


@pytest.fixture
def place(tmp_path: Path) -> ReportSettings:
    return ReportSettings(folder=str(tmp_path / "lists"))


def written_by(sweep: Sweeper, place: ReportSettings) -> Path:
    """The list of a dry run over some orphans."""
    sweep.put("files/used", *ORPHANS)
    sweep.refer("files/used")
    outcome = sweep("dry", report_to=place)
    assert outcome.ok, outcome.error
    assert place.folder is not None
    [path] = Path(place.folder).iterdir()
    assert outcome.detail["report"] == str(path)
    return path


def edited(path: Path, change: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
    """Change or drop the lines of a list, as a spreadsheet would."""
    rows = list(csv.reader(io.StringIO(path.read_text())))
    heading, columns, lines = rows[: HEADING_ROWS - 1], rows[HEADING_ROWS - 1], rows[HEADING_ROWS:]
    changed = [change(dict(zip(columns, line, strict=True))) for line in lines]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [*heading, columns, *(list(line.values()) for line in changed if line is not None)]
        )


def test_only_what_the_list_says_to_remove_goes(sweep: Sweeper, place: ReportSettings) -> None:
    path = written_by(sweep, place)

    def review(line: dict[str, str]) -> dict[str, str] | None:
        if line["key"] == "files/a":
            return {**line, "decision": "keep"}
        return None if line["key"] == "files/c" else line

    edited(path, review)
    outcome = sweep(reviewed=str(path))
    assert outcome.ok, outcome.error
    assert outcome.acted == 2
    assert outcome.detail["reviewed"] | {"run_id": "", "written_at": ""} == {
        "run_id": "", "written_at": "", "asked": 2, "agreed": 2,
    }  # fmt: skip
    assert outcome.detail["swept"] is False
    assert outcome.detail["window"]["covers"].startswith("the reviewed list of run ")
    assert sweep.installation.keys() >= {"files/a", "files/c", "files/used"}
    assert not sweep.installation.keys() & {"files/b with é and %", "files/=d"}


def test_what_changed_since_or_became_referenced_stays_although_the_list_says_remove(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    sweep.refer("files/a")
    sweep.put("files/c", body=b"written anew")
    outcome = sweep(reviewed=str(path))
    assert outcome.ok, outcome.error
    assert outcome.acted == 2
    assert outcome.detail["reviewed"]["agreed"] == 2
    assert sweep.installation.keys() >= {"files/a", "files/c"}


def test_a_list_cannot_add_an_object_that_is_no_orphan(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    edited(path, lambda line: {**line, "key": "files/used"})
    assert sweep(reviewed=str(path)).acted == 0
    assert sweep.installation.has_object("files/used")


def test_two_lines_that_contradict_each_other_keep_the_object(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    text = path.read_text()
    path.write_text(text + text.splitlines()[-1].replace("remove", "keep") + "\n")
    outcome = sweep(reviewed=str(path))
    assert outcome.acted == len(ORPHANS) - 1


def test_the_time_to_wait_holds_for_a_reviewed_list_too(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    outcome = sweep(reviewed=str(path), confirm_after=timedelta(hours=1))
    assert outcome.ok
    assert (outcome.acted, outcome.detail["waiting"]) == (0, len(ORPHANS))


def test_a_dry_run_of_a_reviewed_list_says_what_it_would_do(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    edited(path, lambda line: line if line["key"] == "files/a" else None)
    outcome = sweep("dry", reviewed=str(path))
    assert outcome.detail["would_collect"] == 1
    assert sweep.installation.has_object("files/a")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# installation,test", "# installation,other", "of the installation 'other'"),
        ("# bucket,test-", "# bucket,prod-", "of the bucket 'prod-"),
        ("# endpoint,http://127", "# endpoint,http://128", "of the server 'http://128"),
        ("# written_at,2", "# written_at,1", "more than 14d ago"),
        ("# written_at,2", "# written_at,3", "which is not yet"),
        ("# fingerprint,", "# fingerprint,0", "have changed since the reviewed list"),
        ("remove,files/a", "delete,files/a", "Row 12 is not as the run wrote it"),
        ("# list,filejobs", "# list,", "cannot be used"),
    ],
)
def test_a_list_that_is_not_for_here_and_today_is_refused(
    sweep: Sweeper, place: ReportSettings, old: str, new: str, words: str
) -> None:
    path = written_by(sweep, place)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    outcome = sweep(reviewed=str(path))
    assert not outcome.ok
    assert words in str(outcome.error)
    assert sweep.installation.keys() >= set(ORPHANS)


def test_a_list_in_the_bucket_is_written_outside_of_what_is_owned_and_read_from_there(
    sweep: Sweeper,
) -> None:
    sweep.put("files/used", *ORPHANS)
    sweep.refer("files/used")
    outcome = sweep("dry", report_to=ReportSettings(prefix="lists/"))
    where = outcome.detail["report"]
    assert where.startswith(f"s3://{sweep.installation.bucket}/lists/storage_orphans-")
    assert sweep(reviewed=where).acted == len(ORPHANS)
    other = sweep(reviewed="s3://other/lists/x.csv")
    assert "does not lie in the bucket" in str(other.error)


def test_the_list_names_what_is_kept_and_why_and_says_keep(
    sweep: Sweeper, place: ReportSettings
) -> None:
    sweep.put("files/Mixed.JPG", "files/../dots")
    sweep.refer("files/mixed.jpg")
    path = written_by(sweep, place)
    rows = list(csv.reader(io.StringIO(path.read_text())))[HEADING_ROWS:]
    kept = {row[1]: (row[0], row[5], row[6]) for row in rows if row[5] != "orphan"}
    assert kept["files/Mixed.JPG"] == ("keep", "ambiguous", "a row says files/mixed.jpg")
    assert kept["files/../dots"][:2] == ("keep", "unknown shape")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [row[0] for row in rows if row[5] == "orphan"] == ["remove"] * len(ORPHANS)


def lines_of(path: Path) -> dict[str, dict[str, str]]:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    columns = rows[HEADING_ROWS - 1]
    return {row[1]: dict(zip(columns, row, strict=True)) for row in rows[HEADING_ROWS:]}


def test_each_line_says_whom_the_object_belonged_to_and_what_has_no_object_is_listed(
    sweep: Sweeper, place: ReportSettings
) -> None:
    gone, there = str(uuid.uuid4()), str(uuid.uuid4())
    by_path, by_event = "files/users/42/a.jpg", f"files/{gone}"
    by_row, by_key = f"files/{there}/thumbnail", "files/named in an intent"
    sweep.put("files/used", by_path, by_event, by_row, by_key, "files/nobody knows")
    sweep.refer("files/used", "files/not there")
    execute = sweep.installation.execute
    execute("INSERT INTO file (id, storage_key) VALUES (%s, 'files/original')", (there,))
    sweep.put("files/original")
    for event in (
        {"kind": "file.deleted", "file_id": gone, "owner_id": 7},
        {"kind": "objects.delete.intent", "keys": [by_key], "run_id": "r", "batch": 1},
    ):
        execute("SELECT audit_append_many('collectors', ARRAY[%s])", (json.dumps(event),))

    outcome = sweep("dry", report_to=place, personal_data_kept_for=timedelta(0))
    assert outcome.ok, outcome.error
    lines = lines_of(Path(outcome.detail["report"]))
    whom = {unescape_key(key).decode(): line["belonged_to"] for key, line in lines.items()}
    assert whom[by_path] == "by its path users 42"
    assert whom[by_event].startswith(f"by the audit log file.deleted of file {gone} (owner_id 7)")
    assert whom[by_row] == f"by its path files {there}; by a row of its id: file pending"
    assert whom[by_key].startswith("by the audit log objects.delete.intent at")
    assert whom["files/nobody knows"] == ""
    missing = lines["files/not%20there"]
    assert (missing["class"], missing["decision"]) == ("missing", "keep")
    assert missing["reason"] == "a source names it, and no object is there"

    late = lines["files/users/42/a.jpg"]["reason"]
    assert late.endswith(
        "older than the retention of personal data (0s), and no erasure that goes by rows reaches "
        "it"
    )
    assert outcome.detail["past_retention"] == 5
    # CONTROL: whoever turns every line to remove takes no reference and nothing that is named.
    edited(Path(outcome.detail["report"]), lambda line: {**line, "decision": "remove"})
    swept = sweep(reviewed=outcome.detail["report"])
    assert swept.ok, swept.error
    assert (swept.detail["reviewed"]["asked"], swept.acted) == (6, 5)
    assert {"files/used", "files/original"} <= sweep.installation.keys()


def test_a_list_of_an_older_version_without_the_column_for_people_is_read(
    sweep: Sweeper, place: ReportSettings
) -> None:
    path = written_by(sweep, place)
    rows = [row[:-1] if len(row) > 2 else row for row in csv.reader(io.StringIO(path.read_text()))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    outcome = sweep(reviewed=str(path))
    assert outcome.ok, outcome.error
    assert outcome.acted == len(ORPHANS)


def test_a_role_that_may_not_read_the_audit_log_gets_its_list_all_the_same(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("CREATE ROLE blind_to_the_log")
    connection.execute("GRANT SELECT ON file, upload TO blind_to_the_log")
    database = Database(database_url)
    try:
        with database.connect("test") as reached:
            reached.execute("SET ROLE blind_to_the_log")
            owners = FormerOwners(database, reached)
            assert owners.of([b"files/users/42/a", b"files/\xff"]) == {
                b"files/users/42/a": "by its path users 42"
            }
    finally:
        connection.execute("DROP OWNED BY blind_to_the_log")
        connection.execute("DROP ROLE blind_to_the_log")


def rehearsed(
    sweep: Sweeper,
    *,
    objects: int = 10,
    references: int = 1,
    ago: timedelta = timedelta(0),
    **other: Any,
) -> str:
    """The hash that a rehearsal of the sweeper's rules prints."""
    bucket, now = sweep.bucket, datetime.now(timezone.utc) - ago
    with sweep.installation.database.connect("test") as connection, connection.cursor() as cursor:
        database = server_state(cursor).identity
    here = Expectation("test", bucket.bucket, bucket.endpoint_url or "", fingerprint(bucket), now)
    rules = other.pop("rules", here.fingerprint)
    database = other.pop("database", database)
    settings = bucket.model_copy(update={"min_age": other.pop("min_age", bucket.min_age)})
    made = Rehearsed(rules, now, objects, references)
    return made.as_hash(replace(here, **other), database, settings)


def by_its_dump(sweep: Sweeper) -> dict[str, Any]:
    """The database of the sweeper, as its dump knows it."""
    [(at,)] = sweep.installation.execute("SELECT adopted_at FROM bucket_adoption")
    return {"database": of_a_dump(at)}


def test_rules_that_nobody_rehearsed_or_reviewed_delete_nothing_until_somebody_says_so(
    sweep: Sweeper,
) -> None:
    sweep.asks = True
    # A first pass deletes nothing, and is asked nothing.
    sweep.seen_before_there()
    sweep.put(*ORPHANS)
    assert sweep("dry").ok
    refused = sweep()
    assert refused.error is not None
    for words in ("filejobs rehearse", "--rehearsed HASH", "filejobs apply FILE --live",
                  "--override unrehearsed --why"):  # fmt: skip
        assert words in refused.error
    # It is asked again, as often as it is refused.
    assert sweep().error == refused.error
    assert sweep.installation.keys() >= set(ORPHANS)

    word = sweep(override=Override(breakers=(UNREHEARSED,), reason="a bucket of pictures of tests"))
    assert word.ok, word.error
    assert word.acted == len(ORPHANS)
    assert word.detail["let_in"] == {"by": "word", "reason": "a bucket of pictures of tests"}
    [event] = sweep.events("storage_orphans.breakers.overridden")
    assert event["reason"] == "a bucket of pictures of tests"
    # From now on these rules are known; others are not.
    assert sweep().ok
    sweep.installation.document["buckets"]["uploads"]["protect"] = ["files/kept/"]
    assert sweep("dry").ok
    assert "--rehearsed HASH" in (sweep().error or "")


@pytest.mark.parametrize("dump", [False, True])
def test_the_hash_of_a_rehearsal_lets_in_once_and_for_no_more_than_went_there(
    sweep: Sweeper, dump: bool
) -> None:
    sweep.asks = True
    sweep.seen_before(*ORPHANS)
    other = by_its_dump(sweep) if dump else {}
    first = sweep(rehearsed=rehearsed(sweep, objects=3, **other))
    assert first.ok, first.error
    assert first.acted == 3
    assert first.detail["let_in"]["by"] == "rehearsal"
    assert first.detail["stopped_reason"] == "limit"
    # CONTROL: without a rehearsal's bound, and without any question, the rest goes.
    second = sweep()
    assert second.ok, second.error
    assert second.acted == 1
    assert "let_in" not in second.detail


def test_a_rehearsal_in_which_nothing_went_lets_nothing_go(sweep: Sweeper) -> None:
    sweep.asks = True
    sweep.seen_before(*ORPHANS)
    outcome = sweep(rehearsed=rehearsed(sweep, objects=0))
    assert outcome.ok, outcome.error
    assert outcome.acted == 0
    assert outcome.detail["swept"] is False
    assert sweep.installation.keys() >= set(ORPHANS)
    # It has shown nothing, so the next is asked again.
    assert "--rehearsed HASH" in (sweep().error or "")


def test_a_run_that_was_let_in_and_failed_binds_the_next_which_has_only_what_is_left_of_the_bound(
    sweep: Sweeper,
) -> None:
    sweep.asks = True
    sweep.seen_before(*ORPHANS)
    said = rehearsed(sweep, objects=3)
    calls = 0

    class Failing(Gate):
        def _judged(self, keys: Sequence[str], claims: Sequence[Claim]) -> Mapping[str, str]:
            nonlocal calls
            calls += 1
            if calls > 2:
                raise JobFailed("a source answers no more")
            return super()._judged(keys, claims)

    sweep.gate = Failing
    failed = sweep(rehearsed=said, batch_size=1)
    assert not failed.ok
    assert (failed.acted, failed.detail["let_in"]["by"]) == (2, "rehearsal")
    sweep.gate = Gate
    # CONTROL: two are left, and whoever counted it as let in would now take both, unasked.
    assert "--rehearsed HASH" in (sweep().error or "")
    again = sweep(rehearsed=said)
    assert again.ok, again.error
    assert again.acted == 1
    # The same line, once more, is worth nothing; without it, the rules are known by now.
    assert sweep(rehearsed=said).acted == 0
    assert sweep().ok


@pytest.mark.parametrize("dump", [False, True])
def test_a_rehearsal_on_a_database_of_another_size_is_refused_before_anything_is_deleted(
    sweep: Sweeper, dump: bool
) -> None:
    sweep.asks = True
    sweep.seen_before(*ORPHANS)
    other = by_its_dump(sweep) if dump else {}
    refused = sweep(rehearsed=rehearsed(sweep, references=1000, **other))
    assert "the sources named 1,000 keys, and here they name 1:" in (refused.error or "")
    assert sweep.installation.keys() >= set(ORPHANS)
    # CONTROL: about as many let it in.
    assert sweep(rehearsed=rehearsed(sweep, references=9, **other)).acted == len(ORPHANS)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"rules": "0" * 16}, "have changed since the rehearsal was made (fingerprint 0000"),
        ({"ago": timedelta(days=15)}, "more than 14d ago"),
        ({"ago": -timedelta(hours=1)}, "which is not yet"),
        ({"installation": "other"}, "another installation, bucket, server or database"),
        ({"bucket": "other"}, "another installation, bucket, server or database"),
        ({"endpoint": "http://127.0.0.1:9"}, "another installation, bucket, server or database"),
        ({"database": "another/1"}, "another installation, bucket, server or database"),
        # A dump that was taken before the adoption may be of whatever database.
        ({"database": OF_A_DUMP}, "another installation, bucket, server or database"),
        (
            {"database": of_a_dump(datetime(2026, 1, 1, tzinfo=timezone.utc))},
            "another installation, bucket, server or database",
        ),
        ({"min_age": timedelta(days=3)}, "min_age or named_elsewhere was changed since"),
    ],
    ids=lambda it: next(iter(it)) if isinstance(it, dict) else "",
)
def test_the_hash_of_another_rehearsal_is_refused(
    sweep: Sweeper, other: dict[str, Any], words: str
) -> None:
    sweep.asks = True
    sweep.seen_before("files/a")
    refused = sweep(rehearsed=rehearsed(sweep, **other))
    assert words in (refused.error or ""), refused.error
    assert "files/a" in sweep.installation.keys()  # noqa: SIM118 (no mapping)
    mistyped = sweep(rehearsed=rehearsed(sweep)[:-1])
    assert "is not the hash of a rehearsal" in (mistyped.error or "")


def test_a_reviewed_list_lets_its_rules_in_as_a_rehearsal_does(
    sweep: Sweeper, place: ReportSettings
) -> None:
    sweep.asks = True
    path = written_by(sweep, place)
    edited(path, lambda line: line if line["key"] == "files/a" else None)
    assert "--rehearsed HASH" in (sweep().error or "")
    reviewed = sweep(reviewed=str(path))
    assert reviewed.acted == 1, reviewed.error
    assert reviewed.detail["let_in"]["by"] == "reviewed list"
    assert sweep().acted == len(ORPHANS) - 1
