"""What collectors of rows count, and how `job_run.detail` says it.

A statement that PostgreSQL refuses becomes words here: was it some row of it, or the statement?
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import psycopg

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.book.totals import KEPT, ItemsDetail, Meaning
from filejobs_dagster.postgres.connect import CommitUnconfirmed
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.book.outcomes import ItemOutcome
    from filejobs_dagster.book.totals import Totals

WOULD_COLLECT = "would collect"
WON_BY_OTHERS = "won by others"
HELD = "held by another session"
"""Due, and passed over: whoever holds the row may be completing, restoring or sharing the file."""
NO_KEY = "no key"
NO_USABLE_TIME = "no usable time"
"""Before the first or after the last moment that a calendar holds, -infinity included."""
UNUSABLE = "unusable"
"""Of the rows without key or usable time those that are due, as the totals have them."""
CLAIM_REFUSED = "claim refused"
NEVER_ARRIVED: Final = "never arrived"
BYTES_LEFT = "bytes left"
LET_GO = ("deleted", "marked", "quarantined", "already gone")
REFUSED_ANEW = "refused anew"
"""Of the claims that were refused those that say something of the run: no other row names the row,
and it was not refused before."""
DERIVED = "derived: "
"""In front of the class of an object that was derived from a row's own."""


class CollectingDetail(ItemsDetail, total=False):
    """What the record of a collector of rows says; bytes that nobody measured are None.

    How many rows had no object stands under the collector's own word for it.
    """

    untouched: int
    claim_doubted: str
    # Of tables of the operator's: whose statements are their own, what went by table, and rows of
    # other tables that went with the claimed ones.
    by_hand: str
    by_table: dict[str, dict[str, int]]
    also_deleted: dict[str, int]
    # The search for their names in all columns, where one was made.
    search: dict[str, Any]
    named_elsewhere: list[dict[str, Any]]
    only_ignored: list[dict[str, Any]]
    unsearched: list[dict[str, Any]]
    # A dry run has no number of things done.
    would_collect: int
    would_free_bytes: int | None
    # A live run.
    claimed: int
    never_arrived: int | None
    missing: int | None
    bytes_freed: int | None
    objects_left: int
    unmeasured: int


LONGEST_ROW = 65_536
"""Characters of a row that an event holds."""


def kept_row(row: str | None, table: str, left_out: Sequence[str] | None) -> dict[str, Any]:
    """A row as its event keeps it, for whoever wants to bring it back; nothing without one.

    Args:
        row: As JSON text, which no number is rounded in.
        table: Where it was.
        left_out: Columns that it was not to say.
    """
    if row is None:
        return {}
    if len(row) > LONGEST_ROW:
        return {"table": table, "row_left_out": f"it has {len(row):,} characters"}
    return {"table": table, "row": row, **({"left_out": list(left_out)} if left_out else {})}


def unusable_rows(many: int) -> str | None:
    """The finding of rows that are due and that no run can ever take; None for none."""
    if not many:
        return None
    rows = "1 row is" if many == 1 else f"{many:,} rows are"
    return (
        f"{rows} due without a key or with a time that no calendar holds, and no run can take "
        "what is so: see the classes of the run, and correct them"
    )


def class_of(it: ItemOutcome[str]) -> tuple[str, Meaning]:
    """The class of a claimed row's object, and what it means: the row itself is gone."""
    if it.fate is Fate.KEPT:
        return KEPT + it.reason, Meaning.DONE
    if it.fate is Fate.LOCKED:
        # It goes as an orphan, once its lock is over.
        return KEPT + it.fate.value, Meaning.DONE
    if it.fate is Fate.PURGED:
        return Fate.DELETED.value, Meaning.DONE
    if it.fate.value in LET_GO:
        return it.fate.value, Meaning.DONE
    return BYTES_LEFT, Meaning.LEFT


def detail_of(totals: Totals, *, absent: Literal["never arrived", "missing"]) -> CollectingDetail:
    """The totals as the record holds them, see `CollectingDetail`.

    Args:
        totals: Of the run.
        absent: The class of a claimed row whose object was not there when it was measured.
    """
    detail = cast("CollectingDetail", totals.as_detail())
    detail["untouched"] = totals.passed_over
    if not totals.live:
        detail |= {
            "would_collect": totals.classes[WOULD_COLLECT],
            "would_free_bytes": _bytes(totals, WOULD_COLLECT),
        }
        return detail
    detail |= {
        "claimed": totals.claimed,
        "bytes_freed": _bytes(totals, "deleted"),
        "objects_left": totals.left + totals.intended,
        "unmeasured": totals.unmeasured.total(),
    }
    without_object = with_derived(totals, absent) if totals.measured else None
    if absent == "missing":
        detail["missing"] = without_object
    else:
        detail["never_arrived"] = without_object
    return detail


