"""Checks of the events themselves, and of the head row."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from filejobs_dagster.audit.rows import (
    EV_AHEAD,
    EV_BODY,
    EV_HASH,
    EV_LINK,
    EV_SEQ,
    EV_TIME,
    all_wrong,
    genesis,
)
from filejobs_dagster.audit.statement import moment_of
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of
from filejobs_dagster.postgres.inventory import SETTING, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def chain_exists(evidence: Evidence) -> Iterable[ChainFinding]:
    """A chain that is asked for, or that has seals or pins, has a head row."""
    if evidence.head is None:
        yield ChainFinding(
            "CHAIN_MISSING",
            f"The chain {evidence.chain!r} is not in audit_chain, and it is known elsewhere.",
        )


@check
def genesis_is_right(evidence: Evidence) -> Iterable[ChainFinding]:
    """The head row holds the genesis of its own name."""
    if evidence.head is not None and evidence.head.genesis != genesis(evidence.chain):
        yield ChainFinding("GENESIS", "The genesis in audit_chain is not that of the chain's name.")


@check
def tables_are_as_they_were_made(evidence: Evidence) -> Iterable[ChainFinding]:
    """The log's tables refuse what they were made to refuse; the others are only told."""
    # How a session is set, this one included, changes nothing about what is in the log.
    changed = [change for change in evidence.changes if change.thing.kind != SETTING]
    of_the_log = [change for change in changed if change.thing.of_the_log]
    others = [change for change in changed if not change.thing.of_the_log]
    if of_the_log:
        yield ChainFinding("TABLES", f"{told(of_the_log)}.", count=len(of_the_log))
    if others:
        yield ChainFinding("TABLES", f"{told(others)}.", count=len(others), severity="warning")


def _wrong(evidence: Evidence, code: str, meaning: str) -> Iterable[ChainFinding]:
    tally = all_wrong(evidence.scans).get(code)
    if tally is not None:
        more = f" (and {tally.count - 1} more)" if tally.count > 1 else ""
        yield ChainFinding(code, f"Event {tally.first}: {meaning}{more}", tally.first, tally.count)


@check
def bodies_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each body has the hash that stands beside it."""
    return _wrong(evidence, EV_BODY, "its body does not match its body_hash.")


@check
def hashes_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each event has the hash of its fields."""
    return _wrong(evidence, EV_HASH, "its hash does not match its fields.")


@check
def links_hold(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each event names the hash of the one before."""
    return _wrong(evidence, EV_LINK, "its prev_hash is not the hash of the event before.")


@check
def numbers_are_dense(evidence: Evidence) -> Iterable[ChainFinding]:
    """No number is left out."""
    return _wrong(evidence, EV_SEQ, "the number before it is missing.")


@check
def times_do_not_go_back(evidence: Evidence) -> Iterable[ChainFinding]:
    """No event was recorded before the one before it."""
    return _wrong(evidence, EV_TIME, "it was recorded before the event before it.")


@check
def no_event_is_ahead_of_its_time(evidence: Evidence) -> Iterable[ChainFinding]:
    """No event is later than now, than the seal that counts it, or than the pin of that seal."""
    return first_of(EV_AHEAD, _ahead(evidence))


def _ahead(evidence: Evidence) -> Iterator[tuple[int, str]]:
    tolerance = evidence.policy.clock_tolerance
    sizes = [seal.size for seal in evidence.seals]
    for seq, text in sorted(evidence.moments.items()):
        moment = moment_of(text)
        if moment is None:
            continue
        limits: list[tuple[str, datetime | None]] = [("now", evidence.now)]
        place = bisect_left(sizes, seq)
        if place < len(sizes):
            seal = evidence.seals[place]
            pins = {} if evidence.pinned is None else evidence.pinned.seals
            pin = pins.get((seal.incarnation, seal.seal_no))
            limits.append((f"seal {seal.seal_no}, which counts it", moment_of(seal.sealed_at)))
            if pin is not None:
                limits.append((f"the pin of seal {seal.seal_no}", pin.stored_at))
        for what, limit in limits:
            if limit is not None and moment - tolerance > limit:
                yield seq, f"Event {seq} was recorded at {text}, later than {what} ({limit})."
                break


@check
def nothing_below_the_base(evidence: Evidence) -> Iterable[ChainFinding]:
    """What was trimmed stays away."""
    count, first = evidence.below_base
    if count:
        yield ChainFinding(
            "EV_BELOW_CP",
            f"{count} event(s) from {first} on stand at or below {evidence.base.seq}, up to which "
            "the chain was trimmed.",
            first,
            count,
        )


@check
def head_row_is_the_last_event(evidence: Evidence) -> Iterable[ChainFinding]:
    """The head row names the newest event."""
    head, tail = evidence.head, evidence.tail
    if head is None or tail is None:
        return
    if (head.head_seq, head.head_hash) != (tail.last.seq, tail.last.hash):
        yield ChainFinding(
            "HEAD_ROW",
            f"audit_chain names {head.head_seq} as the newest event; the newest one that is there "
            f"is {tail.last.seq}, or has another hash.",
            min(head.head_seq, tail.last.seq),
        )
