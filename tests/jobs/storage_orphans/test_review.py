"""A reviewed list: only what it agrees to, and what a fresh check finds too, may go."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans import ReportSettings

if TYPE_CHECKING:
    from collections.abc import Callable

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
