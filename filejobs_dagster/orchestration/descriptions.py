"""What the web UI says of each job, in words: what it does, when, and in which mode.

Read as the operator's settings stand when the code location is loaded.
"""

from collections.abc import Iterator
from typing import Any

from filejobs_dagster.collector import Collector
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import JobSettings, Loaded


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
