"""Events of the audit chains as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.cli.words import moment
from filejobs_dagster.ledger.sanitize import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from filejobs_dagster.audit.history import FileEvent

RESTORE_INTENT = "objects.restore.intent"

LONGEST = 10_000
"""Characters of a line; the JSON has all."""


def told(event: FileEvent) -> Iterator[str]:
    """One event: when, where, what happened, and what covers it.

    An application writes its own words into its events: they must not look like another line.
    """
    happened = display_key(f"{event.chain} {event.seq}  {in_words(event)}", LONGEST)
    yield f"{moment(event.recorded_at)}  {happened}"
    yield f"    {covered(event)}"


def covered(event: FileEvent) -> str:
    """Which seal and which pin cover an event, as the database remembers them."""
    if event.seal_no is None:
        return "not sealed yet: unprotected"
    sealed = f"covered by seal {event.seal_no} of {moment(event.sealed_at)}"
    if event.pin is None:
        return f"{sealed}, of which no pin is known here: unprotected"
    return f"{sealed}, pinned at {moment(event.pinned_at)} as {event.pin}"


def in_words(event: FileEvent) -> str:
    """What happened; an event of a kind that is not known here is told by its fields."""
    tell = _KINDS.get(event.kind)
    return _fields(event) if tell is None else tell(event.body)


def _fields(event: FileEvent) -> str:
    kind = event.kind or "an event that does not say its kind"
    rest = ", ".join(
        f"{name}: {value}"
        for name, value in event.body.items()
        if name != "kind" and isinstance(value, str | int)
    )
    return f"{kind} ({rest})" if rest else kind


def _collected(body: Mapping[str, Any]) -> str:
    return (
        f"{body.get('job')} removed the reservation of {body.get('storage_key')!r}, which had "
        f"expired at {body.get('upload_expires_at')} (run {body.get('run_id')})"
    )


def _intent(body: Mapping[str, Any]) -> str:
    what = "bring back" if body.get("kind") == RESTORE_INTENT else "delete"
    return (
        f"{body.get('job')} was about to {what} {_keys(body.get('keys'))} in bucket "
        f"{body.get('bucket')} (run {body.get('run_id')}, batch {body.get('batch')})"
    )


_FATES = (
    "deleted",
    "marked",
    "quarantined",
    "restored",
    "already_gone",
    "never_arrived",
    "kept",
    "failed",
    "left",
)


def _result(body: Mapping[str, Any]) -> str:
    said = [f"{name.replace('_', ' ')}: {_amount(body[name])}" for name in _FATES if body.get(name)]
    return (
        f"storage answered to batch {body.get('batch')} of run {body.get('run_id')}: "
        f"{', '.join(said) or 'nothing was done'}"
    )


def _hold_set(body: Mapping[str, Any]) -> str:
    return (
        f"{body.get('by')} set hold {body.get('hold_id')} from event {body.get('from_seq')} on: "
        f"{body.get('reason')}"
    )


def _hold_released(body: Mapping[str, Any]) -> str:
    return f"{body.get('by')} released hold {body.get('hold_id')}"


def _keys(keys: Any) -> str:
    if isinstance(keys, list) and len(keys) == 1:
        return repr(keys[0])
    return f"{len(keys):,} objects" if isinstance(keys, list) else "objects"


def _amount(value: Any) -> str:
    return f"{len(value):,}" if isinstance(value, list | dict) else str(value)


_KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "upload_reservation.collected": _collected,
    "objects.delete.intent": _intent,
    "objects.delete.result": _result,
    RESTORE_INTENT: _intent,
    "objects.restore.result": _result,
    "audit.hold.set": _hold_set,
    "audit.hold.released": _hold_released,
}
