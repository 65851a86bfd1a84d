"""What a collector declares; everything else is made of it.

One declaration is a job: its op and its config in the Launchpad, its schedule and its early start,
its resources, its section in `filejobs.yaml` and in the JSON Schema, its part of the doctor, and
the guards of the door that its live runs pass. `docs/adding-a-job.md` shows one.

A declaration is read by `filejobs status` and whenever settings are read, so its module imports
nothing heavy: neither Dagster nor boto3. What the work needs is imported inside `run`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from filejobs_dagster.settings.section import JobSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import timedelta

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.jobs.run_history.settings import History
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.references.check import ReferenceCheck
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import BucketSettings, Settings

Touch = Literal["rows", "rows elsewhere", "objects", "multipart uploads", "chain", "elsewhere"]
"""What a live run changes: rows of tables, those of another database, objects or half-sent uploads
of a bucket, the audit chain; or only something that this project knows nothing of."""

BYTES: frozenset[Touch] = frozenset({"objects", "multipart uploads"})

WRITES_SETBACKS = tuple(
    ("setback", privilege) for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE")
)
"""Privileges of a job that puts failures off, where it has none as one that deletes bytes."""

S = TypeVar("S", bound=JobSettings)
R = TypeVar("R", bound=JobSettings)


@dataclass(frozen=True)
class Storage:
    """The bucket of a job, opened for one run.

    Attributes:
        entry: Its name in the settings.
        bucket: What the settings say of it.
        client: Lists and looks; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, which must all answer before anything is claimed.
        scratch: Where long lists of keys are sorted; None for the system's temporary folder.
    """

    entry: str
    bucket: BucketSettings
    client: S3Client
    gate: Gate
    references: ReferenceCheck
    scratch: Path | None = None


@dataclass(frozen=True)
class Resources:
    """What a run is given beside its settings.

    Attributes:
        settings: The whole file.
        client: Of the job's bucket; None for a job that deletes no bytes.
        history: What Dagster keeps of runs.
    """

    settings: Settings
    client: S3Client | None
    history: History

    @contextmanager
    def storage(self, run: RunContext) -> Iterator[Storage]:
        """Open the job's bucket: its sources of references, and the gate in front of it.

        Raises:
            TypeError: The job deletes no bytes.
        """
        from filejobs_dagster.objects.gate import Gate  # noqa: PLC0415 (boto3)
        from filejobs_dagster.references.check import ReferenceCheck  # noqa: PLC0415 (boto3)

        entry, bucket = self.settings.bucket_of(run.identity.job)
        if self.client is None:
            raise TypeError(f"{run.identity.job} declares that it deletes no bytes")
        scratch = self.settings.scratch_dir
        with ReferenceCheck(
            run.connected,
            bucket.sources,
            schema=run.database.schema,
            recognise=None if run.door is None else run.door.recognise,
        ) as references:
            yield Storage(
                entry=entry,
                bucket=bucket,
                client=self.client,
                gate=Gate(self.client, bucket, references),
                references=references,
                scratch=None if scratch is None else Path(scratch),
            )


@dataclass(frozen=True)
class Examination:
    """What the doctor looks at for a job.

    Attributes:
        name: What a finding is called when the look itself breaks or cannot be made.
        look: The look, with an open connection. Nothing is changed by it.
        needs_database: False when it says something without a connection too; None is then given.
    """

    name: str
    look: Callable[[Database, Any], Iterable[Finding]]
    needs_database: bool = True


@dataclass(frozen=True)
class EarlyStart:
    """What starts a live job before its schedule does: a sensor.

    Attributes:
        suffix: What its name ends in, after the job's.
        every: Between two looks.
        description: What the web UI says of it.
        if_dry: Why a dry run is not started.
        why_not: Looks, and says why no run is to be started now; None starts one.
    """

    suffix: str
    every: timedelta
    description: str
    if_dry: str
    why_not: Callable[[Database, Connection], str | None]


@dataclass(frozen=True)
class Collector(Generic[S, R]):
    """A job.

    Attributes:
        name: The job's name in Dagster, in `filejobs.yaml` and in `job_run.job`.
        summary: One sentence that says what it takes away or states.
        touches: What its live runs change. The guards of the door are chosen by this alone; empty
            for a job that changes nothing in any mode: it has no live runs, and a dry one has done
            all of it.
        settings: What the file can tell it.
        request: The same with the config of one run applied, and what only a run can be told.
        run: The work: the life cycle around it is the house's.
        partitioned: True when its items become collectable at a moment, so that a backfill can
            take one day of them.
        states_now: True when it states where things stand now, so that no run can make up for a
            day that is over.
        dry_run: What `dry_run` means, for the Launchpad.
        works_on: The icons of the catalog, where they do not follow from `touches`.
        names_versions: True when it looks at, and removes, the version that a row names.
        privileges: What its role needs on tables of the project, for the doctor: table, privilege.
        reads: Lines outside of its own part of the settings that it alone reads.
        watched: True for a job that something else runs: it is recorded and judged as every other,
            and no run of it is started here.
        examine: What the doctor looks at, with the settings and the job's part of them.
        due: What starts it early, with the same; None where the settings want no such thing.
    """

    name: str
    summary: str
    touches: frozenset[Touch]
    settings: type[S]
    request: type[R]
    run: Callable[[RunContext, R, Resources], Outcome]
    partitioned: bool = False
    states_now: bool = False
    dry_run: str = (
        "true: report what would be collected and change nothing. false: collect. "
        "(`allow_live: false` in filejobs.yaml forbids false.)"
    )
    works_on: frozenset[str] = frozenset()
    names_versions: bool = False
    privileges: tuple[tuple[str, str], ...] = ()
    reads: frozenset[str] = frozenset()
    watched: bool = False
    examine: Callable[[Settings, S], Examination | None] | None = None
    due: Callable[[Settings, S], EarlyStart | None] | None = None

    @property
    def deletes_bytes(self) -> bool:
        """True when it deletes bytes and therefore needs a bucket."""
        return bool(self.touches & BYTES)

    @property
    def read_only(self) -> bool:
        """True when it changes nothing in any mode."""
        return not self.touches and not self.watched


class _Anything(JobSettings):
    """The settings of a job whose declaration cannot be read: whatever they say."""

    model_config = ConfigDict(extra="ignore")


def unusable(name: str, why: str) -> Collector[Any, Any]:
    """A job in the place of one that cannot be read: it stands everywhere, and its runs fail.

    Args:
        name: Its name.
        why: What is wrong with it.
    """

    def run(*_: Any) -> Outcome:
        from filejobs_dagster.run_context import JobFailed  # noqa: PLC0415 (psycopg)

        raise JobFailed(f"{why}. Mend the package, or install what it lacks. Nothing was touched.")

    def examine(*_: Any) -> Examination:
        from filejobs_dagster.doctor.finding import failed  # noqa: PLC0415 (rich)

        return Examination(
            name,
            lambda *_: [failed(name, why, "mend the package, or uninstall it")],
            needs_database=False,
        )

    return Collector(
        name=name,
        summary="A job of a package that cannot be read.",
        touches=frozenset({"rows"}),
        settings=_Anything,
        request=_Anything,
        run=run,
        examine=examine,
    )
