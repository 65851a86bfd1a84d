"""What an attacker who owns the tables has: rewriting rows, the head, seals and receipts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.note import sign_note
from filejobs_dagster.audit.origin import Origin
from filejobs_dagster.audit.rows import Frontier
from filejobs_dagster.audit.statement import moment_text, sha256_of
from filejobs_dagster.audit.tables import (
    CheckpointRow,
    SealRow,
    base_of,
    read_checkpoints,
    read_seals,
)
from tests.audit.world import ORIGIN, MemoryPins, World, event_hash, genesis, sha256

if TYPE_CHECKING:
    import psycopg

    from filejobs_dagster.audit.note import Ed25519Signer

CHAIN = "a"
OF_CHAIN = Origin(ORIGIN, CHAIN)


@dataclass
class Attack:
    """One transaction that will be rolled back, and a copy of the pins."""

    cursor: psycopg.Cursor[Any]
    world: World
    pins: MemoryPins

    def run(self, statement: str, *values: Any) -> int:
        self.cursor.execute(statement.encode(), values or None)
        return self.cursor.rowcount

    def edit(self, seq: int, body: str = '{"forged":true}') -> None:
        self.run(
            "UPDATE audit_event SET body = %s, body_hash = sha256(convert_to(%s, 'UTF8'))"
            " WHERE chain_id = 'a' AND seq = %s", body, body, seq,
        )  # fmt: skip

    def delete(self, condition: str) -> None:
        self.run(f"DELETE FROM audit_event WHERE chain_id = 'a' AND {condition}")

    def rows(self, chain: str = CHAIN) -> list[tuple[Any, ...]]:
        self.cursor.execute(
            "SELECT seq, recorded_at, body, hash FROM audit_event WHERE chain_id = %s"
            " ORDER BY seq", (chain,),
        )  # fmt: skip
        return self.cursor.fetchall()

    def checkpoints(self) -> list[CheckpointRow]:
        return read_checkpoints(self.cursor, self.world.database, CHAIN)

    def seals(self) -> list[SealRow]:
        return read_seals(self.cursor, self.world.database, CHAIN)

    def rechain(self, *, head: bool = True) -> None:
        """Compute every live event anew, numbers included, and the head row."""
        base = base_of(CHAIN, self.checkpoints())
        previous, seq, values = base.hash, base.seq, []
        for old, moment, body, _ in self.rows():
            seq += 1
            own = event_hash(CHAIN, seq, moment, previous, body)
            values.append((seq, sha256(body.encode()), previous, own, old))
            previous = own
        # Numbers go through the negative, where nobody else is.
        self.cursor.executemany(
            "UPDATE audit_event SET seq = -%s, body_hash = %s, prev_hash = %s, hash = %s"
            " WHERE chain_id = 'a' AND seq = %s", values,
        )  # fmt: skip
        self.run("UPDATE audit_event SET seq = -seq WHERE chain_id = 'a' AND seq < 0")
        if head:
            self.head()

    def head(self) -> None:
        """Make the head row agree with the newest event."""
        base = base_of(CHAIN, self.checkpoints())
        seq, digest = [(base.seq, base.hash), *((row[0], row[3]) for row in self.rows())][-1]
        self.run(
            "UPDATE audit_chain SET head_seq = %s, head_hash = %s WHERE chain_id = 'a'",
            seq,
            digest,
        )

    def tree(self, size: int) -> Frontier:
        base = base_of(CHAIN, self.checkpoints())
        frontier = Frontier() if base.frontier is None else base.frontier.copy()
        frontier.extend(bytes(row[3]) for row in self.rows() if base.seq < row[0] <= size)
        return frontier

    def reseal(self, signer: Ed25519Signer) -> None:
        """Make every seal behind the base agree with the events, and sign it."""
        base = base_of(CHAIN, self.checkpoints())
        hashes = {row[0]: bytes(row[3]) for row in self.rows()}
        before = bytes(32)
        for seal in self.seals():
            row = replace(seal, prev_seal=before)
            if seal.size > base.seq and seal.size in hashes:
                tree = self.tree(seal.size)
                row = replace(
                    row, head_hash=hashes[seal.size], root=tree.root(), frontier=tree.to_bytes()
                )
            if row != seal:
                row = signed_seal(row, signer)
                self.run(
                    "DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = %s", row.seal_no
                )
                self.insert_seal(row)
            before = row.sha256

    def insert_seal(self, row: SealRow) -> None:
        self.run(
            "INSERT INTO audit_seal VALUES ('a', %s, %s, %s, %s, %s, %s, %s::timestamptz, %s, %s,"
            " %s, %s)", *vars(row).values(),
        )  # fmt: skip

    def forge_seal(self, signer: Ed25519Signer, **changes: Any) -> SealRow:
        """A sixth seal over everything that is there."""
        last = self.seals()[-1]
        size = self.rows()[-1][0]
        tree = self.tree(size)
        row = replace(
            last,
            seal_no=last.seal_no + 1,
            size=size,
            head_hash=bytes(self.rows()[-1][3]),
            root=tree.root(),
            frontier=tree.to_bytes(),
            sealed_at=moment_text(datetime.now(timezone.utc)),
            prev_seal=last.sha256,
            **changes,
        )
        row = signed_seal(row, signer)
        self.insert_seal(row)
        return row

    def insert_checkpoint(self, row: CheckpointRow) -> None:
        self.run(
            "INSERT INTO audit_checkpoint VALUES ('a', %s, %s, %s, %s, %s, %s::timestamptz,"
            " %s::timestamptz, %s, %s, %s, %s, %s, %s::timestamptz, %s, %s, %s, %s, %s, %s, %s)",
            *vars(row).values(),
        )

    def forge_checkpoint(
        self, signer: Ed25519Signer, to_seq: int, *, event: bool, **changes: Any
    ) -> CheckpointRow:
        """A fourth checkpoint, that cuts up to an event, with the event that names it."""
        last = self.checkpoints()[-1]
        hashes = {row[0]: bytes(row[3]) for row in self.rows()}
        row = replace(
            last,
            checkpoint_no=last.checkpoint_no + 1,
            from_seq=last.to_seq + 1,
            to_seq=to_seq,
            events=to_seq - last.to_seq,
            prev_hash=last.last_hash,
            last_hash=hashes[to_seq],
            frontier=self.tree(to_seq).to_bytes(),
            seal_no=3,
            prev_checkpoint=last.sha256,
            **changes,
        )
        row = signed_checkpoint(row, signer)
        if event:
            self.run(
                "SELECT FROM audit_append_many('a', ARRAY[%s])",
                '{"checkpoint":"4","kind":"audit.trim","note_sha256":"' + row.sha256.hex() + '"}',
            )
            row = replace(row, event_seq=self.rows()[-1][0])
        self.delete(f"seq <= {to_seq}")
        self.insert_checkpoint(row)
        return row

    def pin_seal(self, row: SealRow) -> None:
        self.pins.put_once(
            OF_CHAIN.seal_key(row.incarnation, row.seal_no), row.note.encode(), retain_until=None
        )

    def pin_trim(self, row: CheckpointRow) -> None:
        key = OF_CHAIN.trim_key(row.incarnation, row.checkpoint_no, sha256_of(row.note))
        self.pins.put_once(key, row.note.encode(), retain_until=None)

    def wipe(self) -> None:
        for table in ("event", "seal", "checkpoint", "hold", "chain"):
            self.run(f"DELETE FROM audit_{table} WHERE chain_id = 'a'")

    def begin_again(self, count: int) -> None:
        """A chain of that name with other events."""
        self.run(
            "INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)"
            " VALUES ('a', %s, 0, %s, now())", genesis(CHAIN), genesis(CHAIN),
        )  # fmt: skip
        bodies = [f'{{"other":{number}}}' for number in range(count)]
        self.run("SELECT FROM audit_append_many('a', %s::text[])", bodies)


def signed_seal(row: SealRow, signer: Ed25519Signer) -> SealRow:
    return replace(row, note=sign_note(row.statement(OF_CHAIN).text(), (signer,)))


def signed_checkpoint(row: CheckpointRow, signer: Ed25519Signer) -> CheckpointRow:
    return replace(row, note=sign_note(row.statement(OF_CHAIN).text(), (signer,)))
