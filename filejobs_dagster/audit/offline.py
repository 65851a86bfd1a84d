"""Checks proofs that events stand in a sealed audit chain, without the chain.

This file needs no other file of the project and no database: Python 3.11 and the package
`cryptography` are enough. Whoever doubts the project's own verifier can read all of it, or copy it
elsewhere: `python offline.py PROOF --origin NAME --key KEY --pin FILE`.

A proof is of one event, or of the events that concern one file. What it proves: whoever holds the
private key stated, at the time in the note, that the chain had this event under this number with
this time and this text. With the pin, that the statement stood outside of the database in these
bytes. It does not prove that what the event says is true, nor that a file has no other events.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = "filejobs-audit-proof-1"
FILE_FORMAT = "filejobs-audit-file-1"
LONGEST = 50_000_000
"""Bytes of a proof; more is none."""

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
_ED25519 = 1
_HASH_BYTES = 32
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_HASH = re.compile(r"[0-9a-f]{64}")
_NOTE = re.compile(
    r"(?P<origin>[^\n]+)\n(?P<size>[0-9]{1,18})\n(?P<root>[^\n]+)\n"
    r"head (?P<head>[^\n]+)\n"
    r"seal (?P<seal>[0-9]{1,18}) (?P<sealed_at>[^ \n]+) [^ \n]+\n"
    r"sys [^\n]+\n"
)
_SIGNATURE = re.compile(r"— (?P<name>[^\s+]+) (?P<signature>[A-Za-z0-9+/]+={0,2})")


class NotProven(Exception):
    """The proof does not show what it promises; the message says why."""


def check(proof: str, *, origin: str, keys: list[str], pin: bytes | None = None) -> dict[str, Any]:
    """Check a proof.

    Args:
        proof: The text of the file that `filejobs audit prove` wrote.
        origin: The chain's name outside, which you know from elsewhere: base, slash, chain.
        keys: Public keys, as `filejobs audit keygen` prints them, which you know from elsewhere.
        pin: The bytes of the pin, fetched by yourself from its place; None to believe the note's
            signature alone.

    Returns:
        What is proven: number, time and body of the event, and seal, size and time of the note.

    Raises:
        NotProven: It is forged, cut, changed, of another chain, or signed by nobody you know.
    """
    return _checked(_read(proof, _is_proof), origin=origin, keys=keys, pin=pin)


def check_file(
    proof: str, *, origins: list[str], keys: list[str], pins: list[bytes] | None = None
) -> dict[str, Any]:
    """Check the proofs of the events that name one file.

    Args:
        proof: The text of the file that `filejobs audit prove FILE` wrote.
        origins: The chains' names outside, which you know from elsewhere.
        keys: As for `check`.
        pins: The bytes of pins, fetched by yourself; each must be the note of some proof.

    Returns:
        The file, what is proven of each event, and the events that the file names as not proven.

    Raises:
        NotProven: One of them does not hold, stands twice, or does not concern the file.
    """
    said = _read(proof, _is_file)
    events: list[dict[str, Any]] = []
    left = list(pins or ())
    for one in said["proofs"]:
        origin = one["note"].partition("\n")[0].partition("@")[0]
        if origin not in origins:
            raise NotProven(f"a note is of {origin!r}, and you named no such origin")
        pin = next((known for known in pins or () if known == one["note"].encode()), None)
        left = [known for known in left if known != pin]
        events.append(_checked(one, origin=origin, keys=keys, pin=pin))
    if left:
        raise NotProven("a pin holds another text than each of the notes")
    if len({(found["chain"], found["seq"]) for found in events}) != len(events):
        raise NotProven("an event stands twice")
    _all_concern(said["file"], events)
    return {"file": said["file"], "events": events, "left_out": said["left_out"]}


def _all_concern(file: str, events: list[dict[str, Any]]) -> None:
    """Refuse an event that names neither the file, nor a key of its events, nor their batch."""
    bodies = [_body(found) for found in events]
    names = {file}.union(
        *(_texts(body.get("storage_key")) for body in bodies if body.get("file_id") == file)
    )
    batches = {_batch(body) for body in bodies if names & _texts(body.get("keys"))}
    for found, body in zip(events, bodies, strict=True):
        named = _texts(body.get("storage_key")) | _texts(body.get("keys"))
        result = body.get("kind") == "objects.delete.result" and _batch(body) in batches
        if body.get("file_id") != file and not names & named and not result:
            raise NotProven(f"event {found['seq']} of {found['chain']!r} does not concern {file!r}")


def _body(found: dict[str, Any]) -> dict[str, Any]:
    try:
        body = json.loads(found["body"])
    except (ValueError, RecursionError):
        body = None
    return {**body, "chain": found["chain"]} if isinstance(body, dict) else {}


def _batch(body: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(body.get(name)) for name in ("chain", "run_id", "batch"))


def _texts(value: Any) -> set[str]:
    return {one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)}


def _checked(
    said: dict[str, Any], *, origin: str, keys: list[str], pin: bytes | None
) -> dict[str, Any]:
    event, note = said["event"], said["note"]
    stated = _opened(note, keys)
    lines = {origin, *(f"{origin}@{number}" for number in range(2, 1000))}
    if stated["origin"] not in lines:
        raise NotProven(f"the note is of {stated['origin']}, not of {origin}")
    if pin is not None and pin != note.encode():
        raise NotProven("the pin holds another text than the note of the proof")
    seq, size = event["seq"], int(stated["size"])
    if not 1 <= seq <= size:
        raise NotProven(f"the note counts {size} events, and the proof is of number {seq}")
    chain = said["chain"]
    if _quoted_end(origin) != chain:
        raise NotProven(f"the event is said to be of the chain {chain!r}, not of {origin}")
    path = [_hash(one) for one in said["path"]]
    root = root_of(event_hash(chain, event), seq - 1, size, path)
    if root != base64.b64decode(stated["root"]):
        raise NotProven("number, time, text and path do not lead to the root that was signed")
    return {
        "chain": chain,
        "origin": stated["origin"],
        "seq": seq,
        "recorded_at": event["recorded_at"],
        "body": event["body"],
        "seal": int(stated["seal"]),
        "size": size,
        "sealed_at": stated["sealed_at"],
        "pin": "compared" if pin is not None else "not compared",
    }


def _read(proof: str, is_right: Callable[[Any], bool]) -> dict[str, Any]:
    if len(proof) > LONGEST:
        raise NotProven("the file is too long for a proof")
    try:
        said = json.loads(proof, object_pairs_hook=_each_name_once)
        # Half of a surrogate pair is in JSON's power and in no text's.
        json.dumps(said, ensure_ascii=False).encode()
        right = is_right(said)
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise NotProven("the file is no proof: it was cut, or is something else")
    return dict(said)


def _is_proof(said: Any) -> bool:
    event = said["event"]
    return (
        said["format"] == FORMAT
        and isinstance(said["path"], list)
        and all(isinstance(said[name], str) for name in ("chain", "note"))
        and all(isinstance(event[name], str) for name in ("recorded_at", "body", "prev_hash"))
        and type(event["seq"]) is int
        and all(isinstance(one, str) for one in said["path"])
    )


def _is_file(said: Any) -> bool:
    return (
        said["format"] == FILE_FORMAT
        and isinstance(said["file"], str)
        and isinstance(said["proofs"], list)
        and bool(said["proofs"])
        and all(map(_is_proof, said["proofs"]))
        and isinstance(said["left_out"], list)
    )


def _is_of_a_file(text: str) -> bool:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("format") == FILE_FORMAT


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice, and readers differ in which of the two they take")
    return found


def _opened(note: str, keys: list[str]) -> dict[str, str]:
    """The signed text, once a key that is known has signed it."""
    text, blank, rest = note.partition("\n\n")
    text += "\n"
    if not blank or not rest.endswith("\n"):
        raise NotProven("the note is not signed")
    known = {}
    for key in keys:
        name, identifier, raw = _key(key)
        known[name, identifier] = raw
    signed = False
    for line in rest[:-1].split("\n"):
        match = _SIGNATURE.fullmatch(line)
        raw = b"" if match is None else _decoded(match["signature"])
        if match is None or len(raw) <= 4:  # noqa: PLR2004 (the key's id)
            raise NotProven("a line below the note is no signature")
        public = known.get((match["name"], raw[:4]))
        if public is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(raw[4:], text.encode())
        except InvalidSignature:
            raise NotProven(f"the key {match['name']} did not sign this note") from None
        signed = True
    if not signed:
        raise NotProven("no key that you know has signed the note")
    found = _NOTE.fullmatch(text)
    if found is None:
        raise NotProven("what was signed is no seal")
    return found.groupdict()


def _key(text: str) -> tuple[str, bytes, bytes]:
    parts = text.strip().split("+", 2)
    raw = _decoded(parts[-1])
    if len(parts) != 3 or len(raw) != 1 + _HASH_BYTES or raw[0] != _ED25519:  # noqa: PLR2004
        raise NotProven(f"{text!r} is no public key: name, id and key with + between")
    name, identifier = parts[0], hashlib.sha256(parts[0].encode() + b"\n" + raw).digest()[:4]
    if identifier.hex() != parts[1]:
        raise NotProven(f"the public key {name} does not match its own id: copy it again")
    return name, identifier, raw[1:]


def event_hash(chain: str, event: dict[str, Any]) -> bytes:
    """The hash of an event, computed from what the proof says of it.

    Raises:
        NotProven: Its time or a hash is not written as it must be.
    """
    if not _TIME.fullmatch(event["recorded_at"]):
        raise NotProven("the event has no time")
    try:
        moment = datetime.strptime(event["recorded_at"][:-1] + "+0000", "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError:
        raise NotProven("the event has no time") from None
    since = (moment - _EPOCH) // timedelta(microseconds=1)
    return hashlib.sha256(
        b"filejobs/audit/event\n"
        + struct.pack(">h", 1)
        + hashlib.sha256(chain.encode()).digest()
        + struct.pack(">qq", event["seq"], since)
        + _hash(event["prev_hash"])
        + hashlib.sha256(event["body"].encode()).digest()
    ).digest()


def root_of(digest: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that an inclusion path leads to from the hash of an event (RFC 9162, 2.1.3.2).

    Raises:
        NotProven: The path is too long or too short.
    """
    node, last = hashlib.sha256(b"\x00" + digest).digest(), size - 1
    for sibling in path:
        if last == 0:
            raise NotProven("the path is too long")
        if index & 1 or index == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while not index & 1 and index:
                index >>= 1
                last >>= 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        index >>= 1
        last >>= 1
    if last:
        raise NotProven("the path is too short")
    return node


