"""One run: from the cutoff to the outcome. The methods follow the order in which things happen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME, REFERENCES_READ_AT, Bookkeeping
from filejobs_dagster.book.totals import Totals
from filejobs_dagster.door.adoption_target import AWS
from filejobs_dagster.jobs.late_landings import LATE_LANDING, late_landings
from filejobs_dagster.jobs.setbacks import Setbacks
from filejobs_dagster.jobs.storage_orphans.breakers import Reading
from filejobs_dagster.jobs.storage_orphans.classification.records import ORPHAN, Rules
from filejobs_dagster.jobs.storage_orphans.detail import detail_of
from filejobs_dagster.jobs.storage_orphans.expiring import Copies, cost, in_force, in_short
from filejobs_dagster.jobs.storage_orphans.judging import Judge, fingerprint, numbers_of
from filejobs_dagster.jobs.storage_orphans.marks import Marks, in_statements
from filejobs_dagster.jobs.storage_orphans.one_pass import Pass, TimeOver, make_pass, opened_list
from filejobs_dagster.jobs.storage_orphans.outcome import (
    FormerOwners,
    PastRetention,
    SweepKind,
    SweepOutcome,
    write_report,
)
from filejobs_dagster.jobs.storage_orphans.removal import Drain, Means, note_unsettled, recover
from filejobs_dagster.jobs.storage_orphans.review import (
    Expectation,
    Heading,
    Rehearsed,
    ReviewedList,
    of_a_dump,
)
from filejobs_dagster.jobs.storage_orphans.settings import JOB, OVERRIDABLE, UNREHEARSED
from filejobs_dagster.jobs.storage_orphans.statements import ADOPTED_AT
from filejobs_dagster.jobs.storage_orphans.supply import (
    AllThatIsDue,
    NotNamedElsewhere,
    ReviewedOnly,
    Supply,
)
from filejobs_dagster.jobs.storage_orphans.tables import samples_of, tables_of
from filejobs_dagster.jobs.storage_orphans.ticker import Ticker
from filejobs_dagster.objects.client import BucketUnavailable, check_access
from filejobs_dagster.objects.deletion_mode import VersioningUnknown, deletion_mode_of
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.primary import server_state
from filejobs_dagster.references.elsewhere.search import Elsewhere, unsearched_in_words
from filejobs_dagster.references.transforms import Rewrites
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.streams import NotEnoughRoom, Scratch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.storage_orphans import Storage, StorageOrphansRun
    from filejobs_dagster.jobs.storage_orphans.breakers import Numbers
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.references.elsewhere.search import Found
    from filejobs_dagster.references.reference_set import ReferenceSet
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings.storage import QuarantineSettings


SEARCHING = "searching bytes"

BYTES_ON_DISK = 250
"""For each object and each reference, where both have to be sorted: key, facts, and a copy."""


class Sweep:
    """One run at work."""

    def __init__(self, context: RunContext, request: StorageOrphansRun, storage: Storage) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        totals = Totals(live=context.live, decided=False)
        self._books = Bookkeeping(context, totals, detail_of, bucket=storage.bucket.bucket)
        self._ticker = Ticker(context, self._books.commit_position)
        self._fingerprint = fingerprint(storage.bucket)
        self._marks = Marks(context, storage.entry, self._fingerprint)
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome.

        Raises:
            JobFailed: Something is not as it must be; the message says what, and that nothing
                more was deleted.
        """
        self._refuse_unknown_override()
        check_access(self._storage.client, self._storage.bucket.bucket)
        now = self._begin()
        if self._context.live:
            recover(self._storage, self._marks, self._context, self._books, now)
        note_unsettled(self._marks, self._context, self._books)
        try:
            with Scratch(self._storage.scratch, needs=self._room_needed()) as scratch:
                return self._within(scratch, now)
        except NotEnoughRoom as error:
            raise JobFailed(f"{error} Nothing more was deleted.") from error

    def _within(self, scratch: Scratch, now: datetime) -> Outcome:
        expected = self._expected(now)
        reviewed = self._reviewed(scratch, expected)
        rehearsed = self._rehearsed(expected)
        # Asked once: what another run marks meanwhile was not there when this one was let in.
        first = not self._marks.passed_before()
        unrehearsed = None if first else self._be_let_in(reviewed, rehearsed)
        elsewhere = Elsewhere(
            self._context.database,
            self._storage.bucket,
            ends_at=self._ends_at,
            on_progress=lambda table, size: self._ticker.objects(SEARCHING, size, table.encode()),
        )
        try:
            made = make_pass(
                self._context,
                self._request,
                self._storage,
                scratch,
                self._ticker,
                now=now,
                ends_at=self._ends_at,
                elsewhere=elsewhere,
                last_pass=self._marks.last_pass,
                on_read=self._note_read,
            )
        except TimeOver:
            self._books.commit_position({"truncated": True, "stopped_reason": MAX_RUNTIME})
            raise
        self._note_search(elsewhere.found)
        self._note(made)
        if rehearsed is not None:
            rehearsed.compare(made.found.references)
        self._write_report(made, scratch, now)
        copies = Copies(
            self._context,
            self._request,
            self._storage,
            self._books,
            rules=Rules.of(self._storage.bucket),
            elsewhere=elsewhere,
            ends_at=self._ends_at,
        )
        copies.recall(made.found)
        numbers = numbers_of(made, elsewhere.found)
        self._books.facts["first_pass"] = first
        judge = Judge(self._context, self._request, self._storage, self._books, self._marks)
        judge.judge(made, numbers, unrehearsed)
        marked = self._mark(made, numbers)
        if reviewed is not None:
            reviewed.agree(made.found.orphans())
            self._note_reviewed(reviewed)
        confirmed_before = now - self._request.confirm_after
        supply: Supply = AllThatIsDue(self._marks, confirmed_before)
        if reviewed is not None:
            supply = ReviewedOnly(self._marks, confirmed_before, reviewed)
        supply = NotNamedElsewhere(supply, elsewhere, live=self._context.live)
        keeps = in_force(self._context, self._storage)
        if self._context.live and not first:
            self._drain(supply, confirmed_before, now, keeps)
            if reviewed is None:
                # What earlier sweeps, and other jobs, have kept long enough.
                copies.expire(
                    None if keeps is None else keeps[0], now, self._deletion_mode(quarantine=True)
                )
        kept = None if keeps is None else keeps[0]
        dry = kept is not None and not self._context.live
        mode = self._deletion_mode(quarantine=True) if dry else None
        how = SweepKind(
            confirmed_before, first, reviewed is not None, supply, elsewhere, kept, mode
        )
        return SweepOutcome(self._context, self._request, self._books, self._marks, how).outcome(
            marked=marked
        )

    # Before anything is listed ------------------------------------------------------------------

    def _refuse_unknown_override(self) -> None:
        override = self._request.override
        unknown = [name for name in override.breakers if name not in OVERRIDABLE]
        if unknown:
            raise JobFailed(
                f"override names {', '.join(unknown)}, which is no breaker. Breakers: "
                f"{', '.join(OVERRIDABLE)}. The bucket's marker is not one of them. Nothing was "
                "done."
            )
        if override.breakers and not override.reason.strip():
            raise JobFailed(
                "override passes over breakers without a reason. Write one: it is recorded in the "
                "run and in the audit log. Nothing was done."
            )

    def _begin(self) -> datetime:
        """Fix the cutoff, by the database's clock."""
        now = self._context.now()
        bucket = self._storage.bucket
        self._books.facts |= {
            "bucket": bucket.bucket,
            "cutoff": (now - bucket.min_age).isoformat(),
            "fingerprint": self._fingerprint,
        }
        return now

    def _room_needed(self) -> int | None:
        """Bytes that the last complete pass would need on disk; None before there was one."""
        earlier = self._marks.last_pass()
        if earlier is None:
            return None
        return BYTES_ON_DISK * (earlier.objects + sum(earlier.keys_by_source.values()))

    def _expected(self, now: datetime) -> Expectation:
        """Whose list, or rehearsal, it must be that this run goes by."""
        bucket = self._storage.bucket
        return Expectation(
            self._context.identity.installation,
            bucket.bucket,
            bucket.endpoint_url or AWS,
            self._fingerprint,
            now,
        )

    def _rehearsed(self, expected: Expectation) -> Rehearsed | None:
        """Read the hash of a rehearsal, if there is one."""
        said = self._request.rehearsed.strip()
        if not said:
            return None
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            database = server_state(cursor).identity
            adopted = of_a_dump(one(cursor.execute(ADOPTED_AT, expected.__dict__))[0])
        return Rehearsed.of(said, expected, (database, adopted), self._storage.bucket)

    def _be_let_in(
        self, reviewed: ReviewedList | None, rehearsed: Rehearsed | None
    ) -> Reading | None:
        """Ask the first live run by rules that are new who has seen what they take.

        Returns:
            What this run passes over, when it says that nobody has.

        Raises:
            JobFailed: It says nothing.
        """
        said = self._request.rehearsed.strip()
        if rehearsed is not None:
            # Whatever has changed since, and however often it is given: no more than somebody has
            # seen go.
            room = max(0, rehearsed.objects - self._marks.taken_by(said))
            least = min(self._request.limit, room)
            self._request = self._request.model_copy(update={"limit": least})
        known = self._marks.let_in_before(self._storage.bucket.bucket)
        if known and rehearsed is None:
            return None
        if not self._context.live:
            if known:
                return None
            self._context.log.info(
                "No live run has gone by these sources and rules yet. The first asks for the hash "
                "that `filejobs rehearse` prints, or for a reviewed list."
            )
            return None
        reading = None
        if reviewed is not None:
            by = {"by": "reviewed list", "run_id": reviewed.heading.run_id}
        elif rehearsed is not None:
            by = {"by": "rehearsal", "hash": said}
        elif UNREHEARSED in self._request.override.breakers:
            by = {"by": "word", "reason": self._request.override.reason}
            reading = Reading(
                UNREHEARSED,
                tripped=True,
                found="the first live run by these sources and rules, neither rehearsed nor by a "
                "reviewed list",
                limit="one of both",
                advice="",
                overridden=True,
            )
        else:
            raise JobFailed(
                "This is the first live run that could delete by these sources and rules, and "
                "nothing says that anybody has seen what they take. Best, rehearse them: `filejobs "
                "rehearse` runs them on a copy and prints a hash for `filejobs run "
                f"{JOB} --live --rehearsed HASH` (in a run's config: rehearsed). Or "
                "review the list that a dry run writes (report_to), and `filejobs apply FILE "
                f"--live`. Or say that you want neither: `filejobs run {JOB} --live --override "
                f"{UNREHEARSED} --why '…'`. After one such run that ends well, schedules go on by "
                "themselves until sources or rules change. Nothing was deleted."
            )
        self._books.facts["let_in"] = by
        self._books.commit_position({"let_in": by})
        return reading

    def _reviewed(self, scratch: Scratch, expected: Expectation) -> ReviewedList | None:
        """Read the reviewed list, if there is one; such a run does not cover everything."""
        where = self._request.reviewed
        if not where:
            return None
        bucket = self._storage.bucket
        with opened_list(where, scratch.folder, self._storage.client, bucket.bucket) as file:
            reviewed = ReviewedList(file, scratch, expected)
        label = f"the reviewed list of run {reviewed.heading.run_id}"
        # Not everything: it must not count as a sweep of the bucket.
        self._books.facts["window"] = {"covers": label}
        return reviewed

    # The pass -------------------------------------------------------------------------------------

    def _note_search(self, found: Found) -> None:
        """Take over what columns name that are no source, and what could not be searched."""
        self._books.facts |= found.as_detail()
        if found.unsearched:
            self._context.log.warning(
                "%s No live run deletes an orphan before that is searched, or ignored with a "
                "reason, by named_elsewhere of the bucket's settings.",
                unsearched_in_words(found.unsearched),
            )
        if ignored := found.by_ignored_column():
            self._context.log.warning(
                "%s orphans are named in columns alone that named_elsewhere.ignore leaves out, "
                "most of them in %s. They may go.",
                f"{sum(it.count for it in ignored):,}",
                ignored[0].column,
            )
        if found.idle:
            self._context.log.warning(
                "named_elsewhere.ignore names what is no column: %s.", ", ".join(found.idle)
            )

    def _note_read(self, references: ReferenceSet) -> None:
        """Say when the references were counted, for the jobs that take rows from now on."""
        read_at = next(iter(references.read_at.values()))
        self._books.facts[REFERENCES_READ_AT] = read_at.isoformat()
        self._books.commit_position({REFERENCES_READ_AT: read_at.isoformat()})

    def _note(self, made: Pass) -> None:
        """Take over what the pass has found."""
        totals, found = self._books.totals, made.found
        totals.scanned, totals.decided = found.objects, True
        totals.samples |= samples_of(found)
        classes = found.classes.items()
        self._books.facts |= tables_of(found, made.references) | {
            "classes": {name: it.count for name, it in classes if it.count},
            "bytes_by_class": {name: it.bytes for name, it in classes if it.bytes},
            "bytes": found.bytes,
            "references": found.references,
            "missing": found.missing,
            "awaited": found.awaited,
            "orphans": found.classes[ORPHAN].count,
            "orphan_bytes": found.classes[ORPHAN].bytes,
            "ordered_by_server": made.ordered_by_server,
            "parts_listed": made.parts,
        }
        counts = ", ".join(
            f"{counted.count:,} {name}" for name, counted in found.classes.items() if counted.count
        )
        self._context.log.info(
            "Compared %s objects: %s; %s references without an object.",
            f"{found.objects:,}",
            counts or "none at all",
            f"{found.missing:,}",
        )
        past = self._past_retention()
        if past is not None:
            late = sum(past.covers(one) for portion in found.orphans() for one in portion)
            self._books.facts["past_retention"] = late
            if late:
                self._context.log.warning("%s orphans are %s.", f"{late:,}", past)
        self._books.commit()

    def _past_retention(self) -> PastRetention | None:
        kept_for = self._request.personal_data_kept_for
        return None if kept_for is None else PastRetention(kept_for, self._context.now() - kept_for)

    def _write_report(self, made: Pass, scratch: Scratch, now: datetime) -> None:
        """Write the list, also of a pass that a breaker then stops: it shows why."""
        place = self._request.report_to
        if place is None:
            return
        bucket, identity = self._storage.bucket, self._context.identity
        heading = Heading(
            run_id=identity.run_id,
            installation=identity.installation,
            bucket=bucket.bucket,
            endpoint=bucket.endpoint_url or AWS,
            fingerprint=self._fingerprint,
            written_at=now,
            mode=identity.mode,
        )
        where = write_report(
            place,
            heading,
            made.found,
            self._marks,
            scratch.folder,
            self._storage.client,
            FormerOwners(self._context.database, self._context.connection),
            self._past_retention(),
        )
        self._books.facts["report"] = where
        self._context.log.info("The list for review stands in %s.", where)

    # Marks ----------------------------------------------------------------------------------------

    def _mark(self, made: Pass, numbers: Numbers) -> bool:
        """Note every orphan as seen, forget what is none any more; False when others do that."""
        if self._marks.live_run_at_work():
            return self._leave_marks()
        self._ticker.phase("marking", f"Marking {numbers.orphans:,} orphans.")
        at = self._context.now()
        marked = late = 0
        for portion in in_statements(made.found.orphans()):
            self._context.prove_alive()
            if self._marks.live_run_at_work():
                return self._leave_marks()
            self._marks.mark(portion, at)
            marked += len(portion)
            late += self._show_late([orphan.key for orphan in portion])
            self._ticker.objects("marking", marked, portion[-1].key)
        self._books.facts["late_landing"] = late
        self._books.facts["marks_cleared"] = self._marks.clear_unseen(at)
        Setbacks(self._context, self._storage.entry).forget_old()
        with self._context.database.transaction(self._context.connection) as cursor:
            self._books.advance(cursor)
            self._marks.note_pass(cursor, at, numbers, made.found.bytes)
        return True

    def _show_late(self, keys: Sequence[bytes]) -> int:
        """How many of these orphans are uploads that came after their row was collected."""
        late = late_landings(self._context, self._storage.bucket.bucket, keys)
        for key, why in late.items():
            self._books.totals.show(LATE_LANDING, key, why)
        return len(late)

    def _leave_marks(self) -> bool:
        self._context.log.warning(
            "A live run of this job is at work: the marks are its own, and are left to it."
        )
        self._books.facts["marks"] = "left to the live run at work"
        return False

    # Deleting -------------------------------------------------------------------------------------

    def _drain(
        self,
        supply: Supply,
        confirmed_before: datetime,
        now: datetime,
        keeps: tuple[QuarantineSettings, str] | None,
    ) -> None:
        """Delete what is confirmed."""
        due, _ = self._marks.tally(confirmed_before)
        if not due.count:
            return
        if not self._request.limit:
            self._books.stopped = LIMIT
            return
        self._ticker.phase(
            "removing",
            f"{due.count:,} orphans with {due.bytes:,} bytes were seen by an earlier run, long "
            f"enough ago. Removing up to {self._request.limit:,}, the oldest first.",
        )
        bucket = self._storage.bucket
        deletion_mode = self._deletion_mode(quarantine=keeps is not None)
        if keeps is not None:
            settings, why = keeps
            taken = min(due.count, self._request.limit)
            self._books.facts["quarantine"] = {
                "because": why,
                **cost(settings, taken, due.bytes if taken == due.count else None, deletion_mode),
            }
            self._context.log.info(
                "What goes is kept %s (%s).", in_short(settings, deletion_mode), why
            )
        self._books.facts["versioning"] = deletion_mode.versioning
        self._books.facts["conditional_delete"] = deletion_mode.conditional or "not known"
        means = Means(
            Rewrites(bucket.rewrites),
            deletion_mode,
            confirmed_before,
            min(confirmed_before, now - bucket.min_age),
            self._ends_at,
        )
        Drain(self._context, self._request, self._storage, self._books, self._marks, means).run(
            supply
        )

    def _deletion_mode(self, *, quarantine: bool) -> DeletionMode:
        bucket = self._storage.bucket
        try:
            return deletion_mode_of(
                self._storage.client,
                bucket.bucket,
                purge_versions=bucket.purge_versions,
                quarantine=quarantine,
            )
        except (VersioningUnknown, BucketUnavailable) as error:
            raise JobFailed(f"{error} Nothing was deleted.") from error

    def _note_reviewed(self, reviewed: ReviewedList) -> None:
        self._books.facts["reviewed"] = {
            "run_id": reviewed.heading.run_id,
            "written_at": reviewed.heading.written_at.isoformat(),
            "asked": reviewed.asked,
            "agreed": reviewed.agreed,
        }
        self._context.log.info(
            "The reviewed list asks to remove %s objects; %s of them are orphans still, unchanged.",
            f"{reviewed.asked:,}",
            f"{reviewed.agreed:,}",
        )
