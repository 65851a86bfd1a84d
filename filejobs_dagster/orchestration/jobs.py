"""Each job of the registry as a Dagster job with one op."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import dagster as dg

from filejobs_dagster.jobs import (
    audit_seal,
    audit_setup,
    audit_trim,
    audit_verify,
    storage_orphans,
    upload_reservations,
)
from filejobs_dagster.jobs.audit_troubles import teaching
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.configs import (
    AuditSealConfig,
    AuditTrimConfig,
    AuditVerifyConfig,
    CollectorConfig,
    StorageOrphansConfig,
    UploadReservationsConfig,
    audit_seal_config,
    audit_trim_config,
    audit_verify_config,
    storage_orphans_config,
    upload_reservations_config,
)
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.orchestration.resources import resource_key
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.registry import BY_NAME, JOBS, RegisteredJob
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    StorageOrphansSettings,
    parse_duration,
    reservation_source,
)

WITHOUT_SETTINGS = timedelta(hours=24)


def all_jobs(loaded: Loaded) -> list[dg.JobDefinition]:
    """Every job of the registry; those that are not built yet say so when they are started."""
    return [_job(loaded, registered) for registered in JOBS]


def _job(loaded: Loaded, registered: RegisteredJob) -> dg.JobDefinition:
    op = _OPS.get(registered.name, _not_built)(loaded, registered)

    # Job and op share their name, so the graph between them needs another one.
    graph = dg.GraphDefinition(name=f"{registered.name}_graph", node_defs=[op])
    return graph.to_job(
        name=registered.name,
        description=_description(registered),
        tags=job_tags(loaded, registered.name),
        partitions_def=_days(loaded) if registered.partitioned and registered.built else None,
        executor_def=dg.in_process_executor,
    )


def _description(registered: RegisteredJob) -> str:
    if not registered.built:
        return f"{registered.summary} **Not built in this version**: a run of it fails and says so."
    if registered.read_only:
        return (
            f"{registered.summary}\n\nA run changes nothing, so every run is recorded as dry, and "
            "counts. What it finds fails it. The catalog plots what each run found."
        )
    if not registered.partitioned:
        return (
            f"{registered.summary}\n\nA run is dry unless its config says `dry_run: false`, or its "
            "tag `filejobs/mode` says `live`. The catalog plots what each run found."
        )
    return (
        f"{registered.summary}\n\nLeave *Partition* empty to take everything that is due; a day "
        "takes what became due on that day only. A run is dry unless its config says "
        "`dry_run: false`, or its tag `filejobs/mode` says `live`. The Partitions tab shows the "
        "days on which a live run left nothing; the catalog plots what each run found."
    )


def job_tags(loaded: Loaded, job: str) -> dict[str, str]:
    """The tags that every run of a job carries, whatever its door."""
    configured = None if loaded.settings is None else loaded.settings.jobs.get(job)
    longest = WITHOUT_SETTINGS if configured is None else configured.max_runtime
    return {
        tags.INSTALLATION: loaded.installation,
        tags.EXCLUSIVE: f"{loaded.installation}/{job}",
        tags.MAX_RUNTIME: tags.seconds_until_ended(longest),
    }


def _days(loaded: Loaded) -> dg.DailyPartitionsDefinition:
    """One partition a day, today included: it is what a scheduled run carries."""
    first = "2025-01-01" if loaded.settings is None else loaded.settings.backfill_from.isoformat()
    return dg.DailyPartitionsDefinition(start_date=first, end_offset=1, timezone="UTC")


def _not_built(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    @dg.op(name=registered.name, description=_description(registered))
    def op(context: dg.OpExecutionContext, config: CollectorConfig) -> None:
        context.log.info("%s was asked for with dry_run: %s.", registered.name, config.dry_run)
        settings_for(loaded, registered.name)
        raise dg.Failure(
            f"{registered.name} is not built in this version of filejobs_dagster: it did nothing. "
            "Take it out of `jobs:` in filejobs.yaml until it is.",
            allow_retries=False,
        )

    return op


def _upload_reservations(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: UploadReservationsConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            request = upload_reservations.Request(
                limit=config.limit,
                batch_size=config.batch_size,
                grace=parse_duration(config.grace),
                max_runtime=parse_duration(config.max_runtime),
                count_bytes=config.count_bytes,
            )
            with (
                ReferenceCheck(
                    run.connection, bucket.sources, schema=run.database.schema
                ) as references,
                upload_reservations.opened_source(
                    reservation_source(settings), run.database, run.connection
                ) as source,
            ):
                gate = Gate(client, bucket, references)
                storage = upload_reservations.Storage(bucket.bucket, client, gate, references)
                return upload_reservations.run(run, request, storage, source)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = upload_reservations_config(loaded.settings)
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)


def _storage_orphans(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: StorageOrphansConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            with ReferenceCheck(
                run.connection, bucket.sources, schema=run.database.schema
            ) as references:
                storage = storage_orphans.Storage(
                    entry=entry,
                    bucket=bucket,
                    client=client,
                    gate=Gate(client, bucket, references),
                    references=references,
                    adoption=storage_orphans.BucketAdoption(
                        run, client, bucket, settings.environment
                    ),
                )
                return storage_orphans.run(run, _orphans_request(settings, config), storage)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = storage_orphans_config(loaded.settings)
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)


def _orphans_request(settings: Settings, config: StorageOrphansConfig) -> storage_orphans.Request:
    configured = settings.jobs["storage_orphans"]
    if not isinstance(configured, StorageOrphansSettings):  # pragma: no cover - the model decides
        raise TypeError(type(configured).__name__)
    report = configured.report_to
    return storage_orphans.Request(
        limit=config.limit,
        batch_size=config.batch_size,
        max_runtime=parse_duration(config.max_runtime),
        confirm_after=parse_duration(config.confirm_after),
        parts=config.parts,
        wait_for_transactions=parse_duration(config.wait_for_transactions),
        breakers=configured.breakers,
        override=storage_orphans.Override(tuple(config.override.breakers), config.override.reason),
        report_to=None
        if report is None
        else storage_orphans.ReportPlace(
            None if report.folder is None else Path(report.folder), report.prefix
        ),
        reviewed=config.reviewed or None,
        scratch=None if settings.scratch_dir is None else Path(settings.scratch_dir),
    )


def _audit_seal(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    def op(context: dg.OpExecutionContext, config: AuditSealConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.seal_policy(settings)
            request = audit_seal.Request(max_runtime=parse_duration(config.max_runtime))
            return audit_seal.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = audit_seal_config(loaded.settings)
    return dg.op(name=registered.name, description=registered.summary)(op)


def _audit_trim(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    def op(context: dg.OpExecutionContext, config: AuditTrimConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.trim_policy(settings)
            request = audit_trim.Request(
                limit=config.limit,
                batch_size=config.batch_size,
                max_runtime=parse_duration(config.max_runtime),
            )
            return audit_trim.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = audit_trim_config(loaded.settings)
    return dg.op(name=registered.name, description=registered.summary)(op)


def _audit_verify(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    def op(context: dg.OpExecutionContext, config: AuditVerifyConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.verify_policy(settings)
            request = audit_verify.Request(
                check=audit_verify.check_named(config.check),
                parts=config.parts,
                max_runtime=parse_duration(config.max_runtime),
            )
            return audit_verify.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = audit_verify_config(loaded.settings)
    return dg.op(name=registered.name, description=registered.summary)(op)


_OPS: dict[str, Callable[[Loaded, RegisteredJob], dg.OpDefinition]] = {
    "upload_reservations": _upload_reservations,
    "storage_orphans": _storage_orphans,
    "audit_trim": _audit_trim,
    "audit_seal": _audit_seal,
    "audit_verify": _audit_verify,
}

if set(_OPS) != {name for name, job in BY_NAME.items() if job.built}:
    raise RuntimeError("the registry says other jobs are built than orchestration/jobs.py builds")
