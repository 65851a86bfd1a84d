"""Running the three jobs of the audit chain without Dagster, on real servers."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.audit.seal import chains_by_need, seal_chain
from filejobs_dagster.jobs import audit_seal, audit_setup, audit_trim, audit_verify
from filejobs_dagster.jobs.audit import AuditSealRun, AuditTrimRun, AuditVerifyRun
from filejobs_dagster.jobs.audit_setup import teaching
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.settings import Settings, load_settings
from tests.audit.world import DAY, World
from tests.installation import Installation, make_installation
from tests.jobs.conftest import QUICK

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

KEY = "FILEJOBS_AUDIT_KEY"
SIGNER = generate("test/audit")

_CLIENTS: dict[str, S3Client] = {}

Body = Callable[["RunContext"], "Outcome"]


def with_audit(installation: Installation, pins_bucket: str) -> None:
    """Settings with a key, a place for pins and a retention."""
    uploads = installation.document["buckets"]["uploads"]
    reached = {
        # Copied: YAML would write one mapping that stands twice as an alias.
        key: dict(value) if isinstance(value, dict) else value
        for key, value in uploads.items()
        if key not in ("bucket", "owns", "protect", "min_age", "delete")
    }
    installation.document["buckets"]["pins"] = {
        "bucket": pins_bucket,
        "owns_nothing": True,
        **reached,
    }
    installation.document["audit"] = {
        "signing_key": {"env": KEY},
        "public_keys": [{"key": str(SIGNER.verifier)}],
        "pins": {"bucket": "pins", "prefix": "pins/", "keep_for": "800d"},
        "retention": "150d",
    }
    installation.document["jobs"] = {
        "audit_seal": {"by_hand": True, "mode": "live"},
        "audit_trim": {"by_hand": True, "mode": "live"},
        "audit_verify": {"by_hand": True},
    }


@dataclass
class Auditor:
    """Runs the jobs on an installation."""

    installation: Installation
    pins_bucket: str

    @property
    def settings(self) -> Settings:
        environment = {**self.installation.environment, KEY: private_text(SIGNER)}
        return load_settings(self.installation.write(), environment)

    @property
    def audit(self) -> dict[str, Any]:
        """What the settings file says of the chain; to be changed."""
        section: dict[str, Any] = self.installation.document["audit"]
        return section

    def seal(self, mode: Mode = "live", **request: Any) -> Outcome:
        return self._run(
            "audit_seal",
            mode,
            lambda run: audit_seal.run(
                run, AuditSealRun.model_construct(**request), audit_setup.seal_policy(self.settings)
            ),
        )

    def by_need(self) -> list[str]:
        """The chains in the order in which the next run seals them."""
        database = self.installation.database
        policy = audit_setup.seal_policy(self.settings)
        with database.connect("test") as connection:
            return chains_by_need(database, connection, policy.verify)

    def seal_one(self, chain: str) -> None:
        """One chain, as a run does whose time is over then."""
        database = self.installation.database
        policy = audit_setup.seal_policy(self.settings)
        with database.connect("test") as connection:
            seal_chain(database, connection, chain, policy, live=True)

    def trim(self, mode: Mode = "live", **request: Any) -> Outcome:
        return self._run(
            "audit_trim",
            mode,
            lambda run: audit_trim.run(
                run, AuditTrimRun.model_construct(**request), audit_setup.trim_policy(self.settings)
            ),
        )

    def verify(self, **request: Any) -> Outcome:
        return self._run(
            "audit_verify",
            "dry",
            lambda run: audit_verify.run(
                run,
                AuditVerifyRun.model_construct(**request),
                audit_setup.verify_policy(self.settings),
            ),
        )

    def _run(self, job: str, mode: Mode, body: Body) -> Outcome:
        identity = RunIdentity(str(uuid.uuid4()), "test", job, mode, Trigger("cli"), "the test")

        def taught(run: RunContext) -> Outcome:
            with teaching():
                return body(run)

        return run_job(
            RunSpec(identity, pace=QUICK), self.installation.database, taught,
            logging.getLogger("auditor"), door=None,
        )  # fmt: skip

    def append(self, count: int, chain: str = "a", *, age: int = 0) -> None:
        """Events of so many days ago."""
        database = self.installation.database
        with database.connect("test") as connection:
            world = World(database, connection)
            if age:
                world.append_in_the_past(count, age * DAY, chain)
            else:
                with database.transaction(connection) as cursor:
                    append(cursor, [{"kind": "test", "n": n} for n in range(count)], chain=chain)

    def tamper(self, statement: str) -> None:
        """Change what the triggers protect, as an owner can."""
        with (
            self.installation.database.connect("test") as connection,
            connection.transaction(),
        ):
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(statement.encode())

    def pins(self, folder: str = "") -> list[str]:
        """The keys of all versions in the pins' bucket that have such a folder in them."""
        answer = self.installation.client.list_object_versions(Bucket=self.pins_bucket)
        keys = sorted(entry["Key"] for entry in answer.get("Versions", []))
        return [key for key in keys if folder in key]

    def old_chain(self) -> None:
        """50 events of 200 days ago in two seals, and 10 of today in a third."""
        for age, count in ((200, 25), (200, 25), (0, 10)):
            self.append(count, age=age)
            outcome = self.seal()
            assert outcome.ok, outcome.error

    def count(self, table: str = "audit_event") -> int:
        return int(self.installation.value(f"SELECT count(*) FROM {table}"))


@pytest.fixture(autouse=True)
def _one_client_for_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client takes a tenth of a second to make, and each run would make its own."""

    def made_once(bucket: Any) -> S3Client:
        address = str(bucket.endpoint_url)
        if address not in _CLIENTS:
            _CLIENTS[address] = make_client(bucket)
        return _CLIENTS[address]

    monkeypatch.setattr(audit_setup, "make_client", made_once)


@pytest.fixture
def auditor(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Auditor:
    pins = f"pins-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=pins, ObjectLockEnabledForBucket=True)
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    with_audit(installation, pins)
    return Auditor(installation, pins)
