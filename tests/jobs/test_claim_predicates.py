"""Predicates that a claim repeats, and predicates that it only seems to repeat."""

from __future__ import annotations

import pytest

from filejobs_dagster.jobs.upload_reservations.claims import (
    NotComparable,
    leaves_candidates,
    unrepeated,
    waits_for_locks,
)

CANDIDATES = (
    "SELECT d.id, d.storage_key, d.expires_at FROM public.documents AS d"
    " WHERE d.status = 'reserved' AND (d.tries > 3)"
)
STATUS, TRIES, DUE = "d.status = 'reserved'", "d.tries > 3", "d.expires_at < $2"
BOTH = [STATUS, TRIES]
BLOBS = (
    "select b.id, b.key, b.created_at at time zone 'UTC' from blobs b"
    " where not exists (select from attachments a where a.blob_id = b.id)"
)


@pytest.mark.parametrize(
    ("where", "missing"),
    [
        ("id = any($1)", [STATUS, TRIES, DUE]),
        ("id = any($1) and expires_at < $2", [STATUS, TRIES]),
        ("id = any($1) and expires_at < $2 and status = 'reserved'", [TRIES]),
        ("id = any($1) and $2 > EXPIRES_AT and 'reserved' = x.status and 3 < tries", []),
        # Not the same value, not the same column, not all of them, not really there.
        ("id = any($1) and expires_at < $2 and status = 'Reserved' and tries > 3", [STATUS]),
        ("id = any($1) and expires_at < $2 and state = 'reserved' and tries > 3", [STATUS]),
        ("id = any($1) and expires_at < $2 and (status = 'reserved' or tries > 3)", BOTH),
        ("id = any($1) and expires_at < $2 -- and status = 'reserved' and tries > 3", BOTH),
        ("id = any($1) and expires_at < $2 and not status = 'reserved' and tries > 3", [STATUS]),
        ("id = any($1) and expires_at < $2 and status = 'reserved' and tries >= 3", [TRIES]),
        ("id = any($1) and expires_at > $2 and status = 'reserved' and tries > 3", [DUE]),
    ],
)  # fmt: skip
def test_each_predicate_that_is_not_repeated_is_named(where: str, missing: list[str]) -> None:
    claim = f"delete from documents as x where {where}\nreturning storage_key"
    assert unrepeated(CANDIDATES, claim) == missing


def test_alternatives_are_named_so_that_they_may_stand_beside_an_and() -> None:
    candidates = "select id, k, due from a where x or y"
    claim = "delete from a where id = any($1) and {}due < $2 returning k"
    assert unrepeated(candidates, claim.format("")) == ["(x OR y)"]
    assert unrepeated(candidates, claim.format("(x OR y) and ")) == []


SUBQUERY = (
    "update documents set status = 'expired' where id in (select id from {table} where"
    " id = any($1) and status = 'reserved' and tries > 3 and expires_at < $2 {lock})"
    " returning storage_key"
)


@pytest.mark.parametrize(
    ("table", "lock", "missing"),
    [
        ("documents", "for update skip locked", []),
        # Without the lock nobody looks again at a row that has changed meanwhile.
        ("documents", "", [STATUS, TRIES, DUE]),
        ("others", "for update skip locked", [STATUS, TRIES, DUE]),
    ],
)
def test_a_sub_query_repeats_only_where_it_locks_the_rows_of_the_table(
    table: str, lock: str, missing: list[str]
) -> None:
    assert unrepeated(CANDIDATES, SUBQUERY.format(table=table, lock=lock)) == missing


LOCKED = (
    "(select {column} from documents where status = 'reserved' and tries > 3 and expires_at < $2"
    " for {lock} skip locked)"
)
BY_ID = LOCKED.format(column="id", lock="update")


@pytest.mark.parametrize(
    "where",
    [
        f"id = any($1) and id in {BY_ID}",
        f"id = any($1) and id = any({BY_ID})",
        f"id = any($1) and id = any(array{BY_ID})",
        f"id = any($1) and ctid in {LOCKED.format(column='ctid', lock='no key update')}",
        f"id = any($1) and id in {LOCKED.format(column='id', lock='share')}",
    ],
)
def test_locked_rows_whose_ids_the_claim_takes_repeat_the_predicates(where: str) -> None:
    claim = f"delete from documents where {where} returning storage_key"
    assert unrepeated(CANDIDATES, claim) == []


@pytest.mark.parametrize(
    "where",
    [
        f"id = any($1) and exists {BY_ID}",
        f"id = any($1) and id not in {BY_ID}",
        f"id = any($1) or id in {BY_ID}",
        f"id = any($1) and owner in {LOCKED.format(column='owner', lock='update')}",
        # A client may change the state of a row whose key alone is held.
        f"id = any($1) and id in {LOCKED.format(column='id', lock='key share')}",
    ],
)
def test_locked_rows_that_do_not_cut_what_is_claimed_repeat_nothing(where: str) -> None:
    claim = f"delete from documents where {where} returning storage_key"
    assert unrepeated(CANDIDATES, claim) == [STATUS, TRIES, DUE]


