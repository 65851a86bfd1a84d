"""Signed notes as C2SP describes them: a text, an empty line, and signature lines."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

ED25519 = 1
"""The type byte of an Ed25519 key in its identifier and its encoding."""

KEY_ID_BYTES = 4
LONGEST_NOTE = 1_000_000
MOST_SIGNATURES = 100

_SIGNATURE = re.compile(r"— (?P<name>[^\s+]+) (?P<signature>[A-Za-z0-9+/]+={0,2})")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")
_NAME = re.compile(r"[^\s+]+")


class NoteError(Exception):
    """A note does not hold what it promises."""


class MalformedNote(NoteError):
    """The bytes are no signed note."""


class BadSignature(NoteError):
    """A key that is known did not make the signature that bears its name."""


class NotSigned(NoteError):
    """No key that is known has signed the note."""


class Signer(Protocol):
    """Whoever signs: a key in memory, or a service that keeps it."""

    @property
    def name(self) -> str:
        """The key's name, as it stands in the signature line."""
        ...

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        ...

    @property
    def verifier(self) -> VerifierKey:
        """The public key, by which whoever finds the pins can check them."""
        ...

    def sign(self, text: bytes) -> bytes:
        """Sign the text of a note."""
        ...


@dataclass(frozen=True)
class VerifierKey:
    """A public Ed25519 key with its name.

    Attributes:
        name: As in the signature line.
        public: The key, 32 bytes.
    """

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        return key_id(self.name, self.public)

    def accepts(self, text: bytes, signature: bytes) -> bool:
        """Tell whether this key made the signature over the text."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        encoded = base64.b64encode(bytes([ED25519]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"


@dataclass(frozen=True)
class OpenedNote:
    """A note whose signatures were looked at.

    Attributes:
        text: What was signed, with its last newline.
        signers: The known keys that signed it.
        unknown: How many signatures were of keys that nobody named.
    """

    text: str
    signers: tuple[VerifierKey, ...]
    unknown: int


def key_id(name: str, public: bytes) -> bytes:
    """The identifier of an Ed25519 key: a hash over name, type and key, cut to four bytes."""
    return hashlib.sha256(name.encode() + b"\n" + bytes([ED25519]) + public).digest()[:KEY_ID_BYTES]


def is_key_name(name: str) -> bool:
    """A name has at least one character, and neither white space nor a plus sign."""
    return _NAME.fullmatch(name) is not None


def read_verifier_key(text: str) -> VerifierKey:
    """Read a public key in the form `name+id+key`, as `str(VerifierKey)` writes it.

    Raises:
        ValueError: It is none; the message says what is wrong.
    """
    parts = text.strip().split("+", 2)
    if len(parts) != 3:  # noqa: PLR2004 (name, id, key)
        raise ValueError("A verifier key looks like name+0a1b2c3d+base64: three parts, two +")
    name, identifier, encoded = parts
    raw = _decoded(encoded)
    if not is_key_name(name) or len(raw) != 1 + 32 or raw[0] != ED25519:
        raise ValueError(f"The verifier key {name!r} is no Ed25519 key of 32 bytes behind a 1")
    key = VerifierKey(name, raw[1:])
    if key.key_id.hex() != identifier:
        raise ValueError(
            f"The verifier key {name!r} says that its id is {identifier!r}; name and key give "
            f"{key.key_id.hex()!r}. It was cut or mistyped: copy it again."
        )
    return key


def sign_note(text: str, signers: Iterable[Signer]) -> str:
    """Write the text with one signature line for each signer; without signers just the text.

    Raises:
        ValueError: The text cannot be a note.
    """
    if not text.endswith("\n") or _CONTROL.search(text):
        raise ValueError("The text of a note ends with a newline and has no control characters")
    lines = []
    for signer in signers:
        raw = signer.key_id + signer.sign(text.encode())
        lines.append(f"— {signer.name} {base64.b64encode(raw).decode()}\n")
    return text + "\n" + "".join(lines) if lines else text


def text_of(note: str) -> str:
    """The text without the signatures; all of it where there are none."""
    text, gap, rest = note.rpartition("\n\n")
    return text + "\n" if gap and rest.startswith("— ") else note


def open_note(note: str, keys: Sequence[VerifierKey]) -> OpenedNote:
    """Check a note's signatures. Those of unknown keys are ignored.

    Raises:
        MalformedNote: It is no signed note.
        BadSignature: A signature names a key that is known, and is not that key's.
        NotSigned: No known key signed it.
    """
    text, signatures = _split(note)
    known = {(key.name, key.key_id): key for key in keys}
    signers: dict[tuple[str, bytes], VerifierKey] = {}
    unknown = 0
    for name, raw in signatures:
        identity = (name, raw[:KEY_ID_BYTES])
        key = known.get(identity)
        if key is None:
            unknown += 1
        elif identity not in signers:
            if not key.accepts(text.encode(), raw[KEY_ID_BYTES:]):
                raise BadSignature(f"the signature of {name} does not belong to this text")
            signers[identity] = key
    if not signers:
        raise NotSigned(f"none of its {len(signatures)} signature(s) is of a key that is known")
    return OpenedNote(text, tuple(signers.values()), unknown)


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    if len(note.encode(errors="replace")) > LONGEST_NOTE:
        raise MalformedNote(f"it is longer than {LONGEST_NOTE} bytes")
    if _CONTROL.search(note):
        raise MalformedNote("it has control characters")
    text, gap, rest = note.rpartition("\n\n")
    if not gap or not rest:
        raise MalformedNote("it has no signatures: no empty line with signature lines below")
    if not rest.endswith("\n"):
        raise MalformedNote("its last line has no end")
    lines = rest[:-1].split("\n")
    if len(lines) > MOST_SIGNATURES:
        raise MalformedNote(f"it has more than {MOST_SIGNATURES} signatures")
    return text + "\n", [_signature(line) for line in lines]


def _signature(line: str) -> tuple[str, bytes]:
    match = _SIGNATURE.fullmatch(line)
    if match is None:
        raise MalformedNote("a line below the text is no signature line")
    try:
        raw = _decoded(match["signature"])
    except ValueError as error:
        raise MalformedNote("a signature is no base64") from error
    if len(raw) <= KEY_ID_BYTES:
        raise MalformedNote("a signature is too short")
    return match["name"], raw


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("it is no base64") from error


# Keys: the private one that signs, and the public ones that a verifier believes.
#
# Neither is ever in the database, which is what they testify about.

PREFIX = "PRIVATE+KEY+"
"""How the private form begins, so that nobody mistakes it for the public one."""

_SEED_BYTES = 32
_OPEN_TO_OTHERS = 0o077


class UnusableKey(Exception):
    """A key cannot be read; the message never has a piece of it."""


class Ed25519Signer:
    """Signs with a key in memory. It does not show, copy or pickle it."""

    __slots__ = ("_private", "_public", "name")

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        self.name = name
        self._private = private
        self._public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        return key_id(self.name, self._public)

    @property
    def verifier(self) -> VerifierKey:
        """The public half, for the verifier's settings."""
        return VerifierKey(self.name, self._public)

    def sign(self, text: bytes) -> bytes:
        """Sign the text of a note."""
        return self._private.sign(text)

    def __repr__(self) -> str:
        return f"Ed25519Signer({self.name!r}, {self.key_id.hex()})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} cannot be pickled: the pickle would hold the private key")


