"""How much data each benchmark works on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of the data, and repetitions.

    Attributes:
        name: What the report calls it.
        reservations: Of a throughput on the server that costs nothing per key.
        reservations_with_latency: The same where every answer is held back.
        reservations_on_moto: The same on moto, which needs milliseconds for each object.
        few: Of the smaller side of the comparison of memory.
        many: Of the larger side.
        seconds_of_inserts: How long the application inserts, with and without a collector.
        backlog: Finished runs without a record.
        runs_watched: Runs whose record is waited for.
        objects: In the bucket of a sweep whose speed is measured.
        few_objects: In the smaller bucket of the comparison of a sweep's memory.
        many_objects: In the larger one.
        shares: Of a hundred objects, so many are orphans: one bucket for each number.
        shares_for_memory: The same for the comparison of memory.
        rows_searched: Of all tables together in which names are looked for.
        orphans_removed: Orphans whose removal is timed.
        few_copies: In quarantine, in the smaller bucket.
        many_copies: In the larger one.
        audit_appends: Events that all clients together append one by one.
        few_audit_events: In the smaller chain of the comparison of a verification's memory.
        many_audit_events: In the chain that is verified.
        audit_events_trimmed: Events that are due in the chain that is trimmed.
        starts: How often each process is started; the median counts.
    """

    name: str
    reservations: int
    reservations_with_latency: int
    reservations_on_moto: int
    few: int
    many: int
    seconds_of_inserts: float
    backlog: int
    runs_watched: int
    objects: int
    few_objects: int
    many_objects: int
    shares: tuple[int, ...]
    shares_for_memory: tuple[int, ...]
    rows_searched: int
    orphans_removed: int
    few_copies: int
    many_copies: int
    audit_appends: int
    few_audit_events: int
    many_audit_events: int
    audit_events_trimmed: int
    starts: int


QUICK = Scale(
    name="quick",
    reservations=6000,
    reservations_with_latency=1000,
    reservations_on_moto=1000,
    few=10_000,
    many=200_000,
    seconds_of_inserts=10,
    backlog=1000,
    runs_watched=3,
    objects=200_000,
    few_objects=100_000,
    many_objects=1_000_000,
    shares=(1, 30),
    shares_for_memory=(1, 30, 90),
    rows_searched=100_000,
    orphans_removed=1_000,
    few_copies=10_000,
    many_copies=50_000,
    audit_appends=8_000,
    few_audit_events=20_000,
    many_audit_events=200_000,
    audit_events_trimmed=200_000,
    starts=3,
)

FULL = Scale(
    name="full",
    reservations=50_000,
    reservations_with_latency=5000,
    reservations_on_moto=5000,
    few=10_000,
    many=1_000_000,
    seconds_of_inserts=30,
    backlog=1000,
    runs_watched=8,
    objects=1_000_000,
    few_objects=1_000_000,
    many_objects=10_000_000,
    shares=(1, 30),
    shares_for_memory=(1, 30, 90),
    rows_searched=10_000_000,
    orphans_removed=10_000,
    few_copies=100_000,
    many_copies=1_000_000,
    audit_appends=32_000,
    few_audit_events=100_000,
    many_audit_events=1_000_000,
    audit_events_trimmed=1_000_000,
    starts=7,
)

TINY = Scale(
    name="tiny",
    reservations=40,
    reservations_with_latency=20,
    reservations_on_moto=10,
    few=20,
    many=60,
    seconds_of_inserts=2,
    backlog=5,
    runs_watched=1,
    objects=2_400,
    few_objects=800,
    many_objects=2_400,
    shares=(30,),
    shares_for_memory=(90,),
    rows_searched=500,
    orphans_removed=25,
    few_copies=40,
    many_copies=120,
    audit_appends=192,
    few_audit_events=200,
    many_audit_events=600,
    audit_events_trimmed=600,
    starts=1,
)
"""For the tests that run every benchmark; nothing can be concluded from its numbers."""
