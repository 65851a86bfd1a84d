"""What a run is given: its rules and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.settings import RetentionRuleSettings


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        rules: Every rule of the settings, in their order.
        only: Names of the rules that this run takes; empty for all.
        limit: Most rows to delete and scrub, over all rules.
        max_runtime: No further batch is begun after this.
    """

    rules: Sequence[RetentionRuleSettings]
    only: tuple[str, ...] = ()
    limit: int = 1_000_000
    max_runtime: timedelta = timedelta(minutes=30)
