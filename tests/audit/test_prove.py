"""A proof of one event holds by itself, and no other file does."""

from __future__ import annotations

import ast
import json
import re
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.audit import offline
from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, sign_note, text_of
from filejobs_dagster.audit.offline import NotProven, check, check_file, main
from filejobs_dagster.audit.origin import Origin
from filejobs_dagster.audit.prove import FileProof, NothingToProve, prove_event, prove_file
from filejobs_dagster.postgres.connect import Database
from tests.audit.world import ORIGIN, World, tampering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

A = f"{ORIGIN}/a"


def prove(world: World, seq: int, chain: str = "a") -> str:
    return prove_event(world.database, world.connection, Origin(ORIGIN, chain), seq)[0]


def checked(world: World, proof: str, origin: str = A, **more: Any) -> dict[str, Any]:
    return check(proof, origin=origin, keys=[str(world.signer.verifier)], **more)


def test_every_live_event_is_proven_also_behind_a_trim(shared_world: World) -> None:
    for seq in range(51, 107):
        found = checked(shared_world, prove(shared_world, seq))
        body = shared_world.value(
            "SELECT body FROM audit_event WHERE chain_id = 'a' AND seq = %s", (seq,)
        )
        assert (found["seq"], found["body"]) == (seq, body)
    assert checked(shared_world, prove(shared_world, 7, "b"), f"{ORIGIN}/b")["size"] == 110


def test_what_is_trimmed_or_not_pinned_yet_is_not_proven(shared_world: World) -> None:
    for seq, why in ((50, "was trimmed"), (107, "no pinned seal"), (1_000, "no pinned seal")):
        with pytest.raises(NothingToProve, match=why):
            prove(shared_world, seq)


def test_forged_cut_replayed_and_signed_anew_are_refused(shared_world: World) -> None:
    proof = prove(shared_world, 80)
    said = json.loads(proof)
    other = json.loads(prove(shared_world, 81))
    pin = shared_world.pins.objects[said["pin"]][0][1]
    assert checked(shared_world, proof, pin=pin)["pin"] == "compared"

    def event(**changes: Any) -> dict[str, Any]:
        return {**said, "event": {**said["event"], **changes}}

    thief = generate(shared_world.signer.name)
    forged: dict[str, dict[str, Any]] = {
        "text": event(body='{"forged":true}'),
        "time": event(recorded_at="2020-01-01T00:00:00.000000Z"),
        "number": event(seq=81),
        "number beyond": event(seq=10**9),
        "number no number": event(seq=True),
        "before": event(prev_hash="00" * 32),
        "path cut": {**said, "path": said["path"][:-1]},
        "path longer": {**said, "path": [*said["path"], "00" * 32]},
        "path of another": {**said, "path": other["path"]},
        "event of another": {**said, "event": other["event"]},
        "chain": {**said, "chain": "b"},
        "note edited": {**said, "note": said["note"].replace("\n100\n", "\n99\n")},
        "note unsigned": {**said, "note": text_of(said["note"])},
        "signed anew": {**said, "note": sign_note(text_of(said["note"]), (thief,))},
        "no proof": {"format": "other"},
    }
    for name, one in forged.items():
        with pytest.raises(NotProven):
            pytest.fail(f"{name}: {checked(shared_world, json.dumps(one))}")
    for text in ("", proof[: len(proof) // 2], "[]", "null", "[" * 100_000):
        with pytest.raises(NotProven):
            checked(shared_world, text)
    # Replayed: a right proof for the wrong question.
    with pytest.raises(NotProven, match="not of"):
        checked(shared_world, proof, f"{ORIGIN}/b")
    with pytest.raises(NotProven, match="not of"):
        checked(shared_world, proof, "elsewhere.example/audit/a")
    with pytest.raises(NotProven, match="another text"):
        checked(
            shared_world,
            proof,
            pin=shared_world.pins.objects[f"{A}/1/seal/000000000005.note"][0][1],
        )
    with pytest.raises(NotProven, match="no key that you know"):
        check(proof, origin=A, keys=[str(generate("another").verifier)])


def _event(said: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**said, "event": {**said["event"], **changes}}


HALF = "\ud800"
OTHER_TEXTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "half a surrogate in the body": lambda said: _event(said, body=HALF),
    "half a surrogate in the chain": lambda said: {**said, "chain": HALF},
    "half a surrogate in the note": lambda said: {**said, "note": HALF + said["note"]},
    "a time without its zeros": lambda said: _event(
        said, recorded_at=re.sub(r"([-:T])0(\d)", r"\1\2", said["event"]["recorded_at"])
    ),
    "a time with other digits": lambda said: _event(
        said, recorded_at=said["event"]["recorded_at"].replace("2", "\u0662")
    ),
    "a short fraction": lambda said: _event(
        said, recorded_at=said["event"]["recorded_at"][:-2] + "Z"
    ),
    "a hash with spaces": lambda said: _event(said, prev_hash=said["event"]["prev_hash"] + " "),
    "a path in capitals": lambda said: {**said, "path": [one.upper() for one in said["path"]]},
    "a path that is no list": lambda said: {**said, "path": dict.fromkeys(said["path"], 1)},
}


@pytest.mark.parametrize("how", OTHER_TEXTS)
def test_one_proof_has_one_text_and_none_other_is_taken_or_crashes(
    shared_world: World, tmp_path: Path, how: str
) -> None:
    said = json.loads(prove(shared_world, 80))
    other = OTHER_TEXTS[how](said)
    assert other != said
    with pytest.raises(NotProven):
        checked(shared_world, json.dumps(other))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(other))
    assert main([str(file), "--origin", A, "--key", str(shared_world.signer.verifier)]) == 2


