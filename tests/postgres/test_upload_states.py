"""The tables of uploads: which transitions there are, whatever client writes them."""

from __future__ import annotations

import itertools
import random
import re
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.uploads import Uploads
from tests.uploads.rows import ALLOWED, STATES, attachments, change, column, in_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

# Refused by a trigger, and not by a CHECK or a key that happens to be in the way.
REFUSED = psycopg.errors.IntegrityConstraintViolation

WITH_ALL_IT_NEEDS = """
    state = '{0}',
    stored_at = clock_timestamp(),
    uncertain_since = clock_timestamp(),
    retained_until = clock_timestamp() + interval '1 day',
    outcome = CASE '{0}' WHEN 'cleaned' THEN 'deleted' END
"""


@pytest.mark.parametrize("before", STATES)
def test_a_plain_update_makes_the_foreseen_transitions_and_no_other(
    connection: psycopg.Connection, before: str
) -> None:
    for after in STATES:
        if after == before:
            continue
        with connection.transaction(force_rollback=True):
            upload = in_state(connection, before)
            if (before, after) in ALLOWED:
                change(connection, upload, WITH_ALL_IT_NEEDS.format(after))
                assert column(connection, upload, "state") == after
            else:
                with pytest.raises(REFUSED, match=f"cannot go from {before} to {after}") as no:
                    change(connection, upload, WITH_ALL_IT_NEEDS.format(after))
                assert no.value.diag.message_hint


def test_a_cancelled_writing_goes_to_cleanup_only_once_its_writer_has_ended(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "writing")
    with pytest.raises(REFUSED, match="from writing to cleanup"):
        change(connection, upload, "state = 'cleanup', stored_at = clock_timestamp()")
    assert Uploads(connection).cancel(upload) == "writing"
    with pytest.raises(REFUSED, match="from writing to cleanup"):
        change(connection, upload, "state = 'cleanup'")
    change(connection, upload, "state = 'cleanup', stored_at = clock_timestamp()")


def test_whatever_a_client_writes_no_row_comes_back_from_cleanup(
    connection: psycopg.Connection,
) -> None:
    """Statements drawn at random, from every state of the way back; the seed is fixed."""
    drawn = random.Random(6)  # noqa: S311 (no secret)
    rows = {in_state(connection, state): state for state in ["cleanup", "retained"] * 3}
    keys = {upload: column(connection, upload, "storage_key") for upload in rows}
    statements: list[Callable[[UUID], str]] = [
        lambda upload: f"UPDATE upload SET {_assignments(drawn)} WHERE id = '{upload}'",
        lambda upload: f"DELETE FROM upload WHERE id = '{upload}'",
        lambda upload: (
            f"INSERT INTO upload (id, key_prefix) VALUES ('{upload}', 'files/') "
            "ON CONFLICT (id) DO UPDATE SET state = 'ready'"
        ),
        lambda upload: (
            f"INSERT INTO attachment (upload_id, subject) VALUES ('{upload}', 'mine again')"
        ),
        lambda upload: f"SELECT publish_upload('{upload}', 'mine again')",
        lambda upload: f"SELECT mark_stored('{upload}', 'another')",
        lambda upload: f"SELECT mark_uncertain('{upload}', 'why not')",
        lambda upload: f"SELECT cancel_upload('{upload}')",
        lambda upload: f"SELECT record_upload_id('{upload}', 'another one')",
    ]
    refused = 0
    for _ in range(400):
        upload = drawn.choice(list(rows))
        try:
            connection.execute(drawn.choice(statements)(upload).encode())
        except (psycopg.IntegrityError, psycopg.errors.GeneratedAlways):
            refused += 1
        state = column(connection, upload, "state")
        assert state in ("cleanup", "retained", "cleaned")
        assert (rows[upload], state) != ("cleaned", "cleanup")
        rows[upload] = state
        assert column(connection, upload, "storage_key") == keys[upload]
    assert refused > 100
    assert attachments(connection) == []


