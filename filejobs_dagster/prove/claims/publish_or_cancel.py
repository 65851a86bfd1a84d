"""An upload that is published and cancelled at the same moment."""

from __future__ import annotations

import re
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.jobs import upload_cleanup
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.stage import clean_up, has_to_wait, store_upload, together
from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    import threading
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

Wish = Literal["publish", "cancel"]
_PUBLISH: Wish = "publish"
_CANCEL: Wish = "cancel"

ROUNDS = 10
KEY = "files/invoice.pdf"

# The same two tables without the project's triggers and constraints.
_SCRATCH = (
    "CREATE TABLE careless_upload (id integer, state text, storage_key text)",
    "CREATE TABLE careless_attachment (upload_id integer, storage_key text)",
    f"INSERT INTO careless_upload VALUES (1, 'stored', '{KEY}')",  # noqa: S608 (of this module)
)
CHECK = "SELECT state, storage_key FROM careless_upload WHERE id = 1"
THEN_PUBLISH = (
    "INSERT INTO careless_attachment SELECT id, storage_key FROM careless_upload WHERE id = 1",
    "UPDATE careless_upload SET state = 'ready' WHERE id = 1",
)
THEN_CANCEL = "UPDATE careless_upload SET state = 'cleanup' WHERE id = 1"
COLLECT = "SELECT storage_key FROM careless_upload WHERE state = 'cleanup'"

_ATTACHED = "SELECT storage_key FROM attachment"
_CANCELLED = "SELECT storage_key FROM upload WHERE state IN ('cleanup', 'cleaned')"
_SOURCE = "SELECT prosrc FROM pg_proc WHERE oid = %(name)s::regproc"


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        return Evidence(_careless(scene, store), _guarded(scene, store))


def _careless(scene: Scene, store: Store) -> Side:
    for statement in _SCRATCH:
        scene.rows(statement)
    store.put(KEY, b"an invoice")
    with (
        scene.connect("careless cancel") as canceller,
        scene.connect("careless publish") as publisher,
        scene.database.transaction(canceller) as cancelling,
    ):
        seen = [one(cancelling.execute(CHECK))[0]]
        with scene.database.transaction(publisher) as publishing:
            seen.append(one(publishing.execute(CHECK))[0])
            for statement in THEN_PUBLISH:
                publishing.execute(statement)
        cancelling.execute(THEN_CANCEL)
    for (key,) in scene.rows(COLLECT):
        store.client.delete_object(Bucket=store.name, Key=key)
    attachments = int(scene.value("SELECT count(*) FROM careless_attachment"))
    return Side(
        "look at the state, then write",
        ";\n".join([CHECK, f"-- 'stored', for both\n{THEN_PUBLISH[0]}", THEN_PUBLISH[1]])
        + f";\n{THEN_CANCEL};\n{COLLECT};\n-- S3: DeleteObject",
        (
            ("state that each saw", ", ".join(seen)),
            ("the client that published was told", "published"),
            ("the client that cancelled was told", "cancelled"),
            ("attachments that users see", attachments),
            ("HEAD of the attachment's object", store.head(KEY)),
        ),
        lost=attachments > 0 and not store.has(KEY),
    )


def _guarded(scene: Scene, store: Store) -> Side:
    answers, waited = [], True
    for first, second in ((_PUBLISH, _CANCEL), (_CANCEL, _PUBLISH)):
        won, has_waited = _second_meets_first(scene, store, first, second)
        answers.append(won)
        waited = waited and has_waited
    answers += _at_once(scene, store)
    both = sum(won == {_PUBLISH, _CANCEL} for won in answers)
    neither = sum(not won for won in answers)
    outcome = clean_up(scene, store)
    attached = [key for (key,) in scene.rows(_ATTACHED)]
    broken = sum(not store.has(key) for key in attached)
    left = sum(store.has(key) for (key,) in scene.rows(_CANCELLED))
    facts: tuple[tuple[str, FactValue], ...] = (
        ("uploads", len(answers)),
        ("the second waited for the first to commit", waited),
        ("publish won", sum(won == {_PUBLISH} for won in answers)),
        ("cancel won", sum(won == {_CANCEL} for won in answers)),
        ("both won, or neither", both + neither),
        (f"objects that {upload_cleanup.JOB} removed", outcome.acted),
        ("attachments that users see", len(attached)),
        ("of these without their object", broken),
        ("objects of cancelled uploads that are left", left),
    )
    return Side(
        "one UPDATE each, which repeats the state: publish_upload and cancel_upload",
        "\n\n".join(_update_of(scene, name) for name in ("publish_upload", "cancel_upload")),
        facts,
        lost=bool(both or neither or broken or left) or not waited,
    )


def _wins(scene: Scene, cursor: psycopg.Cursor[TupleRow], upload: UUID, wish: Wish) -> set[Wish]:
    """Do what is wished for, as an application does; the wish, if its client was told it won."""
    uploads = Uploads(cursor, scene.database.schema)
    if wish == _PUBLISH:
        return {wish} if uploads.publish(upload, "message 17") is not None else set()
    return {wish} if uploads.cancel(upload) == "cleanup" else set()


def _second_meets_first(
    scene: Scene, store: Store, first: Wish, second: Wish
) -> tuple[set[Wish], bool]:
    """Let the second come while the first has not committed; tell whether it had to wait."""
    upload = store_upload(scene, store)
    process: Future[int] = Future()

    def late() -> set[Wish]:
        with (
            scene.connect("second client") as connection,
            scene.database.transaction(connection) as cursor,
        ):
            process.set_result(connection.info.backend_pid)
            return _wins(scene, cursor, upload, second)

    with ThreadPoolExecutor(1) as pool, scene.connect("first client") as connection:
        with scene.database.transaction(connection) as cursor:
            won = _wins(scene, cursor, upload, first)
            working = pool.submit(late)
            waited = has_to_wait(scene, process, working)
        return won | working.result(), waited


def _at_once(scene: Scene, store: Store) -> list[set[Wish]]:
    """Let both go off at the same moment, for one upload after the other."""
    uploads = [store_upload(scene, store) for _ in range(ROUNDS)]

    def client(number: int, barrier: threading.Barrier) -> list[set[Wish]]:
        wish = (_PUBLISH, _CANCEL)[number]
        answers = []
        with scene.connect(wish) as connection:
            for upload in uploads:
                barrier.wait()
                with scene.database.transaction(connection) as cursor:
                    answers.append(_wins(scene, cursor, upload, wish))
        return answers

    published, cancelled = together(2, client)
    return [first | second for first, second in zip(published, cancelled, strict=True)]


def _update_of(scene: Scene, function: str) -> str:
    """The claim in a function's own text, as PostgreSQL has it."""
    source = str(scene.value(_SOURCE, {"name": function}))
    found = re.search(r"^ *UPDATE upload.*?;", source, re.DOTALL | re.MULTILINE)
    return f"-- {function}\n{tidy(found[0] if found else source)}"


CLAIM = Claim(
    "publish-or-cancel",
    "Of publish and cancel at the same moment exactly one wins, and what is visible has its bytes.",
    _demonstrate,
)
