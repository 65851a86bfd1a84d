"""A database that reports commits which it can still forget."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, NotShown, Side, tidy
from filejobs_dagster.prove.stage import Scene, Stage, those_that, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.prove.store import Store

KEY = "files/report.pdf"

CLAIM_AS_THE_SESSION_SAYS = """
DELETE FROM file
 WHERE state = 'pending' AND upload_expires_at < clock_timestamp()
RETURNING storage_key
"""

_STATE = "SELECT state FROM file WHERE storage_key = %(key)s"


def _demonstrate(stage: Stage) -> Evidence:
    with _forgetful_server() as server, ExitStack() as closing:
        own = Stage(server.url(), embedded=True, closing=closing)
        with own.scene() as careless, own.scene() as guarded:
            return Evidence(
                _careless(server, careless, stage.store()),
                _guarded(server, guarded, stage.store()),
            )


@contextmanager
def _forgetful_server() -> Iterator[EmbeddedPostgres]:
    """A server of the claim's own, because it is killed; its synchronous_commit is off."""
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres  # noqa: PLC0415 (only here)

    with EmbeddedPostgres.start(durable=False) as server:
        yield server


def _careless(server: EmbeddedPostgres, scene: Scene, store: Store) -> Side:
    _set_the_scene(server, scene, store)
    with scene.connect("careless") as connection:
        connection.execute(
            sql.SQL("SET search_path TO {}").format(sql.Identifier(scene.database.schema))
        )
        with connection.transaction():
            claimed = connection.execute(CLAIM_AS_THE_SESSION_SAYS).fetchall()
        if claimed != [(KEY,)]:
            raise NotShown("the careless claim did not win the row")
        store.client.delete_object(Bucket=store.name, Key=KEY)
        _crash(server)
    return _side(
        "claims in a transaction that commits as the server says",
        f"BEGIN;\n\n{tidy(CLAIM_AS_THE_SESSION_SAYS)};\n\nCOMMIT;",
        scene,
        store,
    )


def _guarded(server: EmbeddedPostgres, scene: Scene, store: Store) -> Side:
    watched: list[list[str]] = []

    def crash(**_: Any) -> None:
        # A run that tries what the server can do deletes an object of its own before.
        if not store.has(KEY):
            store.client.meta.events.unregister("after-call.s3.DeleteObjects", crash)
            _crash(server)

    store.client.meta.events.register("after-call.s3.DeleteObjects", crash)
    store.adopt(scene.database)
    _set_the_scene(server, scene, store)
    error: str | None = None
    # A collector whose own record was forgotten stops; what is left of the row is looked at.
    with suppress(GivenUp):
        outcome = collector.collect(
            scene.database,
            store,
            collector.new_run(),
            lambda connection: watched.append(watch(connection)),
        )
        error = outcome.error
    if store.has(KEY):
        raise NotShown(f"the project's collector did not come to the deletion: {error}")
    return _side(
        "the project's collector: each of its transactions asks for a commit that lasts",
        _beginning_and_claim(watched[0]),
        scene,
        store,
    )


def _beginning_and_claim(statements: list[str]) -> str:
    """The executed claim, and of what begins its transaction the part that is about the commit."""
    begins = those_that(statements, "SELECT set_config('search_path'")
    _, asked, rest = begins.partition("set_config('synchronous_commit'")
    asks = f"SELECT …,\n       {asked}{rest}" if asked else "-- no word of synchronous_commit"
    claim = those_that(statements, "DELETE FROM file")
    return "\n\n".join(["BEGIN;", f"{asks};", f"{claim};", "COMMIT;"])


def _set_the_scene(server: EmbeddedPostgres, scene: Scene, store: Store) -> None:
    """One expired reservation, safely on the disk; from then on only commits write the log."""
    collector.reserve(scene, store, KEY, b"a report")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    server.keep_log_in_memory()


def _crash(server: EmbeddedPostgres) -> None:
    server.crash()
    server.restart()


def _side(title: str, statement: str, scene: Scene, store: Store) -> Side:
    found = scene.rows(_STATE, {"key": KEY})
    row = str(found[0][0]) if found else None
    with scene.connect("observer") as connection:
        usual = connection.execute("SHOW synchronous_commit").fetchone() or ("",)
    return Side(
        title,
        f"{statement}\n\n-- S3: the object is deleted, storage answers\n"
        "-- every process of PostgreSQL is killed here",
        (
            ("synchronous_commit of the server", str(usual[0])),
            ("the row after the crash", f"{row}: it is back" if row else "gone: committed"),
            ("HEAD of its object", store.head(KEY)),
        ),
        lost=row is not None and not store.has(KEY),
    )


CLAIM = Claim(
    "asynchronous-commits",
    "A server that commits asynchronously, and is killed, brings no row back without its bytes.",
    _demonstrate,
)
