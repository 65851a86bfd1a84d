"""Checks against what stands outside of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.statement import (
    ManifestStatement,
    TrimFacts,
    UnreadableStatement,
    moment_of,
    sha256_of,
)
from filejobs_dagster.audit.verify.evidence import ChainFinding, check, first_of
from filejobs_dagster.audit.verify.verdict import signature_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from filejobs_dagster.audit.origin import PinName
    from filejobs_dagster.audit.pins.read import Pinned, PinnedChain
    from filejobs_dagster.audit.statement import SealStatement
    from filejobs_dagster.audit.verify.evidence import Evidence


@check
def pins_are_genuine(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each pin that was read is a note of this chain, at its own place, signed as it must be."""
    return first_of("PIN_SIG", _not_genuine(evidence))


def _not_genuine(evidence: Evidence) -> Iterator[tuple[None, str]]:
    if evidence.pinned is None:
        return
    pins = [*evidence.pinned.seals.values(), *evidence.pinned.trims.values()]
    for pinned in pins:
        why = _why_not_genuine(evidence, pinned) if pinned.was_read else None
        if why is not None:
            yield None, f"The pin {pinned.key}: {why}."


def _why_not_genuine(evidence: Evidence, pinned: Pinned) -> str | None:
    note, name = pinned.note, pinned.name
    if note is None:
        return "it is no text"
    line = evidence.origin.line(name.incarnation)
    if name.kind == "trim":
        return _why_no_trim(evidence, note, name, line)
    statement = pinned.statement
    if statement is None or (statement.origin, statement.seal_no) != (line, name.number):
        return "it is not the seal that its name says"
    return signature_problem(note, name.number, evidence.policy.trusted)


def _why_no_trim(evidence: Evidence, note: str, name: PinName, line: str) -> str | None:
    try:
        facts = TrimFacts.parse(text_of(note))
    except UnreadableStatement as error:
        return str(error)
    if (facts.origin, facts.checkpoint_no) != (line, name.number):
        return "it is not the checkpoint that its name says"
    if sha256_of(note).hex() != name.sha256:
        return "its name holds the hash of another text"
    return signature_problem(note, facts.newest_seal_no, evidence.policy.trusted)


@check
def each_place_has_one_text(evidence: Evidence) -> Iterable[ChainFinding]:
    """No second, different text stands at a pin's place."""
    return first_of(
        "EQUIVOCATION",
        (
            (None, f"The pin {pin.key} has {pin.versions} different texts.")
            for pin in (() if evidence.pinned is None else evidence.pinned.all)
            if pin.versions > 1
        ),
    )


@check
def no_pin_was_deleted(evidence: Evidence) -> Iterable[ChainFinding]:
    """Nobody put a delete marker over a pin."""
    markers = [] if evidence.pinned is None else evidence.pinned.markers
    return first_of(
        "PIN_MARKER", ((None, f"Somebody deleted the pin {key} (a marker).") for key in markers)
    )


@check
def what_was_pinned_is_still_there(evidence: Evidence) -> Iterable[ChainFinding]:
    """No pin is gone that was there once, and none was put anew in the place of one.

    For good: the row stays, and nobody pins such a seal again.
    """
    if evidence.pinned is None:
        return
    versions, put_pins = evidence.pinned.versions, evidence.put_pins
    yield from first_of(
        "PIN_GONE",
        (
            (None, f"The pin {key} was there, and is gone.")
            for key in put_pins
            if key not in versions
        ),
    )
    replaced = [
        (None, f"The pin {key} is not the version {put.version} that was put.")
        for key, put in put_pins.items()
        if put.version is not None and put.version not in versions.get(key, {put.version})
    ]
    # In a place without versions only the text tells.
    replaced += [
        (None, f"The pin {pin.key} is not the text that was put.")
        for pin in evidence.pinned.all
        if pin.was_read
        and (found := put_pins.get(pin.key)) is not None
        and (pin.note is None or sha256_of(pin.note) != found.sha256)
    ]
    yield from first_of("PIN_REPLACED", replaced)


