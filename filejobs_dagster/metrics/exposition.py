"""A reading as Prometheus families. `filejobs_up` is always among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from filejobs_dagster.ledger.prometheus import StandingsCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.metrics.reading import Reading


class ReadingCollector(Collector):
    """Takes a reading for each scrape, and shows nothing of an older one."""

    def __init__(self, take: Callable[[], Reading]) -> None:
        """Show what `take` returns, which must not raise."""
        self._take = take

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families of one reading."""
        reading = self._take()
        yield _gauge(
            reading,
            "filejobs_up",
            "1 when settings and database could be read. With 0 there is nothing else.",
            float(reading.standings is not None),
        )
        yield _gauge(
            reading,
            "filejobs_metrics_timestamp_seconds",
            "When these numbers were read: old in a text file that nobody writes any more.",
            reading.taken_at,
        )
        if reading.standings is None:
            return
        yield _gauge(
            reading,
            "filejobs_mirror_timestamp_seconds",
            "When the mirror of finished runs last looked: old when Dagster's daemon is gone. "
            "Absent: it never did.",
            reading.mirror_looked_at,
        )
        yield from StandingsCollector(
            reading.standings, reading.installation, reading.mutes
        ).collect()
        yield from _of_alerts(reading)


def text_of(reading: Reading) -> str:
    """One reading in the text exposition format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingCollector(lambda: reading))
    return generate_latest(registry).decode()


def _gauge(reading: Reading, name: str, meaning: str, value: float | None) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, meaning, labels=("installation",))
    if value is not None:
        gauge.add_metric([reading.installation], value)
    return gauge


def _of_alerts(reading: Reading) -> Iterator[GaugeMetricFamily]:
    opened = GaugeMetricFamily(
        "filejobs_alerts_open",
        "Conditions that somebody must be told of and that are not over.",
        labels=("installation", "severity"),
    )
    for severity, count in (reading.alerts_open or {}).items():
        opened.add_metric([reading.installation, severity], float(count))
    yield opened
    unsaid = GaugeMetricFamily(
        "filejobs_alerts_undelivered",
        "Notices in the outbox that the destination has not taken yet.",
        labels=("installation", "destination"),
    )
    for destination, count in (reading.waiting or {}).items():
        unsaid.add_metric([reading.installation, destination], float(count))
    yield unsaid
