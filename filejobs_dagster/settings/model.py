"""`filejobs.yaml` as types."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PlainValidator,
    PrivateAttr,
    SerializeAsAny,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import Self

from filejobs_dagster.registry import BY_NAME, OWN
from filejobs_dagster.settings.alerts import AlertsSettings
from filejobs_dagster.settings.audit import AuditSettings, problems_of_audit
from filejobs_dagster.settings.problems import Problem, SettingsError, kind, mistake, shown
from filejobs_dagster.settings.secrets import OtherDatabase, Secret
from filejobs_dagster.settings.section import (
    Around,
    Found,
    JobSettings,
    Section,
    failed,
    items,
    mistakes_in,
    nearest,
    part,
)
from filejobs_dagster.settings.storage import BucketSettings, SourceSettings, overlaps_between
from filejobs_dagster.settings.tables import TableSettings, sources_of
from filejobs_dagster.settings.trigger import TriggerSettings
from filejobs_dagster.settings.values import (
    Day,
    Folder,
    Identifier,
    Installation,
    Text,
    Wait,
    between,
    duration_in,
)
from filejobs_dagster.text import format_duration

DIGEST = "digest"
"""In the context of validation: see `Settings.digest`."""

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)

_TIMEOUTS = ("statement_timeout", "lock_timeout")
_WITHOUT = {
    # libpq verifies nothing there, even where a server's certificate is known.
    "sslrootcert": ("disable", "allow", "prefer"),
    "sslcert": ("disable",),
    "sslkey": ("disable",),
}
"""With which `sslmode` a file of certificates means nothing."""


class DatabaseSettings(Section):
    """The PostgreSQL database that holds the project's tables."""

    url: Secret = Field(
        description="The connection string or URL, by the environment variable that holds it.",
        examples=[{"env": "FILEJOBS_DATABASE_URL"}],
    )
    schema_name: Identifier = Field(
        default="public",
        alias="schema",
        description="The schema of the project's tables.",
        examples=["public"],
    )
    connect_timeout: Annotated[Wait, between(_SECOND, _HOUR)] = Field(
        default=timedelta(seconds=10),
        description="How long one attempt to connect may take.",
        examples=["10s"],
    )
    statement_timeout: Annotated[Wait, between(_SECOND, _HOUR)] = Field(
        default=timedelta(seconds=30),
        description="How long one statement may take.",
        examples=["30s"],
    )
    lock_timeout: Annotated[Wait, between(_SECOND, _HOUR)] = Field(
        default=timedelta(seconds=5),
        description="How long one statement may wait for a lock.",
        examples=["5s"],
    )
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = (
        Field(
            default=None,
            description="Passed through to libpq: whether TLS is used, and what it verifies.",
            examples=["verify-full"],
        )
    )
    sslrootcert: Text | None = Field(
        default=None,
        description="Passed through to libpq: the file of trusted certificate authorities, or "
        "system.",
        examples=["/etc/ssl/certs/ca-certificates.crt"],
    )
    sslcert: Text | None = Field(
        default=None,
        description="Passed through to libpq: the file of the client's certificate.",
        examples=["/run/secrets/filejobs.crt"],
    )
    sslkey: Text | None = Field(
        default=None,
        description="Passed through to libpq: the file of the client's private key.",
        examples=["/run/secrets/filejobs.key"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Find what another line takes all effect from."""
        statement, lock = (duration_in(said.get(key)) for key in _TIMEOUTS)
        if statement is not None and lock is not None and lock >= statement:
            yield (
                ("lock_timeout",),
                mistake(
                    "the whole statement, its wait for locks included, may take no longer: it "
                    "never ends a statement",
                    f"write less than the {format_duration(statement)} of statement_timeout",
                ),
            )
        mode = said.get("sslmode")
        for key in ("sslrootcert", "sslcert", "sslkey"):
            if said.get(key) is not None and mode in _WITHOUT[key]:
                yield (
                    (key,),
                    mistake(
                        f"with sslmode: {mode} it is not looked at",
                        "write sslmode: verify-full, or leave it out",
                    ),
                )


def _jobs(said: Any, info: ValidationInfo) -> dict[str, JobSettings]:
    if not isinstance(said, Mapping):
        raise mistake(
            f"found {kind(said)} where a mapping of jobs belongs",
            "write the name of a job and its settings, or {} for none",
        )
    jobs: dict[str, JobSettings] = {}
    found: list[Found] = []
    for name, job in said.items():
        if name not in BY_NAME:
            found.append(((name,), mistake("no job has this name", nearest(name, BY_NAME))))
            continue
        try:
            jobs[name] = BY_NAME[name].settings.model_validate(job, context=info.context)
        except ValidationError as error:
            found.extend(((name, *path), words) for path, words in mistakes_in(error))
    if found:
        raise failed("jobs", found)
    return jobs


def _own_jobs(said: Any, info: ValidationInfo) -> dict[str, JobSettings]:
    from filejobs_dagster.jobs.own.settings import KINDS, kind_of  # noqa: PLC0415 (a circle)

    if not isinstance(said, Mapping):
        raise mistake(
            f"found {kind(said)} where a mapping of jobs belongs",
            "write the name of a job of your own and its settings, or {} for none",
        )
    jobs: dict[str, JobSettings] = {}
    found: list[Found] = []
    for name, job in said.items():
        try:
            if not OWN.fullmatch(name):
                raise mistake(
                    f"{shown(name)} is no name of an own job",
                    "write own_ and lowercase letters, digits and _, at most 63 together",
                )
            if name in (BY_NAME.installed or ()):
                raise mistake("an installed package has a job of this name", "choose another")
            model = type(job) if isinstance(job, JobSettings) else KINDS[kind_of(job)][0]
            jobs[name] = model.model_validate(job, context=info.context)
        except ValidationError as error:
            found.extend(((name, *path), words) for path, words in mistakes_in(error))
        except PydanticCustomError as words:
            found.append(((name,), words))
    if found:
        raise failed("own_jobs", found)
    return jobs


class PresetSettings(Section):
    """A preset that settings of this file were written by; the file alone says what holds."""

    name: Text = Field(
        description="The preset's name, or the path of an operator's own.", examples=["rails"]
    )
    version: StrictInt = Field(ge=1, description="The preset's version.", examples=[1])
    hash: Text = Field(
        description="Tells one text of the preset from another.", examples=["5aa440693db7e66a"]
    )
    bucket: Text = Field(
        description="The entry of `buckets` that it was written into.", examples=["uploads"]
    )
    database: OtherDatabase | None = Field(
        default=None,
        description="Where the application's tables are. Without it, in the project's own "
        "database. Must be the primary.",
        examples=[{"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}],
    )
    probed: dict[str, StrictStr] = Field(
        default_factory=dict,
        description="What the application's database answered when the settings were written. "
        "Live runs refuse when it answers differently: the application was upgraded.",
        examples=[{"active_storage": "yes", "tables": "sha256:9f2b8a6c0d1e3f45"}],
    )


class Settings(Section):
    """Everything that `filejobs.yaml` says."""

    installation: Installation = Field(
        description="The name of this installation, which tags every run. Lowercase letters, "
        "digits, -, _ and ., at most 63.",
        examples=["acme-production"],
    )
    allow_live: StrictBool = Field(
        default=True,
        description="False makes every run dry, whatever it asks for. The environment variable "
        "FILEJOBS_ALLOW_LIVE=0 does the same without a change of this file.",
        examples=[True],
    )
    backfill_from: Day = Field(
        default=date(2025, 1, 1),
        description="The first day that the Partitions tab shows.",
        examples=["2025-01-01"],
    )
    environment: Text | None = Field(
        default=None,
        description="Which of your environments this is. The marker of an adopted bucket holds it, "
        "so that a copy of production's settings cannot sweep another environment's bucket.",
        examples=["production"],
    )
    scratch_dir: Folder | None = Field(
        default=None,
        description="A folder for sorting long lists of keys on disk. Without it, the system's "
        "temporary directory.",
        examples=["/var/lib/filejobs/scratch"],
    )
    database: DatabaseSettings = Field(
        description="The PostgreSQL database of the project's tables.",
        examples=[{"url": {"env": "FILEJOBS_DATABASE_URL"}}],
    )
    buckets: dict[str, BucketSettings] = Field(
        default_factory=dict,
        description="The buckets, by the name that jobs use for them. May be empty only if no job "
        "in jobs deletes bytes.",
        examples=[{"uploads": {"bucket": "acme-uploads", "owns": ["files/"], "min_age": "48h"}}],
    )
    audit: AuditSettings = Field(
        default_factory=AuditSettings,
        description="How the audit chains are sealed, pinned, verified and trimmed.",
        examples=[{"pins": {"bucket": "pins", "prefix": "pins/", "keep_for": "800d"}}],
    )
    alerts: AlertsSettings = Field(
        default_factory=AlertsSettings,
        description="Who is told when a job needs somebody, and the heartbeat that stops when "
        "nobody looks any more.",
        examples=[{"to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}]}],
    )
    trigger: TriggerSettings | None = Field(
        default=None,
        description="Who may start jobs over HTTP, and how often. Without it `filejobs "
        "serve-trigger` refuses to start.",
        examples=[{"tokens": {"cron": {"token": {"env": "FILEJOBS_TRIGGER_TOKEN"}}}}],
    )
    presets: list[PresetSettings] = Field(
        default_factory=list,
        description="By which presets `filejobs preset apply` has written parts of this file.",
        examples=[
            [
                {
                    "name": "rails",
                    "version": 1,
                    "hash": "5aa440693db7e66a",
                    "bucket": "uploads",
                    "probed": {"active_storage": "yes"},
                }
            ]
        ],
    )
    jobs: Annotated[dict[str, SerializeAsAny[JobSettings]], PlainValidator(_jobs)] = Field(
        default_factory=dict,
        description="The jobs that this installation runs. A job that stands here and never ran "
        "is raised.",
        examples=[{"upload_reservations": {"by_hand": True}}],
    )
    own_jobs: Annotated[dict[str, SerializeAsAny[JobSettings]], PlainValidator(_own_jobs)] = Field(
        default_factory=dict,
        description="Jobs of your own, by names that begin with own_: a rule in SQL, a Python "
        "callable, a command, or one that something else runs and that is watched.",
        examples=[{"own_billing": {"dagster_job": "nightly_billing", "schedule": "@daily"}}],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what buckets own together, and at which bucket each job means."""
        own = _entries(said.get("own_jobs"))
        for path, words in cls._across(said, own):
            # Own jobs stand among the others, and their mistakes where the file has them.
            home = path[0] == "jobs" and len(path) > 1 and path[1] in own
            yield (("own_jobs", *path[1:]) if home else path), words

    @classmethod
    def _across(
        cls, said: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[Found]:
        buckets, jobs = _entries(said.get("buckets")), {**_entries(said.get("jobs")), **own}
        for name in buckets:
            if not name.strip():
                yield (
                    ("buckets", name),
                    mistake("this name is empty", "write a name for jobs to use"),
                )
        for path, words in overlaps_between(buckets):
            yield ("buckets", *path), words
        for number, preset in enumerate(items(said.get("presets"))):
            entry = part(preset, "bucket")
            if isinstance(entry, str) and entry not in buckets:
                words = mistake("no entry of buckets has this name", nearest(entry, buckets))
                yield ("presets", number, "bucket"), words
        if said.get("buckets", {}) == {}:
            yield from _without_bucket(jobs)
        else:
            yield from _unknown_bucket(jobs, buckets)
        audit = _entries({"audit": said.get("audit")}).get("audit", {})
        yield from problems_of_audit(audit, buckets)
        yield from _beside(jobs, buckets, audit)
        yield from _unstartable(said.get("trigger"), jobs)

    _digest: str = PrivateAttr(default="")

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that tell one text of the file from another; empty of none."""
        return self._digest

    def model_post_init(self, context: Any, /) -> None:
        """Keep what the file's text came to."""
        self._digest = (context or {}).get(DIGEST, "")

    @model_validator(mode="after")
    def _own_jobs_are_jobs(self) -> Self:
        """Let everything that goes through the jobs meet the operator's own."""
        self.jobs.update(self.own_jobs)
        return self

    @model_validator(mode="after")
    def _declared_tables_are_sources(self) -> Self:
        """Let the gate know every row of the tables that jobs work on, due or not."""
        tables: dict[str, list[TableSettings]] = {}
        for name, job in self.jobs.items():
            declared = list(job.declared())
            with suppress(SettingsError):  # reported where the bucket is missing
                if declared:
                    tables.setdefault(self.bucket_of(name)[0], []).extend(declared)
        places = {entry: bucket.server_and_name for entry, bucket in self.buckets.items()}
        for entry, found in tables.items():
            for other, bucket in self.buckets.items():
                if places[other] == places[entry] and bucket.owned_prefixes:
                    # Settings that are made of settings have them by now.
                    asked = [_asked(source) for source in bucket.sources]
                    named = sources_of(found, (source.name for source in bucket.sources))
                    more = [one for one in named if _asked(one) not in asked]
                    if other != entry:
                        # A row may name what another entry of its bucket owns, and need not.
                        beside = {"min_rows": 0, "keys_checked_by_hand": True}
                        more = [one.model_copy(update=beside) for one in more]
                    sources = [*bucket.sources, *more]
                    self.buckets[other] = bucket.model_copy(update={"sources": sources})
        return self

    def bucket_of(self, job_name: str) -> tuple[str, BucketSettings]:
        """The bucket that a job deletes bytes from, with the name of its entry.

        Raises:
            SettingsError: The job does not stand in the settings, deletes no bytes, or it is not
                clear which of several buckets is meant.
        """
        job = self.jobs.get(job_name)
        path = f"jobs.{job_name}"
        if job is None:
            raise _no_bucket(path, "the job does not stand in the settings", "write it there")
        if not BY_NAME[job_name].deletes_bytes:
            raise _no_bucket(path, "the job deletes no bytes", "ask for no bucket")
        named = getattr(job, "bucket", None)
        meant = self.entries_meant
        if named is None and len(meant) == 1:
            (named,) = meant
        if named is None:
            raise _no_bucket(
                path, "it names no bucket", f"name one of {', '.join(meant) or 'buckets'}"
            )
        return named, self.buckets[named]

    @property
    def entries_meant(self) -> list[str]:
        """Those of `buckets` that can be meant where none is named: a bucket of pins never is."""
        return _meant({entry: {"owns_nothing": it.owns_nothing}
                       for entry, it in self.buckets.items()})  # fmt: skip


def _asked(source: SourceSettings) -> tuple[object, ...]:
    """What a source names: two tables of two databases have the same query."""
    return source.sql, source.database, source.transforms, source.names


def _no_bucket(path: str, found: str, expected: str) -> SettingsError:
    return SettingsError((Problem(path, found, expected),))


def _entries(said: Any) -> dict[str, Mapping[str, Any]]:
    """The mappings in a mapping, from a file or from models that were built in Python."""
    if not isinstance(said, Mapping):
        return {}
    entries: dict[str, Mapping[str, Any]] = {}
    for name, entry in said.items():
        if isinstance(entry, Section):
            entries[name] = {key: getattr(entry, key) for key in entry.model_fields_set}
        elif isinstance(entry, Mapping):
            entries[name] = entry
    return entries


def _without_bucket(jobs: Mapping[str, Any]) -> Iterator[Found]:
    deleting = [name for name in jobs if name in BY_NAME and BY_NAME[name].deletes_bytes]
    if deleting:
        yield (
            ("buckets",),
            mistake(
                f"there is no bucket, and {', '.join(deleting)} deletes bytes",
                "write a bucket with bucket, owns and min_age",
            ),
        )


def _unknown_bucket(
    jobs: Mapping[str, Mapping[str, Any]], buckets: Mapping[str, Any]
) -> Iterator[Found]:
    for name, job in jobs.items():
        if name not in BY_NAME or "bucket" not in BY_NAME[name].settings.model_fields:
            continue
        named = job.get("bucket")
        if named is None and name in BY_NAME.own and not BY_NAME[name].deletes_bytes:
            continue
        meant = _meant(buckets)
        if named is None and len(meant) > 1:
            yield (
                ("jobs", name, "bucket"),
                mistake(
                    f"it is missing, and there are {len(meant)} buckets",
                    f"name one of {', '.join(meant)}",
                ),
            )
        if named is None and len(meant) == 1:
            (named,) = meant
        if BY_NAME[name].deletes_bytes and _owns_nothing(buckets, named):
            yield (
                ("jobs", name, "bucket"),
                mistake(
                    f"buckets.{named} says owns_nothing: true, and {name} deletes bytes",
                    "name an entry that owns something",
                ),
            )
        if isinstance(named, str) and named.strip() and named not in buckets:
            yield (
                ("jobs", name, "bucket"),
                mistake(f"no entry of buckets is called {shown(named)}", nearest(named, buckets)),
            )


def _unstartable(trigger: Any, jobs: Mapping[str, Any]) -> Iterator[Found]:
    """Find jobs that a token may start and that do not stand in the settings."""
    for holder, token in _entries(part(trigger, "tokens")).items():
        for index, name in enumerate(items(token.get("jobs"))):
            if name in BY_NAME and name not in jobs:
                yield (
                    ("trigger", "tokens", holder, "jobs", index),
                    mistake(
                        f"{name} does not stand in jobs, so nobody can start it",
                        "write it there, or leave it out here",
                    ),
                )


def _meant(buckets: Mapping[str, Any]) -> list[str]:
    """Entries that own something; all where none does, so that this is what is said of it."""
    return [entry for entry in buckets if not _owns_nothing(buckets, entry)] or list(buckets)


def _owns_nothing(buckets: Mapping[str, Any], entry: Any) -> bool:
    return (
        isinstance(entry, str) and entry in buckets and buckets[entry].get("owns_nothing") is True
    )


def _beside(
    jobs: Mapping[str, Mapping[str, Any]],
    buckets: Mapping[str, Mapping[str, Any]],
    audit: Mapping[str, Any],
) -> Iterator[Found]:
    """Ask each job what it and the rest of the file say against each other."""
    for name, job in jobs.items():
        if name in BY_NAME:
            entry = job.get("bucket") or (next(iter(buckets)) if len(buckets) == 1 else None)
            known = entry if isinstance(entry, str) and entry in buckets else None
            yield from BY_NAME[name].settings.beside(job, Around(known, buckets, audit))
