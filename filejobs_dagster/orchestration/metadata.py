"""What Dagster shows of a run: on its page, and as lines over time in the catalog."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from filejobs_dagster.collector import Collector
from filejobs_dagster.jobs.lifecycle import RunSpec
from filejobs_dagster.ledger.outcome import Mode, Outcome
from filejobs_dagster.ledger.runs import would_act
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings import JobSettings, Loaded

# What the web UI says of each job, in words: what it does, when, and in which mode.
#
# Read as the operator's settings stand when the code location is loaded.


def job_description(loaded: Loaded, collector: Collector[Any, Any]) -> str:
    """Markdown: the summary first, since lists show nothing else."""
    return "\n\n".join([collector.summary, *_paragraphs(loaded, collector)])


def owners_of(loaded: Loaded, job: str) -> list[str]:
    """Who answers for the job, as the settings say."""
    configured = _configured(loaded, job)
    return [] if configured is None else list(configured.owners)


def kinds_of(job: str) -> set[str]:
    """What the job works on, for the icons of the catalog."""
    collector = BY_NAME[job]
    follows = {"postgres", "s3"} if collector.deletes_bytes else {"postgres"}
    return set(collector.works_on) or follows


def mode_in_words(loaded: Loaded, job: str) -> str:
    """Which runs of the job change something, as the settings stand."""
    configured = _configured(loaded, job)
    if loaded.settings is None:
        return f"{loaded.path.name} has mistakes: a run refuses to start and names them."
    if configured is None:
        return f"It does not stand in {loaded.path.name}: a run refuses to start."
    if BY_NAME[job].read_only:
        return "A run changes nothing, so every run is recorded as dry, and counts."
    if not loaded.settings.allow_live:
        return "`allow_live: false`: every run is dry, whatever is asked."
    here = "a run that is started here is dry unless its config says `dry_run: false`"
    if configured.schedule is None:
        return f"Only people start it; {here}."
    schedule = f"`{configured.schedule}` ({configured.time_zone})"
    return f"Its schedule {schedule} runs it **{configured.mode}**; {here}."


def _configured(loaded: Loaded, job: str) -> JobSettings | None:
    return None if loaded.settings is None else loaded.settings.jobs.get(job)


def _paragraphs(loaded: Loaded, collector: Collector[Any, Any]) -> Iterator[str]:
    yield f"**As it stands:** {mode_in_words(loaded, collector.name)}"
    if collector.read_only:
        yield "What it finds fails the run. The catalog plots what each run found."
        return
    if collector.partitioned:
        yield (
            "Leave *Partition* empty to take everything that is due; a day takes what became due "
            "on that day only. The Partitions tab shows the days on which a live run left nothing. "
            "A backfill cannot set run config: it goes live by the tag `filejobs/mode` with the "
            "value `live`."
        )
    else:
        yield "The run tag `filejobs/mode: live` asks for a live run, too."
    yield (
        "A run's page shows what it found, its tag `filejobs/effective_mode` what it really was, "
        "and the catalog plots its numbers and says where the job stands."
    )


GROUP = "filejobs"

TABLES = (
    "findings",
    "warnings",
    "rules",
    "dropped",
    "chains",
    "breakers",
    "by_prefix",
    "by_age",
    "largest",
    "oldest",
    "sources",
    "named_elsewhere",
    "only_ignored",
    "unsearched",
)
"""Lists of rows in a run's detail that its page shows as tables."""

THIS_RUN = "this run"
"""What the page of a run begins with: nobody shall have to look for it."""

FIRST = (
    THIS_RUN,
    "mode",
    "mode_reason",
    "settings",
    "window",
    "scanned",
    "acted",
    "would_collect",
    "would_free_bytes",
    "bytes_freed",
    "dead_letters",
    "check",
    "sealed_events",
    "would_seal_events",
    "would_trim_events",
    "verified_events",
    "unprotected_events",
    "explained",
    "truncated",
    "stopped_reason",
    "oldest_left",
    "report",
    "rules",
    "dropped",
    "findings",
    "warnings",
    "chains",
    "signatures",
    "pins",
    "classes",
    "breakers",
    "named_elsewhere",
    "only_ignored",
    "unsearched",
    "search",
    "by_prefix",
    "by_age",
    "largest",
    "oldest",
    "sources",
    "samples",
)
"""A run's page shows the first few entries without a click: what a person asks first."""


