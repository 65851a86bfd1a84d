"""Whether a preset fits a database and a bucket: measured on a sample, and nothing is written."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from filejobs_dagster.door.guards import measured_in
from filejobs_dagster.references.transforms import Rewrites, Transforms
from filejobs_dagster.scan.shapes import general
from filejobs_dagster.text import display_key, sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.door.guard import BucketAt
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.presets.preset import Preset, Probed
    from filejobs_dagster.settings.storage import SourceSettings

MOST_ROWS = 200_000
"""Of one source: what is behind them is not compared with the objects."""

MOST_OBJECTS = 1000
"""Of one owned prefix."""

MEASURED = 500
MOST_SHAPES = 10
TOO_MANY_UNNAMED = 0.5
FEW = 20
"""So few objects say nothing about a share."""


@dataclass
class Fit:
    """What was found.

    Attributes:
        preset: Its name.
        version: Its version.
        hash: Its digest.
        advice: Its advice.
        why_not: Why it does not fit; empty when it does.
        probes: Each answer of the database.
        parameters: Each value, and where it comes from.
        sources: Of each source: rows, keys in owns, keys with an object.
        objects: How many were looked at: named, made of one that is named, of unknown shape.
        unnamed: Shapes of those that nothing names, each with its number and a sample.
    """

    preset: str
    version: int
    hash: str
    advice: str
    why_not: list[str] = field(default_factory=list)
    probes: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, int] = field(default_factory=dict)
    unnamed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.why_not

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"fits": self.fits, **asdict(self)}


def begun(preset: Preset, probed: Probed) -> Fit:
    """What is known before anything is measured."""
    fit = Fit(preset.name, preset.version, preset.digest, preset.advice, probes=probed.recorded)
    if probed.objection:
        fit.why_not.append(probed.objection)
    return fit


def measure(fit: Fit, bucket: BucketAt, database: Database, connection: Connection) -> None:
    """Ask every source of a bucket, and look at some of its objects.

    Args:
        fit: To which what is found is added.
        bucket: With the settings that the preset makes.
        database: The application's, or one with its limits.
        connection: An open connection to it.
    """
    named: set[bytes] = set()
    for source in bucket.settings.sources:
        said: dict[str, Any] = {"name": source.name, "names": source.names}
        fit.sources.append(said)
        try:
            keys = dict(_keys_of(source, database, connection))
        except psycopg.Error as error:
            reason = sanitize_exception(error, limit=300)
            fit.why_not.append(f"The source {source.name} cannot be asked: {reason}.")
            continue
        named |= keys.keys()
        said["rows"] = len(keys)
        if len(keys) < source.min_rows:
            fit.why_not.append(
                f"The source {source.name} names nothing: is this the database in use?"
            )
        if source.names == "keys":
            sample = {
                text: value
                for key, value in islice(keys.items(), MEASURED)
                if (text := _text(key)) is not None
            }
            seen = measured_in(bucket, source.name, sample)
            said |= {"sampled": seen.sampled, "in_owns": seen.in_owns,
                     "looked_for": seen.looked_for, "with_object": seen.found}  # fmt: skip
            if not seen.fits and not source.keys_checked_by_hand:
                fit.why_not.append(f"{seen.objection()} {seen.hint or ''}".strip())
    _look_at_objects(fit, bucket, named)


def _keys_of(
    source: SourceSettings, database: Database, connection: Connection
) -> Iterator[tuple[bytes, bytes]]:
    """Keys of a source, each with the value that it was made of."""
    transforms = Transforms.of(source.transforms)
    # The operator's SQL stays one query: it stands in brackets.
    query = sql.SQL("SELECT * FROM ({}) AS asked LIMIT {}").format(
        sql.SQL(source.sql), sql.Literal(MOST_ROWS)
    )
    with database.transaction(connection, read_only=True) as cursor:
        for (value,) in cursor.execute(query):
            if value is not None:
                raw = bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                if key := transforms.apply(raw):
                    yield key, raw


def _look_at_objects(fit: Fit, bucket: BucketAt, named: set[bytes]) -> None:
    rewrites = Rewrites(bucket.settings.rewrites)
    shapes = [re.compile(it, re.DOTALL) for it in map(str, bucket.settings.shape)]
    counts: Counter[str] = Counter(looked_at=0, named=0, derived=0, unknown_shape=0, unnamed=0)
    unnamed: dict[str, list[str]] = {}
    for key in _objects(bucket):
        exact = key.encode("utf-8", "surrogateescape")
        counts["looked_at"] += 1
        if exact in named:
            counts["named"] += 1
        elif any(owner in named for owner in rewrites.owners(exact)):
            counts["derived"] += 1
        elif shapes and not any(shape.fullmatch(key) for shape in shapes):
            counts["unknown_shape"] += 1
        else:
            counts["unnamed"] += 1
            unnamed.setdefault(general(key), []).append(key)
    fit.objects = dict(counts)
    most = sorted(unnamed.items(), key=lambda it: -len(it[1]))[:MOST_SHAPES]
    fit.unnamed = [
        {"shape": shape, "objects": len(keys), "sample": display_key(keys[0])}
        for shape, keys in most
    ]
    if counts["looked_at"] >= FEW and counts["unnamed"] > TOO_MANY_UNNAMED * counts["looked_at"]:
        fit.why_not.append(
            f"Nothing names {counts['unnamed']} of {counts['looked_at']} objects that were looked "
            f"at, such as {', '.join(it['sample'] for it in fit.unnamed[:3])}: more may be in use "
            "than the preset knows."
        )


def _objects(bucket: BucketAt) -> Iterator[str]:
    """The first keys of each owned prefix, without what is protected."""
    protected = tuple(it for it in map(str, bucket.settings.protect))
    for prefix in bucket.settings.owned_prefixes:
        page = bucket.client.list_objects_v2(
            Bucket=bucket.settings.bucket, Prefix=prefix, MaxKeys=MOST_OBJECTS
        )
        for shown in page.get("Contents", []):
            if not shown["Key"].startswith(("filejobs-", *protected)):
                yield shown["Key"]


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def differences(preset: Preset, facts: Mapping[str, Any], bucket: Mapping[str, Any]) -> list[str]:
    """What the preset says by now and the settings of a bucket do not say.

    Args:
        preset: Whose.
        facts: What the database says, and the parameters.
        bucket: What the settings say, in their form.
    """
    made, _ = preset.settings(facts)
    lines = []
    for place in ("owns", "protect", "shape", "sources", "rewrites"):
        there = bucket.get(place) or []
        lines += [f"{place}: {_called(it)}" for it in made.get(place, ()) if it not in there]
    return lines


def _called(said: Any) -> str:
    return str(said["name"]) if isinstance(said, dict) else str(said)
