"""The final word of a run: what it did, what is left, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.book.bookkeeping import LIMIT, nothing_worked
from filejobs_dagster.book.totals import KEPT
from filejobs_dagster.jobs.setbacks import GHOST
from filejobs_dagster.jobs.storage_orphans import detail
from filejobs_dagster.jobs.storage_orphans.detail import (
    ALREADY_GONE,
    CHANGED,
    FAILED,
    LOCKED,
    UNDECIDED,
    UNSEEN,
    WON_BY_OTHERS,
)
from filejobs_dagster.jobs.storage_orphans.expiring import cost, in_short
from filejobs_dagster.ledger.outcome import REFUSALS
from filejobs_dagster.references.elsewhere.search import unsearched_in_words
from filejobs_dagster.settings.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans.candidates import Due, PutOff, Waiting
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.settings import Request
    from filejobs_dagster.jobs.storage_orphans.supply import Supply
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.references.elsewhere.search import Elsewhere
    from filejobs_dagster.settings.storage import QuarantineSettings


@dataclass(frozen=True)
class How:
    """What kind of run it was.

    Attributes:
        confirmed_before: Orphans that an earlier run saw until then are due.
        first: True for the first complete pass by these sources and rules.
        reviewed: True when only a reviewed list could go.
        supply: What could go.
        elsewhere: Says what could not be searched for names.
        keeps: How long what goes is kept; None when it goes at once.
    """

    confirmed_before: datetime
    first: bool
    reviewed: bool
    supply: Supply
    elsewhere: Elsewhere
    keeps: QuarantineSettings | None = None


class Ending:
    """Puts the final word together."""

    def __init__(
        self, context: RunContext, request: Request, books: Bookkeeping, marks: Marks, how: How
    ) -> None:
        self._context = context
        self._request = request
        self._books = books
        self._marks = marks
        self._how = how

    def outcome(self, *, marked: bool) -> Outcome:
        """The final word, from what is left in the marks.

        Args:
            marked: False when the marks were left to another run.
        """
        books, totals, how = self._books, self._books.totals, self._how
        due, waiting = self._marks.tally(how.confirmed_before)
        put_off = self._marks.put_off()
        if books.stopped == LIMIT and not due.count:
            books.stopped = None
        would = self._would(due) if marked and not self._context.live else None
        if would is not None and would["would_defer"]:
            # The same word as of a live run: what it counts is a floor.
            books.stopped = LIMIT
        facts: dict[str, Any] = {
            "waiting": waiting.count,
            "waiting_bytes": waiting.bytes,
            "waiting_until": as_text(
                None if waiting.since is None else waiting.since + self._request.confirm_after
            ),
        }
        oldest: datetime | None = None
        # Nobody has decided that these may stay.
        open_ones = [it for kind, it in put_off.items() if kind in (UNDECIDED, UNSEEN, FAILED)]
        if self._context.live:
            since = (due.since, totals.oldest_left, waiting.seen_since)
            oldest = min(
                [*(it for it in since if it is not None), *(it.since for it in open_ones)],
                default=None,
            )
            facts |= {
                "deferred": due.count,
                "deferred_bytes": due.bytes,
                "deferred_oldest": as_text(due.oldest),
                "put_off": {kind: it.count for kind, it in put_off.items()},
            }
        facts |= would or {}
        facts["progress"] = {"phase": "done"}
        facts["explained"] = self._explained(due, waiting, would, put_off)
        self._context.log.info("%s", facts["explained"])
        return books.outcome(
            oldest_left=None if oldest is None else oldest + self._request.confirm_after,
            unswept=how.reviewed or bool(due.count or open_ones or waiting.by_other_rules),
            went=totals.acted,
            dropped={} if due.count else self._dropped(put_off),
            finding=self._alternation(waiting),
            error=self._nothing_worked(),
            **facts,
        )

    def _alternation(self, waiting: Waiting) -> str | None:
        """Why orphans wait anew for ever; None when they do not."""
        if not waiting.by_other_rules:
            return None
        alternate = self._marks.alternation()
        if alternate is None:
            return None
        return f"{counted(waiting.by_other_rules)} wait anew: {alternate}"

    def _dropped(self, put_off: Mapping[str, PutOff]) -> dict[str, int]:
        """Candidates that dropped out, in this run and in those before it, by the reason."""
        fates = self._books.totals.classes
        found = {
            fate: count
            for fate, count in fates.items()
            if fate in (CHANGED, WON_BY_OTHERS) or fate.startswith(KEPT)
        }
        for kind in (UNDECIDED, UNSEEN, FAILED, GHOST):
            if kind in put_off:
                found[kind] = put_off[kind].count
        if GHOST in found:
            # What was gone for the first time is a ghost only when it is listed once more.
            found[GHOST] -= fates[ALREADY_GONE]
        return found

    def _would(self, due: Due) -> dict[str, Any]:
        """What a live run would have removed at this moment."""
        if self._how.first:
            return {"would_collect": 0, "would_free_bytes": 0, "would_defer": 0}
        count, size = due.count, due.bytes
        if self._how.reviewed:
            count, size = 0, -1
            while keys := self._how.supply.take(self._request.batch_size):
                count += len(keys)
        unsearched = self._how.elsewhere.found.unsearched
        if count and unsearched:
            return {
                "would_collect": 0,
                "would_free_bytes": 0,
                "would_defer": 0,
                REFUSALS: [unsearched_in_words(unsearched)],
            }
        taken = min(count, self._request.limit)
        facts: dict[str, Any] = {"would_collect": taken, "would_defer": count - taken}
        keeps = self._how.keeps
        known = taken == count and size >= 0
        if keeps is not None and taken:
            facts["would_quarantine"] = cost(keeps, taken, size if known else None)
        if known:
            facts["would_free_bytes"] = size if keeps is None else 0
        return facts

    def _explained(
        self,
        due: Due,
        waiting: Waiting,
        would: Mapping[str, Any] | None,
        put_off: Mapping[str, PutOff],
    ) -> str:
        """A sentence or two for whoever wonders why nothing, or not everything, was removed."""
        if self._how.first:
            did = (
                "This was the first complete pass over this bucket by these sources and rules: it "
                "marks what it sees and deletes nothing, whatever the mode"
            )
        elif self._context.live:
            did = self._did(due)
        elif would is None:
            did = "A live run at work keeps the marks, so what another would remove is not known"
        else:
            did = self._would_do(would, due)
        parts = [did]
        if (keeps := self._how.keeps) is not None and would and "would_quarantine" in would:
            requests = would["would_quarantine"]["requests"]
            parts.append(
                f"they are kept {in_short(keeps)}, for which the bucket needs their bytes as long, "
                f"and about {requests:,} requests; `delete: at_once` of the bucket keeps nothing"
            )
        if waiting.count and waiting.since is not None:
            first_due = minute_in_words(waiting.since + self._request.confirm_after)
            parts.append(
                f"{counted(waiting.count)} must wait until an earlier run has seen them for "
                f"{in_words(self._request.confirm_after)}: the first of them is due {first_due}"
            )
        if late := self._books.facts.get("late_landing"):
            parts.append(f"{counted(late)} came after their row was collected")
        if locked := self._books.totals.classes[LOCKED]:
            parts.append(f"{locked:,} are locked")
        parts += [f"{it.count:,} are put off: {kind}" for kind, it in put_off.items()]
        return "; ".join(part.removesuffix(".") for part in parts) + "."

    def _did(self, due: Due) -> str:
        done, stopped = detail.in_words(self._books.totals), self._books.stopped
        because = f"; it stopped because of {stopped}" if stopped else ""
        if not due.count:
            return done + because
        return f"{done}{because}; {counted(due.count)} with {due.bytes:,} bytes are due and left"

    def _would_do(self, would: Mapping[str, Any], due: Due) -> str:
        """What a live run would do; bytes stand where they are known without reading every mark."""
        if refused := would.get(REFUSALS):
            due_ones = counted(due.count)
            return f"A live run would remove none of what is due ({due_ones}): {refused[0]}"
        taken, left = would["would_collect"], would["would_defer"]
        of_list = " of the reviewed list" if self._how.reviewed else ""
        said = f"A live run would remove {counted(taken)}{of_list}"
        if not left:
            size = due.bytes if "would_free_bytes" in would else None
            return f"{said}{'' if size is None else f' ({size:,} bytes)'} and leave 0"
        all_due = "" if self._how.reviewed else f" ({due.count:,} with {due.bytes:,} bytes are due)"
        return f"{said} and leave {left:,} because of the limit{all_due}"

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed."""
        totals = self._books.totals
        if not self._context.live:
            return None
        return nothing_worked(
            totals,
            worked=totals.acted,
            failed=totals.left,
            what=f"Of {totals.left:,} orphans that were due none could be removed",
            advice="the bucket's permissions",
        )


def counted(orphans: int) -> str:
    """A number of orphans, in words."""
    return f"{orphans:,} orphan{'' if orphans == 1 else 's'}"


def as_text(at: datetime | None) -> str | None:
    """A moment as the record holds it."""
    return None if at is None else at.isoformat()


def minute_in_words(at: datetime) -> str:
    """A moment for people, in UTC; the next full minute, so that it is never too early."""
    up = at.astimezone(timezone.utc) + timedelta(minutes=1) - timedelta.resolution
    return f"{up:%Y-%m-%d %H:%M} UTC"
