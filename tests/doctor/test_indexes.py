"""Which index the doctor advises for a candidate query."""

from __future__ import annotations

from filejobs_dagster.doctor.reservations import compared_columns, index_for

CANDIDATES = (
    "SELECT d.id, d.storage_key, d.expires_at FROM public.documents AS d"
    " WHERE d.status = 'reserved' AND (d.tries > 3)"
)
BLOBS = (
    "select b.id, b.key, b.created_at at time zone 'UTC' from blobs b"
    " where not exists (select from attachments a where a.blob_id = b.id)"
)


def test_the_index_is_in_the_order_of_the_candidates_and_as_partial_as_they_are() -> None:
    assert index_for(CANDIDATES) == (
        "CREATE INDEX CONCURRENTLY ON public.documents (expires_at, id)"
        " WHERE status = 'reserved' AND tries > 3"
    )
    assert index_for(BLOBS) == (
        "CREATE INDEX CONCURRENTLY ON blobs ((created_at AT TIME ZONE 'UTC'), id)"
    )
    assert index_for("select id, k, due from a union select id, k, due from b") is None
    assert compared_columns(BLOBS, "attachments") == ["blob_id"]


def test_alternatives_of_the_candidates_stay_together_in_the_index() -> None:
    index = index_for("select id, k, due from a where x and (y or z)")
    assert index == "CREATE INDEX CONCURRENTLY ON a (due, id) WHERE x AND (y OR z)"