@pytest.mark.parametrize(
    ("where", "missing"),
    [
        ("x.id = won.id", []),
        ("x.id in (select id from won)", []),
        ("x.id = any($1)", [STATUS, TRIES, DUE]),
        ("x.id = any($1) and won.id = won.id", [STATUS, TRIES, DUE]),
        ("x.owner = won.id", [STATUS, TRIES, DUE]),
    ],
)
def test_rows_that_are_locked_in_a_with_count_where_the_claim_takes_their_ids(
    where: str, missing: list[str]
) -> None:
    claim = (
        f"with won as {BY_ID} delete from documents as x using won where {where}"
        " returning x.storage_key"
    )
    assert unrepeated(CANDIDATES, claim) == missing


def test_a_predicate_about_another_row_of_the_table_repeats_nothing() -> None:
    claim = (
        "update documents as d set status = 'expired' from documents as x where x.id = d.id"
        " and d.id = any($1) and x.status = 'reserved' and x.tries > 3 and x.expires_at < $2"
        " returning d.storage_key"
    )
    assert unrepeated(CANDIDATES, claim) == [STATUS, TRIES, DUE]


def test_not_exists_is_recognised_whatever_its_tables_are_called() -> None:
    claim = (
        "delete from blobs as blob where id = any($1) and created_at at time zone 'UTC' < $2"
        " and not exists (select 1 from attachments where attachments.blob_id = blob.id)"
        " returning key"
    )
    assert unrepeated(BLOBS, claim) == []
    other_table = claim.replace("attachments", "variants")
    assert unrepeated(BLOBS, other_table) == [
        "NOT EXISTS(SELECT FROM attachments AS a WHERE a.blob_id = b.id)"
    ]


def test_predicates_of_joins_and_of_sub_queries_in_from_count_too() -> None:
    claim = (
        "delete from b using c where c.id = b.cid and b.id = any($1) and b.due < $2 returning b.k"
    )
    joined = "select b.id, b.k, b.due from b join c on c.id = b.cid and c.closed where b.x is null"
    assert unrepeated(joined, claim) == ["c.closed", "b.x IS NULL"]
    nested = "select id, k, due from (select * from b where x is null) as inner_b"
    assert "x IS NULL" in unrepeated(nested, claim)
    common = "with open as (select * from b where x is null) select id, k, due from open"
    assert "x IS NULL" in unrepeated(common, claim)


@pytest.mark.parametrize(
    "candidates",
    [
        "select id, k, due from a union all select id, k, due from b",
        "select id, k, max(due) from a group by id, k",
        "select distinct id, k, due from a",
        "select id, k, due from (select * from a where x union select * from a) as both_of_them",
        # Predicates that nobody can see from here.
        "select id, k, due from expired_ones",
        "select id, k, due from expired_ones()",
        "select a.id, a.k, a.due from a natural join b",
        "select a.id, a.k, a.due from a join b using (id)",
        "select id, k, due from a where x" + " and x" * 2_000,
        "select a.id, a.k, a.due from a join (select id from b where closed) as b on b.id = a.b",
        "select a.id, a.k, a.due from a, lateral (select from b where b.id = a.b and closed) as b",
        "select a.id, a.k, a.due from a join a as other on other.id = a.parent where other.closed",
    ],
)
def test_what_has_no_list_of_predicates_is_not_compared(candidates: str) -> None:
    with pytest.raises(NotComparable):
        unrepeated(candidates, "delete from a where id = any($1) and due < $2 returning k")


def test_a_predicate_that_is_always_true_needs_no_repetition() -> None:
    claim = "delete from a where id = any($1) and due < $2 returning k"
    assert unrepeated("select id, k, due from a where true", claim) == []


def test_a_claim_waits_for_locks_unless_it_skips_them() -> None:
    assert waits_for_locks("delete from a where id = any($1) returning k")
    assert waits_for_locks(SUBQUERY.format(table="documents", lock="for update"))
    assert not waits_for_locks(SUBQUERY.format(table="documents", lock="for update skip locked"))
    assert waits_for_locks(SUBQUERY.format(table="documents", lock="for key share skip locked"))


@pytest.mark.parametrize(
    ("change", "leaves"),
    [
        ("delete from documents", True),
        ("update documents as d set status = 'expired'", True),
        ("update documents set note = 'x', expires_at = null", True),
        ("update documents set note = 'expired'", False),
        # The key is returned, and decides nothing.
        ("update documents set storage_key = storage_key || '.gone'", False),
    ],
)
def test_a_claimed_row_must_stop_being_a_candidate(change: str, leaves: object) -> None:
    claim = f"{change} where id = any($1) and expires_at < $2 returning storage_key"
    assert leaves_candidates(CANDIDATES, claim) is leaves
