"""Databases that real applications have left, with careful settings and with first attempts.

Each folder is what `python -m tests.applications.making` kept of one: its database, the listing of
its bucket, and which objects live. Without settings there, a preset has some: tests/presets.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from filejobs_dagster.door.guards import GUARDS, Sources
from filejobs_dagster.jobs.storage_orphans import sweep as sweeping
from filejobs_dagster.jobs.storage_orphans.classification import classify
from filejobs_dagster.jobs.storage_orphans.settings import StorageOrphansSettings
from filejobs_dagster.jobs.table_retention.settings import TableRetentionSettings
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.elsewhere import columns, forms
from tests.docs.pages import EXAMPLES
from tests.installation import Installation
from tests.jobs.conftest import Collector
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS, Sweeper
from tests.jobs.storage_orphans.test_sweep_named import Careless
from tests.jobs.table_retention.conftest import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.references.own_tables import Claim
    from tests.databases import Databases

HERE = Path(__file__).parent


@dataclass
class Application(Installation):
    """An application's database and bucket.

    Attributes:
        name: Whose folder it is.
    """

    name: str = ""

    @classmethod
    def of(cls, name: str, folder: Path, url: str, client: S3Client, s3: EmbeddedS3) -> Application:
        # No two tests have the same bucket.
        bucket = f"{name}-app-{uuid.uuid4().hex}"

        def read(file: str) -> str:
            return (HERE / name / file).read_text().replace(f"{name}-app", bucket)

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(read("database.sql").encode())
        careful = (HERE / name / "filejobs.yaml").exists()
        document = yaml.safe_load(read("filejobs.yaml")) if careful else {}
        made = cls(folder, url, bucket, client, s3.endpoint_url, document, name)
        client.create_bucket(Bucket=bucket)
        made.entry.update(
            endpoint_url=s3.endpoint_url,
            region="us-east-1",
            addressing="path",
            access_key_id={"env": "FILEJOBS_S3_ACCESS_KEY_ID"},
            secret_access_key={"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"},
        )
        return made

    @property
    def entry(self) -> dict[str, Any]:
        """What the settings say of the bucket."""
        entry: dict[str, Any] = self.document["buckets"]["uploads"]
        return entry

    def source(self, name: str) -> dict[str, Any]:
        """What the settings say of a source."""
        found: dict[str, Any]
        (found,) = [one for one in self.entry["sources"] if one["name"] == name]
        return found

    def without(self, name: str) -> None:
        """Forget a source."""
        self.entry["sources"].remove(self.source(name))

    def sweeper(self) -> Sweeper:
        settings = self.settings()
        bucket = settings.buckets["uploads"]
        return Sweeper(self, make_client(bucket), bucket.min_age)

    def sweep(self, sweeper: Sweeper | None = None, **said: Any) -> Outcome:
        job = self.settings().jobs["storage_orphans"]
        assert isinstance(job, StorageOrphansSettings)
        return (sweeper or self.sweeper())(**{"breakers": job.breakers, **said})

    def collect(self) -> Outcome:
        settings = self.settings()
        grace = settings.jobs["upload_reservations"].grace  # type: ignore[attr-defined]
        return Collector(self, make_client(settings.buckets["uploads"]))(grace=grace)

    def fill(self) -> None:
        """Put every object of the listing where it was, at its age."""
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        there = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.bucket].keys
        for it in json.loads((HERE / self.name / "listing.json").read_text()):
            body = b"x" * min(it["size"], 1000)
            self.client.put_object(Bucket=self.bucket, Key=it["key"], Body=body)
            there[it["key"]].last_modified = now - timedelta(hours=it["age_hours"])

    @property
    def expected(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((HERE / self.name / "expected.json").read_text())
        return said

    @property
    def live(self) -> set[str]:
        return set(self.expected["live"])

    def dead(self, by: str = "orphans") -> set[str]:
        """What is dead, and goes by a job; or is kept by rows nonetheless."""
        return {key for keys in self.expected.get(by, {}).values() for key in keys}


@pytest.fixture
def application(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    databases: Databases,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Application]:
    with databases.one() as url:
        made = Application.of(request.param, tmp_path, url, s3_client, s3_server)
        made.fill()
        yield made


def exactly(
    self: ReferenceCheck, keys: Sequence[str], forms: object, *, claims: Sequence[Claim] = ()
) -> dict[str, str]:
    """What a gate says that knows exact keys alone."""
    del forms
    return {key: f"referenced by {names}" for key, names in self.named(keys, claims=claims).items()}


def unguarded(application: Application, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """CONTROL: what of the living is lost when only exact keys of sources count.

    Neither are sources measured, nor names searched, nor is what is near to a row kept.
    """
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    # The package's own `classify` is the function, and hides its module.
    judging = sys.modules[classify.__module__]
    monkeypatch.setattr(judging, "ambiguous", lambda *_: iter(()))
    monkeypatch.setattr(ReferenceCheck, "judged", exactly)
    sweeper = application.sweeper()
    sweeper.guards = [guard for guard in GUARDS if not isinstance(guard, Sources)]
    for _ in range(2):
        outcome = application.sweep(sweeper, breakers=NEVER_TRIPS)
        assert outcome.ok, outcome.error
    return application.live - application.keys()


def without_rules(application: Application) -> None:
    application.without("stems")
    for what in ("rewrites", "named_elsewhere"):
        del application.entry[what]


@dataclass(frozen=True)
class Attempt:
    """Settings as a team writes them first.

    Attributes:
        application: Of whom.
        change: What is other than in the careful settings.
        said: What a run says about it.
        loses: How many living objects the careless version loses. None where a source says more
            than there is: that makes false alarms, and can take nothing.
    """

    application: str
    change: Callable[[Application], object]
    said: tuple[str, ...]
    loses: int


ATTEMPTS = {
    "a prepend is forgotten": Attempt(
        "django",
        lambda it: it.source("manuals").pop("transforms"),
        ("Source 'manuals' names keys of which none lies in", 'transforms: [{prepend: "media/"}]'),
        9,
    ),
    "a table is forgotten": Attempt(
        "django",
        lambda it: it.without("invoices"),
        ("'column': 'public.shop_invoice.pdf'", "select pdf from public.shop_invoice"),
        4,
    ),
    "images of the editor are named in HTML alone": Attempt(
        "django",
        lambda it: it.without("rich text of galleries"),
        ("'column': 'public.shop_gallery.body'", "whose sql takes the key out of"),
        3,
    ),
    "variants that no row names": Attempt(
        "rails",
        lambda it: it.entry.pop("rewrites"),
        ("'ambiguous': 8",),
        6,
    ),
    "the blobs of another service": Attempt(
        "rails",
        lambda it: it.source("blobs").update(sql="select key from public.active_storage_blobs"),
        ("missing_fraction", "a source returns rows of another bucket or service"),
        0,
    ),
    "variants, and their files' stems as a source of keys": Attempt(
        "directus",
        lambda it: it.source("stems").pop("names"),
        ("Source 'stems' names keys of which none has an object", "names: owners"),
        0,
    ),
    "variants that no rule leads to their file": Attempt(
        "directus",
        without_rules,
        ("blocked by named_elsewhere", "which is no source, names"),
        36,
    ),
    "folders as a source of keys": Attempt(
        "mlflow",
        lambda it: [it.source(name).pop("names") for name in ("runs", "models", "traces")],
        ("Source 'runs' names keys of which none", "names: owners"),
        0,
    ),
    "traces are forgotten": Attempt(
        "mlflow", lambda it: it.without("traces"), ("takes the key out of public.",), 1
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("application", "attempt"),
    [pytest.param(it.application, it, id=name) for name, it in ATTEMPTS.items()],
    indirect=["application"],
)
def test_a_first_attempt_loses_nothing_that_lives_and_the_run_says_what_is_wrong(
    application: Application, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.change(application)
    said = ""
    for _ in range(2):
        outcome = application.sweep()
        said += f"{outcome.error} {outcome.detail}\n"
        assert not application.live - application.keys()
    for words in attempt.said:
        assert words in said
    assert len(unguarded(application, monkeypatch)) == attempt.loses


def rows_read(node: dict[str, Any]) -> float:
    """Rows that a node of a plan and those below it have gone through."""
    each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    each += node.get("Rows Removed by Join Filter", 0)
    return float(node["Actual Loops"] * each) + sum(map(rows_read, node.get("Plans", [])))


@pytest.mark.parametrize("application", ["directus"], indirect=True)
def test_the_columns_of_a_database_that_was_just_restored_are_found_without_going_over_all_pairs(
    application: Application,
) -> None:
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {columns._COLUMNS}"
    plan = application.value(explain)[0]["Plan"]
    assert rows_read(plan) < 200_000


ALL = ("django", "directus", "mlflow", "rails")


@pytest.mark.parametrize("application", ALL, indirect=True)
def test_with_careful_settings_all_that_is_dead_goes_and_nothing_that_lives(
    application: Application,
) -> None:
    if "upload_reservations" in application.document["jobs"]:
        collected = application.collect()
        assert collected.ok, collected.error
    for _ in range(2):
        outcome = application.sweep()
        assert outcome.ok, outcome.error
    gone = application.dead() | application.dead("reservations")
    listed = application.live | gone | application.dead("kept")
    assert application.keys() == listed - gone
    assert outcome.acted == len(application.dead()), outcome.detail


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["rails"], indirect=True)
def test_the_example_of_rails_as_it_stands_takes_all_that_is_dead_and_nothing_that_lives(
    application: Application,
) -> None:
    example = yaml.safe_load((EXAMPLES / "filejobs.rails.yaml").read_text(encoding="utf-8"))
    (bucket,) = example["buckets"].values()
    application.entry.update({key: bucket[key] for key in ("sources", "rewrites")})
    application.document["jobs"] = example["jobs"]
    retention = application.settings().jobs["table_retention"]
    assert isinstance(retention, TableRetentionSettings)
    client = make_client(application.settings().buckets["uploads"])

    def sweep() -> Outcome:
        return application.sweep(breakers=NEVER_TRIPS)

    # Living attachments of User 2 stay, who is deleted softly: the row is there.
    kept = (
        "SELECT count(*) FROM active_storage_attachments"
        " WHERE record_type = 'User' AND record_id = 2"
    )
    before = application.value(kept)
    retained = Keeper(application.database_url, application.database).run(*retention.rules)
    collected = [Collector(application, client)() for _ in range(4)]
    swept = [sweep(), sweep()]

    assert retained.ok, retained.error
    assert retained.acted == 2, "of a user whose row was deleted by SQL"
    for outcome in (*collected, *swept):
        assert outcome.ok, outcome.error
        assert not outcome.detail["classes"].get("missing"), "of another service's blobs"
    assert collected[-1].acted == 0
    assert application.keys() == application.live
    assert application.value(kept) == before


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["django"], indirect=True)
def test_by_the_next_folder_alone_a_month_of_photos_keeps_what_is_dead(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    way_behind = forms._way_behind

    def next_only(*said: Any) -> list[bytes]:
        return way_behind(*said)[:1]

    monkeypatch.setattr(forms, "_PLAIN_WAY", re.compile(b"(?!)"))
    monkeypatch.setattr(forms, "_way_behind", next_only)
    for _ in range(2):
        outcome = application.sweep()
        assert outcome.ok, outcome.error
    # CONTROL: with the whole way they go, as in the test above.
    month = "media/products/2026/11/"
    kept = {key for key in application.dead() if key.startswith(month)}
    assert len(kept) == 6
    assert application.dead() & application.keys() == kept
