"""Who is told, without anything of where that is but for the one call that sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filejobs_dagster.alerts.words import Severity
    from filejobs_dagster.settings import AlertsSettings

BOTH: frozenset[Severity] = frozenset({"warning", "critical"})


@dataclass(frozen=True)
class Destination:
    """Somebody who is told.

    Attributes:
        name: How it is called wherever it is shown.
        url: apprise's URL; a secret, all of it.
        severities: Which alerts it gets.
    """

    name: str
    url: str = field(repr=False)
    severities: frozenset[Severity] = BOTH


def destinations_of(alerts: AlertsSettings) -> tuple[Destination, ...]:
    """The destinations of the settings, in their order."""
    return tuple(
        Destination(each.name, each.url.reveal().strip(), frozenset(each.severities))
        for each in alerts.to
    )
