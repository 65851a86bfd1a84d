"""Objects that were made from files: read before the cascade, never lost, never taken in use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.jobs.deleted_files import collection
from filejobs_dagster.jobs.deleted_files.collection import FileTable
from filejobs_dagster.jobs.deleted_files.derived import DerivedObjects
from filejobs_dagster.jobs.deleted_files.settings import DerivedSettings
from tests.jobs.deleted_files.collecting import DAY, THUMBNAIL_SOURCE, THUMBNAILS
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from tests.jobs.deleted_files.collecting import Files

INSERT = "INSERT INTO thumbnail (file_id, storage_key) VALUES (%s, %s)"


@pytest.fixture
def files(files: Files) -> Files:
    files.with_thumbnails()
    return files


def test_derived_objects_go_with_their_file_and_the_intent_names_them(files: Files) -> None:
    file, young = files.delete("files/1", body=b"12345"), files.delete("files/2", ago=DAY)
    for n in range(3):
        files.thumbnail(file, f"files/thumbnails/1-{n}", body=b"12")
    files.thumbnail(young, "files/thumbnails/2")

    outcome = files()

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted, outcome.detail["claimed"]) == (1, 1, 1)
    assert outcome.detail["classes"] == {"deleted": 1, "derived: deleted": 3}
    assert outcome.detail["bytes_freed"] == 5 + 3 * 2
    assert files.keys() == {"files/2", "files/thumbnails/2"}
    [intent] = files.events("objects.delete.intent")
    assert set(intent["keys"]) == {"files/1", *(f"files/thumbnails/1-{n}" for n in range(3))}
    assert len(files.events("deleted_file.collected")) == 1


def test_control_without_the_derived_query_the_cascade_takes_the_only_row_that_knew_the_key(
    files: Files,
) -> None:
    files.thumbnail(files.delete("files/1"), "files/thumbnails/1")
    files.derived = []

    assert files().acted == 1

    assert files.keys() == {"files/thumbnails/1"}
    assert files.installation.value("SELECT count(*) FROM thumbnail") == 0


def test_a_derived_object_that_another_row_names_stays(files: Files) -> None:
    gone, kept = files.delete("files/gone"), files.delete("files/kept", ago=DAY)
    files.thumbnail(gone, "files/thumbnails/shared")
    files.installation.execute(INSERT, (kept, "files/thumbnails/shared"))
    files.installation.execute(INSERT, (gone, "files/kept"))

    outcome = files()

    assert outcome.ok
    assert outcome.detail["classes"]["derived: kept: referenced by thumbnails"] == 1
    assert outcome.detail["classes"]["derived: kept: referenced by file"] == 1
    assert files.keys() == {"files/kept", "files/thumbnails/shared"}


def test_a_query_whose_table_no_source_reads_is_refused_before_anything_is_claimed(
    files: Files,
) -> None:
    files.installation.execute("CREATE VIEW seen AS SELECT * FROM thumbnail")
    files.thumbnail(files.delete("files/1"), "files/thumbnails/1")
    bucket = files.installation.document["buckets"]["uploads"]
    bucket["sources"] = [{**THUMBNAIL_SOURCE, "sql": "select 'files/of-another-table'::text"}]

    for made in ("storage_key from thumbnail", "storage_key || '' from thumbnail", "* from keys"):
        sql = f"with keys as (select storage_key from seen) select {made} where $1 is not null"
        files.derived = [DerivedSettings(name="made", sql=sql.replace("*", "storage_key"))]
        refused = files(mode="dry" if "*" in made else "live")
        assert "no source of the bucket in this database reads that" in str(refused.error)
        assert "public.thumbnail" in str(refused.error)
    assert files.keys() == {"files/1", "files/thumbnails/1"}

    files.derived = [THUMBNAILS]
    bucket["sources"] = [{**THUMBNAIL_SOURCE, "sql": "select storage_key from seen"}]
    assert files().acted == 1, "a source may read it through a view"
    assert files.keys() == set()


def test_each_branch_of_a_union_must_be_read_by_a_source(files: Files) -> None:
    files.installation.execute("CREATE TABLE preview (file_id uuid, key text)")
    other, known = "select key from preview", "select storage_key from thumbnail"
    refused = {
        f"{other} union {known}": True,
        f"{other} union all {known}": True,
        f"{known} union all {other} order by 1": True,
        f"with other as materialized ({other}) select key from other union all {known}": True,
        f"{known} union {known}": False,
        "select coalesce(key, storage_key) from thumbnail join preview using (file_id)": False,
        f"select storage_key || '.x' from file union all {known}": False,
    }
    database = files.installation.database

    found = dict.fromkeys(refused, False)
    with database.connect("the test") as connection:
        for sql in found:
            wrapped = f"select key from ({sql}) as made (key) where key <> all($1::text[])"
            made = DerivedObjects([DerivedSettings(name="made", sql=wrapped)], connection)
            try:
                with database.transaction(connection, read_only=True):
                    made.require_sources(["select storage_key from thumbnail"], "public")
            except SourceRefused as error:
                assert "public.preview" in str(error)  # noqa: PT017 (which ones raise is asserted)
                found[sql] = True

    assert found == refused


def test_keys_that_are_computed_from_the_file_itself_need_no_source(files: Files) -> None:
    files.installation.document["buckets"]["uploads"]["sources"] = []
    files.derived = [
        DerivedSettings(
            name="small", sql="select storage_key || '.small' from file where id = any($1)"
        )
    ]
    files.delete("files/1")
    files.put("files/1.small")

    assert files().acted == 1
    assert files.keys() == set()


def test_rows_of_a_partitioned_table_are_known_by_a_source_that_reads_all_of_it(
    files: Files,
) -> None:
    files.installation.execute("DROP TABLE thumbnail")
    files.installation.execute(
        "CREATE TABLE thumbnail (file_id uuid REFERENCES file ON DELETE CASCADE, storage_key text)"
        " PARTITION BY HASH (file_id)"
    )
    for n in range(2):
        files.installation.execute(
            f"CREATE TABLE thumbnail_{n} PARTITION OF thumbnail"
            f" FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
        )
    files.thumbnail(files.delete("files/1"), "files/thumbnails/1")

    assert files().acted == 1
    assert files.keys() == set()


OUTLIVING = {
    "set null": (
        """
        CREATE TABLE thumbnail (file_id uuid REFERENCES file ON DELETE SET NULL, storage_key text)
        """,
        "select storage_key from thumbnail where file_id = any($1)",
        "INSERT INTO thumbnail VALUES (%(gone)s, 'files/thumbnails/1')",
    ),
    "links": (
        """
        CREATE TABLE thumbnail (id serial PRIMARY KEY, storage_key text);
        CREATE TABLE link (file_id uuid REFERENCES file ON DELETE CASCADE, id integer)
        """,
        "select storage_key from thumbnail join link using (id) where file_id = any($1)",
        """
        WITH one AS (INSERT INTO thumbnail (storage_key) VALUES ('files/thumbnails/1') RETURNING id)
        INSERT INTO link
        SELECT file_id, id
          FROM one, unnest(ARRAY[%(gone)s, %(stays)s]::uuid[]) AS given (file_id)
        """,
    ),
}


@pytest.mark.parametrize("kind", OUTLIVING)
@pytest.mark.parametrize("careless", [False, True])
def test_a_row_that_outlives_its_file_unseen_keeps_its_object_by_the_source_it_must_have(
    files: Files, kind: str, monkeypatch: pytest.MonkeyPatch, *, careless: bool
) -> None:
    table, sql, insert = OUTLIVING[kind]
    files.installation.execute("DROP TABLE thumbnail")
    files.installation.execute(table)
    files.derived = [DerivedSettings(name="thumbnails", sql=sql)]
    gone, stays = files.delete("files/1"), files.delete("files/2", ago=DAY)
    files.put("files/thumbnails/1")
    files.installation.execute(insert, {"gone": gone, "stays": stays})
    if careless:
        # CONTROL: without the table among the sources, the row stays and its bytes go.
        monkeypatch.setattr(DerivedObjects, "require_sources", lambda *_: None)
        files.installation.document["buckets"]["uploads"]["sources"] = []

    assert files().acted == 1

    assert files.installation.value("SELECT count(*) FROM thumbnail") == 1
    kept = set() if careless else {"files/thumbnails/1"}
    assert files.keys() == {"files/2"} | kept


def test_a_derived_row_that_its_query_still_returns_keeps_its_object(files: Files) -> None:
    files.installation.execute("DROP TABLE thumbnail")
    files.installation.execute("CREATE TABLE thumbnail (file_id uuid, storage_key text)")
    files.thumbnail(files.delete("files/1"), "files/thumbnails/1")

    outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 1)
    assert outcome.detail["classes"]["derived: kept: its row stays"] == 1
    assert files.keys() == {"files/thumbnails/1"}


def test_a_file_that_a_trigger_silently_keeps_keeps_its_derived_objects(files: Files) -> None:
    files.installation.execute(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN CASE WHEN old.storage_key = 'files/kept' THEN NULL ELSE old END; END $$"
    )
    files.installation.execute(
        "CREATE TRIGGER keep BEFORE DELETE ON file FOR EACH ROW EXECUTE FUNCTION keep()"
    )
    for name in ("kept", "gone"):
        files.thumbnail(files.delete(f"files/{name}"), f"files/thumbnails/{name}")

    assert files().acted == 1
    assert files.keys() == {"files/kept", "files/thumbnails/kept"}


# --- derived rows that come at the same moment ---------------------------------------------------


def inside_the_claim(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, what: Callable[[], object]
) -> None:
    """Let something happen once, after this method has returned."""
    work = getattr(owner, method)
    done: list[bool] = []

    def work_then(self: Any, *arguments: Any, **named: Any) -> Any:
        result = work(self, *arguments, **named)
        if not done:
            done.append(True)
            what()
        return result

    monkeypatch.setattr(owner, method, work_then)


def test_a_derived_row_that_is_not_committed_yet_makes_the_claim_leave_its_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.delete("files/1")
    files.put("files/thumbnails/late")
    with psycopg.connect(files.installation.database_url) as application:
        inside_the_claim(
            monkeypatch,
            collection.Collection,
            "_read",
            lambda: application.execute(INSERT, (file, "files/thumbnails/late")),
        )
        outcome = files()

    assert outcome.detail["classes"] == {"held by another session": 1}
    assert files.keys() == {"files/1", "files/thumbnails/late"}
    assert files().acted == 1
    assert files.keys() == set()


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        pytest.param(FileTable, "lock", marks=pytest.mark.thorough),
        (DerivedObjects, "keys"),
        pytest.param(FileTable, "claim", marks=pytest.mark.thorough),
    ],
)
def test_a_derived_row_that_comes_after_the_lock_waits_and_is_refused(
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    connection: psycopg.Connection,
    owner: type,
    method: str,
) -> None:
    file = files.delete("files/1")
    files.thumbnail(file, "files/thumbnails/early")
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(files.installation.database_url, autocommit=True) as application,
    ):
        late: list[Any] = []

        def insert() -> None:
            late.append(pool.submit(application.execute, INSERT, (file, "files/thumbnails/late")))
            wait_until(lambda: is_waiting(connection, application.info.backend_pid), "it waits")

        inside_the_claim(monkeypatch, owner, method, insert)
        assert files().acted == 1
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            late[0].result(20)
    assert files.keys() == set()


def test_control_keys_that_are_read_before_the_lock_miss_the_row_that_commits_in_between(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.delete("files/1")
    files.put("files/thumbnails/late")

    def lock_nothing(self: Any, cursor: Any, ids: list[uuid.UUID], *_: Any) -> list[uuid.UUID]:
        return ids

    monkeypatch.setattr(FileTable, "lock", lock_nothing)
    inside_the_claim(
        monkeypatch,
        DerivedObjects,
        "keys",
        lambda: files.installation.execute(INSERT, (file, "files/thumbnails/late")),
    )

    assert files().acted == 1

    assert files.keys() == {"files/thumbnails/late"}, "nobody knows this object any more"
    assert files.installation.value("SELECT count(*) FROM thumbnail") == 0


def test_a_derived_row_that_somebody_holds_makes_its_file_wait_and_not_the_others(
    files: Files,
) -> None:
    files.lock_timeout = timedelta(seconds=0.3)
    for n in range(4):
        files.thumbnail(files.delete(f"files/{n}"), f"files/thumbnails/{n}")
    with psycopg.connect(files.installation.database_url) as application:
        application.execute("UPDATE thumbnail SET id = id WHERE storage_key LIKE '%/2'")
        outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 3)
    assert outcome.detail["classes"]["held by another session"] == 1
    assert files.keys() == {"files/2", "files/thumbnails/2"}


@pytest.mark.thorough
def test_no_derived_object_is_ever_without_row_or_deletion_while_an_application_adds_some(
    files: Files,
) -> None:
    identities = [files.delete(f"files/{n}", body=None) for n in range(300)]
    stop = threading.Event()
    named: list[str] = []
    problems: list[Exception] = []

    def application(index: int) -> None:
        with psycopg.connect(files.installation.database_url, autocommit=True) as connection:
            for n, file in enumerate(identities):
                if stop.is_set():
                    return
                key = f"files/thumbnails/{index}-{n}"
                try:
                    connection.execute(INSERT, (file, key))
                except psycopg.errors.ForeignKeyViolation:
                    continue
                except psycopg.Error as error:
                    problems.append(error)
                    return
                named.append(key)

    threads = [threading.Thread(target=application, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    while files(batch_size=5, count_bytes=False).acted:
        pass
    stop.set()
    for thread in threads:
        thread.join()
    assert files(batch_size=5, count_bytes=False).ok

    assert not problems
    intended = {key for event in files.events("objects.delete.intent") for key in event["keys"]}
    there = {key for (key,) in files.installation.execute("SELECT storage_key FROM thumbnail")}
    assert set(named) <= intended | there


# --- queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select storage_key from no_such_table where file_id = any($1)", "no_such_table"),
        ("select id from thumbnail where file_id = any($1)", "type int8"),
        ("select storage_key from thumbnail where file_id::text = any($1)", "text = uuid"),
        ("select file_id::bpchar from thumbnail where file_id = any($1)", "type bpchar"),
    ],
)
def test_a_query_that_cannot_answer_fails_the_run_before_anything_is_claimed(
    files: Files, sql: str, said: str
) -> None:
    files.delete("files/1")
    files.derived = [DerivedSettings(name="previews", sql=sql)]

    outcome = files()

    assert not outcome.ok
    assert said in str(outcome.error)
    assert "previews" in str(outcome.error)
    assert files.rows() == files.keys() == {"files/1"}


def test_a_query_that_one_row_makes_fail_leaves_that_file_alone_and_the_others_go_on(
    files: Files,
) -> None:
    for n in range(5):
        files.thumbnail(files.delete(f"files/{n}"), f"files/thumbnails/{n}")
    files.derived = [
        DerivedSettings(
            name="thumbnails",
            sql="select case when storage_key like '%/3' then (1 / (id - id))::text"
            " else storage_key end from thumbnail where file_id = any($1) -- 100%",
        )
    ]

    outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 4)
    assert outcome.detail["samples"]["claim refused"] == ["files/3: division by zero"]
    assert files.keys() == {"files/3", "files/thumbnails/3"}


def test_empty_keys_and_null_are_no_keys_and_one_key_twice_is_one(files: Files) -> None:
    file = files.delete("files/1")
    files.installation.execute("ALTER TABLE thumbnail ALTER storage_key DROP NOT NULL")
    for key in (None, "", "files/thumbnails/1", "files/thumbnails/1", "files/1"):
        files.installation.execute(INSERT, (file, key))

    outcome = files(count_bytes=False)

    assert outcome.detail["classes"] == {"deleted": 1, "derived: deleted": 1}
    [intent] = files.events("objects.delete.intent")
    assert intent["keys"] == ["files/1", "files/thumbnails/1"]


def test_a_batch_with_too_many_derived_objects_is_halved_and_none_is_left_out(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "MOST_DERIVED", 10)
    for n in range(4):
        file = files.delete(f"files/{n}", body=None)
        for m in range(25 if n == 2 else 4):
            # Twice, and with a row that names nothing: both count where the answer is cut.
            for key in (f"files/thumbnails/{n}-{m}", f"files/thumbnails/{n}-{m}", ""):
                files.installation.execute(INSERT, (file, key))

    assert files(mode="dry").detail["classes"]["derived: would collect"] == 3 * 4 + 25
    outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 4)
    intended = [key for event in files.events("objects.delete.intent") for key in event["keys"]]
    assert len(intended) == len(set(intended)) == 4 + 3 * 4 + 25


def test_an_intent_with_very_many_keys_is_several_events_of_one_batch(files: Files) -> None:
    file = files.delete("files/1", body=None)
    files.installation.execute(
        "INSERT INTO thumbnail (file_id, storage_key)"
        " SELECT %s, 'files/segments/' || n FROM generate_series(1, 2500) AS n",
        (file,),
    )

    outcome = files(count_bytes=False)

    assert (outcome.ok, outcome.acted) == (True, 1)
    assert outcome.detail["classes"]["derived: deleted"] == 2500
    intents = files.events("objects.delete.intent")
    assert [len(event["keys"]) for event in intents] == [1000, 1000, 501]
    assert len({event["batch"] for event in intents}) == 1


def test_the_queries_of_the_settings_are_what_the_job_takes(files: Files) -> None:
    files.installation.document["jobs"]["deleted_files"] = {
        "by_hand": True,
        "restore_window": "30d",
        "derived": [{"name": THUMBNAILS.name, "sql": THUMBNAILS.sql}],
    }

    job = files.installation.settings().jobs["deleted_files"]

    assert getattr(job, "derived", None) == [THUMBNAILS]
