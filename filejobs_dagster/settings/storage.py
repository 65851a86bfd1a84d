"""The buckets of `filejobs.yaml`: what an installation owns in them, and what protects it."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from filejobs_dagster.objects.targets import OF_THE_HOUSE, overlap
from filejobs_dagster.settings.problems import Steps, at, mistake, shown
from filejobs_dagster.settings.rules import (
    INVERTIBLE,
    Pattern,
    RewriteSettings,
    TransformSettings,
    begins_after,
    begins_with,
    idle_steps,
    repeated_names,
)
from filejobs_dagster.settings.secrets import OtherDatabase, Secret
from filejobs_dagster.settings.section import Found, Section, items, part
from filejobs_dagster.settings.values import (
    CEILING,
    BucketName,
    Duration,
    Endpoint,
    KeyOrPrefix,
    Prefix,
    Query,
    Text,
    Wait,
    as_keys_are,
    between,
)

WHOLE_BUCKET = ""
"""The prefix that every key begins with."""

_A_TEXT_FOR_EACH_ROW = re.compile(
    r"\s*select\s+(?:all\s+|distinct\s+)?'(?:[^']|'')*'(?:\s*::\s*\w+|\s+as\s+\w+)*\s+from\b",
    re.IGNORECASE,
)

_KEYS = ("access_key_id", "secret_access_key")


class SourceSettings(Section):
    """A query of the operator's that returns keys which are in use."""

    name: Text = Field(
        description="What reports call this source. Unique within the bucket.",
        examples=["avatars"],
    )
    sql: Query = Field(
        description="One SELECT that returns one column of keys, exactly as they stand in the "
        "bucket. No semicolon.",
        examples=["select avatar_key from account"],
    )
    min_rows: StrictInt = Field(
        default=1,
        ge=0,
        description="The fewest rows a sane answer has. Fewer fail the run with nothing deleted; "
        "0 says that an empty answer is normal.",
        examples=[1],
    )
    database: OtherDatabase | None = Field(
        default=None,
        description="Where the query is asked. Without it, in the project's own database. Must be "
        "the primary.",
        examples=[{"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}],
    )
    read_from: OtherDatabase | None = Field(
        default=None,
        description="A replica for the one long read of storage_orphans. The check right before a "
        "deletion always asks the primary.",
        examples=[{"url": {"env": "FILEJOBS_REPLICA_URL"}}],
    )
    transforms: list[TransformSettings] = Field(
        default_factory=list,
        description="The steps, in this order, by which a value of the query becomes a key. "
        "Without any, it is the key.",
        examples=[[{"strip_base": ["s3://acme-uploads/"]}, {"prepend": "files/"}]],
    )
    recheck_sql: Query | None = Field(
        default=None,
        description="A SELECT that returns those of the keys in $1 (text[]) that are in use, as "
        "they stand in the bucket. Needed with drop_query and percent_decode, which cannot be "
        "inverted.",
        examples=["select key from unnest($1::text[]) as key join asset on asset.path = key"],
    )

    names: Literal["keys", "owners"] = Field(
        default="keys",
        description="What the query returns: keys of objects, or owners (stems, folders, run ids) "
        "that `rewrites` lead to. An owner need not be an object: it never counts as missing.",
        examples=["owners"],
    )
    keys_checked_by_hand: StrictBool = Field(
        default=False,
        description="You have made sure that this query is right although none of the keys that "
        "were looked at lies in owns, or none has an object. Without it live runs refuse such a "
        "source: a missing transform looks the same.",
        examples=[False],
    )
    rows_checked_by_hand: StrictBool = Field(
        default=False,
        description="You have made sure that the foreign tables and the functions of this query "
        "hide no row: no row security on the other server, none for the role that is used there. "
        "It cannot be seen from here, so without it live runs refuse such a query.",
        examples=[False],
    )

    @property
    def invertible(self) -> bool:
        """True when the values that become a key can be listed for the check of that key."""
        return all(transform.invertible for transform in self.transforms)

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether single keys can be checked in it."""
        yield from _unchecked(said)
        yield from idle_steps(said.get("transforms"))
        sql = said.get("sql")
        if isinstance(sql, str) and _A_TEXT_FOR_EACH_ROW.match(sql):
            yield (
                ("sql",),
                mistake(
                    "it returns one text for every row: what stands in single quotes is no column",
                    "write the column without quotes, or in double ones",
                ),
            )


class IgnoredColumn(Section):
    """A column whose names keep no object."""

    column: Text = Field(
        description="schema.table.column, with * for anything.",
        examples=["public.post_history.body", "*.tenant_id"],
    )
    reason: Text = Field(
        description="Why what stands there keeps no object: a history, a cache. Or why it need "
        "not be searched, where it cannot be.",
        examples=["the history of deleted posts"],
    )


class NamedElsewhereSettings(Section):
    """The search for the names of orphans in all columns of the databases."""

    ignore: list[IgnoredColumn] = Field(
        default_factory=list,
        description="Columns that keep no object; they are read last, and what they alone name is "
        "said. What cannot be searched (no right, bytes, too large for max_time) must stand here, "
        "or no live run deletes an orphan.",
        examples=[[{"column": "public.post_history.body", "reason": "deleted posts"}]],
    )
    max_time: Annotated[Wait, between(timedelta(seconds=1), timedelta(days=1))] = Field(
        default=timedelta(minutes=10),
        description="How long one search may take. It reads about 50 MB in a second, smallest "
        "tables first; what it did not reach is named.",
        examples=["10m"],
    )
    databases: list[OtherDatabase] = Field(
        default_factory=list,
        description="Further databases to search, beside the project's own and those of sources. "
        "Each must be the primary.",
        examples=[[{"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}]],
    )


class QuarantineSettings(Section):
    """How long what goes can be brought back."""

    keep: Annotated[Duration, between(timedelta(days=1))] = Field(
        default=timedelta(days=30),
        description="How long a copy is kept below filejobs-quarantine/, or a restore is promised; "
        "then storage_orphans deletes it, unless a source names its key by then.",
        examples=["30d"],
    )
    bring_back: StrictBool = Field(
        default=False,
        description="True lets a live sweep bring back by itself what a source names and a sweep "
        "took. Only for an application that never writes a key twice: else an old file comes back "
        "under a newer row. Takes s3:PutObject on what is owned. False: it stays in quarantine, "
        "`missing_taken` names it, and `filejobs restore KEY` brings it back.",
        examples=[True],
    )


class BucketSettings(Section):
    """A bucket, the part of it that this installation may collect in, and how to reach it."""

    bucket: BucketName = Field(
        description="The bucket's name on the server.", examples=["acme-uploads"]
    )
    endpoint_url: Endpoint | None = Field(
        default=None,
        description="The server's address, for anything but AWS.",
        examples=["https://s3.example.com"],
    )
    region: Text | None = Field(
        default=None,
        description="The region. Without it, botocore's own search decides.",
        examples=["eu-central-1"],
    )
    access_key_id: Secret | None = Field(
        default=None,
        description="The access key. With neither this nor secret_access_key, botocore's own "
        "credential chain decides (environment, profile, instance role).",
        examples=[{"env": "FILEJOBS_S3_ACCESS_KEY_ID"}],
    )
    secret_access_key: Secret | None = Field(
        default=None,
        description="The secret that belongs to access_key_id.",
        examples=[{"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"}],
    )
    session_token: Secret | None = Field(
        default=None,
        description="The token of temporary credentials. Needs access_key_id and "
        "secret_access_key.",
        examples=[{"env": "FILEJOBS_S3_SESSION_TOKEN"}],
    )
    addressing: Literal["auto", "path", "virtual"] = Field(
        default="auto",
        description="Where the bucket's name goes: into the path or into the host. Most servers "
        "that are not AWS want path.",
        examples=["path"],
    )
    content_md5: StrictBool = Field(
        default=False,
        description="Send Content-MD5 with a batch deletion, for servers that answer 400 to the "
        "newer checksums.",
        examples=[True],
    )
    max_attempts: StrictInt = Field(
        default=5,
        ge=1,
        le=20,
        description="How often one request is tried before it counts as failed.",
        examples=[5],
    )
    owns: list[Prefix] = Field(
        default_factory=list,
        description="The prefixes in which this installation may collect; everything else is "
        "never touched. Each ends in a slash, and none lies inside another.",
        examples=[["files/"]],
    )
    owns_whole_bucket: StrictBool = Field(
        default=False,
        description="True says that every key of the bucket may be collected. Stands instead of "
        "owns.",
        examples=[True],
    )
    owns_nothing: StrictBool = Field(
        default=False,
        description="True says that nothing is ever collected in this bucket. Stands instead of "
        "owns, for a bucket that only keeps pins or archives.",
        examples=[True],
    )
    protect: list[KeyOrPrefix] = Field(
        default_factory=list,
        description="Prefixes or exact keys that are never deleted, whoever asks, compared as "
        "they stand: no pattern, no address. Inside of owns. Wins over everything.",
        examples=[["files/brand/"]],
    )
    min_age: Annotated[Duration, between(timedelta(hours=24))] = Field(
        default=CEILING,
        description="The age under which no unreferenced object is an orphan. It exceeds the "
        "longest upload; the floor is 24h.",
        examples=["48h"],
    )
    sources: list[SourceSettings] = Field(
        default_factory=list,
        description="Queries for keys that are in use, in addition to the project's own tables.",
        examples=[[{"name": "avatars", "sql": "select avatar_key from account"}]],
    )
    shape: list[Pattern] = Field(
        default_factory=list,
        description="Regular expressions of the keys that belong here. An owned key that none of "
        "them matches as a whole is kept and reported. Without any, every key is known.",
        examples=[[r"files/[0-9a-f-]{36}(/.*)?"]],
    )
    rewrites: list[RewriteSettings] = Field(
        default_factory=list,
        description="Rules by which derived objects (thumbnails, variants, segments) stay as long "
        "as the object that they were derived from is referenced.",
        examples=[
            [
                {
                    "name": "thumbnails",
                    "match": r"files/thumbnails/(?P<id>[^/]+)_[0-9]+\.webp",
                    "owner": "files/{id}",
                }
            ]
        ],
    )
    named_elsewhere: NamedElsewhereSettings = Field(
        default_factory=NamedElsewhereSettings,
        description="The search for the names of orphans in columns that no source reads. What is "
        "found keeps its object.",
        examples=[{"max_time": "10m"}],
    )
    purge_versions: StrictBool = Field(
        default=False,
        description="True removes all versions of an orphan in a versioned bucket. False leaves a "
        "delete marker: nothing is freed, and the object can be brought back.",
        examples=[True],
    )
    quarantine: QuarantineSettings | None = Field(
        default=None,
        description="Keep what storage_orphans takes, so that `filejobs restore` brings it back: "
        "as a verified copy, or behind a delete marker where the bucket keeps versions. Without "
        "this and delete, a bucket keeps it from its first live sweep on, and one in which a "
        "sweep has deleted at once before goes on so.",
        examples=[{"keep": "30d"}],
    )
    delete: Literal["at_once"] | None = Field(
        default=None,
        description="at_once: nothing more is kept. Stands instead of quarantine. Copies that "
        "quarantine has made before go after 30d, whatever it said.",
        examples=["at_once"],
    )
    marker: Text | None = Field(
        default=None,
        description="Superfluous: every marker lies below filejobs-adopted/, whatever stands here. "
        "Where an older version kept it at a key of its own, that key is read until the first "
        "live run, or `filejobs bucket adopt`, has written the new one. Then drop the line.",
        examples=["filejobs-adopted.json"],
    )

    @property
    def owned_prefixes(self) -> tuple[str, ...]:
        """`owns`, or the empty prefix when the whole bucket is owned."""
        return (WHOLE_BUCKET,) if self.owns_whole_bucket else tuple(self.owns)

    @property
    def server_and_name(self) -> tuple[str, str]:
        """The same for all entries that lead to one bucket."""
        return _server(self.endpoint_url), self.bucket

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at ownership, protection, credentials and the names of sources."""
        yield from _ownership(said)
        yield from _without_age(said)
        yield from _overlaps_within(said)
        yield from _useless_protection(said)
        yield from _outside_of_owns(said)
        yield from _credentials(said)
        yield from repeated_names(said.get("sources"), "sources", "source")
        yield from repeated_names(said.get("rewrites"), "rewrites", "rewrite")
        yield from _owners_of_nothing(said)
        yield from _owned_markers(said)
        yield from _kept_and_not(said)


def overlaps_between(buckets: Mapping[str, Mapping[str, Any]]) -> Iterator[Found]:
    """Find prefixes that two entries own in the same bucket of the same server.

    Args:
        buckets: The entries as the file has them, by their name.

    Yields:
        Mistakes with paths that begin with the entry's name.
    """
    owned: list[tuple[str, tuple[str, str], Steps, str]] = []
    for name, said in buckets.items():
        place = _place(said)
        if place is None:
            continue
        for path, prefix in _owned(said):
            owned.append((name, place, path, prefix))
    for index, (name, place, path, prefix) in enumerate(owned):
        for other_name, other_place, other_path, other in owned[:index]:
            if name != other_name and place == other_place and overlap(prefix, other):
                yield (
                    (name, *path),
                    mistake(
                        f"{_prefix_in_words(prefix)} overlaps {_prefix_in_words(other)} of "
                        f"{at(('buckets', other_name, *other_path))}: both entries are the bucket "
                        f"{shown(place[1])} of the same server",
                        "give every prefix to one entry only",
                    ),
                )


def owner_of(key: str, entry: str, buckets: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Say which entry owns a key of an entry's bucket, in words; None when none does.

    Args:
        key: A key or a prefix.
        entry: The entry whose bucket is meant.
        buckets: All entries as the file has them; others may be the same bucket of that server.
    """
    place = _place(buckets[entry])
    for name, said in buckets.items():
        if name == entry or (place is not None and _place(said) == place):
            for path, prefix in _owned(said):
                if key.startswith(prefix):
                    where = at(("buckets", name, *path))
                    return f"{_prefix_in_words(prefix)} of {where}"
    return None


def _owners_of_nothing(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find sources of owners in a bucket that has no rule by which an object has an owner."""
    if said.get("rewrites"):
        return
    for index, source in enumerate(items(said.get("sources"))):
        if part(source, "names") == "owners":
            yield (
                ("sources", index, "names"),
                mistake(
                    "owners keep objects by `rewrites`, and this bucket has none: nothing would "
                    "be kept by this source",
                    "write the rewrite that leads from an object to its owner, or names: keys",
                ),
            )


def _ownership(said: Mapping[str, Any]) -> Iterator[Found]:
    whole = said.get("owns_whole_bucket") is True
    if said.get("owns_nothing") is True:
        for key in ("owns", "owns_whole_bucket"):
            if said.get(key):
                yield (key,), mistake("it stands beside owns_nothing: true", "keep one of the two")
        nothing = ("protect", "sources", "shape", "rewrites", "purge_versions")
        for key in (*nothing, "quarantine", "delete"):
            if said.get(key):
                yield (
                    (key,),
                    mistake(
                        "it stands beside owns_nothing: true, and so it does nothing: nothing is "
                        "ever deleted here",
                        "leave it out, or write what is owned",
                    ),
                )
    elif whole and "owns" in said:
        yield (
            ("owns",),
            mistake("it stands beside owns_whole_bucket: true", "keep one of the two"),
        )
    elif not whole and "owns" not in said:
        yield (
            ("owns",),
            mistake(
                "it is missing",
                "write the prefixes in which this installation may collect, for example "
                "owns: [files/], or owns_whole_bucket: true",
            ),
        )
    elif not whole and said["owns"] == []:
        yield (
            ("owns",),
            mistake(
                "it names no prefix",
                "write at least one, such as files/, or owns_whole_bucket: true instead",
            ),
        )


def _without_age(said: Mapping[str, Any]) -> Iterator[Found]:
    if "min_age" not in said and said.get("owns_nothing") is not True:
        yield (
            ("min_age",),
            mistake(
                "it is missing",
                "write the age under which no unreferenced object is an orphan; for example "
                "min_age: 48h",
            ),
        )


def _overlaps_within(said: Mapping[str, Any]) -> Iterator[Found]:
    if said.get("owns_whole_bucket") is True:
        return
    owned = list(_owned(said))
    for index, (path, prefix) in enumerate(owned):
        for other_path, other in owned[:index]:
            if overlap(prefix, other):
                shorter = min(prefix, other, key=len)
                yield (
                    path,
                    mistake(
                        f"the prefix {shown(prefix)} overlaps {shown(other)} of {at(other_path)}",
                        f"keep {shown(shorter)}, which owns both",
                    ),
                )


def _useless_protection(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find entries of `protect` under which nothing could ever be deleted, and repeated ones."""
    first: dict[str, int] = {}
    for index, entry in enumerate(items(said.get("protect"))):
        if not isinstance(entry, str) or not _could_be_a_key(entry):
            continue  # reported where it stands
        path: Steps = ("protect", index)
        if entry.rstrip("/") in first:
            earlier = f"protect[{first[entry.rstrip('/')]}]"
            yield path, mistake(f"{shown(entry)} stands at {earlier} too", "keep one of the two")
        elif _lies_outside(entry if entry.endswith("/") else f"{entry}/", said):
            how = "begins with /, so" if entry.startswith("/") else "lies outside of owns:"
            yield (
                path,
                mistake(
                    f"{shown(entry)} {how} it protects nothing that is owned", _meant(entry, said)
                ),
            )
        first.setdefault(entry.rstrip("/"), index)


def _could_be_a_key(entry: str) -> bool:
    try:
        return bool(as_keys_are(entry))
    except PydanticCustomError:
        return False


def _meant(entry: str, said: Mapping[str, Any]) -> str:
    """What was probably meant by an entry of `protect` that is outside of everything owned."""
    owned = [prefix for _, prefix in _owned(said)]
    bare = entry.lstrip("/").removeprefix(f"{said.get('bucket')}/")
    for prefix in owned:
        if bare.casefold().startswith(prefix.casefold()):
            return f"write {shown(prefix + bare[len(prefix) :])}"
    if len(owned) == 1 and bare:
        return f"did you mean {shown(owned[0] + bare)}?"
    return f"write a prefix or a key inside of {', '.join(map(shown, owned))}, or leave it out"


def _outside_of_owns(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find sources and rules that no key in what is owned can ever meet."""
    for index, source in enumerate(items(said.get("sources"))):
        begins = begins_after(part(source, "transforms"))
        if _lies_outside(begins, said):
            yield (
                ("sources", index, "transforms"),
                mistake(
                    f"every key would begin with {shown(begins)}, which is outside of owns: the "
                    "source would name nothing that could be deleted",
                    "write transforms that lead to the keys as the bucket lists them",
                ),
            )
    patterns: list[tuple[Steps, Any]] = [
        (("rewrites", index, "match"), part(rewrite, "match"))
        for index, rewrite in enumerate(items(said.get("rewrites")))
    ]
    patterns += [(("shape", index), one) for index, one in enumerate(items(said.get("shape")))]
    for path, pattern in patterns:
        begins = begins_with(pattern) if isinstance(pattern, str) else ""
        if _lies_outside(begins, said):
            yield (
                path,
                mistake(
                    f"it matches only keys that begin with {shown(begins)}, outside of owns",
                    "write a pattern of the whole key, from the bucket's root on",
                ),
            )


def _lies_outside(beginning: str, said: Mapping[str, Any]) -> bool:
    """True when nothing that begins so can be owned; false where it is not known what is."""
    owned = [prefix for _, prefix in _owned(said)]
    return bool(owned) and not any(overlap(beginning, prefix) for prefix in owned)


def _credentials(said: Mapping[str, Any]) -> Iterator[Found]:
    given = [key for key in _KEYS if said.get(key) is not None]
    if len(given) == 1:
        (absent,) = set(_KEYS) - set(given)
        yield (
            (absent,),
            mistake(
                f"it is missing beside {given[0]}",
                "write both, or neither for botocore's own credential chain",
            ),
        )
    if not given and said.get("session_token") is not None:
        yield (
            ("session_token",),
            mistake("it stands alone", f"write {_KEYS[0]} and {_KEYS[1]} too"),
        )


def _unchecked(said: Mapping[str, Any]) -> Iterator[Found]:
    recheck = said.get("recheck_sql")
    if isinstance(recheck, str) and recheck.strip() and "$1" not in recheck:
        yield (
            ("recheck_sql",),
            mistake(
                "it does not ask for $1",
                "write a SELECT that returns those of the keys in $1::text[] that are in use",
            ),
        )
    transforms = said.get("transforms")
    for index, step in enumerate(items(transforms)):
        kinds = step if isinstance(step, Mapping) else getattr(step, "model_fields_set", ())
        found = [kind for kind in ("drop_query", "percent_decode") if kind in kinds]
        if recheck is None and found and not INVERTIBLE.intersection(kinds):
            yield (
                ("recheck_sql",),
                mistake(
                    f"it is missing, and transforms[{index}], {found[0]}, cannot be inverted: "
                    "before a deletion nobody could look up whether a key is in use",
                    "write a SELECT that returns those of the keys in $1::text[] that are in use",
                ),
            )
            return


def _kept_and_not(said: Mapping[str, Any]) -> Iterator[Found]:
    if said.get("quarantine") is None:
        return
    for key in ("delete", "purge_versions"):
        if said.get(key):
            yield (
                (key,),
                mistake(
                    "it stands beside quarantine, and takes at once what that keeps",
                    "keep one of the two",
                ),
            )


def _owned_markers(said: Mapping[str, Any]) -> Iterator[Found]:
    for path, prefix in _owned(said):
        if prefix.startswith(OF_THE_HOUSE):
            yield (
                path,
                mistake(
                    f"below {shown(prefix)} lie the markers that say whose bucket it is, or what "
                    "is in quarantine; nothing is collected there",
                    "write the prefixes of your files",
                ),
            )


def _place(said: Mapping[str, Any]) -> tuple[str, str] | None:
    bucket, endpoint = said.get("bucket"), said.get("endpoint_url")
    if not isinstance(bucket, str) or not isinstance(endpoint, str | None):
        return None
    return _server(endpoint), bucket


def _server(endpoint: str | None) -> str:
    if endpoint is None:
        return ""
    try:
        parts = urlsplit(endpoint)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return endpoint
    # http and https of one host and port cannot both be the server, so the scheme says nothing.
    return f"{parts.hostname}:{port}{parts.path.rstrip('/')}"


def _owned(said: Mapping[str, Any]) -> Iterator[tuple[Steps, str]]:
    if said.get("owns_whole_bucket") is True:
        yield ("owns_whole_bucket",), WHOLE_BUCKET
        return
    owns = said.get("owns")
    for index, prefix in enumerate(items(owns)):
        # Without its slash it is a mistake of its own, and would overlap by accident.
        if isinstance(prefix, str) and prefix.endswith("/"):
            yield ("owns", index), prefix


def _prefix_in_words(prefix: str) -> str:
    return f"the prefix {shown(prefix)}" if prefix else "the whole bucket"
