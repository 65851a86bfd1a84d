"""The names under which a chain's seals are known outside of its database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_BASE = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
_SEAL = re.compile(r"(?P<incarnation>\d+)/seal/(?P<number>\d{12})\.note")
_TRIM = re.compile(r"(?P<incarnation>\d+)/trim/(?P<number>\d{12})-(?P<sha256>[0-9a-f]{64})\.note")
_MANIFEST = re.compile(
    r"(?P<incarnation>\d+)/manifest/(?P<number>\d{12})-(?P<sha256>[0-9a-f]{64})\.note"
)
_RESTORE = re.compile(r"(?P<incarnation>\d+)/restore-(?P<sha256>[0-9a-f]{64})\.note")
_KINDS = {"seal": _SEAL, "trim": _TRIM, "restore": _RESTORE, "manifest": _MANIFEST}


@dataclass(frozen=True)
class Origin:
    """One chain of one installation, as its notes and its pins name it.

    Attributes:
        base: Names the installation for ever, such as `files.example/audit`: words of letters,
            digits and `._~-` with slashes between. Never the same for two databases.
        chain: The chain's name in the database.
    """

    base: str
    chain: str

    def __post_init__(self) -> None:
        """Refuse a base that could be taken for another chain, or that leaves its folder."""
        if not _BASE.fullmatch(self.base) or any(
            not word.strip(".") for word in self.base.split("/")
        ):
            raise ValueError(
                f"The origin {self.base!r} is not usable: words of letters, digits and . _ ~ - "
                "with slashes between, such as files.example/audit"
            )

    @property
    def name(self) -> str:
        """The chain's name behind the base."""
        return f"{self.base}/{quoted(self.chain)}"

    def line(self, incarnation: int) -> str:
        """The first line of a seal; it changes once a restored database was acknowledged."""
        return self.name if incarnation == 1 else f"{self.name}@{incarnation}"

    @property
    def prefix(self) -> str:
        """What the keys of all pins of the chain begin with."""
        return f"{self.name}/"

    def seal_key(self, incarnation: int, seal_no: int) -> str:
        """Where a seal is pinned: one place, so that a second seal of that number is seen."""
        return f"{self.prefix}{incarnation}/seal/{seal_no:012d}.note"

    def trim_key(self, incarnation: int, checkpoint_no: int, sha256: bytes) -> str:
        """Where a checkpoint is pinned. A batch that is tried again has another hash."""
        return f"{self.prefix}{incarnation}/trim/{checkpoint_no:012d}-{sha256.hex()}.note"

    def restore_key(self, incarnation: int, sha256: bytes) -> str:
        """Where the restore that began an incarnation is pinned."""
        return f"{self.prefix}{incarnation}/restore-{sha256.hex()}.note"

    def manifest_folder(self, incarnation: int) -> str:
        """What the keys of an incarnation's manifests begin with."""
        return f"{self.prefix}{incarnation}/manifest/"

    def manifest_key(self, incarnation: int, seal_no: int, sha256: bytes) -> str:
        """Where the manifest stands that was made with a seal."""
        return f"{self.manifest_folder(incarnation)}{seal_no:012d}-{sha256.hex()}.note"

    def archive_key(self, incarnation: int, from_seq: int, to_seq: int, sha256: bytes) -> str:
        """Where the events of a batch are kept before they are cut, by the hash of the file."""
        return (
            f"{self.prefix}{incarnation}/events/{from_seq:012d}-{to_seq:012d}-"
            f"{sha256.hex()}.jsonl.gz"
        )

    def read_key(self, key: str) -> PinName | None:
        """Tell what a key of the chain names, None for what is no pin."""
        rest = key.removeprefix(self.prefix)
        for kind, pattern in _KINDS.items():
            match = pattern.fullmatch(rest)
            if match:
                found = match.groupdict()
                return PinName(
                    kind,
                    int(found["incarnation"]),
                    int(found.get("number", 0)),
                    found.get("sha256"),
                )
        return None


@dataclass(frozen=True)
class PinName:
    """What a pin's key says of it.

    Attributes:
        kind: `seal`, `trim`, `restore` or `manifest`.
        incarnation: Of the chain.
        number: Of the seal or the checkpoint, of a manifest its seal's; 0 for a restore.
        sha256: Of the note, in hexadecimal; None for a seal.
    """

    kind: str
    incarnation: int
    number: int
    sha256: str | None = None


def quoted(chain: str) -> str:
    """A chain's name as one word of a path, whatever characters it has."""
    text = quote(chain, safe="")
    return text if text.strip(".") else text.replace(".", "%2E")


def unquoted(word: str) -> str:
    """The chain that a word of a key names."""
    return unquote(word)
