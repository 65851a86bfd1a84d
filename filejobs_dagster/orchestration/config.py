"""What the Launchpad offers of every collector, and how its values are looked at.

The defaults of the limits are the operator's settings, so that a run started by hand, by a
schedule and by a backfill keep the same limits; `dry_run` is true whatever the settings say.
"""

from datetime import timedelta
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field, create_model

from filejobs_dagster.settings import format_duration, parse_duration

MOST_RUNTIME = timedelta(hours=24)
MOST_IN_A_BATCH = 1000

LONGEST_CHAIN = (
    "No further chain is begun after this time, and the run fails, with a unit: 30m, 2h; at most "
    "24h."
)

Config = TypeVar("Config", bound="CollectorConfig")


class CollectorConfig(dg.Config):
    """What every collector can be told."""

    dry_run: bool = Field(
        default=True,
        description="true: report what would be collected and change nothing. "
        "false: collect. (`allow_live: false` in filejobs.yaml forbids false.)",
    )

    def mistakes(self) -> list[str]:
        """What is wrong with the values, a sentence each; empty when nothing is.

        Asked by the op itself: a validator of the class would fail before the op, and the run's
        page would open with a stack trace instead of the sentence.
        """
        return []

    def narrower(self) -> str | None:
        """What the run leaves alone that the settings would take, in words; else None.

        Such a run is a success, and does not count as having swept.
        """
        return None

    def longer_than_the_settings(self, name: str) -> str | None:
        """Say that a duration is longer than the operator's, which is the field's default."""
        given: str = getattr(self, name)
        configured: str = type(self).model_fields[name].default
        if parse_duration(given) <= parse_duration(configured):
            return None
        return f"with {name} {given} instead of {configured}"


def with_defaults(base: type[Config], **defaults: Any) -> type[Config]:
    """A subclass of a config class whose defaults are other ones; bounds and words stay."""
    fields: dict[str, Any] = {}
    for name, value in defaults.items():
        inherited = base.model_fields[name]
        changed = inherited.merge_field_infos(inherited, default=value)
        fields[name] = (inherited.annotation, changed)
    return create_model(base.__name__, __base__=base, __module__=__name__, **fields)


def as_it_stands(base: type[Config], mode: str) -> type[Config]:
    """The same config class, whose `dry_run` says which runs change something as things stand.

    The Launchpad shows the words of a field, and nothing of the job's own description.
    """
    inherited = base.model_fields["dry_run"]
    words = f"{inherited.description} As it stands: {mode}"
    changed = inherited.merge_field_infos(inherited, description=words)
    fields: dict[str, Any] = {"dry_run": (inherited.annotation, changed)}
    return create_model(base.__name__, __base__=base, __module__=__name__, **fields)


def outside(name: str, number: int, most: int) -> list[str]:
    """A sentence when the number is not within 1 and `most`."""
    return [] if 1 <= number <= most else [f"{name} is {number:,}; it can be 1 to {most:,}."]


def too_long(name: str, text: str, most: timedelta, *, least: timedelta) -> list[str]:
    """A sentence when the text is no duration, or none within the bounds."""
    try:
        duration = parse_duration(text, waits=most <= timedelta(days=1))
    except ValueError as error:
        return [f"{name}: {error}."]
    if least <= duration <= most:
        return []
    return [f"{name} is {text}; it can be {format_duration(least)} to {format_duration(most)}."]
