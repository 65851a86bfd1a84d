"""The session in which a chain is judged: one snapshot that the database cannot bend.

What sealing, trimming and restoring share stands here too: the lock of a chain, and refusals, each
with a code that says which and a sentence that says why.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from filejobs_dagster.postgres.connect import database_now, one
from filejobs_dagster.postgres.locks import Lease, LockTaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.note import Signer, TrustedKeys
    from filejobs_dagster.audit.verify.evidence import ChainFinding, VerifyPolicy
    from filejobs_dagster.postgres.connect import Connection, Database

UNKNOWN = "unknown"

_SETTINGS = {
    # A function or an operator of the judged schema must not stand in for PostgreSQL's own.
    "search_path": "pg_catalog",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    # A policy that hides rows must raise, not look like a gap.
    "row_security": "off",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_WRITING = {"client_encoding": "UTF8", "DateStyle": "ISO"}
_SINCE = {"transaction_timeout": 170000}


@contextmanager
def snapshot(database: Database, connection: Connection) -> Iterator[psycopg.Cursor[TupleRow]]:
    """Open a read-only transaction that sees one moment of the database, and end it.

    Tables must be named with their schema. In READ COMMITTED every statement would see another
    moment, and an append in between would look like damage.

    Args:
        database: Where the tables are.
        connection: One that has no transaction open.
    """
    usual = connection.isolation_level
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    try:
        with connection.transaction(), connection.cursor() as cursor:
            set_session(cursor, connection.info.server_version)
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true)",
                (f"{round(database.lock_timeout.total_seconds() * 1000)}ms",),
            )
            yield cursor
    finally:
        if not connection.closed:
            connection.isolation_level = usual
            connection.read_only = None


def set_writing(cursor: psycopg.Cursor[TupleRow]) -> None:
    """Make the settings of whoever writes seals and receipts, until the transaction ends.

    A note holds a character that LATIN1 does not have.
    """
    for name, value in _WRITING.items():
        cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))


def set_session(cursor: psycopg.Cursor[TupleRow], server_version: int) -> None:
    """Make the settings of a judge, until the transaction ends."""
    for name, value in _SETTINGS.items():
        if server_version >= _SINCE.get(name, 0):
            cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))


def table(database: Database, name: str) -> sql.Identifier:
    """A table of the project with its schema."""
    return sql.Identifier(database.schema, name)


def server_identity(cursor: psycopg.Cursor[TupleRow]) -> tuple[str, str]:
    """Return the server's system identifier and its timeline, which change when it is restored.

    Either is `unknown` where the role may not ask. A restored snapshot of a volume keeps both.
    """
    return _system_identifier(cursor), _timeline(cursor)


def is_standby(cursor: psycopg.Cursor[TupleRow]) -> bool:
    """Whether the server follows another one, and may be behind it."""
    cursor.execute("SELECT pg_catalog.pg_is_in_recovery()")
    return bool(one(cursor)[0])


def _system_identifier(cursor: psycopg.Cursor[TupleRow]) -> str:
    if not _may_call(cursor, "pg_catalog.pg_control_system()"):
        return UNKNOWN
    cursor.execute("SELECT system_identifier::text FROM pg_catalog.pg_control_system()")
    return str(one(cursor)[0])


def _timeline(cursor: psycopg.Cursor[TupleRow]) -> str:
    if is_standby(cursor):
        if not _may_call(cursor, "pg_catalog.pg_control_checkpoint()"):
            return UNKNOWN
        cursor.execute("SELECT timeline_id::text FROM pg_catalog.pg_control_checkpoint()")
        return str(one(cursor)[0])
    # The control file names the new timeline only after the first checkpoint behind a promotion.
    cursor.execute("SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn())")
    return str(int(str(one(cursor)[0])[:8], 16))


def _may_call(cursor: psycopg.Cursor[TupleRow], function: str) -> bool:
    cursor.execute("SELECT pg_catalog.has_function_privilege(%s, 'EXECUTE')", (function,))
    return bool(one(cursor)[0])


# The lock that a seal, a trim and a restore of one chain share.

SECONDS_FOR_A_GHOST = 0.5
"""A backend that ends tells its client so shortly before it frees its locks: a trim right behind a
seal would meet the lock of a session that is gone."""

_PAUSE = 0.05


def chain_lock(schema: str, chain: str) -> str:
    """Name of the lock. Appenders do not take it: they go on meanwhile."""
    return f"{schema}/audit/{chain}"


@contextmanager
def locked(
    database: Database, chain: str, refused: type[Refused], lease: Lease | None = None
) -> Iterator[Lease]:
    """Hold the chain's lock; prove it before each write.

    Args:
        database: Where the tables are.
        chain: Which chain.
        refused: What says that somebody else holds it.
        lease: The locks of a run, which takes this one on their connection; None for one of its
            own.

    Raises:
        Refused: Of the class that is given, with CHAIN_BUSY: somebody else holds it.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(LockTaken),
        stop=stop_after_delay(SECONDS_FOR_A_GHOST),
        wait=wait_fixed(_PAUSE),
        reraise=True,
    )
    name = chain_lock(database.schema, chain)
    with ExitStack() as stack:
        holding = lease
        if holding is None:
            holding = Lease(database, f"audit lock {chain}")
            stack.callback(holding.release)
        on = holding.for_a_while
        try:
            attempts(lambda: stack.enter_context(on(name)))
        except LockTaken as taken:
            raise refused(
                "CHAIN_BUSY", f"another session seals or trims the chain {chain!r}: wait for it."
            ) from taken
        yield holding


