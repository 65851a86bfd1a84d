"""Standings in the text format that Prometheus scrapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from filejobs_dagster.ledger.runs import ended_in_words, would_act
from filejobs_dagster.ledger.standing import Word, dead_letters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.ledger.standing import RunSummary, Standing

    Value = Callable[[Standing], float | None]

WORDS: tuple[str, ...] = get_args(Word)

_LABELS = ("installation", "job_name")
"""Not `job`: Prometheus calls each target so, and would rename ours to `exported_job`."""


class Silence(Protocol):
    """What is muted, as far as numbers go; `alerts.mutes.Mute`."""

    @property
    def job(self) -> str | None:
        """Whose alerts; None for all."""
        ...

    @property
    def kind(self) -> str | None:
        """Which; None for all."""
        ...

    @property
    def until(self) -> datetime:
        """When it ends."""
        ...


def exposition(
    standings: Sequence[Standing], installation: str, mutes: Sequence[Silence] = ()
) -> str:
    """The standings as text exposition format.

    What is not known has no sample: a job that never succeeded has no time of its last success,
    and a run that decided nothing has no counts. Zero would be a claim.

    Args:
        standings: The jobs to show.
        installation: The value of the label `installation` on every sample.
        mutes: What nobody is told of.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StandingsCollector(standings, installation, mutes))
    return generate_latest(registry).decode()


class StandingsCollector(Collector):
    """The standings for a registry of prometheus_client."""

    def __init__(
        self, standings: Sequence[Standing], installation: str, mutes: Sequence[Silence] = ()
    ) -> None:
        """Show these; the arguments are those of `exposition`."""
        self._mutes = mutes
        self._standings = standings
        self._installation = installation

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family for each number."""
        yield self._words()
        for name, meaning, value in _GAUGES:
            gauge = GaugeMetricFamily(f"filejobs_job_{name}", meaning, labels=_LABELS)
            for standing in self._standings:
                found = value(standing)
                if found is not None:
                    gauge.add_metric([self._installation, standing.job], float(found))
            yield gauge
        yield self._silence()

    def _silence(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "filejobs_muted_until_timestamp_seconds",
            "When alerts that nobody is told of now are told again; an empty label stands for all. "
            "Absent: nothing is muted.",
            labels=(*_LABELS, "kind"),
        )
        ends: dict[tuple[str, str], float] = {}
        for mute in self._mutes:
            what = (mute.job or "", mute.kind or "")
            ends[what] = max(ends.get(what, 0.0), _seconds(mute.until))
        for (job, kind), until in ends.items():
            gauge.add_metric([self._installation, job, kind], until)
        return gauge

    def _words(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "filejobs_job_standing",
            "1 for the word that says where the job stands, 0 for the others. Absent: the job is "
            "not in the settings.",
            labels=(*_LABELS, "standing"),
        )
        for standing in self._standings:
            # What nobody asked for stands nowhere: `never run` would be red on a board.
            for word in WORDS if standing.configured else ():
                gauge.add_metric(
                    [self._installation, standing.job, word], float(standing.word == word)
                )
        return gauge


def _ended(run: RunSummary | None) -> float | None:
    return None if run is None else _seconds(run.finished_at)


def _failed(run: RunSummary) -> bool:
    return ended_in_words(run.outcome, run.detail) == "failed"


def _took(run: RunSummary) -> float:
    return (run.finished_at - run.started_at).total_seconds()


def _number_in(run: RunSummary | None, name: str) -> float | None:
    """A number or a yes or no of the run's detail; None for what it does not hold."""
    found = None if run is None else run.detail.get(name)
    return float(found) if isinstance(found, int | float) else None


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


_GAUGES: tuple[tuple[str, str, Value], ...] = (
    (
        "configured",
        "1 when the job stands in the settings.",
        lambda standing: standing.configured,
    ),
    (
        "alarming",
        "1 when somebody must look, as in `filejobs status --check`.",
        lambda standing: standing.alarming,
    ),
    (
        "last_run_timestamp_seconds",
        "End of the newest run of any kind. Absent: no run is recorded.",
        lambda standing: _ended(standing.last_run),
    ),
    (
        "last_success_timestamp_seconds",
        "End of the last success in the configured mode over everything due. Absent: never.",
        lambda standing: _ended(standing.last_success),
    ),
    (
        "last_live_success_timestamp_seconds",
        "End of the last live success over everything due. Absent: never.",
        lambda standing: _ended(standing.last_live_success),
    ),
    (
        "age_seconds",
        "Time since the last success that counts, by the database's clock. Absent: never.",
        lambda standing: None if standing.age is None else standing.age.total_seconds(),
    ),
    (
        "stale_after_seconds",
        "The operator's threshold. Absent: none was given.",
        lambda standing: (
            None if standing.stale_after is None else standing.stale_after.total_seconds()
        ),
    ),
    (
        "stale",
        "1 when the last success is older than the threshold. Absent: there is no threshold.",
        lambda standing: standing.stale,
    ),
    (
        "consecutive_failures",
        "Failed runs since the last success that counts.",
        lambda standing: standing.consecutive_failures,
    ),
    (
        "behind",
        "1 when due items are left for too long, or were given up. Absent: it is not known.",
        lambda standing: standing.behind,
    ),
    (
        "running",
        "1 while a run of the job is at work.",
        lambda standing: standing.running is not None,
    ),
    (
        "last_run_failed",
        "1 when the newest run failed, and was not cancelled. Absent: no run is recorded.",
        lambda standing: None if standing.last_run is None else _failed(standing.last_run),
    ),
    (
        "last_run_duration_seconds",
        "How long the newest run took. Absent: no run is recorded.",
        lambda standing: None if standing.last_run is None else _took(standing.last_run),
    ),
    (
        "last_run_scanned",
        "Items that the newest run looked at. Absent: it decided nothing.",
        lambda standing: None if standing.last_run is None else standing.last_run.scanned,
    ),
    (
        "last_run_acted",
        "Items that the newest run acted on, 0 for a dry one. Absent: it decided nothing.",
        lambda standing: None if standing.last_run is None else standing.last_run.acted,
    ),
    (
        "last_run_would_act",
        "Items that the newest run would have acted on. Absent: it was live, or did not say.",
        lambda standing: (
            None
            if standing.last_run is None
            else would_act(standing.last_run.mode, standing.last_run.detail)
        ),
    ),
    (
        "last_run_bytes",
        "Bytes that the newest run freed, 0 or absent for a dry one. Absent: it did not say.",
        lambda standing: _number_in(standing.last_run, "bytes_freed"),
    ),
    (
        "last_run_truncated",
        "1 when the newest run left due items. Absent: it did not get to know.",
        lambda standing: _number_in(standing.last_run, "truncated"),
    ),
    (
        "last_run_missing",
        "References whose object the newest run did not find. Absent: it did not look.",
        lambda standing: _number_in(standing.last_run, "missing"),
    ),
    (
        "records_of_future",
        "Records that end in the future: a clock was wrong, and none of them counts.",
        lambda standing: standing.of_future,
    ),
    (
        "dead_letters",
        "Items that the job has given up on, as its newest run saw it. Absent: no run is recorded.",
        lambda standing: None if standing.last_run is None else dead_letters_of(standing.last_run),
    ),
)
