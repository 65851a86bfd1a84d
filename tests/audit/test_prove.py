"""A proof of one event holds by itself, and no other file does."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.audit import offline
from filejobs_dagster.audit.keys import generate
from filejobs_dagster.audit.note import sign_note, text_of
from filejobs_dagster.audit.offline import NotProven, check, main
from filejobs_dagster.audit.origin import Origin
from filejobs_dagster.audit.prove import NothingToProve, prove_event
from tests.audit.world import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.audit.world import World

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
