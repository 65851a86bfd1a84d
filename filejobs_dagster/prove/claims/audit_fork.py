"""Two appenders to one hash chain at the same moment."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.stage import has_to_wait, those_that, together, watch

if TYPE_CHECKING:
    import threading

    from filejobs_dagster.prove.stage import Scene, Stage

CHAIN = "prove"
ROUNDS = 10
EVENTS = 3
APPENDERS = 2

# The same columns without the constraints, so that what the statement does can be seen.
_SCRATCH = "CREATE TABLE careless_event (LIKE audit_event INCLUDING DEFAULTS)"

READ_THE_HEAD = tidy(
    """
    SELECT seq, hash
      FROM careless_event
     ORDER BY seq DESC
     LIMIT 1
    """
)
THEN_INSERT = tidy(
    """
    INSERT INTO careless_event
        (chain_id, seq, recorded_at, body, body_hash, prev_hash, hash, alg)
    SELECT %(chain)s, %(seq)s, clock_timestamp(), %(body)s, sha256(convert_to(%(body)s, 'UTF8')),
           %(parent)s::bytea, sha256(%(parent)s::bytea || convert_to(%(body)s, 'UTF8')), 1
    """
)
_GENESIS = bytes(32)

_MEASURE = """
SELECT count(*),
       count(DISTINCT seq),
       coalesce(max(seq), 0),
       count(*) - count(DISTINCT prev_hash),
       count(*) FILTER (WHERE parent IS NOT NULL AND prev_hash <> parent)
  FROM (SELECT seq, prev_hash, lag(hash) OVER (ORDER BY seq) AS parent FROM {table}) AS link
"""


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        return Evidence(_careless(scene), _guarded(scene))


def _careless(scene: Scene) -> Side:
    scene.rows(_SCRATCH)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(scene.connect(f"careless appender {number}"))
            for number in range(APPENDERS)
        ]
        for round_number in range(ROUNDS):
            with ExitStack() as transactions:
                cursors = [
                    transactions.enter_context(scene.database.transaction(connection))
                    for connection in connections
                ]
                heads = []
                for cursor in cursors:
                    cursor.execute(READ_THE_HEAD)
                    heads.append(cursor.fetchone() or (0, _GENESIS))
                for number, (cursor, (seq, parent)) in enumerate(zip(cursors, heads, strict=True)):
                    body = f'{{"appender":{number},"round":{round_number}}}'
                    values = {"chain": CHAIN, "seq": seq + 1, "body": body, "parent": parent}
                    cursor.execute(THEN_INSERT, values)
    facts, sound = _measured(scene, "careless_event", expected=ROUNDS * APPENDERS)
    return Side(
        "read the head, then insert its child",
        f"{READ_THE_HEAD};\n\n{THEN_INSERT}",
        (("appenders at once", APPENDERS), *facts),
        lost=not sound,
    )


def _guarded(scene: Scene) -> Side:
    # On the empty chain there is no head row yet to be locked, which is a case of its own.
    _, waited_at_the_beginning = _second_meets_first(scene, -2)
    statements, waited = _second_meets_first(scene, -1)

    def work(appender: int, barrier: threading.Barrier) -> None:
        with scene.connect(f"appender {appender}") as connection:
            for round_number in range(ROUNDS):
                barrier.wait()
                with scene.database.transaction(connection) as cursor:
                    append(cursor, _events(appender, round_number), chain=CHAIN)

    together(APPENDERS, work)
    expected = APPENDERS * EVENTS * (2 + ROUNDS)
    facts, sound = _measured(scene, "audit_event", expected=expected)
    return Side(
        "audit_append_many: the chain's head row is locked until the appender commits",
        those_that(statements, "SELECT first_seq"),
        (
            ("appenders at once", APPENDERS),
            ("on an empty chain, the second waited", waited_at_the_beginning),
            ("later, the second waited for the first to commit", waited),
            *facts,
        ),
        lost=not sound or not waited or not waited_at_the_beginning,
    )


def _second_meets_first(scene: Scene, round_number: int) -> tuple[list[str], bool]:
    """Let the second append while the first has not committed; tell whether it had to wait."""
    process: Future[int] = Future()

    def second() -> None:
        with (
            scene.connect("second appender") as connection,
            scene.database.transaction(connection) as cursor,
        ):
            cursor.execute("SELECT pg_backend_pid()")
            process.set_result(one(cursor)[0])
            append(cursor, _events(1, round_number), chain=CHAIN)

    with ThreadPoolExecutor(1) as pool, scene.connect("first appender") as connection:
        statements = watch(connection)
        with scene.database.transaction(connection) as cursor:
            append(cursor, _events(0, round_number), chain=CHAIN)
            appending = pool.submit(second)
            waited = has_to_wait(scene, process, appending)
        appending.result()
    return statements, waited


def _events(appender: int, round_number: int) -> list[dict[str, int]]:
    return [
        {"appender": appender, "round": round_number, "event": number} for number in range(EVENTS)
    ]


def _measured(
    scene: Scene, table: str, *, expected: int
) -> tuple[tuple[tuple[str, FactValue], ...], bool]:
    """Count events, forks, gaps and broken links; tell whether the chain is sound."""
    ((events, numbers, highest, forks, broken),) = scene.rows(_MEASURE.format(table=table))
    facts: tuple[tuple[str, FactValue], ...] = (
        ("events appended", expected),
        ("events in the table", events),
        ("sequence numbers used twice", events - numbers),
        ("sequence numbers left out", highest - numbers),
        ("forks: events with a sibling of the same parent", forks),
        ("links to another event than the one before", broken),
    )
    sound = events == numbers == highest == expected and forks == 0 and broken == 0
    return facts, sound


CLAIM = Claim(
    "audit-fork",
    "Two appenders at once neither fork the audit chain nor leave a gap in it.",
    _demonstrate,
)
