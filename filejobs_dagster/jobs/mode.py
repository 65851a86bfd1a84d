"""Who decides whether a run is live.

In this order: the operator's veto (`allow_live: false`, or FILEJOBS_ALLOW_LIVE=0), the run config
when it says so itself, the run tag `filejobs/mode`, and otherwise dry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from filejobs_dagster.ledger.words import Mode

MODE_TAG = "filejobs/mode"

_MODES: tuple[Mode, ...] = get_args(Mode)


class UnknownMode(ValueError):
    """Somebody asked for a mode that does not exist; nothing was started."""


@dataclass(frozen=True)
class ModeDecision:
    """The effective mode.

    Attributes:
        mode: What the run does.
        reason: Why, when that is not what somebody asked for; else None.
    """

    mode: Mode
    reason: str | None = None


def decide_mode(*, allow_live: bool, config_dry_run: bool | None, tag: str | None) -> ModeDecision:
    """Decide the effective mode of a run.

    Args:
        allow_live: The operator's veto when False.
        config_dry_run: `dry_run` where the run config says it explicitly, else None.
        tag: The run tag `filejobs/mode`, if there is one.

    Raises:
        UnknownMode: The tag is neither `dry` nor `live`.
    """
    if tag is not None and tag not in _MODES:
        raise UnknownMode(
            f"The run tag {MODE_TAG} is {tag!r}; it can be 'dry' or 'live'. Nothing was started."
        )
    asked: Mode = "live" if tag == "live" else "dry"
    reason = None
    if config_dry_run is not None:
        by_config: Mode = "dry" if config_dry_run else "live"
        if tag is not None and by_config != asked:
            reason = (
                f"the run config says dry_run: {str(config_dry_run).lower()}, which comes before "
                f"the tag {MODE_TAG}: {tag}"
            )
        asked = by_config
    if asked == "live" and not allow_live:
        return ModeDecision(
            "dry", "live was asked, but allow_live: false (or FILEJOBS_ALLOW_LIVE=0) forbids it"
        )
    return ModeDecision(asked, reason)
