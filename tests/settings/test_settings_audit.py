"""The section `audit`, and what it says against jobs and buckets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from filejobs_dagster.audit.note import Ed25519Signer, private_text
from filejobs_dagster.cli.bucket import chosen_entry
from filejobs_dagster.jobs.audit import AuditSealSettings, AuditTrimSettings, AuditVerifySettings
from filejobs_dagster.settings import (
    AuditSettings,
    PlaceSettings,
    PublicKeySettings,
    known_secrets,
    read_settings,
    settings_json_schema,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from filejobs_dagster.settings import Loaded

# Always the same, because it stands in the tests' names.
SIGNER = Ed25519Signer("acme/audit", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
PUBLIC = str(SIGNER.verifier)
MODELS: list[type[BaseModel]] = [
    AuditSettings,
    PlaceSettings,
    PublicKeySettings,
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
]
HEAD = """\
installation: acme
database: {url: {env: FILEJOBS_DATABASE_URL}}
buckets:
  uploads: {bucket: acme-uploads, owns: ["files/"], min_age: 48h}
  pins: {bucket: acme-pins, owns_nothing: true}
"""


def read(tmp_path: Path, text: str, head: str = HEAD) -> Loaded:
    path = tmp_path / "filejobs.yaml"
    path.write_text(head + text)
    environ = {
        "FILEJOBS_DATABASE_URL": "postgresql://role@127.0.0.1/app",
        "FILEJOBS_AUDIT_KEY": private_text(SIGNER),
    }
    return read_settings(path, environ)


def test_every_field_is_described_and_shows_an_example() -> None:
    for model in MODELS:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert field.examples, f"{model.__name__}.{name}"


def test_a_whole_section_is_read(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        f"""\
audit:
  origin: files.example.com/audit
  signing_key: {{env: FILEJOBS_AUDIT_KEY}}
  public_keys: [{{key: "{PUBLIC}", last_seal: 10}}]
  pins: {{bucket: pins, prefix: pins/, keep_for: 800d}}
  retention: 400d
  archive: {{bucket: pins, prefix: archive/}}
jobs:
  audit_seal: {{schedule: "@hourly", mode: live}}
  audit_trim: {{schedule: "@daily", mode: live, limit: 5000, batch_size: 500}}
  audit_verify: {{schedule: "@daily", check: rolling}}