@check
def seals_are_pinned(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each seal has a pin, a young one excepted."""
    if evidence.pinned is None:
        return
    missing = [
        seal
        for seal in evidence.seals
        if (seal.incarnation, seal.seal_no) not in evidence.pinned.seals
        and evidence.origin.seal_key(seal.incarnation, seal.seal_no) not in evidence.put_pins
    ]
    oldest_allowed = evidence.now - evidence.policy.pin_grace
    late = [
        seal for seal in missing if (moment_of(seal.sealed_at) or oldest_allowed) <= oldest_allowed
    ]
    yield from first_of(
        "SEAL_UNPINNED", ((None, f"Seal {seal.seal_no} has no pin.") for seal in late)
    )
    if missing and not late:
        yield ChainFinding(
            "SEAL_NOT_YET_PINNED",
            f"Seal {missing[0].seal_no} is not pinned yet; it may be for "
            f"{evidence.policy.pin_grace}.",
            count=len(missing),
            severity="warning",
        )


@check
def seals_equal_their_pins(evidence: Evidence) -> Iterable[ChainFinding]:
    """The note in the table is the note that was pinned."""
    pins = {} if evidence.pinned is None else evidence.pinned.seals
    return first_of(
        "SEAL_PIN_MISMATCH",
        (
            (seal.size, f"Seal {seal.seal_no} is not the one that was pinned.")
            for seal in evidence.seals
            if (pin := pins.get((seal.incarnation, seal.seal_no))) is not None
            and pin.was_read
            and pin.note != seal.note
        ),
    )


@check
def manifests_say_what_is_there(evidence: Evidence) -> Iterable[ChainFinding]:
    """Each manifest that was read is of this chain, signed, and names what is there."""
    pinned = evidence.pinned
    if pinned is None:
        return
    yield from first_of(
        "MANIFEST",
        (
            (None, f"The manifest {pin.key} {why}.")
            for pin in pinned.manifests.values()
            if pin.was_read
            and (why := next(_wrong_in_manifest(evidence, pinned, pin), None)) is not None
        ),
    )
    newest = pinned.incarnation
    if newest and not any(incarnation == newest for incarnation, *_ in pinned.manifests):
        yield ChainFinding(
            "MANIFEST_MISSING",
            "No manifest stands beside the pins: whoever has nothing but their place does not know "
            "where to begin. audit_seal puts one.",
            severity="warning",
        )


def _wrong_in_manifest(evidence: Evidence, pinned: PinnedChain, pin: Pinned) -> Iterator[str]:
    name, note = pin.name, pin.note
    if note is None or sha256_of(note).hex() != name.sha256:
        yield "is not the text that its name says"
        return
    try:
        stated = ManifestStatement.parse(text_of(note))
    except UnreadableStatement as error:
        yield f"cannot be read: {error}"
        return
    problem = signature_problem(note, name.number, evidence.policy.trusted)
    if problem is not None:
        yield f"counts for nothing: {problem}"
    own = (evidence.origin.line(name.incarnation), evidence.chain, *_place(name))
    if (stated.origin, stated.chain, stated.incarnation, stated.seal_no) != own:
        yield "is that of another chain or place"
    believed = {str(key) for key in evidence.policy.trusted.for_seal(name.number)}
    if evidence.policy.trusted.configured and not believed.issuperset(stated.keys):
        yield "names a public key that you do not believe"
    seal = pinned.seals.get(_place(name))
    if seal is None:
        # One that was there and is gone is told of itself.
        if evidence.origin.seal_key(*_place(name)) not in evidence.put_pins:
            yield f"names the pin of seal {name.number}, which is not there"
    elif seal.note is not None and sha256_of(seal.note) != stated.note:
        yield f"names another pin of seal {name.number} than is there"
    before = evidence.hash_at(stated.first_seq - 1)
    if evidence.survives(*_place(name)) and before not in {None, stated.before}:
        yield f"names another beginning at event {stated.first_seq}"


def _place(name: PinName) -> tuple[int, int]:
    return name.incarnation, name.number


@check
def no_pin_is_ahead(evidence: Evidence) -> Iterable[ChainFinding]:
    """Every pinned seal is in the table."""
    if evidence.pinned is None:
        return
    incarnation = evidence.incarnation
    newest = max((seal.seal_no for seal in evidence.seals), default=0)
    ahead = [
        key
        for key in sorted(evidence.pinned.seals)
        if key[0] > incarnation or (key[0] == incarnation and key[1] > newest)
    ]
    yield from first_of(
        "PIN_AHEAD_SEAL",
        (
            (None, f"Seal {number} is pinned, and the database ends at seal {newest}.")
            for _, number in ahead
        ),
    )


def _reachable(evidence: Evidence) -> Iterator[tuple[Pinned, SealStatement]]:
    for pinned, statement in evidence.pinned_seals():
        if evidence.computed(statement.size):
            yield pinned, statement


@check
def events_reach_the_pins(evidence: Evidence) -> Iterable[ChainFinding]:
    """What was pinned is still there."""
    if evidence.head is None:
        return ()
    return first_of(
        "PIN_TAIL",
        (
            (
                evidence.last_seq + 1,
                f"Pin {pin.seal_no} counts {pin.size} events; they end at {evidence.last_seq}.",
            )
            for _, pin in _reachable(evidence)
            if pin.size > evidence.last_seq
        ),
    )


@check
def pinned_heads_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """The event at a pin's size has the hash that the pin names."""
    return first_of(
        "PIN_HEAD",
        (
            (pin.size, f"Event {pin.size} is not the one that the pin of seal {pin.seal_no} names.")
            for _, pin in _reachable(evidence)
            if pin.size <= evidence.last_seq
            and ((found := evidence.boundaries.get(pin.size)) is None or found.hash != pin.head)
        ),
    )


@check
def pinned_roots_match(evidence: Evidence) -> Iterable[ChainFinding]:
    """The tree over everything up to a pin's size has the root that the pin names."""
    return first_of(
        "PIN_ROOT",
        (
            (pin.size, f"The events up to {pin.size} do not have the root that is pinned.")
            for _, pin in _reachable(evidence)
            if (found := evidence.boundaries.get(pin.size)) is not None and found.root != pin.root
        ),
    )


@check
def pins_are_not_older_than_their_seals(evidence: Evidence) -> Iterable[ChainFinding]:
    """The database's clock was not ahead of the clock of the pins' place.

    A pin that came late is told as a warning: the place may have been away, or the seal's time is
    a lie.
    """
    yield from first_of(
        "PIN_TIME",
        (
            (None, f"Seal {pin.seal_no} says {pin.sealed_at}; its pin was stored before that.")
            for pinned, pin in evidence.pinned_seals()
            if pinned.stored_at is not None
            and (moment := moment_of(pin.sealed_at)) is not None
            and pinned.stored_at + evidence.policy.clock_tolerance < moment
        ),
    )

    soon = max(evidence.policy.pin_grace, evidence.policy.clock_tolerance)
    late = [
        pin
        for pinned, pin in evidence.pinned_seals()
        if pinned.stored_at is not None
        and (moment := moment_of(pin.sealed_at)) is not None
        and pinned.stored_at - moment > soon
    ]
    if late:
        yield ChainFinding(
            "PIN_LATE",
            f"Seal {late[0].seal_no} says {late[0].sealed_at}; it was pinned more than {soon} "
            "later. Until then nothing protected it.",
            count=len(late),
            severity="warning",
        )


@check
def sealing_goes_on(evidence: Evidence) -> Iterable[ChainFinding]:
    """The newest pin, or the newest seal without a place for pins, is young enough.

    A chain that is younger than the limit itself may not have been sealed yet.
    """
    limit = evidence.policy.seal_max_age
    if limit is None:
        return
    newest = _newest_moment(evidence)
    if newest is None:
        began = moment_of(evidence.began or "")
        if began is None or evidence.now - began > limit:
            yield ChainFinding(
                "SEALING_STOPPED",
                f"Nothing was ever sealed and pinned, and the limit is {limit}: run audit_seal.",
            )
    elif (evidence.now - newest).total_seconds() > limit.total_seconds():
        yield ChainFinding(
            "SEALING_STOPPED", f"The newest is of {newest.isoformat()}; the limit is {limit}."
        )


def _newest_moment(evidence: Evidence) -> datetime | None:
    if evidence.pinned is None:
        return moment_of(evidence.seals[-1].sealed_at) if evidence.seals else None
    newest = evidence.newest_pin()
    if newest is None:
        # A restore was acknowledged, with a pin, and nothing was sealed since.
        return moment_of(evidence.restores[-1].restored_at) if evidence.restores else None
    if newest.stored_at is not None or newest.statement is None:
        return newest.stored_at
    return moment_of(newest.statement.sealed_at)
