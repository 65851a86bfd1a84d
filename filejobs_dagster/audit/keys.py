"""Keys: the private one that signs, and the public ones that a verifier believes.

Neither is ever in the database, which is what they testify about.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from filejobs_dagster.audit.note import ED25519, VerifierKey, is_key_name, key_id

if TYPE_CHECKING:
    from pathlib import Path

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
