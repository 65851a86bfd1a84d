"""Whether anybody is told when a job needs somebody. Nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from filejobs_dagster.alerts import heartbeat, sending
from filejobs_dagster.alerts.destinations import destinations_of
from filejobs_dagster.alerts.words import Severity
from filejobs_dagster.doctor.finding import Finding, failed, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.alerts.destinations import Destination
    from filejobs_dagster.settings import AlertsSettings


def check_alerts(alerts: AlertsSettings) -> Iterator[Finding]:
    """Look at who is told of what, and at the dead man's switch.

    Args:
        alerts: The section `alerts`. No finding shows a part of a URL.
    """
    destinations = destinations_of(alerts)
    if not destinations:
        yield warning(
            "alerts",
            "the settings name nobody who is told: a failed tick of job_freshness is seen by "
            "whoever looks at the web UI, and Dagster sends nobody a message about it",
            "name somebody under alerts.to and try it with `filejobs alert --test`, or let "
            "`filejobs status --check` run from outside",
        )
    else:
        yield from _destinations(destinations)
    yield from _heartbeat(alerts)


def _destinations(destinations: Sequence[Destination]) -> Iterator[Finding]:
    wrong = [(each, sending.mistake_in(each.url)) for each in destinations]
    for destination, mistake in wrong:
        if mistake is not None:
            yield failed(
                "alerts",
                f"{destination.name} can be told nothing: {mistake}",
                "set the variable that alerts.to names for it to one URL of apprise",
            )
    told = {severity for each in destinations for severity in each.severities}
    for severity in get_args(Severity):
        if severity not in told:
            yield warning(
                "alerts",
                f"nobody is told what is {severity}",
                f"write {severity} into the severities of somebody under alerts.to",
            )
    if len(told) == len(get_args(Severity)) and not any(mistake for _, mistake in wrong):
        names = ", ".join(each.name for each in destinations)
        yield ok("alerts", f"{names}; `filejobs alert --test` sends each a message")


def _heartbeat(alerts: AlertsSettings) -> Iterator[Finding]:
    if alerts.heartbeat is None:
        yield warning(
            "heartbeat",
            "there is none: when Dagster's daemon dies, its watchdog and its alerts die with it",
            "write alerts.heartbeat, or let `filejobs alert` or `filejobs status --check` run on "
            "another machine",
        )
        return
    mistake = heartbeat.mistake_in(alerts.heartbeat.url.reveal().strip())
    if mistake is not None:
        yield failed("heartbeat", mistake, "set the variable that alerts.heartbeat names")
    else:
        yield ok("heartbeat", "asked for after each healthy tick of job_freshness")
