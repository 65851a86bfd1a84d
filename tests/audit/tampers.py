"""What may be done to a chain and its pins, and exactly what each verification finds.

`sealed` is a verifier without pins, `full` one with them, `incremental` one that believes the
newest pin. Each column is a set of codes, so that the right alarm is raised for the right reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.note import generate, sign_note, text_of
from filejobs_dagster.audit.statement import ManifestStatement, moment_text, sha256_of
from tests.audit.tools import OF_CHAIN, Attack, signed_seal
from tests.audit.world import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.audit.verify import VerifyPolicy

WRONG = generate("files.example/audit-seal")
"""A key of the right name that nobody believes."""


@dataclass(frozen=True)
class Tamper:
    name: str
    apply: Callable[[Attack], object]
    sealed: str
    full: str
    incremental: str
    policy: Callable[[VerifyPolicy], VerifyPolicy] = lambda policy: policy


TAMPERS: list[Tamper] = []


def tamper(
    name: str, sealed: str, full: str, incremental: str, **more: Any
) -> Callable[[Callable[[Attack], object]], Callable[[Attack], object]]:
    def register(function: Callable[[Attack], object]) -> Callable[[Attack], object]:
        TAMPERS.append(Tamper(name, function, sealed, full, incremental, **more))
        return function

    return register


@tamper("nothing", "", "", "")
def _(attack: Attack) -> None:
    pass


@tamper("edit the body of one event", "EV_BODY", "EV_BODY", "")
def _(a: Attack) -> None:
    a.run("UPDATE audit_event SET body = '{}' WHERE chain_id = 'a' AND seq = 80")


@tamper("edit a body and its hash", "EV_HASH", "EV_HASH", "")
def _(a: Attack) -> None:
    a.edit(80)


@tamper("edit a time by a microsecond", "EV_HASH", "EV_HASH", "")
def _(a: Attack) -> None:
    a.run(
        "UPDATE audit_event SET recorded_at = recorded_at + interval '1 microsecond'"
        " WHERE chain_id = 'a' AND seq = 100"
    )


@tamper("edit the algorithm's number", "EV_HASH", "EV_HASH", "")
def _(a: Attack) -> None:
    a.run("UPDATE audit_event SET alg = 2 WHERE chain_id = 'a' AND seq = 80")


@tamper(
    "edit, and chain anew up to the head",
    "SEAL_HEAD SEAL_ROOT",
    "PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "EV_LINK",
)
def _(a: Attack) -> None:
    a.edit(80)
    a.rechain()


@tamper(
    "and rewrite the seals with a wrong key",
    "SEAL_SIG",
    "PIN_HEAD PIN_ROOT SEAL_PIN_MISMATCH SEAL_SIG",
    "EV_LINK SEAL_PIN_MISMATCH SEAL_SIG",
)
def _(a: Attack) -> None:
    a.edit(80)
    a.rechain()
    a.reseal(WRONG)


@tamper(
    "and rewrite the seals with the stolen key",
    "",
    "PIN_HEAD PIN_ROOT SEAL_PIN_MISMATCH",
    "EV_LINK SEAL_PIN_MISMATCH",
)
def _(a: Attack) -> None:
    a.edit(80)
    a.rechain()
    a.reseal(a.world.signer)


@tamper("MISSED: edit an event that is not sealed yet, and chain anew", "", "", "")
def _(a: Attack) -> None:
    a.edit(108)
    a.rechain()


@tamper("delete in the middle", "EV_LINK EV_SEQ SEAL_ROOT", "EV_LINK EV_SEQ PIN_ROOT SEAL_ROOT", "")
def _(a: Attack) -> None:
    a.delete("seq = 80")


@tamper(
    "delete in the middle, number and chain anew",
    "CP_NO_EVENT HOLD_MISMATCH SEAL_HEAD SEAL_ROOT",
    "CP_NO_EVENT HOLD_MISMATCH PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "CP_NO_EVENT EV_LINK HOLD_MISMATCH",
)
def _(a: Attack) -> None:
    a.delete("seq = 80")
    a.rechain()


@tamper(
    "delete the first surviving event",
    "EV_LINK EV_SEQ SEAL_ROOT",
    "EV_LINK EV_SEQ PIN_ROOT SEAL_ROOT",
    "",
)
def _(a: Attack) -> None:
    a.delete("seq = 51")


@tamper(
    "delete the event at a seal's boundary",
    "EV_LINK EV_SEQ SEAL_HEAD SEAL_ROOT",
    "EV_LINK EV_SEQ PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "",
)
def _(a: Attack) -> None:
    a.delete("seq = 75")


@tamper(
    "delete the first ten surviving events",
    "EV_LINK EV_SEQ SEAL_ROOT",
    "EV_LINK EV_SEQ PIN_ROOT SEAL_ROOT",
    "",
)
def _(a: Attack) -> None:
    a.delete("seq <= 60")


@tamper("delete the newest event", "HEAD_ROW", "HEAD_ROW", "HEAD_ROW")
def _(a: Attack) -> None:
    a.delete("seq = 109")


@tamper("MISSED: delete the newest event and set the head back", "", "", "")
def _(a: Attack) -> None:
    a.delete("seq = 109")
    a.head()


@tamper(
    "delete past the last seal and set the head back",
    "CP_NO_EVENT SEAL_TAIL",
    "CP_NO_EVENT PIN_TAIL SEAL_TAIL",
    "CP_NO_EVENT HEAD_ROW",
)
def _(a: Attack) -> None:
    a.delete("seq > 104")
    a.head()


@tamper(
    "and delete the last seal",
    "CP_NO_EVENT",
    "CP_NO_EVENT PIN_AHEAD_SEAL PIN_TAIL",
    "CP_NO_EVENT PIN_AHEAD_SEAL PIN_TAIL",
)
def _(a: Attack) -> None:
    a.delete("seq > 104")
    a.head()
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = 5")


@tamper("swap two bodies with their hashes", "EV_HASH", "EV_HASH", "")
def _(a: Attack) -> None:
    bodies = {row[0]: row[2] for row in a.rows()}
    a.edit(80, bodies[81])
    a.edit(81, bodies[80])


@tamper(
    "swap two events and chain anew",
    "SEAL_HEAD SEAL_ROOT",
    "PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "EV_LINK",
)
def _(a: Attack) -> None:
    bodies = {row[0]: row[2] for row in a.rows()}
    a.edit(80, bodies[81])
    a.edit(81, bodies[80])
    a.rechain()


@tamper(
    "insert an event between, number and chain anew",
    "CP_NO_EVENT HOLD_MISMATCH SEAL_HEAD SEAL_ROOT TABLES",
    "CP_NO_EVENT HOLD_MISMATCH PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT TABLES",
    "CP_NO_EVENT EV_LINK HOLD_MISMATCH TABLES",
)
def _(a: Attack) -> None:
    a.run("ALTER TABLE audit_event DROP CONSTRAINT audit_event_one_child_per_parent")
    a.run("UPDATE audit_event SET seq = -seq - 1 WHERE chain_id = 'a' AND seq >= 80")
    a.run("UPDATE audit_event SET seq = -seq WHERE chain_id = 'a' AND seq < 0")
    a.run(
        "INSERT INTO audit_event SELECT chain_id, 80, "
        "recorded_at, '{}', body_hash, body_hash, hash, 1"
        " FROM audit_event WHERE chain_id = 'a' AND seq = 79",
    )
    a.rechain()


@tamper(
    "put an event of another chain in",
    "EV_HASH EV_LINK EV_TIME SEAL_ROOT",
    "EV_HASH EV_LINK EV_TIME PIN_ROOT SEAL_ROOT",
    "",
)
def _(a: Attack) -> None:
    a.delete("seq = 80")
    a.run(
        "INSERT INTO audit_event SELECT 'a', seq, recorded_at, body, body_hash, prev_hash, hash,"
        " alg FROM audit_event WHERE chain_id = 'b' AND seq = 80"
    )


@tamper("MISSED: a false event through the append", "", "", "")
def _(a: Attack) -> None:
    a.run("SELECT FROM audit_append_many('a', ARRAY['{\"false\":true}'])")


@tamper(
    "shorten a hash",
    "EV_HASH EV_LINK SEAL_ROOT TABLES",
    "EV_HASH EV_LINK PIN_ROOT SEAL_ROOT TABLES",
    "TABLES",
)
def _(a: Attack) -> None:
    a.run("ALTER TABLE audit_event DROP CONSTRAINT audit_event_hashes_are_sha256")
    a.run("UPDATE audit_event SET hash = '\\x00' WHERE chain_id = 'a' AND seq = 80")


@tamper("an infinite time", "EV_HASH EV_TIME", "EV_HASH EV_TIME", "")
def _(a: Attack) -> None:
    a.run("UPDATE audit_event SET recorded_at = 'infinity' WHERE chain_id = 'a' AND seq = 80")


@tamper("switch the triggers of the log off", "TABLES", "TABLES", "TABLES")
def _(a: Attack) -> None:
    a.run("ALTER TABLE audit_event DISABLE TRIGGER ALL")


@tamper("put a view in the place of the events", "TABLES", "TABLES", "TABLES")
def _(a: Attack) -> None:
    a.run("ALTER TABLE audit_event RENAME TO kept; CREATE VIEW audit_event AS SELECT * FROM kept")


@tamper("edit the genesis in the head row", "GENESIS", "GENESIS", "GENESIS")
def _(a: Attack) -> None:
    a.run("UPDATE audit_chain SET genesis = head_hash WHERE chain_id = 'a'")


@tamper(
    "a forged seal with a wrong key", "SEAL_SIG", "SEAL_SIG SEAL_UNPINNED", "SEAL_SIG SEAL_UNPINNED"
)
def _(a: Attack) -> None:
    a.forge_seal(WRONG)


@tamper("a forged seal with the stolen key, not pinned", "", "SEAL_UNPINNED", "SEAL_UNPINNED")
def _(a: Attack) -> None:
    a.forge_seal(a.world.signer)


@tamper(
    "a seal without a signature",
    "SEAL_SIG",
    "SEAL_PIN_MISMATCH SEAL_SIG",
    "SEAL_PIN_MISMATCH SEAL_SIG",
)
def _(a: Attack) -> None:
    a.run(
        "UPDATE audit_seal SET note = split_part(note, E'\\n\\n', 1) || E'\\n'"
        " WHERE chain_id = 'a' AND seal_no = 5"
    )


@tamper("a seal outside of its key's interval", "SEAL_SIG", "MANIFEST PIN_SIG SEAL_SIG",
        "SEAL_SIG", policy=lambda policy: replace(policy, trusted=replace(
            policy.trusted, keys=(replace(policy.trusted.keys[0], first_seal=2),))))  # fmt: skip
def _(a: Attack) -> None:
    pass


@tamper(
    "edit a seal's size",
    "SEAL_FIELDS SEAL_HEAD SEAL_ROOT",
    "SEAL_FIELDS SEAL_HEAD SEAL_ROOT",
    "SEAL_FIELDS",
)
def _(a: Attack) -> None:
    a.run("UPDATE audit_seal SET size = 90 WHERE chain_id = 'a' AND seal_no = 4")


@tamper("edit a seal's time to infinity", "SEAL_FIELDS", "SEAL_FIELDS", "SEAL_FIELDS")
def _(a: Attack) -> None:
    a.run("UPDATE audit_seal SET sealed_at = 'infinity' WHERE chain_id = 'a' AND seal_no = 4")


@tamper("break a seal's frontier", "SEAL_FIELDS", "SEAL_FIELDS", "SEAL_FIELDS")
def _(a: Attack) -> None:
    a.run("UPDATE audit_seal SET frontier = '\\x00' WHERE chain_id = 'a' AND seal_no = 5")


@tamper("delete a middle seal", "SEAL_CHAIN", "SEAL_CHAIN", "SEAL_CHAIN")
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = 4")


@tamper("delete the last seal", "", "PIN_AHEAD_SEAL", "PIN_AHEAD_SEAL")
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = 5")


@tamper("delete all seals", "CP_NO_SEAL", "CP_NO_SEAL PIN_AHEAD_SEAL", "CP_NO_SEAL PIN_AHEAD_SEAL")
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a'")


def _cut(key_of: Callable[[Attack], Any], *, event: bool) -> Callable[[Attack], None]:
    def apply(a: Attack) -> None:
        a.forge_checkpoint(key_of(a), 70, event=event)

    return apply


# All of them cut what the hold of event 101 keeps.
tamper(
    "a forged trim with a wrong key",
    "CP_HOLD CP_SIG",
    "CP_HOLD CP_SIG CP_UNPINNED",
    "CP_HOLD CP_SIG CP_UNPINNED",
)(_cut(lambda _: WRONG, event=True))
tamper(
    "a forged trim with the stolen key", "CP_HOLD", "CP_HOLD CP_UNPINNED", "CP_HOLD CP_UNPINNED"
)(_cut(lambda a: a.world.signer, event=True))
tamper(
    "a forged trim with the stolen key and no event",
    "CP_HOLD CP_NO_EVENT",
    "CP_HOLD CP_NO_EVENT CP_UNPINNED",
    "CP_HOLD CP_NO_EVENT CP_UNPINNED",
)(_cut(lambda a: a.world.signer, event=False))


@tamper("use the signed and pinned receipt of a trim that a hold refused", *["CP_HOLD"] * 3)
def _(a: Attack) -> None:
    a.pin_trim(a.forge_checkpoint(a.world.signer, 70, event=True))


@tamper(
    "a forged trim with the stolen key, pinned, of young events",
    "CP_HOLD",
    "CP_HOLD CP_RETENTION",
    "CP_HOLD CP_RETENTION",
)
def _(a: Attack) -> None:
    a.pin_trim(a.forge_checkpoint(a.world.signer, 70, event=True,
                                  last_at="2999-01-01T00:00:00.000000Z"))  # fmt: skip


@tamper(
    "a trim that kept less than the verifier demands",
    "CP_RETENTION",
    "CP_RETENTION",
    "CP_RETENTION",
    policy=lambda policy: replace(policy, minimum_retention=151 * DAY),
)
def _(a: Attack) -> None:
    pass


@tamper(
    "edit a checkpoint's count", "CP_COUNT CP_FIELDS", "CP_COUNT CP_FIELDS", "CP_COUNT CP_FIELDS"
)
def _(a: Attack) -> None:
    a.run("UPDATE audit_checkpoint SET events = 9 WHERE chain_id = 'a' AND checkpoint_no = 3")


@tamper(
    "stretch the last checkpoint over five more events",
    "CP_FIELDS CP_NO_SEAL SEAL_ROOT",
    "CP_FIELDS CP_NO_SEAL PIN_ROOT SEAL_ROOT",
    "CP_FIELDS CP_NO_SEAL",
)
def _(a: Attack) -> None:
    a.run(
        "UPDATE audit_checkpoint SET to_seq = 55, events = events + 5, last_hash ="
        " (SELECT hash FROM audit_event WHERE chain_id = 'a' AND seq = 55)"
        " WHERE chain_id = 'a' AND checkpoint_no = 3"
    )
    a.delete("seq <= 55")


@tamper(
    "delete the first checkpoint",
    "CP_CHAIN CP_DELETED",
    "CP_CHAIN CP_DELETED",
    "CP_CHAIN CP_DELETED",
)
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_checkpoint WHERE chain_id = 'a' AND checkpoint_no = 1")


@tamper(
    "delete the last checkpoint",
    "CP_DELETED EV_LINK EV_SEQ SEAL_HEAD SEAL_ROOT",
    "CP_DELETED EV_LINK EV_SEQ PIN_AHEAD_TRIM PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "CP_DELETED PIN_AHEAD_TRIM",
)
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_checkpoint WHERE chain_id = 'a' AND checkpoint_no = 3")


@tamper(
    "delete all checkpoints",
    "CP_DELETED EV_LINK EV_SEQ SEAL_HEAD SEAL_ROOT",
    "CP_DELETED EV_LINK EV_SEQ PIN_AHEAD_TRIM PIN_HEAD PIN_ROOT SEAL_HEAD SEAL_ROOT",
    "CP_DELETED PIN_AHEAD_TRIM",
)
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_checkpoint WHERE chain_id = 'a'")


@tamper("bring a trimmed event back", "EV_BELOW_CP", "EV_BELOW_CP", "EV_BELOW_CP")
def _(a: Attack) -> None:
    a.run(
        "INSERT INTO audit_event SELECT chain_id, 40, "
        "recorded_at, body, body_hash, body_hash, hash, 1"
        " FROM audit_event WHERE chain_id = 'a' AND seq = 51",
    )


@tamper("release a hold without an event", "HOLD_MISMATCH", "HOLD_MISMATCH", "HOLD_MISMATCH")
def _(a: Attack) -> None:
    a.run(
        "UPDATE audit_hold SET released_at = now(), released_by = 'x', release_event_seq = 103"
        " WHERE released_at IS NULL"
    )


@tamper("delete a hold", "HOLD_MISMATCH", "HOLD_MISMATCH", "HOLD_MISMATCH")
def _(a: Attack) -> None:
    a.run("DELETE FROM audit_hold WHERE released_at IS NULL")


@tamper("a hold that no event set", "HOLD_MISMATCH", "HOLD_MISMATCH", "HOLD_MISMATCH")
def _(a: Attack) -> None:
    a.run("UPDATE audit_hold SET hold_id = 'other' WHERE released_at IS NULL")


@tamper("move a hold", "HOLD_MISMATCH", "HOLD_MISMATCH", "HOLD_MISMATCH")
def _(a: Attack) -> None:
    a.run("UPDATE audit_hold SET from_seq = 99")


@tamper(
    "wipe the chain",
    "CHAIN_MISSING",
    "CHAIN_MISSING PIN_AHEAD_SEAL PIN_AHEAD_TRIM",
    "CHAIN_MISSING PIN_AHEAD_SEAL PIN_AHEAD_TRIM",
)
def _(a: Attack) -> None:
    a.wipe()


@tamper(
    "wipe the chain and begin another, sealed with the stolen key",
    "",
    "MANIFEST PIN_AHEAD_SEAL PIN_HEAD PIN_ROOT SEAL_PIN_MISMATCH",
    "EV_LINK MANIFEST PIN_AHEAD_SEAL PIN_HEAD PIN_ROOT SEAL_PIN_MISMATCH SEAL_ROOT",
)
def _(a: Attack) -> None:
    first = a.seals()[0]
    a.wipe()
    a.begin_again(120)
    tree = a.tree(120)
    a.insert_seal(signed_seal(
        replace(first, size=120, head_hash=bytes(a.rows()[-1][3]), root=tree.root(),
                frontier=tree.to_bytes()), a.world.signer))  # fmt: skip


@tamper(
    "set everything back to the state at seal 4",
    "CP_NO_EVENT",
    "CP_NO_EVENT PIN_AHEAD_SEAL PIN_TAIL",
    "CP_NO_EVENT PIN_AHEAD_SEAL PIN_TAIL",
)
def _(a: Attack) -> None:
    a.delete("seq > 100")
    a.head()
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = 5")
    a.run("DELETE FROM audit_hold WHERE chain_id = 'a'")


@tamper("a second text at a pin's place", "", "EQUIVOCATION", "EQUIVOCATION")
def _(a: Attack) -> None:
    key = OF_CHAIN.seal_key(1, 4)
    a.pins.objects[key].append((datetime.now(timezone.utc), b"other"))


@tamper("another text at a pin's place", "", *["PIN_REPLACED PIN_SIG SEAL_PIN_MISMATCH"] * 2)
def _(a: Attack) -> None:
    key = OF_CHAIN.seal_key(1, 4)
    a.pins.objects[key] = [(datetime.now(timezone.utc), b"\xff\n")]


@tamper("a pin of another seal at a pin's place", "",
        *["PIN_REPLACED PIN_SIG SEAL_PIN_MISMATCH"] * 2)  # fmt: skip
def _(a: Attack) -> None:
    a.pins.objects[OF_CHAIN.seal_key(1, 4)] = a.pins.objects[OF_CHAIN.seal_key(1, 5)]


@tamper("a delete marker over a pin", "", "PIN_MARKER", "PIN_MARKER")
def _(a: Attack) -> None:
    a.pins.markers.add(OF_CHAIN.seal_key(1, 4))


@tamper("remove a pin", "", "PIN_GONE", "PIN_GONE")
def _(a: Attack) -> None:
    del a.pins.objects[OF_CHAIN.seal_key(1, 4)]


@tamper("remove a pin, and the row that says it was there", "", "SEAL_UNPINNED", "SEAL_UNPINNED")
def _(a: Attack) -> None:
    del a.pins.objects[OF_CHAIN.seal_key(1, 4)]
    a.run("DELETE FROM audit_pin WHERE object_key LIKE '%/1/seal/000000000004.note'")


@tamper("remove a pin, and put the same text anew", "", "PIN_REPLACED", "PIN_REPLACED")
def _(a: Attack) -> None:
    a.pins.replaced.add(OF_CHAIN.seal_key(1, 4))


@tamper("remove a trim's pin", "", "PIN_GONE", "PIN_GONE")
def _(a: Attack) -> None:
    del a.pins.objects[next(key for key in a.pins.objects if "a/1/trim/000000000002" in key)]


@tamper("a pin that was stored long before its seal", "", "EV_AHEAD PIN_TIME", "PIN_TIME")
def _(a: Attack) -> None:
    versions = a.pins.objects[OF_CHAIN.seal_key(1, 5)]
    versions[0] = (versions[0][0] - timedelta(hours=1), versions[0][1])


@tamper("date an event that is not sealed yet ahead", "EV_AHEAD", "EV_AHEAD", "EV_AHEAD")
def _(a: Attack) -> None:
    a.run("UPDATE audit_event SET recorded_at = now() + interval '1 day'"
          " WHERE chain_id = 'a' AND seq = 109")  # fmt: skip
    a.rechain()


@tamper("date a seal back before what it counts, with the stolen key, and pin it",
        "EV_AHEAD SEAL_TIME", "EV_AHEAD SEAL_TIME", "SEAL_TIME")  # fmt: skip
def _(a: Attack) -> None:
    row = a.forge_seal(a.world.signer)
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND seal_no = 6")
    earlier = moment_text(datetime.now(timezone.utc) - timedelta(hours=1))
    row = signed_seal(replace(row, sealed_at=earlier), a.world.signer)
    a.insert_seal(row)
    a.pin_seal(row)


@tamper("nobody seals any more", "SEALING_STOPPED", "SEALING_STOPPED", "SEALING_STOPPED",
        policy=lambda policy: replace(policy, seal_max_age=timedelta(microseconds=1)))  # fmt: skip
def _(a: Attack) -> None:
    pass


@tamper("another text at the place of a trim's pin", "", *["PIN_REPLACED PIN_SIG"] * 2)
def _(a: Attack) -> None:
    key = a.pins.under("a/1/trim/000000000002")[0]
    a.pins.objects[key] = [(datetime.now(timezone.utc), b"other")]


@tamper("remove a manifest", "", "PIN_GONE", "PIN_GONE")
def _(a: Attack) -> None:
    del a.pins.objects[a.pins.under("a/1/manifest/")[-1]]


@tamper("another text at a manifest's place", "", *["MANIFEST PIN_REPLACED"] * 2)
def _(a: Attack) -> None:
    key = a.pins.under("a/1/manifest/")[-1]
    a.pins.objects[key] = [(datetime.now(timezone.utc), a.pins.objects[key][0][1] + b"\n")]


def _manifest(**changes: Any) -> Callable[[Attack], None]:
    def apply(a: Attack) -> None:
        signer = changes.get("signer", a.world.signer)
        newest = a.pins.objects[a.pins.under("a/1/manifest/")[-1]][0][1].decode()
        stated = replace(
            ManifestStatement.parse(text_of(newest)),
            **{name: value for name, value in changes.items() if name != "signer"},
        )
        note = sign_note(stated.text(), (signer,))
        key = OF_CHAIN.manifest_key(1, stated.seal_no, sha256_of(note))
        a.pins.put_once(key, note.encode(), retain_until=None)

    return apply


_MANIFESTS: dict[str, dict[str, Any]] = {
    "with a wrong key": {"signer": WRONG},
    "of another chain": {"chain": "b"},
    "that names another key": {"keys": (str(generate("other").verifier),)},
    "that names another pin": {"note": bytes(32)},
    "that names a pin that is not there": {"seal_no": 9},
    "that begins elsewhere": {"before": bytes(32)},
}
for _words, _changes in _MANIFESTS.items():
    tamper(f"a manifest {_words}", "", "MANIFEST", "MANIFEST")(_manifest(**_changes))


@tamper("a manifest that is no note", "", "MANIFEST", "MANIFEST")
def _(a: Attack) -> None:
    key = OF_CHAIN.manifest_key(1, 9, sha256_of("?"))
    a.pins.put_once(key, b"?", retain_until=None)


@tamper("a trim's pin that is no note", "", *["PIN_AHEAD_TRIM PIN_SIG"] * 2)
def _(a: Attack) -> None:
    a.pins.put_once(OF_CHAIN.trim_key(1, 9, bytes(32)), b"?", retain_until=None)


@tamper("another incarnation in the head row", "RESTORE", "RESTORE", "RESTORE")
def _(a: Attack) -> None:
    a.run("UPDATE audit_chain SET incarnation = 2 WHERE chain_id = 'a'")


@tamper("a body that is no JSON and names the audit", "EV_BODY", "EV_BODY", "")
def _(a: Attack) -> None:
    a.run("""UPDATE audit_event SET body = 'x "audit.trim" x' WHERE chain_id = 'a' AND seq = 80""")


@tamper("a body that JSON allows and PostgreSQL cannot read", "EV_BODY", "EV_BODY", "")
def _(a: Attack) -> None:
    body = r'{"k":"\u0000","word":"audit.trim"}'
    a.run(f"UPDATE audit_event SET body = '{body}' WHERE chain_id = 'a' AND seq = 80")


@tamper("an incarnation that nobody could count up to", "RESTORE", "RESTORE", "RESTORE")
def _(a: Attack) -> None:
    a.run("UPDATE audit_chain SET incarnation = 2147483647 WHERE chain_id = 'a'")


@tamper("release a hold by an event that was trimmed", *["HOLD_MISMATCH"] * 3)
def _(a: Attack) -> None:
    a.run(
        "UPDATE audit_hold SET released_at = now(), released_by = 'x', release_event_seq = 5"
        " WHERE released_at IS NULL"
    )
