"""The audit chain in `filejobs.yaml`: who signs, who is believed, and where copies stand."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from filejobs_dagster.audit.origin import Origin
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.section import Found, Section, nearest
from filejobs_dagster.settings.storage import owner_of
from filejobs_dagster.settings.values import (
    Duration,
    Folder,
    Prefix,
    Text,
    Wait,
    between,
    duration_in,
)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)

MARGIN = timedelta(days=7)
"""A pin stays locked so much longer than events are kept: a trim may be late, and is refused when
the pin that covers it could be removed."""


def _origin(value: str) -> str:
    try:
        Origin(value, "any")
    except ValueError:
        raise mistake(
            f"{shown(value)} cannot name an installation in notes",
            "write words of letters, digits and . _ ~ - with slashes between, such as "
            "files.example.com/audit",
        ) from None
    return value


def _public_key(value: str) -> str:
    from filejobs_dagster.audit.note import read_verifier_key  # noqa: PLC0415 (loads cryptography)

    if value.startswith("PRIVATE"):
        raise mistake(
            "it begins as a private key does, and secrets do not stand in this file",
            "write the public key that `filejobs audit keygen` printed beside it, and make a new "
            "pair: this one was seen",
        )
    try:
        read_verifier_key(value)
    except ValueError as error:
        raise mistake(
            f"it is no public key ({error})",
            "copy the whole line name+id+key that `filejobs audit keygen` printed",
        ) from None
    return value


OriginName = Annotated[
    StrictStr,
    AfterValidator(_origin),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$"}),
]
"""Words with slashes between, which name an installation for ever."""

PublicKey = Annotated[
    StrictStr,
    AfterValidator(_public_key),
    WithJsonSchema({"type": "string", "pattern": "^[^\\s+]+\\+[0-9a-f]{8}\\+[A-Za-z0-9+/]+=*$"}),
]
"""An Ed25519 key in the form of signed notes: `name+id+key`."""


RollingParts = Annotated[StrictInt, Field(ge=1, le=366)]
"""In how many parts a rolling check takes what is sealed; one part a day."""


class PublicKeySettings(Section):
    """A key that the verifier believes, and for which seals."""

    key: PublicKey = Field(
        description="The public key, as `filejobs audit keygen` printed it.",
        examples=["acme-production/audit+e5bd86b5+AZ+w3XLwnhWpSYggxQEyBWYShOsgMw21WxYoa8k16Mg8"],
    )
    first_seal: StrictInt = Field(
        default=1,
        ge=1,
        description="The number of the first seal that it may sign.",
        examples=[1],
    )
    last_seal: StrictInt | None = Field(
        default=None,
        ge=1,
        description="The number of the last seal that it may sign. Without it, the key is in use.",
        examples=[8760],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether the interval has a seal in it."""
        first, last = said.get("first_seal", 1), said.get("last_seal")
        if isinstance(first, int) and isinstance(last, int) and last < first:
            yield (
                ("last_seal",),
                mistake(f"{last} is before first_seal, {first}", "write the later number here"),
            )


