"""Events verified per second and the memory of it, against a loop over all rows in Python."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from benchmarks.audit_chain import PURPOSE, AuditLog
from benchmarks.audit_child import Task, check
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more, readable
from benchmarks.processor import MILLION, a_million

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.audit_child import Done, Who
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "audit_verify"
SUMMARY = "audit events verified per second, against a loop over all rows; peak memory"

TARGET = 100_000
"""Events a second that a full check is to reach."""

KILOBYTES = 1024
PARTS_SEALED = 4
"""Of five: what is behind the seal is looked at by an incremental check."""

_EDIT = "UPDATE audit_event SET body = replace(body, '.pdf', '.doc') WHERE seq = %s"


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Check one damaged chain in each way, then compare the memory with that of a small one."""
    few = _checked(surroundings, scale.few_audit_events, ("full",))["full"]
    done = _checked(
        surroundings, scale.many_audit_events, ("full", "incremental", "linkage", "loop")
    )
    full, loop = done["full"], done["loop"]
    reached = "reached" if full.rows / full.seconds >= TARGET else "missed"
    note = f"target of {TARGET:,}/s {reached}; the loop knows of no tree, seal, signature or pin"
    yield _speeds(full, loop, "full check", "a loop in Python", note)
    yield _speeds(done["incremental"], full, "incremental check", "full check", "")
    yield _speeds(done["linkage"], full, "links alone", "full check", "finds no edited event")
    yield _peaks(full, few, f"{few.rows:,} events", "full check of")
    yield _peaks(full, loop, "a loop in Python", "full check, against a loop over")


def _speeds(ours: Done, other: Done, name: str, other_name: str, note: str) -> Measurement:
    measured, compared = (
        Value(it.rows / it.seconds, "events/s", of)
        for it, of in ((ours, name), (other, other_name))
    )
    notes = [note, _took(name, ours), _took(other_name, other)]
    return Measurement(
        benchmark=NAME,
        what=f"{name}, {ours.rows:,} events",
        measured=measured,
        compared=compared,
        ratio=more(measured, compared),
        reading="times as fast",
        note="; ".join(filter(None, notes)),
    )


def _took(name: str, done: Done) -> str:
    in_python = readable(done.own_processor_seconds / done.rows * MILLION)
    return f"{a_million(name, done.processor_seconds, done.rows)}, {in_python} s of it in Python"


def _peaks(ours: Done, other: Done, other_name: str, what: str) -> Measurement:
    measured, compared = (
        Value(it.peak_kilobytes / KILOBYTES, "MiB", of)
        for it, of in ((ours, f"{ours.rows:,} events"), (other, other_name))
    )
    return Measurement(
        benchmark=NAME,
        what=f"peak memory, {what} {ours.rows:,} events",
        measured=measured,
        compared=compared,
        ratio=more(measured, compared),
        reading="times the memory",
    )


def _checked(surroundings: Surroundings, events: int, ways: tuple[Who, ...]) -> dict[Who, Done]:
    """Make a chain, seal most of it, edit an event below the seal, and check it in each way.

    Raises:
        NotTheSameWork: A way did not look at what it had to, or did not find the edited event.
    """
    log = AuditLog.make(surroundings.database(), surroundings.folder)
    sealed = events * PARTS_SEALED // (PARTS_SEALED + 1)
    log.append_in_the_past(sealed, timedelta(days=2))
    log.seal()
    log.append_in_the_past(events - sealed, timedelta(days=1))
    edited = events // 2
    with log.database.connect(PURPOSE) as connection, log.database.transaction(connection) as it:
        it.execute("SET LOCAL session_replication_role = replica")
        it.execute(_EDIT, (edited,))
    done: dict[Who, Done] = {}
    for who in ways:
        task = Task(who, log.database.url, str(log.signer.verifier), str(log.folder))
        done[who] = check(surroundings, task)
        rows = events - sealed if who == "incremental" else events
        # What lies below the seal is not looked at, and an edited body leaves the links whole.
        wrong = [edited] if who in {"full", "loop"} else []
        if (done[who].rows, done[who].wrong) != (rows, wrong):
            raise NotTheSameWork(f"{who} was to look at {rows} and find {wrong}: {done[who]}")
    surroundings.drop(log.database.url)
    return done
