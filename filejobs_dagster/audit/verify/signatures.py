"""Whether a note was signed by a key that may sign it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import NoteError, open_note, text_of

if TYPE_CHECKING:
    from filejobs_dagster.audit.keys import TrustedKeys


def signature_problem(note: str, seal_no: int, trusted: TrustedKeys) -> str | None:
    """Say what is wrong with a note's signatures, or None.

    Args:
        note: The whole note.
        seal_no: The number of the seal that decides which keys count.
        trusted: The keys that are believed; without any nothing is wrong.
    """
    if not trusted.configured:
        return None
    if seal_no <= trusted.unsigned_through and text_of(note) == note:
        return None
    keys = trusted.for_seal(seal_no)
    if not keys:
        return f"no key that is known may sign seal {seal_no}"
    try:
        open_note(note, keys)
    except NoteError as error:
        return str(error)
    return None