_HEADLINE: Mapping[Mode, str] = {
    "dry": "DRY: it reports what a live run would do, and changed nothing",
    "live": "LIVE: what it took is gone",
}
_ALWAYS = "DRY, as always: this job changes nothing"
_KEPT = "LIVE: what it took lies in quarantine, and filejobs restore brings it back"


def catalog_assets(loaded: Loaded) -> list[dg.AssetSpec]:
    """One entry of the catalog for each job that is built.

    Dagster draws the numbers of an op's output nowhere; those of an asset it plots over time. The
    entry is external: nobody can materialize it by hand.
    """
    return [
        dg.AssetSpec(
            key=job.name,
            group_name=GROUP,
            kinds=kinds_of(job.name),
            owners=owners_of(loaded, job.name),
            description=f"{job.summary} {_materialized(job)}",
        )
        for job in JOBS
    ]


def _materialized(job: Collector[Any, Any]) -> str:
    """What an entry's materializations say of the job's runs."""
    if job.watched:
        return "Something else runs it: its check says where it stands, job_run what ran."
    if job.read_only:
        return "A materialization is a run that found nothing wrong."
    return (
        "A materialization is a live run that left nothing it was to take; any other run that "
        "ended well, dry ones included, is an observation."
    )


def catalog_event(
    run_spec: RunSpec, outcome: Outcome
) -> dg.AssetMaterialization | dg.AssetObservation:
    """The numbers of a run for the catalog; only a run that swept counts as a materialization."""
    numbers = {
        name: value
        for name, value in _entries(run_spec, outcome).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    swept = outcome.detail.get("swept") and run_spec.window.everything
    event = dg.AssetMaterialization if swept else dg.AssetObservation
    return event(asset_key=run_spec.identity.job, metadata=numbers)


def run_metadata(run_spec: RunSpec, outcome: Outcome) -> Mapping[str, Any]:
    """What the run's page shows: numbers, the classes as a table, samples."""
    entries = _entries(run_spec, outcome)
    mode = run_spec.identity.mode
    entries[THIS_RUN] = _ALWAYS if BY_NAME[run_spec.identity.job].read_only else _HEADLINE[mode]
    if mode == "live" and outcome.detail.get("quarantined"):
        entries[THIS_RUN] = _KEPT
    if would_act(mode, outcome.detail) is not None:
        # Zero by what a dry run is; beside what it would have done it reads like a finding.
        entries.pop("acted", None)
    classes: Mapping[str, int] = outcome.detail.get("classes", {})
    sizes: Mapping[str, int] = outcome.detail.get("bytes_by_class", {})
    samples: Mapping[str, list[str]] = outcome.detail.get("samples", {})
    if classes:
        entries["classes"] = dg.MetadataValue.table(
            [
                dg.TableRecord({"class": fate, "items": count, "bytes": sizes.get(fate, 0)})
                for fate, count in sorted(classes.items())
            ]
        )
    for name in TABLES:
        rows = outcome.detail.get(name)
        if rows:
            entries[name] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    if samples:
        lines = [f"**{fate}**\n\n" + "\n".join(f"- {_verbatim(key)}" for key in keys)
                 for fate, keys in samples.items()]  # fmt: skip
        entries["samples"] = dg.MetadataValue.md("\n\n".join(lines))
    order = {name: place for place, name in enumerate(FIRST)}
    return dict(sorted(entries.items(), key=lambda entry: order.get(entry[0], len(FIRST))))


def _verbatim(text: str) -> str:
    """Markdown that shows a text as it is, whatever is in it.

    Whoever may name a file writes into this page. A backtick in a key would end the code, and what
    follows would be Markdown: an image, for instance, whose address is asked for by the browser of
    whoever looks at the run, and one of the web UI's own addresses starts runs.
    """
    line = " ".join(text.splitlines())
    fence = "`" * (1 + max((len(each) for each in re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}"


def _entries(run_spec: RunSpec, outcome: Outcome) -> dict[str, Any]:
    """Everything that is one number, word or truth; what is unknown is left out, never zero."""
    # The detail comes first: its own `window` is the record's, a mapping, which no page shows.
    found = {
        **outcome.detail,
        "mode": run_spec.identity.mode,
        "mode_reason": run_spec.mode_reason,
        "window": run_spec.window.label or "everything due",
        "scanned": outcome.scanned,
        "acted": outcome.acted,
    }
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}