def test_a_proof_in_which_a_name_stands_twice_is_refused(shared_world: World) -> None:
    proof = prove(shared_world, 80)
    for name in ("event", "seq"):
        twice = proof.replace(f'"{name}":', f'"{name}": {{"forged": 1}}, "{name}":', 1)
        with pytest.raises(NotProven):
            checked(shared_world, twice)


def test_the_verifier_needs_no_other_file_of_the_project() -> None:
    tree = ast.parse(Path(offline.__file__).read_text(encoding="utf-8"))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert modules - set(sys.stdlib_module_names) == {"cryptography"}


def test_it_is_called_with_files_alone(
    shared_world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    file.write_text(prove(shared_world, 80), encoding="utf-8")
    call = [str(file), "--origin", A, "--key", str(shared_world.signer.verifier)]
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["seq"] == 80
    assert main([*call[:2], "elsewhere/a", *call[3:]]) == 2
    assert "NOT PROVEN" in capsys.readouterr().err


FILE = "0b3c5a1e"
OF_FILE = (
    ("app", {"kind": "file.shared", "file_id": FILE}),
    ("collectors", {"kind": "x.collected", "file_id": FILE, "storage_key": "files/1", "n": "1"}),
    ("collectors", {"kind": "x.collected", "file_id": "other", "storage_key": "files/2"}),
    ("collectors", {"kind": "objects.delete.intent", "run_id": "r", "batch": "1",
                    "keys": ["files/1", "files/2"]}),
    ("collectors", {"kind": "objects.delete.intent", "run_id": "r", "batch": "2",
                    "keys": ["files/3", {"odd": 1}]}),
    ("collectors", {"kind": "objects.delete.result", "run_id": "r", "batch": "1"}),
    ("collectors", {"kind": "objects.delete.result", "run_id": "r", "batch": "2"}),
)  # fmt: skip
"""What happened to a file and to others, in two chains; five of the seven concern it."""

ORIGINS = [f"{ORIGIN}/app", f"{ORIGIN}/collectors"]


@pytest.fixture(scope="module")
def filed_world(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[World]:
    """Two chains with the events of a file, sealed, and one more event of it that is not."""
    name = f"test_{uuid.uuid4().hex}"
    database = Database(postgres_server.create_database(name, template_database))
    with database.connect("tests") as connection:
        world = World(database, connection)
        for chain, event in OF_FILE:
            with database.transaction(connection) as cursor:
                append(cursor, [event], chain=chain)
        world.seal("app")
        world.seal("collectors")
        world.append(1, "collectors", file_id=FILE)
        yield world
    postgres_server.drop_database(name)


def prove_it(world: World, file: str = FILE, chain: str | None = None) -> FileProof:
    return prove_file(world.database, world.connection, world.verify_policy, file, chain)


def checked_file(world: World, said: dict[str, Any], **more: Any) -> dict[str, Any]:
    values = {"origins": ORIGINS, "keys": [str(world.signer.verifier)], **more}
    return check_file(json.dumps(said), **values)


def test_the_events_of_a_file_are_proven_together_in_every_chain(filed_world: World) -> None:
    proof = prove_it(filed_world)
    pins = [filed_world.pins.objects[key][0][1] for key in proof.pins]
    found = checked_file(filed_world, json.loads(proof.text), pins=pins)
    numbers = [(event["chain"], event["seq"]) for event in found["events"]]
    assert numbers == [("app", 1), ("collectors", 1), ("collectors", 3), ("collectors", 5)]
    assert {event["pin"] for event in found["events"]} == {"compared"}
    # What is not pinned yet is told, and is no part of what is proven.
    assert proof.events == 4
    assert [(one["chain"], one["seq"]) for one in found["left_out"]] == [("collectors", 7)]
    assert "no pinned seal" in proof.left_out[0]
    # By a key: what names it. By one chain: what stands there.
    by_key = json.loads(prove_it(filed_world, "files/2").text)
    assert [one["event"]["seq"] for one in by_key["proofs"]] == [3, 5]
    assert checked_file(filed_world, by_key)["events"]
    assert prove_it(filed_world, FILE, "app").events == 1
    for file, chain in (("nobody's", None), (FILE, "elsewhere")):
        with pytest.raises(NothingToProve, match="no event names"):
            prove_it(filed_world, file, chain)


def test_a_file_s_proof_takes_nothing_that_is_forged_cut_replayed_or_signed_anew(
    filed_world: World,
) -> None:
    said = json.loads(prove_it(filed_world).text)
    first, second, *rest = said["proofs"]
    strangers = [json.loads(prove(filed_world, seq, "collectors")) for seq in (2, 4, 6)]
    thief = generate(filed_world.signer.name)
    forged: dict[str, dict[str, Any]] = {
        "a text": {**said, "proofs": [_event(first, body='{"file_id":"0b3c5a1e"}'), second]},
        "a number": {**said, "proofs": [first, _event(second, seq=3)]},
        "signed anew": {
            **said, "proofs": [{**first, "note": sign_note(text_of(first["note"]), (thief,))}],
        },
        "the note of another chain": {**said, "proofs": [{**first, "note": second["note"]}]},
        "an event twice": {**said, "proofs": [first, second, second]},
        "none": {**said, "proofs": []},
        "no list": {**said, "proofs": {"0": first}},
        "of another file": {**said, "file": "other"},
        "of no file": {name: said[name] for name in ("format", "proofs", "left_out")},
        "one alone": first,
        **{f"a stranger's event {number}": {**said, "proofs": [first, second, *rest, one]}
           for number, one in enumerate(strangers)},
    }  # fmt: skip
    for name, one in forged.items():
        with pytest.raises(NotProven):
            pytest.fail(f"{name}: {checked_file(filed_world, one)}")
    for more in (
        {"origins": ORIGINS[:1]},
        {"origins": [ORIGINS[0], "elsewhere/collectors"]},
        {"keys": [str(generate("another").verifier)]},
        {"pins": [b"another text"]},
    ):
        with pytest.raises(NotProven):
            checked_file(filed_world, said, **more)
    with pytest.raises(NotProven):
        check(json.dumps(said), origin=ORIGINS[0], keys=[str(filed_world.signer.verifier)])


def test_a_file_s_proof_is_checked_from_the_command_line(
    filed_world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = prove_it(filed_world)
    file = tmp_path / "proof.json"
    file.write_text(proof.text, encoding="utf-8")
    call = [str(file), "--key", str(filed_world.signer.verifier)]
    for number, key in enumerate(proof.pins):
        pin = tmp_path / f"{number}.note"
        pin.write_bytes(filed_world.pins.objects[key][0][1])
        call += ["--pin", str(pin)]
    named = [word for origin in ORIGINS for word in ("--origin", origin)]
    assert main([*call, *named]) == 0
    assert len(json.loads(capsys.readouterr().out)["events"]) == 4
    assert main([*call, *named[:2]]) == 2
    assert "NOT PROVEN" in capsys.readouterr().err


def test_what_does_not_lead_to_the_sealed_root_is_not_handed_out(own_world: World) -> None:
    with own_world.database.transaction(own_world.connection) as cursor:
        tampering(cursor)
        cursor.execute("UPDATE audit_event SET body = '{}' WHERE seq = 80")
    with pytest.raises(NothingToProve, match="verify the chain"):
        prove(own_world, 80)
    # CONTROL: its neighbour is what it was.
    assert checked(own_world, prove(own_world, 81))["seq"] == 81
