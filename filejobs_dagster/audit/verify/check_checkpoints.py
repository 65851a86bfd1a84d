"""Checks of the rows of `audit_checkpoint`, the receipts of what was trimmed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from filejobs_dagster.audit.holds import RELEASED, SET
from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.rows import genesis
from filejobs_dagster.audit.statement import NOTHING_BEFORE
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of
from filejobs_dagster.audit.verify.verdict import signature_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def checkpoints_are_signed(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each checkpoint is signed by a key that could sign the newest seal of its time."""
    problems = (
        (row, signature_problem(row.note, row.newest_seal_no, evidence.policy.trusted))
        for row in evidence.checkpoints
    )
    return first_of(
        "CP_SIG",
        ((None, f"Checkpoint {row.checkpoint_no}: {why}.") for row, why in problems if why),
    )


@check
def checkpoints_equal_their_notes(evidence: Evidence) -> Iterable[ChainFinding]:
    """The columns say what the note says, the root of the frontier included."""
    return first_of(
        "CP_FIELDS",
        (
            (None, f"Checkpoint {row.checkpoint_no}: its columns are not what its note says.")
            for row in evidence.checkpoints
            if row.statement(evidence.origin).text() != text_of(row.note)
        ),
    )


@check
def checkpoints_form_a_chain(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each begins where the one before ended, and names it."""
    return first_of("CP_CHAIN", _broken_chain(evidence))


def _broken_chain(evidence: Evidence) -> Iterator[tuple[int, str]]:
    rows = evidence.checkpoints
    if rows:
        first = rows[0]
        if (first.checkpoint_no, first.from_seq, first.prev_hash, first.prev_checkpoint) != (
            1, 1, genesis(evidence.chain), NOTHING_BEFORE,
        ):  # fmt: skip
            yield first.from_seq, "The first checkpoint that is there does not begin at event 1."
    for before, row in pairwise(rows):
        if row.checkpoint_no != before.checkpoint_no + 1:
            yield row.from_seq, f"Checkpoint {before.checkpoint_no + 1} is missing."
        elif (row.from_seq, row.prev_hash, row.prev_checkpoint) != (
            before.to_seq + 1, before.last_hash, before.sha256,
        ):  # fmt: skip
            yield row.from_seq, f"Checkpoint {row.checkpoint_no} does not follow the one before."
        elif row.newest_seal_no < before.newest_seal_no:
            yield row.from_seq, f"Checkpoint {row.checkpoint_no} names an older newest seal."


@check
def checkpoints_count_their_events(evidence: Evidence) -> Iterable[ChainFinding]:
    """As many events went as the range has."""
    return first_of(
        "CP_COUNT",
        (
            (
                row.from_seq,
                f"Checkpoint {row.checkpoint_no} counts {row.events} event(s).",
            )
            for row in evidence.checkpoints
            if row.events != row.to_seq - row.from_seq + 1
        ),
    )


@check
def checkpoints_have_a_seal(evidence: Evidence) -> Iterable[ChainFinding]:
    """What went had been sealed."""
    sizes = {seal.seal_no: seal.size for seal in evidence.seals}
    return first_of(
        "CP_NO_SEAL",
        (
            (
                row.to_seq,
                f"Checkpoint {row.checkpoint_no} names seal {row.seal_no}, "
                + _reach(sizes.get(row.seal_no)),
            )
            for row in evidence.checkpoints
            if sizes.get(row.seal_no, -1) < row.to_seq
            or not row.seal_no <= row.newest_seal_no <= max(sizes, default=0)
        ),
    )


def _reach(size: int | None) -> str:
    return "which is not there." if size is None else f"which counts {size} events."


@check
def newest_checkpoint_has_its_event(evidence: Evidence) -> Iterable[ChainFinding]:
    """The newest checkpoint, and every other whose event is still live, is named by its event."""
    named = {event.seq: event.sha256 for event in evidence.trim_events}
    newest = evidence.checkpoints[-1].checkpoint_no if evidence.checkpoints else None
    return first_of(
        "CP_NO_EVENT",
        (
            (row.event_seq, f"Event {row.event_seq} does not name checkpoint {row.checkpoint_no}.")
            for row in evidence.checkpoints
            if named.get(row.event_seq) != row.sha256.hex()
            and (row.checkpoint_no == newest or row.event_seq > evidence.base.seq)
        ),
    )


@check
def named_checkpoints_are_there(evidence: Evidence) -> Iterable[ChainFinding]:
    """Every live event of a trim names a checkpoint that is there."""
    there = {row.sha256.hex() for row in evidence.checkpoints}
    return first_of(
        "CP_DELETED",
        (
            (event.seq, f"Event {event.seq} names checkpoint {event.checkpoint_no}, not there.")
            for event in evidence.trim_events
            if event.sha256 not in there
        ),
    )


@check
def holds_match_their_events(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each hold stands, or is released, as the chain's events say."""
    return first_of("HOLD_MISMATCH", _mismatched_holds(evidence))


def _mismatched_holds(evidence: Evidence) -> Iterator[tuple[int | None, str]]:
    rows = {row.hold_id: row for row in evidence.holds}
    sets = {event.hold_id: event for event in evidence.hold_events if event.kind == SET}
    ends = {event.hold_id for event in evidence.hold_events if event.kind == RELEASED}
    for hold_id, event in sets.items():
        row = rows.get(hold_id or "")
        if row is None:
            yield event.seq, f"Event {event.seq} sets hold {hold_id}, which has no row."
        elif str(row.from_seq) != event.from_seq or row.set_event_seq != event.seq:
            yield event.seq, f"Hold {hold_id} is not what event {event.seq} says."
    for row in rows.values():
        if not row.released and (row.hold_id not in sets or row.hold_id in ends):
            yield row.set_event_seq, f"Hold {row.hold_id} stands, and no live event says so."
        # A release stands behind its setting: where that is live, so is the release.
        release = row.release_event_seq
        live = row.hold_id in sets or release is None or release > evidence.base.seq
        if row.released and live and row.hold_id not in ends:
            yield row.release_event_seq, f"Hold {row.hold_id} was released without an event."


@check
def no_trim_went_past_a_hold(evidence: Evidence) -> Iterable[ChainFinding]:
    """No receipt cut what a hold kept when its event was written.

    A trim that a hold refused leaves a signed and pinned receipt behind, which needs no key.
    """
    ends = {event.hold_id: event.seq for event in evidence.hold_events if event.kind == RELEASED}
    return first_of(
        "CP_HOLD",
        (
            (row.to_seq, f"Checkpoint {row.checkpoint_no} cut what hold {hold.hold_id} keeps.")
            for row in evidence.checkpoints
            for hold in evidence.holds
            if hold.from_seq <= row.to_seq
            and hold.set_event_seq < row.event_seq
            and not (
                hold.released
                and ends.get(hold.hold_id, hold.release_event_seq or 0) < row.event_seq
            )
        ),
    )
