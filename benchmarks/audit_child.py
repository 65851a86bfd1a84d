"""One check of a chain in a process of its own, which says what it found and what it took.

`python -m benchmarks.audit_child` reads its task, a JSON object, from standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from benchmarks.audit_chain import CHAIN, PURPOSE, verify_policy
from benchmarks.audit_one_by_one import check_in_a_loop
from benchmarks.child import ChildFailed, peak_kilobytes
from benchmarks.processor import own_and_server_seconds
from filejobs_dagster.audit.rows import genesis
from filejobs_dagster.audit.verify import Full, Incremental, verify_chain
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.postgres.connect import Connection

Who = Literal["full", "incremental", "linkage", "loop"]

_BROKEN_LINKS = """
SELECT count(*), min(seq) FILTER (WHERE broken)
  FROM (SELECT seq,
               prev_hash IS DISTINCT FROM lag(hash, 1, %(genesis)s) OVER in_order
                   OR seq <> lag(seq, 1, 0::bigint) OVER in_order + 1 AS broken
          FROM audit_event
         WHERE chain_id = %(chain)s
        WINDOW in_order AS (ORDER BY seq)) AS link
"""


@dataclass(frozen=True)
class Task:
    """What the process is to do.

    Attributes:
        who: The verifier in full or behind the newest pin; the links alone, without a hash; or a
            loop in Python.
        database_url: Where the events are.
        verifier: The public key.
        folder: Where the pins are.
    """

    who: Who
    database_url: str
    verifier: str
    folder: str


@dataclass(frozen=True)
class Done:
    """What the process found, and what it took.

    Attributes:
        rows: Events looked at.
        wrong: The numbers of those that do not match.
        seconds: From the first statement to the verdict; without imports.
        processor_seconds: Of this process and its server process in that time.
        own_processor_seconds: Of this process alone.
        peak_kilobytes: The most memory that was resident in this process at once.
    """

    rows: int
    wrong: list[int]
    seconds: float
    processor_seconds: float
    own_processor_seconds: float
    peak_kilobytes: int


def check(surroundings: Surroundings, task: Task) -> Done:
    """Start a process for the task and wait for its end.

    Raises:
        ChildFailed: It did not finish; why stands on standard error.
    """
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.audit_child"],
        input=json.dumps(asdict(task)),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=surroundings.environment(),
    )
    if process.returncode != 0:
        raise ChildFailed(f"The check ({task.who}) ended with exit code {process.returncode}.")
    return Done(**json.loads(process.stdout))


def main() -> None:
    """Do the task and say how it went."""
    task = Task(**json.loads(sys.stdin.read()))
    work = {"linkage": _linkage, "loop": _loop}.get(task.who, _verify)
    database = Database(task.database_url)
    with database.connect(PURPOSE) as connection:
        begun, own = time.perf_counter(), time.process_time()
        took = own_and_server_seconds(connection)
        rows, wrong = work(database, connection, task)
        took = own_and_server_seconds(connection) - took
        own, seconds = time.process_time() - own, time.perf_counter() - begun
    done = Done(rows, wrong, seconds, took, own, peak_kilobytes())
    sys.stdout.write(json.dumps(asdict(done)))


def _verify(database: Database, connection: Connection, task: Task) -> tuple[int, list[int]]:
    policy = verify_policy(task.verifier, task.folder)
    mode = Full() if task.who == "full" else Incremental()
    found = verify_chain(database, connection, CHAIN, policy, mode=mode)
    return found.rows, [one.seq or 0 for one in found.findings]


def _linkage(_database: Database, connection: Connection, _task: Task) -> tuple[int, list[int]]:
    values = {"chain": CHAIN, "genesis": genesis(CHAIN)}
    ((rows, first),) = connection.execute(_BROKEN_LINKS, values).fetchall()
    return rows, [] if first is None else [first]


def _loop(_database: Database, connection: Connection, _task: Task) -> tuple[int, list[int]]:
    return check_in_a_loop(connection)


if __name__ == "__main__":
    main()
