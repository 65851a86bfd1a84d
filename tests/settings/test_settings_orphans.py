"""What storage_orphans, its sources and its bucket can be told, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans.settings import StorageOrphansSettings
from filejobs_dagster.settings import TransformSettings, known_secrets

if TYPE_CHECKING:
    from tests.settings.conftest import Files

OWNS = 'owns: ["files/"]'
THUMBNAIL = r"files/small/(?P<id>[^/]+)\.webp"


TWICE = (
    f"rewrites: [{{name: a, match: '{THUMBNAIL}', owner: 'files/{{id}}'}}, "
    f"{{name: a, match: '{THUMBNAIL}', owner: 'other/{{id}}'}}]"
)


def _in_bucket(files: Files, line: str) -> str:
    return files.good.replace(OWNS, f"{OWNS}\n    {line}")


def _source(files: Files, more: str) -> str:
    return _in_bucket(files, f"sources: [{{name: a, sql: select 1, {more}}}]")


def _job(files: Files, more: str = "") -> str:
    return files.good.rstrip("\n") + f"\n  storage_orphans: {{by_hand: true{more}}}\n"


def test_the_defaults_are_careful(files: Files) -> None:
    job = files.read(_job(files)).require().jobs["storage_orphans"]
    assert isinstance(job, StorageOrphansSettings)
    assert job.mode == "dry"
    assert job.confirm_after == timedelta(hours=24)
    assert job.breakers.max_orphan_fraction == 0.1
    assert job.report_to is None


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("confirm_after: 59m", "under the floor of 1h"),
        ("breakers: {max_orphan_fraction: 1.01}", "found 1.01; write a share from 0 to 1"),
        ("breakers: {max_orphan_fraction: true}", "write a share from 0 to 1"),
        ("breakers: {max_orphan: 1}", "did you mean max_orphans?"),
        ("report_to: {folder: reports}", "is not an absolute path"),
        ("report_to: {}", "it names no place"),
        ("report_to: {folder: /a, prefix: a/}", "it has folder and prefix"),
        ("report_to: {prefix: files/reports/}", "where things are deleted"),
        ("parts: 65", "a whole number from 1 to 64"),
    ],
)
def test_a_careless_job_is_refused(files: Files, more: str, found: str) -> None:
    assert found in " ".join(map(str, files.read(_job(files, f", {more}")).problems))


def test_nobody_owns_the_place_of_the_markers(files: Files) -> None:
    text = files.good.replace(OWNS, 'owns: ["files/", "filejobs-adopted/"]')
    assert "the markers that say whose bucket it is" in " ".join(
        map(str, files.read(text).problems)
    )


def test_a_file_that_still_says_where_an_older_version_kept_the_marker_loads(files: Files) -> None:
    text = _in_bucket(files, "marker: other.json")
    assert files.read(text).require().buckets["uploads"].marker == "other.json"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("shape: ['(']", "it is not a regular expression"),
        ("shape: ['.*']", "the pattern matches the empty key"),
        (f"rewrites: [{{name: a, match: '{THUMBNAIL}', owner: 'files/{{x}}'}}]", "called 'x'"),
        (f"rewrites: [{{name: a, match: '{THUMBNAIL}', owner: 'files/{{id'}}]", "a brace too many"),
        (f"rewrites: [{{name: a, match: '{THUMBNAIL}', owner: '{{id!r}}'}}]", "a conversion"),
        (
            f"rewrites: [{{name: a, match: '{THUMBNAIL}', owner: 'files/small/{{id}}.webp'}}]",
            "it is the key itself",
        ),
        (TWICE, "rewrites[0] has the same name 'a'"),
    ],
)
def test_a_careless_bucket_is_refused(files: Files, line: str, found: str) -> None:
    assert found in " ".join(map(str, files.read(_in_bucket(files, line)).problems))


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("transforms: [{drop_query: true}]", "cannot be inverted"),
        ("transforms: [{percent_decode: true}]", "cannot be inverted"),
        ("transforms: [{drop_query: true}], recheck_sql: select 1", "it does not ask for $1"),
        ("transforms: [{}]", "it says no step"),
        ("transforms: [{prepend: a, strip_suffix: b}]", "it has prepend and strip_suffix"),
        ("transforms: [{drop_query: false}]", "false does nothing"),
        ("transforms: [{strip_base: []}]", "write a list"),
    ],
)
def test_a_source_whose_keys_could_not_be_checked_is_refused(
    files: Files, more: str, found: str
) -> None:
    assert found in " ".join(map(str, files.read(_source(files, more)).problems))


def test_a_rewrite_to_another_key_and_a_transform_with_its_check_are_taken(files: Files) -> None:
    text = _source(files, "transforms: [{drop_query: true}], recheck_sql: 'select k from x($1)'")
    text = text.replace(
        OWNS, f"{OWNS}\n    rewrites: [{{name: a, match: '{THUMBNAIL}', owner: 'files/{{id}}'}}]"
    )
    bucket = files.read(text).require().buckets["uploads"]
    assert bucket.rewrites[0].owner == "files/{id}"
    assert not bucket.sources[0].invertible
    assert TransformSettings(prepend="x").invertible


def test_the_address_of_a_replica_is_a_known_secret(files: Files) -> None:
    text = _source(files, "read_from: {url: {env: DATABASE_URL}}")
    settings = files.read(text).require()
    replica = settings.buckets["uploads"].sources[0].read_from
    assert replica is not None
    assert replica.url.reveal() in known_secrets(settings)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("quarantine: {keep: 30d}\n    delete: at_once", "keep one of the two"),
        ("quarantine: {}\n    purge_versions: true", "keep one of the two"),
        ("quarantine: {keep: 23h}", "under the floor of 24h"),
        ("quarantine: {keep: 30}", "30d"),
        ("delete: later", "at_once"),
    ],
)
def test_what_keeps_and_what_does_not_stand_apart(files: Files, line: str, found: str) -> None:
    problems = files.read(_in_bucket(files, line)).problems
    assert any(found in str(problem) for problem in problems), problems


def test_nobody_owns_what_is_in_quarantine(files: Files) -> None:
    text = files.good.replace(OWNS, 'owns: ["filejobs-quarantine/files/"]')
    assert any("in quarantine" in str(problem) for problem in files.read(text).problems)


def test_how_long_it_is_kept_can_be_left_out(files: Files) -> None:
    (bucket,) = files.read(_in_bucket(files, "quarantine: {}")).require().buckets.values()
    assert bucket.quarantine is not None
    assert bucket.quarantine.keep == timedelta(days=30)
    assert files.read(files.good).require().buckets.popitem()[1].quarantine is None