def _assignments(drawn: random.Random) -> str:
    choices = [
        *(f"state = '{state}'" for state in STATES),
        "attempts = attempts - 1",
        "collectable_at = NULL",
        "stored_at = clock_timestamp()",
        "cancel_requested_at = NULL",
        "legal_hold = true",
        "outcome = 'deleted'",
        "outcome = NULL",
        "cleaned_at = NULL",
        "key_prefix = 'other/'",
        "storage_key = 'files/mine'",
        "id = gen_random_uuid()",
        "dead_at = NULL",
    ]
    picked = {text.split(" =")[0]: text for text in drawn.sample(choices, drawn.randint(1, 4))}
    return ", ".join(picked.values())


def test_control_without_the_trigger_a_careless_update_brings_a_claimed_upload_back(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "cleanup")
    connection.execute("ALTER TABLE upload DISABLE TRIGGER upload_moves")
    change(connection, upload, "state = 'stored', collectable_at = NULL")
    # The collector that holds a claim on it goes on to delete what is about to be published.
    assert Uploads(connection).publish(upload, "message 1") is not None


# Moments and numbers


def test_a_transition_brings_its_moments(connection: psycopg.Connection) -> None:
    uncertain = in_state(connection, "uncertain")
    assert column(connection, uncertain, "next_attempt_at = uncertain_since") is True
    change(connection, uncertain, "next_attempt_at = clock_timestamp() + interval '1 day'")
    change(connection, uncertain, "state = 'cleanup'")
    # What held it up while it was uncertain holds up no cleaning.
    assert column(connection, uncertain, "next_attempt_at = collectable_at") is True
    change(connection, uncertain, "state = 'cleaned', outcome = 'never arrived'")
    assert column(connection, uncertain, "cleaned_at >= collectable_at") is True


@pytest.mark.parametrize("moment", ["clock_timestamp()", "NULL"])
def test_the_day_of_becoming_collectable_stays(connection: psycopg.Connection, moment: str) -> None:
    upload = in_state(connection, "stored")
    change(connection, upload, "state = 'cleanup', collectable_at = '2026-03-29T00:30Z'")
    with pytest.raises(REFUSED, match="cannot change"):
        change(connection, upload, f"collectable_at = {moment}")
    change(connection, upload, "state = 'retained', retained_until = '2026-05-01Z'")
    change(connection, upload, "state = 'cleanup'")
    assert column(connection, upload, "collectable_at = '2026-03-29T00:30Z'") is True


def test_attempts_never_go_back_and_forgiving_does_not_need_it(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "cleanup")
    change(connection, upload, "attempts = 5, dead_at = clock_timestamp()")
    with pytest.raises(REFUSED, match="cannot go back from 5 to 0"):
        change(connection, upload, "attempts = 0")
    change(connection, upload, "dead_at = NULL, forgiven = attempts")
    with pytest.raises(psycopg.errors.CheckViolation):
        change(connection, upload, "forgiven = 6")


HALF_OF_IT = (
    ("writing", "activity_at = 'infinity'"),
    ("cleanup", "next_attempt_at = 'infinity'"),
    ("cleanup", "next_attempt_at = NULL"),
    ("cleanup", "state = 'cleaned'"),
    ("cleanup", "state = 'cleaned', outcome = 'perhaps'"),
    ("cleanup", "state = 'retained'"),
    ("cleanup", "state = 'cleaned', outcome = 'deleted', dead_at = clock_timestamp()"),
    ("stored", "dead_at = clock_timestamp()"),
    ("stored", "outcome = 'deleted'"),
    ("writing", "state = 'stored'"),
    ("writing", "size_bytes = -1"),
    ("stored", "etag = '\"quoted\"'"),
    ("stored", "version_id = ''"),
)


def test_a_row_that_says_half_of_it_is_refused(connection: psycopg.Connection) -> None:
    for state, what in HALF_OF_IT:
        upload = in_state(connection, state)
        with pytest.raises(psycopg.errors.CheckViolation):
            change(connection, upload, what)


# Keys


