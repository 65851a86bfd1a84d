"""Checks of the rows of `audit_seal`: their notes, their chain, and the events that they seal."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.statement import NOTHING_BEFORE, moment_of
from filejobs_dagster.audit.tables import read_frontier
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of
from filejobs_dagster.audit.verify.verdict import signature_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.audit.tables import SealRow
    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def seals_are_signed(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each seal is signed by a key that may sign its number."""
    problems = (
        (seal, signature_problem(seal.note, seal.seal_no, evidence.policy.trusted))
        for seal in evidence.seals
    )
    return first_of(
        "SEAL_SIG",
        ((None, f"Seal {seal.seal_no}: {why}.") for seal, why in problems if why is not None),
    )


@check
def seals_equal_their_notes(evidence: Evidence) -> Iterable[ChainFinding]:
    """The columns say what the note says, and the frontier has the root."""
    return first_of(
        "SEAL_FIELDS",
        (
            (None, f"Seal {seal.seal_no}: its columns are not what its note says.")
            for seal in evidence.seals
            if not _equals_note(seal, evidence)
        ),
    )


def _equals_note(seal: SealRow, evidence: Evidence) -> bool:
    frontier = read_frontier(seal.size, seal.frontier)
    return (
        frontier is not None
        and frontier.root() == seal.root
        and seal.statement(evidence.origin).text() == text_of(seal.note)
    )


@check
def seals_form_a_chain(evidence: Evidence) -> Iterable[ChainFinding]:
    """Numbers are dense from 1, each names the one before, sizes do not go back."""
    return first_of("SEAL_CHAIN", _seals_out_of_order(evidence.seals, evidence.first_seal))


def _seals_out_of_order(seals: list[SealRow], first: int) -> Iterator[tuple[None, str]]:
    begins = first == 1 and bool(seals) and seals[0].prev_seal != NOTHING_BEFORE
    if seals and (seals[0].seal_no != first or begins):
        yield None, f"The first seal that is there is number {seals[0].seal_no}, not a first one."
    for before, seal in pairwise(seals):
        if seal.seal_no != before.seal_no + 1:
            yield None, f"Seal {before.seal_no + 1} is missing."
        elif seal.prev_seal != before.sha256:
            yield None, f"Seal {seal.seal_no} does not name the note of seal {before.seal_no}."
        elif seal.size < before.size or seal.incarnation < before.incarnation:
            yield None, f"Seal {seal.seal_no} is smaller than seal {before.seal_no}."


@check
def seals_follow_each_other_in_time(evidence: Evidence) -> Iterable[ChainFinding]:
    """No seal says that it is later than the one behind it, or than now."""
    return first_of("SEAL_TIME", _later_than_the_next(evidence))


def _later_than_the_next(evidence: Evidence) -> Iterator[tuple[None, str]]:
    following = [*(moment_of(seal.sealed_at) for seal in evidence.seals[1:]), evidence.now]
    for seal, limit in zip(evidence.seals, following, strict=False):
        moment = moment_of(seal.sealed_at)
        if moment is None or limit is None:
            continue
        if moment - limit > evidence.policy.clock_tolerance:
            what = "now" if limit is evidence.now else "the seal behind it"
            yield None, f"Seal {seal.seal_no} says {seal.sealed_at}, later than {what} ({limit})."


@check
def events_reach_the_seals(evidence: Evidence) -> Iterable[ChainFinding]:
    """What was sealed is still there."""
    return first_of(
        "SEAL_TAIL",
        (
            (
                evidence.last_seq + 1,
                f"Seal {seal.seal_no} counts {seal.size} events; they end at {evidence.last_seq}.",
            )
            for seal in evidence.seals
            if seal.size > evidence.last_seq and evidence.computed(seal.size)
        ),
    )


def _in_reach(evidence: Evidence) -> Iterator[SealRow]:
    for seal in evidence.seals:
        if seal.size <= evidence.last_seq and evidence.computed(seal.size):
            yield seal


@check
def sealed_heads_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """The event at a seal's size has the hash that the seal names."""
    return first_of(
        "SEAL_HEAD",
        (
            (seal.size, f"Event {seal.size} is not the one that seal {seal.seal_no} names.")
            for seal in _in_reach(evidence)
            if (found := evidence.boundaries.get(seal.size)) is None or found.hash != seal.head_hash
        ),
    )


@check
def sealed_roots_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """The tree over everything up to a seal's size has the root that the seal names."""
    return first_of(
        "SEAL_ROOT",
        (
            (seal.size, f"The events up to {seal.size} do not have the root of seal {seal.seal_no}")
            for seal in _in_reach(evidence)
            if (found := evidence.boundaries.get(seal.size)) is not None and found.root != seal.root
        ),
    )
