"""Trying the claims, one after the other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.prove.evidence import Claim, Finding
from filejobs_dagster.prove.stage import SchemaLeftBehind, StageUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.prove.stage import Stage

_STAGE_IS_GONE = (DatabaseUnavailable, StageUnavailable, SchemaLeftBehind)


def prove(claims: Iterable[Claim], stage: Stage) -> Iterator[Finding]:
    """Demonstrate each claim, and yield what was found as soon as it is known.

    Raises:
        DatabaseUnavailable: The server went away.
        StageUnavailable: The server cannot be used.
        SchemaLeftBehind: A schema could not be dropped.
    """
    for claim in claims:
        yield _try(claim, stage)


def _try(claim: Claim, stage: Stage) -> Finding:
    begun = time.monotonic()
    evidence = error = None
    try:
        evidence = claim.demonstrate(stage)
    except _STAGE_IS_GONE:
        raise
    except Exception as broken:  # noqa: BLE001 (not proven; and the other claims are still tried)
        error = sanitize(f"{type(broken).__name__}: {broken}", known=[stage.url])
    return Finding(claim, evidence, error, time.monotonic() - begun)