def test_a_key_is_never_used_again_not_even_after_its_row_was_removed(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "cleaned")
    assert connection.execute("DELETE FROM upload").rowcount == 1
    for columns, values in (
        ("id, key_prefix", f"'{upload}', 'files/'"),
        ("id, key_prefix, state", f"'{upload}', 'files/', 'cleanup'"),
    ):
        with pytest.raises(REFUSED, match="is made by the database"):
            connection.execute(f"INSERT INTO upload ({columns}) VALUES ({values})".encode())
    with pytest.raises(psycopg.errors.GeneratedAlways):
        connection.execute("INSERT INTO upload (key_prefix, storage_key) VALUES ('files/', 'x')")
    with pytest.raises(psycopg.errors.Error):
        connection.execute(
            f"INSERT INTO upload (key_prefix) VALUES ('files/{upload}/../'), ('files/')".encode()
        )
    made = {Uploads(connection).begin("files/").key for _ in range(50)}
    assert len(made) == 50
    assert f"files/{upload}" not in made


def test_control_an_id_that_clients_choose_names_an_object_whose_deletion_is_on_its_way(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "cleaned")
    key = column(connection, upload, "storage_key")
    connection.execute("DELETE FROM upload")
    connection.execute("ALTER TABLE upload DISABLE TRIGGER upload_begins")
    connection.execute(
        f"INSERT INTO upload (id, key_prefix) VALUES ('{upload}', 'files/')".encode()
    )
    assert column(connection, upload, "storage_key") == key


def test_a_row_that_names_an_object_cannot_be_removed(connection: psycopg.Connection) -> None:
    for state in STATES:
        upload = in_state(connection, state)
        if state == "cleaned":
            connection.execute("DELETE FROM upload WHERE id = %s", (upload,))
            continue
        with pytest.raises(REFUSED, match="only a cleaned one"):
            connection.execute("DELETE FROM upload WHERE id = %s", (upload,))
    assert connection.execute("SELECT count(*) FROM upload").fetchone() == (len(STATES) - 1,)


def test_a_row_begins_in_writing(connection: psycopg.Connection) -> None:
    for state in STATES[1:]:
        with pytest.raises(REFUSED, match="begins in state writing"):
            connection.execute(
                "INSERT INTO upload (key_prefix, state) VALUES ('files/', %s)", (state,)
            )


# Attachments


def test_only_a_ready_upload_can_be_attached(connection: psycopg.Connection) -> None:
    for state in STATES:
        upload = in_state(connection, state)
        refused = psycopg.errors.UniqueViolation if state == "ready" else REFUSED
        with pytest.raises(refused, match="duplicate" if state == "ready" else f"is {state} with"):
            connection.execute(
                "INSERT INTO attachment (upload_id, subject) VALUES (%s, 'message 1')", (upload,)
            )


def test_an_attachment_has_the_key_of_its_upload_and_keeps_both(
    connection: psycopg.Connection,
) -> None:
    upload, other = in_state(connection, "ready"), in_state(connection, "stored")
    with pytest.raises(REFUSED, match="cannot change to another upload"):
        connection.execute("UPDATE attachment SET upload_id = %s", (other,))
    with pytest.raises(REFUSED, match="cannot change to another upload"):
        connection.execute("UPDATE attachment SET storage_key = 'files/other'")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            "INSERT INTO attachment (upload_id, subject) VALUES (%s, 'twice')", (upload,)
        )
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(
            "INSERT INTO attachment (upload_id, storage_key, subject) VALUES (%s, 'files/x', 'y')",
            (uuid.uuid4(),),
        )
    connection.execute("UPDATE attachment SET subject = 'message 2'")


def test_an_upload_cannot_be_ready_without_an_attachment(connection: psycopg.Connection) -> None:
    upload = in_state(connection, "stored")
    with pytest.raises(REFUSED, match="became ready without an attachment"):
        change(connection, upload, "state = 'ready'")
    assert column(connection, upload, "state") == "stored"


