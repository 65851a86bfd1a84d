"""Whether a pass is believed: its numbers against the breakers, before anything is marked.

`fingerprint` is the short name of the rules that a pass judges by.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from filejobs_dagster.door.doubt import dismissal, remember_doubt
from filejobs_dagster.jobs.storage_orphans.breakers import (
    REFERENCE_SHRINK,
    Numbers,
    Reading,
    Stranger,
    read_breakers,
)
from filejobs_dagster.jobs.storage_orphans.classification import suggest_transform
from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    DERIVED,
    NAMED_ELSEWHERE,
    ORPHAN,
)
from filejobs_dagster.jobs.storage_orphans.tables import shown
from filejobs_dagster.objects.targets import MARKERS
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.collector import Storage
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.one_pass import Pass
    from filejobs_dagster.jobs.storage_orphans.settings import StorageOrphansRun
    from filejobs_dagster.references.elsewhere.search import Found
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings.secrets import Secret
    from filejobs_dagster.settings.storage import BucketSettings, SourceSettings


class Judge:
    """Decides whether a run may go on from its pass to its marks."""

    def __init__(
        self,
        context: RunContext,
        request: StorageOrphansRun,
        storage: Storage,
        books: Bookkeeping,
        marks: Marks,
    ) -> None:
        self._context = context
        self._storage = storage
        self._request = request
        self._books = books
        self._marks = marks

    def judge(self, made: Pass, numbers: Numbers, unrehearsed: Reading | None = None) -> None:
        """Read every breaker, and say every number, before anything is marked.

        Args:
            made: The pass.
            numbers: Of it.
            unrehearsed: That this run has passed over something before its pass.

        Raises:
            JobFailed: One of them trips and is not overridden.
        """
        readings = read_breakers(
            numbers,
            self._request.breakers,
            made.earlier,
            overridden=self._request.override.breakers,
            hint=suggest_transform(made.found),
        )
        self._books.facts["breakers"] = [reading.as_detail() for reading in readings]
        for reading in readings:
            self._context.log.info("breaker %s", reading)
        self._tell_every_job(readings)
        blocking = [reading for reading in readings if reading.blocks]
        if blocking:
            self._books.stopped = "breakers: " + ", ".join(one.name for one in blocking)
            self._books.commit()
            raise JobFailed(self._blocked(blocking))
        passed_over = [
            reading for reading in (*readings, unrehearsed) if reading and reading.overridden
        ]
        if passed_over:
            self._note_override(passed_over)

    def _tell_every_job(self, readings: Sequence[Reading]) -> None:
        """Write down what speaks against the rows or the bucket: every job goes by them.

        A dry run does, too: what it has found holds for a live one.
        """
        doubts = [
            reading.doubt
            for reading in readings
            if reading.tripped and not (reading.overridden and self._context.live)
        ]
        found = "; ".join(filter(None, doubts))
        bucket, entry = self._storage.bucket, self._storage.entry
        with self._context.database.transaction(self._context.connection) as cursor:
            self._context.progress.must_be_open(cursor)
            if found:
                remember_doubt(cursor, bucket, entry, self._context.identity.run_id, found)

    def _blocked(self, blocking: Sequence[Reading]) -> str:
        who = "This run is blocked" if self._context.live else "A live run would be blocked"
        lines = "\n".join(
            f"- {one.name}: {one.found}; limit: {one.limit}. {one.advice}" for one in blocking
        )
        names = ", ".join(one.name for one in blocking)
        where = self._books.facts.get("report")
        read = "the samples" if where is None else f"the samples and the list {where}"
        these = "this breaker" if len(blocking) == 1 else "these breakers"
        # Tables of runs show the first line alone.
        return (
            f"{who} by {names}, so nothing was marked and nothing deleted.\n{lines}\n"
            f"Read {read}. If the numbers are right, {self._way_out(blocking, these, names)}"
        )

    def _way_out(self, blocking: Sequence[Reading], these: str, names: str) -> str:
        typed = " ".join(f"--override {one.name}" for one in blocking)
        override = (
            f"let one run pass over {these}: `filejobs run storage_orphans {typed} --why '…'`, or "
            f"`override: {{breakers: [{names}], reason: …}}` in its config."
        )
        if not any(reading.doubt for reading in blocking):
            return override
        said = (
            "say so first, because every live run of every job that goes by these rows is refused "
            f"until then: {dismissal(self._storage.entry)}"
        )
        if all(reading.name == REFERENCE_SHRINK for reading in blocking):
            return f"{said}. The next pass compares with no earlier one, and only marks."
        return f"{said}. The next pass only marks. Then {override}"

    def _note_override(self, passed_over: Sequence[Reading]) -> None:
        override = self._request.override
        self._books.facts["override"] = {
            "breakers": [reading.name for reading in passed_over],
            "reason": override.reason,
        }
        self._context.log.warning(
            "Passed over %s, because: %s",
            ", ".join(reading.name for reading in passed_over),
            override.reason,
        )
        if self._context.live:
            # A dry run's record says it; beyond that, a dry run writes nothing.
            event = self._books.event_of_batch(
                "storage_orphans.breakers.overridden",
                reason=override.reason.replace("\x00", ""),
                tripped=[one.as_detail() for one in passed_over],
            )
            self._books.commit(event)


def numbers_of(made: Pass, elsewhere: Found | None = None) -> Numbers:
    """A pass in the numbers that breakers read.

    Args:
        made: The pass.
        elsewhere: What columns name without being a source.
    """
    found = made.found
    classes = found.classes
    return Numbers(
        objects=found.objects,
        matched=found.matched + classes[DERIVED].count,
        orphans=classes[ORPHAN].count,
        orphan_bytes=classes[ORPHAN].bytes,
        ambiguous=classes[AMBIGUOUS].count,
        references=found.references,
        references_owned=found.owned_references,
        missing=found.missing,
        keys_by_source={name: count.keys for name, count in made.references.per_source.items()},
        strangers=tuple(
            Stranger(name, count.keys, shown(count.samples[0]))
            for name, count in made.references.per_source.items()
            if count.keys and not count.in_owns and not count.owners
        ),
        named_elsewhere=classes[NAMED_ELSEWHERE].count,
        named_most=next(iter(elsewhere.by_column()), None) if elsewhere else None,
        ignored_most=elsewhere.most_ignored() if elsewhere else None,
        newest_reference=found.newest_reference,
        newer=found.newer,
        older_by_source={
            name: count.older
            for name, count in made.references.per_source.items()
            if count.older is not None
        },
        tables_by_source={name: count.tables for name, count in made.references.per_source.items()},
        coming_and_going=frozenset(table.name for table in OWN_TABLES if table.comes_and_goes),
    )


# A short name for the rules that a pass judges by: sources, transforms, rewrites, ownership.

_RULES = 1
"""Raise it when this version of the code judges differently from the one before."""


def fingerprint(bucket: BucketSettings) -> str:
    """Name the rules; another name means that every object has to be seen twice again.

    What only says how to reach a server or how long to wait takes no part: it changes nothing
    about which object is an orphan.
    """
    rules = {
        "rules": _RULES,
        "bucket": bucket.bucket,
        "endpoint": bucket.endpoint_url,
        "owns": sorted(bucket.owned_prefixes),
        "protect": sorted(bucket.protect),
        "shape": sorted(bucket.shape),
        "marker": bucket.marker or f"{MARKERS}.json",
        "rewrites": [[rewrite.match, rewrite.owner] for rewrite in bucket.rewrites],
        "sources": sorted(
            (_of_source(source) for source in bucket.sources), key=lambda one: str(one["name"])
        ),
    }
    text = json.dumps(rules, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _place(url: Secret) -> list[str]:
    """The variable and, without the password, where it leads: another server has other rows."""
    return [url.env, Database(url.reveal()).address()]


def _of_source(source: SourceSettings) -> dict[str, Any]:
    # As before it could be said, where it is not said: an upgrade is no change of the rules.
    owners = {"names": source.names} if source.names != "keys" else {}
    return owners | {
        "name": source.name,
        "sql": source.sql,
        "database": None if source.database is None else _place(source.database.url),
        "transforms": [step.model_dump(exclude_none=True) for step in source.transforms],
        "recheck_sql": source.recheck_sql,
    }
