"""Quarantine as a sweep sees it: whether it is in force, what must come back, and its end.

A reference whose object a run has taken is a file that somebody cannot open. So each pass asks for
all that are missing, before any breaker, and says it.

By itself a run brings back nothing, unless `bring_back` says so. A row without bytes is an outage:
it is seen, an alert names the way back, and the copy stays as long as the key is named. Where an
application writes a key twice, an old copy under a newer row is somebody else's file, and nobody
sees it: the copy cannot tell, nor can the row, of which a source knows the key alone. Who sets
`bring_back` says that no key is written twice; also then only what can be nothing else comes back:
all copies of the key are the same bytes, this job took them, as an orphan, and that was the last
that happened to the key by the audit log. What was given back once and is missing again was deleted
by somebody else.

Copies are read as the bucket lists them, a page at a time, so a million of them need no more memory
than a thousand. Those that have been kept long enough go by the same rules as an orphan: a known
shape, a search for their names in all columns, and the gate, which asks every source once more. The
copy of a key that is named by now stays. What cannot go is counted and waits behind the others, as
everything that fails.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.book.outcomes import WHY_STOPPED, DeletionStopped, Fate, StorageRejected
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning
from filejobs_dagster.jobs.setbacks import WAITS, Setbacks
from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.detail import (
    COPIES_DEFERRED,
    COPIES_EXPIRED,
    FAILED,
    OF_COPIES,
)
from filejobs_dagster.jobs.storage_orphans.review import named, reasons
from filejobs_dagster.jobs.storage_orphans.supply import require_searched
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import THREADS, look_at_targets
from filejobs_dagster.objects.quarantine import REQUESTS_EACH, copies_below, copies_of
from filejobs_dagster.objects.targets import Target
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.references.elsewhere.search import MOST_AT_ONCE
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.settings.storage import QuarantineSettings
from filejobs_dagster.text import display_key, format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.storage_orphans import Storage, StorageOrphansRun
    from filejobs_dagster.jobs.storage_orphans.classification import Classification, Rules
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.objects.quarantine import Copy
    from filejobs_dagster.references.elsewhere.search import Elsewhere
    from filejobs_dagster.run_context import RunContext

BY_DEFAULT = "nothing is said in the settings, and no sweep has deleted here at once before"

BECAUSE = (
    "bring_back is set; a source names it, nothing is there, a sweep took it as an orphan, and "
    "nothing has happened to it since"
)
"""Why a run brings something back by itself, as its event says it."""

_LEFT_OVER = timedelta(days=1)
"""An upload of parts below the prefix that is older than this is nobody's any more."""

_SHOWN = 20

MOST_AGAIN = 10_000
"""So many copies that failed before are tried again in one run; the others wait for the next."""


def in_force(context: RunContext, storage: Storage) -> tuple[QuarantineSettings, str] | None:
    """What keeps the orphans of this sweep, and why; None when they go at once.

    Where the file says nothing, the first sweep of a bucket keeps what it takes, and every one
    after it. Where one has deleted at once before, as all did that knew no quarantine, that goes
    on: its role may have no right to copy, and its owner has planned no room for it.
    """
    bucket = storage.bucket
    if bucket.delete is not None:
        return None
    if bucket.quarantine is not None:
        return bucket.quarantine, "settings"
    values = {
        "bucket": bucket.bucket,
        "job": context.identity.job,
        "installation": context.identity.installation,
    }
    with context.database.transaction(context.connection, read_only=True) as cursor:
        cursor.execute(statements.DELETED_AT_ONCE, values)
        at_once = bool(one(cursor)[0])
    return None if at_once else (QuarantineSettings(), BY_DEFAULT)


def cost(
    keeps: QuarantineSettings,
    objects: int,
    size: int | None,
    deletion_mode: DeletionMode | None = None,
) -> dict[str, Any]:
    """What keeping so many objects costs, as the record says it; a delete marker costs nothing."""
    copies = deletion_mode is None or deletion_mode.copies
    return {
        "objects": objects,
        "bytes": size,
        "requests": objects * REQUESTS_EACH if copies else 0,
        "days": keeps.keep.days,
    }


