"""Checks of trims against what stands outside of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.statement import moment_of
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def no_pinned_trim_is_missing(evidence: Evidence) -> Iterable[ChainFinding]:
    """A pinned trim without a checkpoint removed nothing: it was given up before its commit."""
    return first_of(
        "PIN_AHEAD_TRIM",
        (
            (
                None,
                f"The trim {stray.pinned.name.number} is pinned and has no checkpoint, and "
                + ("it cannot be read." if stray.missing is None else "its events are gone."),
            )
            for stray in evidence.stray_trims
            if stray.missing != 0
            # What a restore has lost, trims included, is named by its note.
            and (
                stray.newest_seal_no is None
                or evidence.survives(stray.pinned.name.incarnation, stray.newest_seal_no)
            )
        ),
    )


@check
def checkpoints_are_pinned(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each checkpoint was pinned, which happens before its commit."""
    pins = None if evidence.pinned is None else evidence.pinned.trims
    return first_of(
        "CP_UNPINNED",
        (
            (row.to_seq, f"Checkpoint {row.checkpoint_no} has no pin.")
            for row in evidence.checkpoints
            if pins is not None
            and (row.incarnation, row.checkpoint_no, row.sha256.hex()) not in pins
            and evidence.origin.trim_key(row.incarnation, row.checkpoint_no, row.sha256)
            not in evidence.put_pins
        ),
    )


@check
def trims_kept_their_retention(evidence: Evidence) -> Iterable[ChainFinding]:
    """What went was old enough by the clock of the pins' place, not only by the database's."""
    return first_of("CP_RETENTION", _too_young(evidence))


def _too_young(evidence: Evidence) -> Iterator[tuple[int, str]]:
    least, tolerance = evidence.policy.minimum_retention, evidence.policy.clock_tolerance
    for row in evidence.checkpoints:
        last_at = moment_of(row.last_at)
        seconds = row.retention
        if least is not None and seconds < least.total_seconds():
            yield row.to_seq, f"Checkpoint {row.checkpoint_no} kept events for {seconds} s only."
            continue
        key = (row.incarnation, row.checkpoint_no, row.sha256.hex())
        pin = None if evidence.pinned is None else evidence.pinned.trims.get(key)
        stored_at = None if pin is None else pin.stored_at
        if last_at is None:
            yield row.to_seq, f"Checkpoint {row.checkpoint_no} names no time of its last event."
        elif stored_at is not None:
            kept = (stored_at + tolerance - last_at).total_seconds()
            if kept < seconds:
                yield (
                    row.to_seq,
                    (
                        f"Checkpoint {row.checkpoint_no} was pinned {kept:.0f} s after its last "
                        f"event; it says that events are kept for {seconds} s."
                    ),
                )