def _hash(text: str) -> bytes:
    if not _HASH.fullmatch(text):
        raise NotProven("a hash of the proof is not 32 bytes in small hexadecimal letters")
    return bytes.fromhex(text)


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    # Bits behind the last byte that nobody reads would make two texts of one.
    return raw if base64.b64encode(raw).decode() == text else b""


def _quoted_end(origin: str) -> str:
    """The chain's name, which is the last word of the origin, percent-encoded there."""
    from urllib.parse import unquote  # noqa: PLC0415 (one use)

    return unquote(origin.rpartition("/")[2])


def main(arguments: list[str] | None = None) -> int:
    """Check the proof that the command line names; 0 when it holds, 2 when it does not."""
    parser = argparse.ArgumentParser(description="Checks a proof of audit events.")
    parser.add_argument("proof", type=Path, help="the file of `filejobs audit prove`")
    repeated: dict[str, Any] = {"action": "append", "required": True}
    parser.add_argument("--origin", **repeated, help="base/chain, known from elsewhere; may repeat")
    parser.add_argument("--key", **repeated, help="a public key; may repeat")
    parser.add_argument(
        "--pin", type=Path, action="append", default=[],
        help="a pin, fetched from its place by yourself; may repeat",
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    try:
        pins = [path.read_bytes() for path in asked.pin]
        text = asked.proof.read_text(encoding="utf-8")
        if _is_of_a_file(text):
            found = check_file(text, origins=asked.origin, keys=asked.key, pins=pins)
        else:
            pin = pins[-1] if pins else None
            found = check(text, origin=asked.origin[-1], keys=asked.key, pin=pin)
    except (NotProven, OSError, UnicodeError) as error:
        sys.stderr.write(f"NOT PROVEN: {error}\n")
        return 2
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