""",
    ).require()
    assert settings.audit.retention == timedelta(days=400)
    assert settings.audit.pins == PlaceSettings(
        bucket="pins", prefix="pins/", keep_for=timedelta(days=800)
    )
    assert settings.jobs["audit_verify"].mode == "dry"
    assert settings.buckets["pins"].owned_prefixes == ()
    private = private_text(SIGNER)
    assert {private, private.split("+", 4)[4]} <= set(known_secrets(settings))
    assert private not in repr(settings)


def test_without_the_section_chains_are_sealed_and_verified_all_the_same(tmp_path: Path) -> None:
    text = "jobs: {audit_seal: {by_hand: true}, audit_verify: {by_hand: true}}"
    settings = read(tmp_path, text).require()
    assert settings.audit == AuditSettings()


MISTAKES = [
    ("audit: {origin: 'a b'}", "audit.origin", "cannot name an installation", "words of letters"),
    ("audit: {origin: ../x}", "audit.origin", "cannot name an installation", "words of letters"),
    (
        "audit: {signing_key: {env: FILEJOBS_AUDIT_KEY}, key_file: /run/key}",
        "audit.key_file",
        "beside signing_key",
        "keep one",
    ),
    ("audit: {key_file: key}", "audit.key_file", "not an absolute path", "whole path"),
    ("audit: {public_keys: [{key: x}]}", "audit.public_keys[0].key", "three parts", "keygen"),
    (
        f"audit: {{public_keys: [{{key: '{PUBLIC[:-6]}'}}]}}",
        "audit.public_keys[0].key",
        "no ",
        "copy the whole line",
    ),
    (
        f"audit: {{public_keys: [{{key: '{private_text(SIGNER)}'}}]}}",
        "audit.public_keys[0].key",
        "begins as a private key",
        "make a new pair",
    ),
    (
        f"audit: {{public_keys: [{{key: '{PUBLIC}', first_seal: 9, last_seal: 8}}]}}",
        "audit.public_keys[0].last_seal",
        "8 is before first_seal, 9",
        "later",
    ),
    ("audit: {pins: {bucket: pins}}", "audit.pins", "it has bucket alone", "bucket and prefix"),
    ("audit: {pins: {}}", "audit.pins", "it names no place", "or folder"),
    (
        "audit: {pins: {folder: /p, bucket: pins, prefix: x/}}",
        "audit.pins",
        "a folder and a bucket",
        "or folder",
    ),
    ("audit: {pins: {folder: /p, keep_for: 9d}}", "audit.pins.keep_for", "cannot lock", "leave it"),
    (
        "audit: {pins: {bucket: pin, prefix: x/}}",
        "audit.pins.bucket",
        "no entry of buckets is called 'pin'",
        "did you mean pins?",
    ),
    (
        "audit: {pins: {bucket: uploads, prefix: files/pins/}}",
        "audit.pins.prefix",
        "lies inside the prefix 'files/' of buckets.uploads.owns[0]",
        "outside of everything owned",
    ),
    (
        "audit: {archive: {bucket: uploads, prefix: files/pins/}}",
        "audit.archive.prefix",
        "lies inside",
        "outside",
    ),
    (
        "audit: {archive: {folder: /p}, pins: {folder: /p}}",
        "audit.archive",
        "the place of the pins",
        "another",
    ),
    (
        "audit: {retention: 400d, pins: {bucket: pins, prefix: x/}}",
        "audit.pins.keep_for",
        "it is missing",
        "7d more than retention",
    ),
    (
        "audit: {retention: 400d, pins: {bucket: pins, prefix: x/, keep_for: 406d}}",
        "audit.pins.keep_for",
        "it is too short",
        "7d more than retention",
    ),
    (
        "audit: {retention: 40d, minimum_retention: 41d}",
        "audit.minimum_retention",
        "longer than retention",
        "shortest",
    ),
    ("audit: {max_pin_age: 3h}", "audit.max_pin_age", "pins names no place", "write audit.pins"),
    (
        ("audit: {max_pin_age: 3h, pins: {folder: /p}}\n"
        "jobs: {audit_seal: {schedule: '@daily'}}"),
        "audit.max_pin_age",
        "it is 3h, and audit_seal makes a pin every 1d",
        "write more than 1d",
    ),
    ("audit: {unsigned_through: 5}", "audit.unsigned_through", "none is checked", "public_keys"),
    ("audit: {retention: 400}", "audit.retention", "400 has no unit", "write 400d"),
    (
        "audit: {pins: {folder: /p}}\njobs: {audit_trim: {by_hand: true}}",
        "audit.retention",
        "it is missing",
        "400d",
    ),
    (
        "audit: {retention: 400d}\njobs: {audit_trim: {by_hand: true}}",
        "audit.pins",
        "it is missing",
        "a folder to try it out",
    ),
    (
        "jobs: {audit_verify: {by_hand: true, mode: live}}",
        "jobs.audit_verify.mode",
        "found 'live'",
        "'dry'",
    ),
    ("jobs: {audit_seal: {by_hand: true, limit: 1}}", "jobs.audit_seal.limit", "every chain",
     "leave limit out"),
    (
        "jobs: {storage_orphans: {by_hand: true, bucket: pins}}",
        "jobs.storage_orphans.bucket",
        "owns_nothing: true, and storage_orphans deletes bytes",
        "owns something",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "found", "expected"), MISTAKES)
def test_a_mistake_is_named_with_its_path_and_what_would_be_right(
    tmp_path: Path, text: str, path: str, found: str, expected: str
) -> None:
    [problem] = read(tmp_path, text).problems
    assert problem.path == path
    assert found in problem.found
    assert expected in problem.expected
    assert private_text(SIGNER) not in str(problem)


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("{bucket: b, owns_nothing: true, owns: [x/]}", "buckets.b.owns"),
        ("{bucket: b, owns_nothing: true, owns_whole_bucket: true}", "buckets.b.owns_whole_bucket"),
        ("{bucket: b, owns: [x/]}", "buckets.b.min_age"),
        ("{bucket: b, owns_nothing: false}", "buckets.b"),
    ],
)
def test_a_bucket_owns_something_and_has_an_age_or_owns_nothing(
    tmp_path: Path, entry: str, path: str
) -> None:
    problems = read(tmp_path, "", HEAD + f"  b: {entry}\n").problems
    assert problems
    assert all(problem.path.startswith(path) for problem in problems)


def test_a_bucket_that_owns_nothing_is_never_meant_where_none_is_named(tmp_path: Path) -> None:
    job = "jobs: {storage_orphans: {by_hand: true}}"
    settings = read(tmp_path, job).settings
    assert settings is not None
    assert settings.bucket_of("storage_orphans")[0] == "uploads"
    assert chosen_entry(settings, None) == "uploads"
    assert chosen_entry(settings, "pins") == "pins"
    # CONTROL: a second one that owns something makes both ask.
    other = HEAD + "  other: {bucket: acme-other, owns: ['files/'], min_age: 48h}\n"
    [problem] = read(tmp_path, job, other).problems
    assert problem.expected == "name one of uploads, other"
    without = read(tmp_path, "", other).settings
    assert without is not None
    with pytest.raises(typer.BadParameter, match="say which; the settings have: uploads, other"):
        chosen_entry(without, None)


def test_the_schema_knows_the_three_ways_to_own() -> None:
    bucket = settings_json_schema()["$defs"]["BucketSettings"]
    assert [way["required"] for way in bucket["oneOf"]] == [
        ["owns", "min_age"],
        ["owns_whole_bucket", "min_age"],
        ["owns_nothing"],
    ]
