"""Checks of restored databases that somebody acknowledged."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.statement import sha256_of
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of
from filejobs_dagster.audit.verify.verdict import signature_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.audit.tables import RestoreRow
    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def restores_are_genuine(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each restored database was acknowledged, signed, pinned, and lost what it says."""
    return first_of("RESTORE", _not_genuine_restores(evidence))


def _not_genuine_restores(evidence: Evidence) -> Iterator[tuple[None, str]]:
    # Not one by one: a number is passed over when another restored database has pinned under it.
    numbers = [1, *(row.incarnation for row in evidence.restores)]
    if any(before >= after for before, after in pairwise(numbers)) or (
        evidence.incarnation != numbers[-1]
    ):
        yield None, f"The chain is in incarnation {evidence.incarnation}; restores: {numbers[1:]}."
    under = {row.incarnation for row in evidence.seals}
    under |= {row.incarnation for row in evidence.checkpoints}
    for number in sorted(under - set(numbers)):
        yield None, f"No restore began incarnation {number}, which has a seal or a trim."
    for row in evidence.restores:
        problem = signature_problem(row.note, row.survived_seal + 1, evidence.policy.trusted)
        if problem is not None:
            yield None, f"Restore {row.incarnation}: {problem}."
        if row.statement(evidence.origin).text() != text_of(row.note):
            yield None, f"Restore {row.incarnation}: its columns are not what its note says."
        if evidence.pinned is None:
            continue
        pin = evidence.pinned.restores.get((row.incarnation, sha256_of(row.note).hex()))
        if pin is None or (pin.was_read and pin.note != row.note):
            yield None, f"Restore {row.incarnation} is not pinned as it is."
        yield from _misstated(evidence, row)
        lost = evidence.pinned.newest_seal_before(row.incarnation)
        if (
            lost is None
            or lost.name.number != row.lost_seal
            or (lost.note is not None and sha256_of(lost.note) != row.lost_note)
        ):
            yield None, f"Restore {row.incarnation} does not name the newest pin before it."


def _misstated(evidence: Evidence, row: RestoreRow) -> Iterator[tuple[None, str]]:
    for size, head in (
        (row.survived_size, row.survived_head), (row.matched_size, row.matched_head),
    ):  # fmt: skip
        found = None if size is None else evidence.boundaries.get(size)
        if found is not None and found.hash != head:
            yield None, f"Restore {row.incarnation} names another event {size} than there is."
    named: dict[int, set[bytes]] = {}
    for lost in row.lost:
        named.setdefault(lost.seal_no, set()).add(lost.sha256)
    own = {1, *(restore.incarnation for restore in evidence.restores)}
    for (incarnation, number), pin in sorted(
        () if evidence.pinned is None else evidence.pinned.seals.items()
    ):
        was_lost = incarnation not in own or number > row.survived_seal
        # One that is gone is told elsewhere: the note of the restore still names its hash.
        if (
            incarnation < row.incarnation
            and was_lost
            and number in named
            and pin.note is not None
            and sha256_of(pin.note) not in named[number]
        ):
            yield None, f"Restore {row.incarnation} names another pin {number} than is there."
