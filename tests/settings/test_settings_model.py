from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel, ValidationError

from filejobs_dagster.jobs.upload_reservations.settings import UploadReservationsSettings
from filejobs_dagster.registry import BY_NAME, JOB_NAMES
from filejobs_dagster.settings import (
    BucketSettings,
    DatabaseSettings,
    JobSettings,
    Secret,
    Settings,
    SettingsError,
    SourceSettings,
)

if TYPE_CHECKING:
    from tests.settings.conftest import Files

URL = Secret("DATABASE_URL", "postgresql://db.example.com/app")
MODELS: list[type[BaseModel]] = [
    Settings,
    DatabaseSettings,
    BucketSettings,
    SourceSettings,
    JobSettings,
    UploadReservationsSettings,
]


def built(buckets: dict[str, BucketSettings], job: JobSettings) -> Settings:
    return Settings(
        installation="acme",
        database=DatabaseSettings(url=URL),
        buckets=buckets,
        jobs={"upload_reservations": job},
    )


def bucket(prefix: str = "files/", name: str = "acme") -> BucketSettings:
    return BucketSettings(bucket=name, owns=[prefix], min_age=timedelta(hours=48))


def test_every_field_is_described_and_shows_an_example() -> None:
    for model in MODELS:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert field.examples, f"{model.__name__}.{name}"


def test_the_defaults_are_the_documented_ones(files: Files) -> None:
    settings = files.read(files.good).require()
    assert settings.allow_live is True
    assert settings.backfill_from == date(2025, 1, 1)
    database = settings.database
    assert database.schema_name == "public"
    assert database.connect_timeout == timedelta(seconds=10)
    assert database.statement_timeout == timedelta(seconds=30)
    assert database.lock_timeout == timedelta(seconds=5)
    uploads = settings.buckets["uploads"]
    assert (uploads.addressing, uploads.content_md5, uploads.max_attempts) == ("auto", False, 5)
    job = settings.jobs["upload_reservations"]
    assert isinstance(job, UploadReservationsSettings)
    assert (job.mode, job.limit, job.batch_size) == ("dry", 10_000, 500)
    assert (job.max_runtime, job.grace) == (timedelta(minutes=30), timedelta(0))
    assert (job.stale_after, job.backlog_over, job.bucket) == (None, None, None)


NEEDED = {
    "deleted_files": ", restore_window: 30d",
    "run_history": ", keep: 90d",
    "table_retention": ", rules: [{name: sessions, table: public.session, time: expires_at,"
    " delete_after: 1d}]",
}
"""What nobody can decide for an operator."""


def test_every_job_of_the_registry_may_stand_in_the_settings(files: Files) -> None:
    jobs = ", ".join(f"{name}: {{by_hand: true{NEEDED.get(name, '')}}}" for name in JOB_NAMES)
    audit = "audit: {retention: 400d, pins: {folder: /pins}}\n"
    text = files.good[: files.good.index("jobs:")] + f"{audit}jobs: {{{jobs}}}"
    assert list(files.read(text).require().jobs) == list(JOB_NAMES)


def test_settings_are_frozen_and_dumped_with_what_each_job_knows(files: Files) -> None:
    settings = files.read(files.good).require()
    with pytest.raises(ValidationError, match="frozen"):
        setattr(settings, "installation", "other")  # noqa: B010
    assert settings.model_dump(mode="json")["jobs"]["upload_reservations"]["batch_size"] == 500


def test_the_only_bucket_is_the_default(files: Files) -> None:
    settings = files.read(files.good).require()
    assert settings.bucket_of("upload_reservations") == ("uploads", settings.buckets["uploads"])


def test_the_named_bucket_is_taken_from_several() -> None:
    job = UploadReservationsSettings(by_hand=True, bucket="two")
    settings = built({"one": bucket("a/"), "two": bucket("b/")}, job)
    assert settings.bucket_of("upload_reservations")[0] == "two"


@pytest.mark.parametrize(
    ("job", "found"),
    [
        ("audit_seal", "the job deletes no bytes"),
        ("deleted_files", "the job does not stand in the settings"),
        ("nonsense", "the job does not stand in the settings"),
    ],
)
def test_a_job_without_a_clear_bucket_is_told_so(files: Files, job: str, found: str) -> None:
    assert job not in BY_NAME or BY_NAME[job].name == job
    text = files.good.replace('{schedule: "', '{bucket: uploads, schedule: "')
    text = text.replace("jobs:", "  other: {bucket: b, owns: [x/], min_age: 48h}\njobs:")
    text += "  audit_seal: {by_hand: true}\n"
    with pytest.raises(SettingsError, match=found) as caught:
        files.read(text).require().bucket_of(job)
    assert caught.value.problems[0].path == f"jobs.{job}"


def test_the_owned_prefixes_of_a_whole_bucket_are_the_empty_one() -> None:
    whole = BucketSettings(bucket="acme", owns_whole_bucket=True, min_age=timedelta(hours=24))
    assert whole.owned_prefixes == ("",)
    assert bucket().owned_prefixes == ("files/",)


def test_a_whole_bucket_may_protect_keys_that_begin_with_a_slash() -> None:
    whole = BucketSettings(
        bucket="acme", owns_whole_bucket=True, protect=["/odd"], min_age=timedelta(hours=24)
    )
    assert whole.protect == ["/odd"]


def test_settings_built_in_python_meet_the_same_rules() -> None:
    by_hand = UploadReservationsSettings(by_hand=True)
    with pytest.raises(ValidationError, match="overlaps the prefix"):
        built({"one": bucket("a/"), "two": bucket("a/b/")}, by_hand)
    with pytest.raises(ValidationError, match="there are 2 buckets"):
        built({"one": bucket("a/"), "two": bucket("b/")}, by_hand)
    with pytest.raises(ValidationError, match="there is no bucket"):
        built({}, by_hand)
    with pytest.raises(ValidationError, match="a mapping"):
        built({"one": bucket()}, JobSettings(by_hand=True))
    with pytest.raises(ValidationError, match="say when"):
        JobSettings()