class PlaceSettings(Section):
    """A place outside of the database: a prefix of a bucket, or a folder."""

    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets, best one of another account with Object Lock and "
        "owns_nothing: true.",
        examples=["pins"],
    )
    prefix: Prefix | None = Field(
        default=None,
        description="What every key there begins with. Outside of everything that is owned.",
        examples=["pins/"],
    )
    folder: Folder | None = Field(
        default=None,
        description="A folder, to try it out. It protects nothing: whoever may write it can "
        "change everything in it.",
        examples=["/var/lib/filejobs/pins"],
    )
    keep_for: Annotated[Duration, between(_DAY)] | None = Field(
        default=None,
        description="How long what is stored there is locked, in a bucket with Object Lock.",
        examples=["800d"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether it is exactly one place."""
        in_bucket = [key for key in ("bucket", "prefix") if said.get(key) is not None]
        has_folder = said.get("folder") is not None
        if has_folder and in_bucket:
            yield (), mistake("it has a folder and a bucket", "write bucket and prefix, or folder")
        elif not has_folder and len(in_bucket) != 2:  # noqa: PLR2004 (bucket and prefix)
            found = f"it has {in_bucket[0]} alone" if in_bucket else "it names no place"
            yield (), mistake(found, "write bucket and prefix, or folder")
        if has_folder and said.get("keep_for") is not None:
            yield (
                ("keep_for",),
                mistake("a folder cannot lock anything", "leave it out, or write a bucket"),
            )


class AuditSettings(Section):
    """Who signs, who is believed, where copies stand, and how long events are kept."""

    origin: OriginName | None = Field(
        default=None,
        description="The name of this installation in its seals and pins, for ever, and never "
        "that of another database. Without it, the installation's name with /audit behind it.",
        examples=["acme-production/audit"],
    )
    signing_key: Secret | None = Field(
        default=None,
        description="The private key that signs seals and receipts, by the environment variable "
        "that holds it. Without a key they are not signed.",
        examples=[{"env": "FILEJOBS_AUDIT_KEY"}],
    )
    key_file: Folder | None = Field(
        default=None,
        description="The file of the private key, open to its owner alone. Stands instead of "
        "signing_key.",
        examples=["/run/secrets/filejobs-audit.key"],
    )
    public_keys: list[PublicKeySettings] = Field(
        default_factory=list,
        description="The keys that the verifier believes. Without any, signatures are not checked.",
        examples=[
            [{"key": "acme-production/audit+e5bd86b5+AZ+w3XLwnhWpSYggxQEyBWYShOsgMw21WxYoa8k16Mg8"}]
        ],
    )
    unsigned_through: StrictInt = Field(
        default=0,
        ge=0,
        description="Seals up to this number may be without a signature, where a key came later.",
        examples=[0],
    )
    pins: PlaceSettings | None = Field(
        default=None,
        description="Where a copy of each seal and receipt is put. Without it, nothing outside of "
        "the database knows better than the database.",
        examples=[{"bucket": "pins", "prefix": "pins/", "keep_for": "800d"}],
    )
    pin_grace: Annotated[Wait, between(_SECOND)] = Field(
        default=timedelta(minutes=15),
        description="How long a seal may be without its pin before that is a finding.",
        examples=["15m"],
    )
    max_pin_age: Annotated[Wait, between(_SECOND)] | None = Field(
        default=None,
        description="How old the newest pin may be. Older is the finding SEALING_STOPPED. Without "
        "it, only stale_after of audit_seal tells.",
        examples=["3h"],
    )
    heartbeat: StrictBool = Field(
        default=True,
        description="Seal also when nothing was appended, so that sealing that stopped shows.",
        examples=[True],
    )
    retention: Annotated[Duration, between(_DAY)] | None = Field(
        default=None,
        description="How long an event is kept before audit_trim may remove it. Nobody but you can "
        "say; audit_trim needs it.",
        examples=["400d"],
    )
    minimum_retention: Annotated[Duration, between(_DAY)] | None = Field(
        default=None,
        description="What every trim must have kept: the shortest retention that was ever set "
        "here. Without it the verifier goes by what each receipt says of itself.",
        examples=["400d"],
    )
    archive: PlaceSettings | None = Field(
        default=None,
        description="Where events are kept before audit_trim removes them, as compressed lines of "
        "JSON. Without it they are gone.",
        examples=[{"bucket": "pins", "prefix": "archive/"}],
    )
    rolling: RollingParts = Field(
        default=7,
        description="In how many parts a rolling check takes what is sealed: one part a day, so "
        "that everything is computed again in that many days.",
        examples=[7],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at keys and durations together."""
        if said.get("signing_key") is not None and said.get("key_file") is not None:
            yield ("key_file",), mistake("it stands beside signing_key", "keep one of the two")
        if said.get("unsigned_through") and not said.get("public_keys"):
            yield (
                ("unsigned_through",),
                mistake(
                    "it says where signatures begin, and without public_keys none is checked",
                    "write public_keys, or leave it out",
                ),
            )
        if duration_in(said.get("max_pin_age")) is not None and said.get("pins") is None:
            yield (
                ("max_pin_age",),
                mistake(
                    "it says how old a pin may be, and pins names no place", "write audit.pins"
                ),
            )
        yield from _locked_too_short(said)
        yield from _same_place(said)
        retention, least = (
            duration_in(said.get("retention")),
            duration_in(said.get("minimum_retention")),
        )
        if retention is not None and least is not None and least > retention:
            yield (
                ("minimum_retention",),
                mistake(
                    "it is longer than retention, so the verifier would object to every new trim",
                    "write the shortest retention that was ever set here",
                ),
            )


def problems_of_audit(
    audit: Mapping[str, Any], buckets: Mapping[str, Mapping[str, Any]]
) -> Iterator[Found]:
    """Find what `audit` and `buckets` say against each other.

    Args:
        audit: The section as the file has it, empty where there is none.
        buckets: The entries as the file has them.
    """
    for key in ("pins", "archive"):
        yield from _place_among_files(key, audit, buckets)


def _place_among_files(
    key: str, audit: Mapping[str, Any], buckets: Mapping[str, Mapping[str, Any]]
) -> Iterator[Found]:
    place = _part(audit.get(key))
    entry, prefix = place.get("bucket"), place.get("prefix")
    if not isinstance(entry, str) or not entry.strip():
        return
    if entry not in buckets:
        known = nearest(entry, buckets) if buckets else "write one under buckets"
        yield (
            ("audit", key, "bucket"),
            mistake(f"no entry of buckets is called {shown(entry)}", known),
        )
        return
    owner = owner_of(prefix, entry, buckets) if isinstance(prefix, str) else None
    if owner is not None:
        yield (
            ("audit", key, "prefix"),
            mistake(
                f"{shown(prefix)} lies inside {owner}, where things are deleted",
                "write a prefix outside of everything owned, best in a bucket of its own",
            ),
        )


def _locked_too_short(said: Mapping[str, Any]) -> Iterator[Found]:
    retention = duration_in(said.get("retention"))
    pins = _part(said.get("pins"))
    if retention is None or pins.get("bucket") is None:
        return
    keep_for = duration_in(pins.get("keep_for"))
    if keep_for is None and pins.get("keep_for") is not None:
        return  # reported where it stands
    if keep_for is None or keep_for < retention + MARGIN:
        found = "it is missing" if keep_for is None else "it is too short"
        yield (
            ("pins", "keep_for"),
            mistake(
                f"{found}: a trim is refused when the pin that covers it is not locked any more",
                f"write at least {MARGIN.days}d more than retention",
            ),
        )


def _same_place(said: Mapping[str, Any]) -> Iterator[Found]:
    pins, archive = _part(said.get("pins")), _part(said.get("archive"))
    where = ("bucket", "prefix", "folder")
    if pins and all(pins.get(key) == archive.get(key) for key in where):
        yield (
            ("archive",),
            mistake("it is the place of the pins", "write another prefix or another folder"),
        )


def _part(said: Any) -> Mapping[str, Any]:
    """A mapping of the file, or a model that was built in Python, as a mapping."""
    if isinstance(said, Section):
        return {key: getattr(said, key) for key in said.model_fields_set}
    return said if isinstance(said, Mapping) else {}