# Refusals of seal, trim and restore: a code that says which, and a sentence that says why.

_OLDER_DATABASE = frozenset({"PIN_AHEAD_SEAL", "PIN_TAIL"})
_TWO_HISTORIES = frozenset({"EQUIVOCATION", "SEAL_PIN_MISMATCH"})

WHAT_AFTER_ROLLBACK = (
    "The database is older than its pins: it was restored from a backup, or its newest part was "
    "removed. Verify the chain; if it was restored, acknowledge that with `filejobs audit "
    "restore`, and the chain goes on."
)


class Refused(Exception):
    """Nothing was sealed or removed.

    Attributes:
        code: Which refusal, such as `SEAL_GAP`.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class SealRefused(Refused):
    """A chain was not sealed."""


class TrimRefused(Refused):
    """A chain was not trimmed; batches that were committed before stay."""


class RestoreRefused(Refused):
    """A restore was not acknowledged."""


def code_for(findings: list[ChainFinding], *, gap: str) -> tuple[str, str]:
    """The code and the sentence of a refusal because of what was found.

    Args:
        findings: At least one.
        gap: The code when a number is missing.
    """
    codes = {finding.code for finding in findings}
    told = "; ".join(f"{finding.code}: {finding.message}" for finding in findings[:5])
    if codes & _TWO_HISTORIES and not codes & {"PIN_AHEAD_SEAL"}:
        return "EQUIVOCATION", told
    if codes & _OLDER_DATABASE:
        return "ROLLED_BACK", f"{told} {WHAT_AFTER_ROLLBACK}"
    if codes & {"EV_SEQ"}:
        return gap, told
    return "VERIFY_FAILED", told


def must_be_trusted(
    trusted: TrustedKeys, signers: Sequence[Signer], seal_no: int, refused: type[Refused]
) -> None:
    """Refuse to write what the verifier would not believe.

    Args:
        trusted: What the verifier believes.
        signers: Whoever signs.
        seal_no: The number of the seal that decides which keys count.
        refused: The class of the refusal.

    Raises:
        Refused: KEY_UNKNOWN.
    """
    if not trusted.configured or (not signers and seal_no <= trusted.unsigned_through):
        return
    known = {(key.name, key.key_id) for key in trusted.for_seal(seal_no)}
    if not any((signer.name, signer.key_id) in known for signer in signers):
        raise refused(
            "KEY_UNKNOWN",
            f"no key that signs here is one that the verifier believes for seal {seal_no}: add the "
            "public key to the verifier's settings, with the number of its first seal.",
        )


def must_have_the_right_time(
    database: Database, connection: Connection, policy: VerifyPolicy, refused: type[Refused]
) -> None:
    """Refuse to write under a clock that jumped: what it dates would stand for ever.

    The witness is the clock of the pins' place; where that has none, this machine's. Once both
    agree again, nothing that was written meanwhile holds anything up.

    Args:
        database: Whose clock it is.
        connection: One without an open transaction.
        policy: Where the pins are, and how far clocks may differ.
        refused: The class of the refusal.

    Raises:
        Refused: CLOCK_WRONG.
        PinStoreUnusable: The place does not answer.
    """
    before = _now(database, connection)
    place = None if policy.pins is None else policy.pins.now()
    witness = place or datetime.now(timezone.utc)
    tolerance = policy.clock_tolerance
    # The place may have taken its time to answer.
    if not before - tolerance <= witness <= _now(database, connection) + tolerance:
        whose = "this machine's" if place is None else "that of the pins' place"
        raise refused(
            "CLOCK_WRONG",
            f"the database's clock says {before.isoformat()}, {whose} {witness.isoformat()}: more "
            f"than {tolerance} apart. Set the one that is wrong.",
        )


def _now(database: Database, connection: Connection) -> datetime:
    with database.transaction(connection, read_only=True) as cursor:
        return database_now(cursor)