class Copies:
    """What quarantine holds of one bucket, for one sweep."""

    def __init__(
        self,
        context: RunContext,
        request: StorageOrphansRun,
        storage: Storage,
        books: Bookkeeping,
        *,
        rules: Rules,
        elsewhere: Elsewhere,
        ends_at: float,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = books
        self._rules = rules
        self._elsewhere = elsewhere
        self._ends_at = ends_at
        self._setbacks = Setbacks(context, storage.entry)
        self._due: list[Copy] = []
        self._again: list[Copy] = []
        self._kept, self._bytes, self._oldest = 0, 0, None
        self._expired = self._brought_back = self._failed = 0

    _oldest: datetime | None
    _keep: timedelta
    _now: datetime
    _deletion_mode: DeletionMode

    # What is missed --------------------------------------------------------------------------

    def recall(self, found: Classification) -> None:
        """Find which missing objects runs have taken; with `bring_back` a live run returns them.

        Of more than a pass remembers, it looks for the first alone, until these are back.

        Args:
            found: By the pass.

        Raises:
            JobFailed: A source or the bucket refused.
        """
        missing = [key.decode() for key in found.missing_keys if _is_text(key)]
        if not missing:
            return
        try:
            kept = self._kept_of(frozenset(missing))
        except (ClientError, BotoCoreError) as error:
            # Who keeps nothing may have no right to look.
            why = f"whether quarantine has what is missing is not known: {described(error)}"
            self._context.log.warning("%s", why)
            kept, facts = {}, {"not_known": why}
        else:
            facts = {}
        taken = self._taken_of(missing)
        if not kept and not taken and not facts:
            return
        before = self._brought_back
        if self._context.live:
            size, back_again = self._request.batch_size, self._surely(kept, taken)
            for start in range(0, len(back_again), size):
                if time.monotonic() >= self._ends_at:
                    break
                self._books.batch += 1
                self._bring_back(back_again[start : start + size])
        keys = list(dict.fromkeys([*kept, *taken]))
        back = self._brought_back - before
        self._books.facts["missing_taken"] = facts | {
            "objects": len(keys),
            "in_quarantine": len(kept),
            "brought_back": back,
            "keys": [display_key(key) for key in keys[:_SHOWN]],
        }
        self._books.facts["missing"] = found.missing - back
        if back < len(keys):
            self._context.log.warning(
                "%s references have lost an object that an earlier run took, such as %r. `filejobs "
                "restore KEY` says what would bring it back.",
                f"{len(keys) - back:,}",
                keys[0],
            )

    def _kept_of(self, missing: Collection[str]) -> dict[str, list[Copy]]:
        """The copies of each missing key that is named still."""
        keys: dict[str, None] = {}
        for prefix in self._storage.bucket.owned_prefixes:
            for page in copies_below(self._storage.client, self._name, prefix):
                some = dict.fromkeys(it.original for it in page if it.original in missing)
                keys |= some
        try:
            wanted = list(self._storage.references.named(list(keys)))
        except ReferencesUnknown as error:
            raise JobFailed(f"{error} Nothing was deleted.") from error
        return self._copies_of(wanted)

    def _copies_of(self, keys: Sequence[str]) -> dict[str, list[Copy]]:
        """Those of the keys that have copies, and these, the newest first."""
        client = self._storage.client
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda key: copies_of(client, self._name, key), keys)
            return {key: copies for key, copies in zip(keys, found, strict=True) if copies}

    def _taken_of(self, missing: Sequence[str]) -> dict[str, bool]:
        """Those that a run has meant to delete, as far as this role may read the audit log.

        True of a key when this job took it and nothing has happened to it since.
        """
        values = {"keys": missing, "bucket": self._name, "job": self._context.identity.job}
        database, connection = self._context.database, self._context.connection
        try:
            with database.transaction(connection, read_only=True) as cursor:
                return dict(cursor.execute(statements.TAKEN, values).fetchall())
        except psycopg.errors.InsufficientPrivilege:
            # A right that no job needs; what lies in quarantine is known without it.
            return {}

    def _surely(self, kept: Mapping[str, Sequence[Copy]], taken: Mapping[str, bool]) -> list[Copy]:
        """The copies that a run may bring back by itself: of all others a person decides."""
        if not self._may_return:
            return []
        return [
            copies[0]
            for key, copies in kept.items()
            if taken.get(key) and len({(copy.etag, copy.size) for copy in copies}) == 1
        ]

    @property
    def _may_return(self) -> bool:
        keeps = self._storage.bucket.quarantine
        return keeps is not None and keeps.bring_back

    # The end of what is kept -----------------------------------------------------------------

    def expire(
        self, keeps: QuarantineSettings | None, now: datetime, deletion_mode: DeletionMode
    ) -> None:
        """Take what has been kept long enough, and count what is kept.

        Args:
            keeps: What is in force; None where nothing is kept any more. What an earlier sweep has
                kept is then kept for the usual time.
            now: By the database's clock.
            deletion_mode: Of the bucket.

        Raises:
            JobFailed: Storage or a source refused; what is left is written down.
        """
        self._now, self._keep = now, (keeps or QuarantineSettings()).keep
        self._deletion_mode = deletion_mode
        try:
            for prefix in self._storage.bucket.owned_prefixes:
                for page in copies_below(self._storage.client, self._name, prefix):
                    self._page(page)
        except (ClientError, BotoCoreError) as error:
            why = f"What lies in quarantine could not be listed: {described(error)}."
            if keeps is not None:
                raise JobFailed(f"{why} Nothing more of it was deleted.") from error
            self._context.log.info("%s", why)
            return
        self._work_off()
        again, self._again = self._again, []
        gone = self._work(again, again=True)
        self._count([copy for copy in again if copy.key not in gone])
        if keeps is not None:
            self._drop_left_over(now)
        self._say()

    @property
    def _name(self) -> str:
        return self._storage.bucket.bucket

    def _page(self, page: Sequence[Copy]) -> None:
        """Hold what is due and never failed; what did comes after all others, or waits."""
        due = [copy for copy in page if copy.since < self._now - self._keep]
        known = self._setbacks.known([copy.key.encode() for copy in due]) if due else {}
        held = set()
        for copy in due:
            setback = known.get(copy.key.encode())
            if setback is None:
                held.add(copy.key)
                self._due.append(copy)
            elif setback.not_before > self._now or len(self._again) == MOST_AGAIN:
                why = f"refused {setback.attempts} times, tried again after {setback.not_before}"
                self._leave(OF_COPIES + WAITS, copy, Meaning.PASSED_OVER, why)
            else:
                held.add(copy.key)
                self._again.append(copy)
        self._count([copy for copy in page if copy.key not in held])
        # Each search reads all tables: so many at once, and not a page.
        if len(self._due) >= MOST_AT_ONCE:
            self._work_off()

    def _work_off(self) -> None:
        due, self._due = self._due, []
        gone = self._work(due)
        self._count([copy for copy in due if copy.key not in gone])

    def _over(self) -> bool:
        return time.monotonic() >= self._ends_at or self._expired >= self._request.limit

    def _by_rules(self, due: Sequence[Copy]) -> list[Copy]:
        """Those that the rules and the search for names let go; the others stay where they are.

        Raises:
            JobFailed: Something could not be searched, and nobody has said that it need not be.
        """
        if self._over():
            return list(due)
        known: list[Copy] = []
        for copy in due:
            why = self._rules.unknown(copy.original.encode())
            if why is None:
                known.append(copy)
            else:
                self._stays(copy, "unknown shape", why.decode())
        found = self._elsewhere.found
        self._elsewhere.search([copy.original.encode() for copy in known])
        if known:
            self._books.facts |= found.as_detail()
            require_searched(found)
        free: list[Copy] = []
        for copy in known:
            naming = found.named.get(copy.original.encode())
            if naming is None:
                free.append(copy)
            else:
                self._stays(copy, "named elsewhere", naming.column)
        return [copy for portion in _portions(free) for copy in self._not_back(portion)]

    def _not_back(self, copies: Sequence[Copy]) -> list[Copy]:
        """Those that are not named, or that may come back: of others each run would write events.

        Nothing is let go for it: the gate asks about all of them.
        """
        client = self._storage.client
        try:
            named = self._storage.references.named([copy.original for copy in copies])
            seen = look_at_targets(client, self._name, [Target(key) for key in named])
        except (ReferencesUnknown, StorageRejected) as error:
            raise JobFailed(f"{error} Nothing more was deleted.") from error
        there = {target.key for target, it in seen.items() if isinstance(it, Present)}
        returning = {
            it.original for it in self._returning([key for key in named if key not in there])
        }
        for copy in copies:
            if copy.original in there:
                self._stays(copy, "referenced", "its object is there")
            elif copy.original in named and copy.original not in returning:
                self._stays(copy, "referenced", "its object is missing: filejobs restore KEY")
        return [it for it in copies if it.original not in named or it.original in returning]

    def _stays(self, copy: Copy, fate: str, why: str) -> None:
        self._books.totals.note(f"{OF_COPIES}{fate}", copy.original, Meaning.STAYS, why=why)

    def _work(self, due: Sequence[Copy], *, again: bool = False) -> set[str]:
        """Batch after batch, while the limits last; the keys of those copies that went."""
        due = self._by_rules(due)
        gone: set[str] = set()
        start = 0
        while start < len(due):
            room = self._request.limit - self._expired
            over = time.monotonic() >= self._ends_at
            if room <= 0 or over:
                self._books.stopped = self._books.stopped or (MAX_RUNTIME if over else LIMIT)
                for copy in due[start:]:
                    self._leave(COPIES_DEFERRED, copy, Meaning.PASSED_OVER)
                break
            some = due[start : start + min(self._request.batch_size, room)]
            start += len(some)
            gone |= self._take(some, again=again)
        return gone

    def _count(self, left: Sequence[Copy]) -> None:
        """Count copies that are kept."""
        self._kept += len(left)
        self._bytes += sum(copy.size for copy in left)
        if left:
            oldest = min(copy.since for copy in left)
            self._oldest = oldest if self._oldest is None else min(self._oldest, oldest)

    def _leave(self, fate: str, copy: Copy, means: Meaning, why: str | None = None) -> None:
        """Count a copy that is due and stays: the run did not sweep."""
        # What is left is told by its first sighting, which is confirmed only after a while.
        since = copy.since + self._keep - self._request.confirm_after
        self._books.totals.note(fate, copy.key, means, why=why, since=since)

    def _take(self, copies: Sequence[Copy], *, again: bool) -> set[str]:
        """One batch; the keys of those copies that went."""
        asked = {copy.key: (copy, self._owners(copy.original)) for copy in copies}
        self._books.batch += 1
        self._context.prove_alive()
        going = named("keys", [key.encode() for key in asked])
        self._books.commit(self._event("objects.delete.intent", **going))
        try:
            done = self._storage.gate.expire(asked, self._context.prove_alive, self._deletion_mode)
        except DeletionStopped as stopped:
            self._stop(stopped)
        gone = {*done.of(Fate.DELETED, Fate.MARKED, Fate.ALREADY_GONE)}
        totals, failed = self._books.totals, done.failed
        self._expired += len(gone)
        self._failed += len(failed)
        totals.more[COPIES_EXPIRED] += len(gone)
        for key, why in failed.items():
            self._leave(OF_COPIES + FAILED, asked[key][0], Meaning.LEFT, why)
            totals.more[FAILED_AGAIN] += again
        anew = {} if again else failed
        totals.refused_in_a_row = 0 if done.let_go else totals.refused_in_a_row + len(anew)
        self._books.commit_result(
            self._event(
                "objects.delete.result",
                deleted=len(gone),
                **reasons("failed", {key.encode(): why for key, why in failed.items()}),
                **reasons("kept", {key.encode(): why for key, why in done.kept.items()}),
            ),
            lambda cursor: self._setbacks.write(
                cursor,
                {key.encode(): f"{FAILED}: {why}" for key, why in failed.items()},
                [key.encode() for key in (*gone, *done.kept)] if again else (),
            ),
        )
        self._return([asked[key][0].original for key in done.kept])
        refused = self._books.refused_as_a_whole(
            anew,
            len(copies),
            "They are copies in quarantine whose time is over. No further batch was begun. Check "
            "the bucket's permissions below filejobs-quarantine/.",
        )
        if refused is not None:
            self._say()
            raise JobFailed(refused)
        return gone

    def _return(self, originals: Sequence[str]) -> None:
        """A source names these by now: they come back, due or not, where that is sure."""
        self._bring_back(self._returning(list(dict.fromkeys(originals))))

    def _returning(self, keys: Sequence[str]) -> list[Copy]:
        """The copies of these keys that a run may bring back by itself."""
        if not keys or not self._may_return:
            return []
        try:
            return self._surely(self._copies_of(keys), self._taken_of(keys))
        except (ClientError, BotoCoreError) as error:
            raise JobFailed(
                f"What lies in quarantine could not be listed: {described(error)}. What is "
                "referenced stays there."
            ) from error

    def _bring_back(self, copies: Sequence[Copy]) -> None:
        """Copy some back to where nothing is, one for each original."""
        wanted = [copy for copy in copies if self._storage.gate.owned(copy.original) is None]
        if not wanted:
            return
        keys = named("keys", [copy.original.encode() for copy in wanted])
        self._books.commit(self._event("objects.restore.intent", because=BECAUSE, **keys))
        self._context.prove_alive()
        try:
            ends = self._storage.gate.bring_back(wanted)
        except StorageRejected as rejected:
            self._stop(rejected)
        back = [it.key for it in ends if it.word == "restored"]
        failed = {it.key.encode(): it.why for it in ends if it.word == "failed"}
        self._brought_back += len(back)
        self._failed += len(failed)
        for it in ends:
            if it.word == "failed":
                # It is named and not there, so every run tries: no pause.
                fate = f"{OF_COPIES}not brought back"
                self._books.totals.note(fate, it.key, Meaning.PASSED_OVER, why=it.why)
        result = {
            "restored": len(back),
            **named("keys", [key.encode() for key in back]),
            **reasons("failed", failed),
        }
        self._books.commit_result(self._event("objects.restore.result", **result))
        if back:
            self._context.log.warning(
                "%s objects were in quarantine and are referenced by now: they are back, such as "
                "%r. The source that names them came after the sweep that took them.",
                f"{len(back):,}",
                back[0],
            )

    def _owners(self, key: str) -> tuple[str, ...]:
        owners = self._rules.rewrites.owners(key.encode())
        return tuple(owner.decode("utf-8", "surrogateescape") for owner in owners)

    def _event(self, kind: str, **facts: Any) -> dict[str, Any]:
        return self._books.event_of_batch(kind, quarantine=True, **facts)

    def _stop(self, stopped: DeletionStopped) -> NoReturn:
        result = self._event("objects.delete.result", stopped=stopped.reason)
        self._books.hand_over(stopped, result)
        self._books.stopped = WHY_STOPPED.get(stopped.kind, stopped.kind)
        self._say()
        unwritten = self._books.try_result(result)
        raise JobFailed(
            f"{stopped.reason} This happened while copies in quarantine expired; a later run goes "
            f"on.{unwritten}"
        ) from stopped

    def _drop_left_over(self, now: datetime) -> None:
        """Uploads of parts that a killed run has begun and nobody ends."""
        try:
            left = self._storage.gate.drop_unfinished_copies(now - _LEFT_OVER)
        except (ClientError, BotoCoreError) as error:
            self._context.log.info(
                "Whether parts of unfinished copies lie in quarantine is not known: %s",
                described(error),
            )
            return
        if left:
            self._context.log.info("%d unfinished copies were dropped.", left)

    def _say(self) -> None:
        facts: Mapping[str, Any] = {
            "objects": self._kept,
            "bytes": self._bytes,
            "oldest": None if self._oldest is None else self._oldest.isoformat(),
            "expired": self._expired,
            "brought_back": self._brought_back,
            "failed": self._failed,
        }
        if any(facts.values()):
            self._books.facts["in_quarantine"] = facts


def _portions(copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
    return (copies[start : start + 1000] for start in range(0, len(copies), 1000))


def _is_text(key: bytes) -> bool:
    """Whether a text of the database can say it; no other key is one of an object."""
    try:
        return "\x00" not in key.decode()
    except UnicodeDecodeError:
        return False


def in_short(keeps: QuarantineSettings, deletion_mode: DeletionMode | None = None) -> str:
    """How long it is kept, for a sentence."""
    how = (
        "behind a delete marker"
        if deletion_mode is not None and not deletion_mode.copies
        else "in quarantine"
    )
    return f"{how} for {format_duration(keeps.keep)}"