@dataclass(frozen=True)
class TrustedKey:
    """A public key, and the seals that it may sign.

    A seal outside of the interval is rejected although its signature is right: otherwise a key
    that is stolen today could rewrite what another key sealed last year.

    Attributes:
        key: The public key.
        first_seal: The number of the first seal that it signs.
        last_seal: The number of the last, or None while it is in use.
    """

    key: VerifierKey
    first_seal: int = 1
    last_seal: int | None = None

    def may_sign(self, seal_no: int) -> bool:
        """Tell whether the seal's number is in the interval."""
        return self.first_seal <= seal_no and (self.last_seal is None or seal_no <= self.last_seal)


@dataclass(frozen=True)
class TrustedKeys:
    """What a verifier believes: part of its settings.

    Attributes:
        keys: The keys with their intervals. Empty: signatures are not checked, and the verdict
            says so.
        unsigned_through: Seals up to this number may be without a signature, for a chain that got
            its key later.
    """

    keys: tuple[TrustedKey, ...] = ()
    unsigned_through: int = 0

    @property
    def configured(self) -> bool:
        """Whether there is any key."""
        return bool(self.keys)

    def for_seal(self, seal_no: int) -> list[VerifierKey]:
        """The keys that may sign a seal of that number."""
        return [trusted.key for trusted in self.keys if trusted.may_sign(seal_no)]


NO_KEYS = TrustedKeys()
"""Signatures are not checked."""


def generate(name: str) -> Ed25519Signer:
    """Make a new key.

    Raises:
        UnusableKey: The name has white space or a plus sign.
    """
    if not is_key_name(name):
        raise UnusableKey(f"A key's name has neither white space nor +, and is not empty: {name!r}")
    return Ed25519Signer(name, Ed25519PrivateKey.generate())


def private_text(signer: Ed25519Signer) -> str:
    """The private form, to be stored where `read_signer` will find it. It is a secret."""
    seed = signer._private.private_bytes(  # noqa: SLF001 (the one place that writes the key out)
        Encoding.Raw, PrivateFormat.Raw, NoEncryption()
    )
    encoded = base64.b64encode(bytes([ED25519]) + seed).decode()
    return f"{PREFIX}{signer.name}+{signer.key_id.hex()}+{encoded}"


def read_signer(text: str, where: str) -> Ed25519Signer:
    """Read a private key in the form that `private_text` writes.

    Args:
        text: The key.
        where: Where it was found, for the error.

    Raises:
        UnusableKey: It is none.
    """
    parts = text.strip().removeprefix(PREFIX).split("+", 2)
    if not text.strip().startswith(PREFIX) or len(parts) != 3:  # noqa: PLR2004 (name, id, key)
        raise UnusableKey(
            f"The signing key in {where} cannot be read: it begins with {PREFIX} and then has "
            "name, id and key with + between. Copy the whole line."
        )
    name, identifier, encoded = parts
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raw = b""
    if len(raw) != 1 + _SEED_BYTES or raw[0] != ED25519 or not is_key_name(name):
        raise UnusableKey(f"The signing key in {where} is no Ed25519 key: it was cut or mistyped.")
    signer = Ed25519Signer(name, Ed25519PrivateKey.from_private_bytes(raw[1:]))
    if signer.key_id.hex() != identifier:
        raise UnusableKey(f"The signing key in {where} does not match its own id: copy it again.")
    return signer


def signer_from_file(path: Path) -> Ed25519Signer:
    """Read the signing key from a file that only its owner may read.

    Raises:
        UnusableKey: The file is not there, is open to others, or holds no key.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UnusableKey(
            f"The signing key's file {path} cannot be read: {type(error).__name__}"
        ) from None
    if mode & _OPEN_TO_OTHERS:
        raise UnusableKey(f"The signing key's file {path} is open to others: chmod 600 {path}")
    return read_signer(text, f"the file {path}")