def test_a_cascade_that_takes_the_attachment_moves_its_upload_to_cleanup(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "ready")
    connection.execute("CREATE TABLE message (id uuid PRIMARY KEY)")
    connection.execute("INSERT INTO message SELECT id FROM attachment")
    connection.execute(
        "ALTER TABLE attachment ADD FOREIGN KEY (id) REFERENCES message ON DELETE CASCADE"
    )
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM message")
        assert column(connection, upload, "state") == "cleanup"
    assert column(connection, upload, "state") == "ready"
    connection.execute("DELETE FROM message")
    assert column(connection, upload, "state") == "cleanup"
    assert attachments(connection) == []


def test_a_key_that_is_being_deleted_as_an_orphan_is_not_published(
    connection: psycopg.Connection,
) -> None:
    upload = in_state(connection, "stored")
    connection.execute(
        """
        INSERT INTO orphan_candidate
               (bucket, key, etag, size_bytes, last_modified, first_seen_run, last_seen_run,
                fingerprint, state, intent_at, intent_run)
        SELECT 'uploads', convert_to(storage_key, 'UTF8'), 'e', 1, now(), 'run 1', 'run 1', 'rules',
               'deleting', now(), 'run 2'
          FROM upload
        """
    )
    with pytest.raises(REFUSED, match="is being deleted"):
        Uploads(connection).publish(upload, "message 1")
    assert column(connection, upload, "state") == "stored"


# The schema


def test_every_function_says_what_it_does_and_finds_its_tables_from_any_search_path(
    connection: psycopg.Connection,
) -> None:
    functions = connection.execute(
        """
        SELECT proname, obj_description(oid, 'pg_proc'), proconfig::text, prosecdef, prosrc
          FROM pg_proc
         WHERE pronamespace = 'public'::regnamespace
           AND (proname ~ 'upload|attachment' AND proname <> 'complete_upload'
                OR proname IN ('mark_stored', 'mark_uncertain'))
        """
    ).fetchall()
    assert len(functions) == 15
    for name, comment, configuration, as_owner, source in functions:
        assert comment, name
        if re.search(r"\b(FROM|UPDATE|INTO) (upload|attachment)\b", source):
            assert "search_path=" in str(configuration), name
        # Only triggers have their owner's rights: a call has those of the caller.
        assert not as_owner or comment.startswith("Trigger"), name
    connection.execute("SET search_path = ''")
    uploads = Uploads(connection)
    begun = uploads.begin("files/")
    assert uploads.mark_stored(begun.id) == "stored"
    attachment = uploads.publish(begun.id, "message 1")
    assert attachment is not None
    assert uploads.remove_attachment(attachment)


def test_every_state_has_an_index_in_the_order_of_its_work(
    connection: psycopg.Connection,
) -> None:
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_sort = off")
    orders: dict[str, Any] = {
        "upload_due": ("state = 'cleanup' AND dead_at IS NULL", "next_attempt_at, id"),
        "upload_collectable": ("state = 'cleanup'", "collectable_at, id"),
        "upload_dead": ("dead_at IS NOT NULL", "dead_at, id"),
        "upload_uncertain": ("state = 'uncertain'", "next_attempt_at, id"),
        "upload_writing": ("state = 'writing'", "activity_at, id"),
        "upload_stored": ("state = 'stored'", "stored_at, id"),
        "upload_retained": ("state = 'retained'", "retained_until, id"),
        "upload_cleaned": ("state = 'cleaned'", "cleaned_at, id"),
    }
    for index, (where, order) in orders.items():
        plan = connection.execute(
            f"EXPLAIN SELECT id FROM upload WHERE {where} ORDER BY {order} LIMIT 1".encode()
        ).fetchall()
        text = "\n".join(itertools.chain.from_iterable(plan))
        assert index in text, text
        assert "Sort" not in text, text


@pytest.mark.parametrize(
    "statement", ["TRUNCATE attachment", "TRUNCATE upload, attachment", "TRUNCATE upload CASCADE"]
)
def test_truncate_is_refused_since_it_asks_no_trigger_of_a_row(
    connection: psycopg.Connection, statement: str
) -> None:
    in_state(connection, "ready")
    connection.commit()

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot be truncated"):
        connection.execute(statement.encode())

    connection.rollback()
    assert connection.execute("SELECT count(*) FROM upload").fetchone() == (1,)
