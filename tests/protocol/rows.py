"""One reservation of the model: its row, its object, and what the application does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Rows.
FRESH, DUE, READY, DELETED, GONE = "fresh", "due", "ready", "deleted", "gone"
# Objects: never sent, a PUT in flight, there, there although the row was gone, taken away.
NOTHING, FLYING, THERE, LATE, REMOVED = "nothing", "flying", "there", "late", "removed"
# The client's open transaction.
COMPLETING, CANCELLING = "completing", "cancelling"
# What became of a row.
COMPLETED, BY_APP, CLAIMED = "completed", "by the application", "claimed"


class Reservation(NamedTuple):
    """One row, its object, and what is known of both."""

    row: str = FRESH
    upload: str = NOTHING
    open: str = ""
    fate: str = ""
    audited: bool = False
    deleting: bool = False


Change: TypeAlias = "tuple[str, str, Reservation]"
"""Who does it, what is done, and the reservation afterwards."""

_CLIENT, _ADMINISTRATOR = "client", "administrator"


def changes(it: Reservation, *, free: bool, keys_are_new: bool) -> Iterator[Change]:
    """What clock, client and administrator may do.

    Args:
        it: The reservation.
        free: No open transaction holds its row.
        keys_are_new: A reservation that is made again gets another key, and is another one.
    """
    yield from _by_itself(it)
    yield from _told_again(it)
    yield from ends_of_transaction(it)
    if free:
        yield from _on_a_free_row(it)
    if not keys_are_new and it.row == GONE and it.fate == CLAIMED:
        upload = NOTHING if it.upload in (NOTHING, REMOVED) else it.upload
        again = Reservation(row=FRESH, upload=upload, deleting=it.deleting)
        yield _CLIENT, "reserves the same key again", again


def _by_itself(it: Reservation) -> Iterator[Change]:
    if it.row == FRESH:
        yield "the clock", "passes the expiry", it._replace(row=DUE)
    if it.row in (FRESH, DUE) and it.upload == NOTHING:
        yield _CLIENT, "sends its PUT", it._replace(upload=FLYING)
    if it.upload == FLYING:
        landed = LATE if it.row == GONE else THERE
        yield _CLIENT, "has its PUT land", it._replace(upload=landed)


def _told_again(it: Reservation) -> Iterator[Change]:
    """Calls that change nothing, and whose answer matters."""
    if it.row == GONE and it.upload in (LATE, REMOVED) and it.fate == CLAIMED:
        yield _CLIENT, "completes too late and is told so", it
    if it.row == READY:
        yield _CLIENT, "completes once more and is told it is ready", it


def ends_of_transaction(it: Reservation) -> Iterator[Change]:
    """The commit first, and then what else may come of the client's open transaction."""
    if it.open == COMPLETING:
        ready = it._replace(open="", row=READY, fate=COMPLETED)
        yield _CLIENT, "commits its completion", ready
        yield _CLIENT, "rolls its completion back", it._replace(open="")
    if it.open == CANCELLING:
        gone = it._replace(open="", row=GONE, fate=BY_APP)
        yield _CLIENT, "commits its cancellation", gone
        yield _CLIENT, "rolls its cancellation back", it._replace(open="")


def _on_a_free_row(it: Reservation) -> Iterator[Change]:
    pending = it.row in (FRESH, DUE)
    if it.row == DUE:
        yield _CLIENT, "extends its reservation", it._replace(row=FRESH)
    if pending and it.upload == THERE:
        yield _CLIENT, "completes in an open transaction", it._replace(open=COMPLETING)
    if pending:
        yield _CLIENT, "cancels in an open transaction", it._replace(open=CANCELLING)
    if it.row == READY:
        yield _ADMINISTRATOR, "marks the file deleted", it._replace(row=DELETED)
    if it.row != GONE:
        yield _ADMINISTRATOR, "removes the row", it._replace(row=GONE, fate=BY_APP)