def with_derived(totals: Totals, *fates: str) -> int:
    """Objects of some classes, those of the rows and those derived from them."""
    return sum(totals.classes[fate] + totals.classes[DERIVED + fate] for fate in fates)


def _bytes(totals: Totals, fate: str) -> int | None:
    """The bytes of a class; a floor when some were not measured, None when none was."""
    count = with_derived(totals, fate)
    unmeasured = totals.unmeasured[fate] + totals.unmeasured[DERIVED + fate]
    if not totals.measured or (count > 0 and unmeasured == count):
        return None
    return totals.bytes_by_class[fate] + totals.bytes_by_class[DERIVED + fate]


# A statement that PostgreSQL refuses: some row of it, or the statement as it is.

NOTHING_CLAIMED = "Nothing was claimed"
NONE_FURTHER = "No further row was claimed"
ROLLED_BACK = "It was rolled back: no row of its batch was changed, and none of its bytes deleted"


KEPT_BY_ROWS = (psycopg.errors.ForeignKeyViolation, psycopg.errors.RestrictViolation)
"""Rows of another table name the row; it goes when they have gone."""


class SmallerBatch(Exception):
    """A claim was rolled back that may succeed with fewer rows; nothing was changed."""


class RowsHeld(SmallerBatch):
    """A claim waited in vain for rows that somebody else has locked; nothing was changed."""


class SourceRefused(JobFailed):
    """An operator's statement cannot be used as it is; nothing was changed."""


def because(error: BaseException) -> Any:
    """The database's own sentence, or the kind of the error."""
    if isinstance(error, CommitUnconfirmed):
        return error.said
    diagnostics = getattr(error, "diag", None)
    return getattr(diagnostics, "message_primary", None) or type(error).__name__


def refuses_a_row(error: psycopg.Error) -> bool:
    """Tell whether PostgreSQL refused some row of a statement, so that the others can go on.

    A foreign key does, a value that a column cannot hold, and any trigger of the operator's,
    whatever its error code: then the error names a PL/pgSQL function. A missing grant names none,
    and concerns every row.
    """
    of_a_row = (psycopg.IntegrityError, psycopg.DataError, psycopg.errors.RaiseException)
    if isinstance(error, of_a_row):
        return True
    if isinstance(error, psycopg.OperationalError):
        return False
    return "PL/pgSQL function" in (error.diag.context or "")


@contextmanager
def refusing(source: str, which: str, so_far: str, *, rows_alone: bool = False) -> Iterator[None]:
    """Name the operator's statement that PostgreSQL refuses, and say what became of the rows.

    Args:
        source: What the source is called.
        which: The statement's key in the settings.
        so_far: What was done, and what not.
        rows_alone: Let an error pass that concerns some row: it is tried without the others.

    Raises:
        SourceRefused: The statement was refused, or took too long.
    """
    try:
        yield
    except psycopg.Error as error:
        too_slow = isinstance(error, psycopg.errors.QueryCanceled)
        # Of a published table without replica identity, for instance: no outage, as its class says.
        in_no_state = isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState)
        if isinstance(error, psycopg.OperationalError) and not (too_slow or in_no_state):
            raise
        if rows_alone and refuses_a_row(error):
            raise
        if too_slow:
            advice = "give it an index, or a smaller batch_size, or a longer statement_timeout"
        elif in_no_state and error.diag.message_hint:
            advice = f"follow PostgreSQL's hint: {error.diag.message_hint.rstrip('.')}"
        elif isinstance(error, psycopg.errors.InsufficientPrivilege):
            advice = "GRANT the role what it lacks"
        else:
            advice = "name the schema of each table: the role's own search path counts"
        raise SourceRefused(
            f"PostgreSQL refuses {which} of source {source!r}: {because(error)}. {so_far}. See "
            f"`filejobs doctor`, and {advice}."
        ) from error
