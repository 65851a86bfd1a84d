"""What records of the audit jobs say, in words: the reference is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


SEAL: Mapping[str, str] = {
    "scanned; acted": "chains looked at; seals written. A dry run writes none and pins none",
    "sealed_events; would_seal_events": "events that no earlier seal counted, live and dry",
    "unsigned_seals; unpinned_seals": (
        "seals of this run without a signature, without a copy outside"
    ),
    "pinned_late": "older seals that were pinned first",
    "chains": "one row per chain",
    "findings": (
        "what was refused, by chain and code; any of it fails the run. The other chains are sealed"
    ),
    "signatures; pins; explained": (
        "what the seals are worth: the place of the pins, and what is missing"
    ),
}
"""Fields of a run of `audit_seal`."""

TRIM: Mapping[str, str] = {
    "scanned; acted": "events that are older than the retention; events removed",
    "would_trim_events": "in a dry run: what a live one would remove",
    "checkpoints": "receipts, one per batch",
    "retention_seconds; archived": "the rule of this run",
    "chains": (
        "one row per chain: what is due, what was planned, and what stopped it: `RETENTION` "
        "(everything that is due goes), `SEAL` (up to the last boundary of a pinned seal), "
        "`LEGAL_HOLD` (up to the first hold), `WOULD_EMPTY` (all but the newest event), "
        "`refused`"
    ),
    "chains_left_out": "chains that were not looked at, because limit or time was over",
    "truncated; stopped_reason; oldest_left": (
        "`limit` or `max_runtime` ended the run; since when the oldest event that could have "
        "gone is due"
    ),
    "swept": "live, nothing refused, nothing left that could have gone",
}
"""Fields of a run of `audit_trim`."""

VERIFY: Mapping[str, str] = {
    "scanned; acted": "events computed again; always 0",
    "check": "which check, and which part",
    "chains_verified; verified_events": (
        "chains without a finding, and how many of their events were computed"
    ),
    "unread_events": "events that this run did not compute",
    "read": (
        "of a rolling check: when each part was read last, and since when all were "
        "(`all_read_since`)"
    ),
    "unprotected_events": (
        "events behind the newest pin. They are linked, and never called verified"
    ),
    "chains": "one row per chain: verdict, head, trimmed, sealed and pinned to, unprotected",
    "findings; warnings": "chain, code, first event, how often, in words. Findings fail the run",
    "truncated": "the time was over before every chain was looked at; such a run fails",
}
"""Fields of a run of `audit_verify`."""
