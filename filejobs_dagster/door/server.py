"""What the server can do: found out once for each bucket, kept, and used by every job."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from filejobs_dagster.book.outcomes import Fate, StorageRejected
from filejobs_dagster.door.adoption import remember_probe
from filejobs_dagster.door.adoption_target import row_of
from filejobs_dagster.door.belonging import adoption_target_of
from filejobs_dagster.door.guard import Guard
from filejobs_dagster.objects.deletion_mode import Abilities, abilities_of, learn
from filejobs_dagster.objects.errors import StorageError, described
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets
from filejobs_dagster.objects.identity import ROUNDED_BY, agreement, strong
from filejobs_dagster.objects.sending import Deleting, refuses_many
from filejobs_dagster.objects.targets import Target, Verdict
from filejobs_dagster.objects.versions import versions_of
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.postgres.locks import LockTaken, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.adoption_target import AdoptionTarget, Row
    from filejobs_dagster.door.guard import Look
    from filejobs_dagster.objects.deletion_mode import ConditionalDelete
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.identity import Agreement

# Finds out what a server can do, by trying it on an object of our own beside the marker.
#
# Several servers ignore the condition of a deletion, some refuse to delete many objects at once,
# and for some two keys are one object. None of them says so.

BODY = b"filejobs tries what this server can do\n"
ANOTHER_ETAG = "00000000000000000000000000000000"

PREFIX = ".probe-"
"""What follows the marker's key in every key of a probe: the gate protects them, and rights name
them by it."""


class ProbeFailed(Exception):
    """The probe could not be made; what the server can do is not known."""


@dataclass(frozen=True)
class Probe:
    """What was found.

    Attributes:
        abilities: Of the server.
        server: How it calls itself; empty when it does not.
        leftover: The probe's own key, when it could not be removed again.
    """

    abilities: Abilities
    server: str
    leftover: str | None = None


def probe(client: S3Client, bucket: str, beside: str) -> Probe:
    """Write a tiny object, look at it in several ways, and delete it in several ways.

    Its key is always the same, and what an earlier probe has left is removed before: so there is
    never more than one. Only one probe of a bucket may be at work at a time.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        beside: The marker's key, outside the owned prefixes; the probe's key begins with it.

    Raises:
        ProbeFailed: The object could not be written, what an earlier probe left could not be
            removed, or storage does not answer.
    """
    key = f"{beside}{PREFIX}object/x"
    try:
        server = name_of_server(client, bucket)
        _remove_leftovers(client, bucket, beside)
        try:
            abilities = _abilities(client, bucket, key)
        finally:
            left = _clean_up(client, bucket, key)
    except (ClientError, BotoCoreError) as error:
        raise ProbeFailed(
            f"What the server of bucket {bucket!r} can do could not be tried with the object "
            f"{key!r}: {described(error)}. The probe needs s3:PutObject, s3:GetObject and "
            "s3:DeleteObject on keys that begin with the marker's."
        ) from error
    except StorageRejected as error:
        raise ProbeFailed(
            f"What the server of bucket {bucket!r} can do could not be tried: {error.reason}"
        ) from error
    return Probe(abilities, server, key if left else None)


def name_of_server(client: S3Client, bucket: str) -> str:
    """The Server header of its answer to a HEAD of the bucket; empty without one.

    Raises:
        BotoCoreError: It does not answer.
    """
    try:
        answer = client.head_bucket(Bucket=bucket)["ResponseMetadata"]
    except ClientError as error:
        answer = error.response.get("ResponseMetadata", {})  # type: ignore[assignment]
    return str(answer.get("HTTPHeaders", {}).get("server", ""))


def _abilities(client: S3Client, bucket: str, key: str) -> Abilities:
    client.put_object(Bucket=bucket, Key=key, Body=BODY)
    folds = _folds_slashes(client, bucket, key)
    apart, etags = _as_listed(client, bucket, key)
    bulk = _knows_many(client, bucket, key)
    batch: bool | StorageError = StorageError("NotImplemented", "it deletes one by one only")
    if bulk:
        batch = _obeys(client, bucket, key, one_by_one=False)
    single = _obeys(client, bucket, key, one_by_one=True)
    return Abilities(
        _word(single=single, batch=batch),
        bulk,
        folds,
        apart,
        etags,
        _lists_uploads(client, bucket, key),
    )


def _folds_slashes(client: S3Client, bucket: str, key: str) -> bool:
    """Whether the same object answers to another key, or nobody can tell that it does not."""
    folder, _, name = key.rpartition("/")
    return not isinstance(_seen(client, bucket, f"{folder}//{name}"), Absent)


def _as_listed(client: S3Client, bucket: str, key: str) -> tuple[int | None, Agreement]:
    """By how many seconds listing and HEAD differ, and how their ETags agree."""
    sighting = _seen(client, bucket, key)
    try:
        entries = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
    except ClientError:
        entries = []
    listed = next((entry for entry in entries if entry["Key"] == key), None)
    if listed is None or not isinstance(sighting, Present) or sighting.modified is None:
        return None, "unknown"
    apart = abs(int(listed["LastModified"].timestamp()) - int(sighting.modified.timestamp()))
    return apart, agreement(listed.get("ETag"), sighting.etag)


def _lists_uploads(client: S3Client, bucket: str, key: str) -> bool | None:
    """Whether a multipart upload that was just begun is listed; None where it may not be begun.

    Some servers show an upload only to whoever asks for its exact key. It never gets a part, so
    that nothing is paid for one that could not be aborted; a later probe aborts what is listed.
    """
    prefix = key.rpartition("/")[0]
    try:
        begun = client.create_multipart_upload(Bucket=bucket, Key=key).get("UploadId")
        if not begun:
            return None
        answer = client.list_multipart_uploads(Bucket=bucket, Prefix=prefix)
        listed = [it["UploadId"] for it in answer.get("Uploads", []) if it["Key"] == key]
        for upload_id in {begun, *listed}:
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except ClientError:
        return None
    return begun in listed


def _knows_many(client: S3Client, bucket: str, key: str) -> bool:
    """Whether the server accepts a request that could name many objects."""
    work = Deleting(
        client,
        bucket,
        [Target(key)],
        before_request=lambda: None,
        alone_when_refused=False,
    )
    try:
        work.run()
    except StorageRejected as rejected:
        cause = rejected.__cause__
        if isinstance(cause, ClientError) and refuses_many(cause):
            return False
        raise
    return True


def _obeys(client: S3Client, bucket: str, key: str, *, one_by_one: bool) -> bool | StorageError:
    """True when it obeys, false when it ignores, or the refusal of a server that does neither."""
    answer = client.put_object(Bucket=bucket, Key=key, Body=BODY)
    etag = strong(answer["ETag"])
    wrong = _delete(client, bucket, Target(key, etag=ANOTHER_ETAG), one_by_one=one_by_one)
    if not _is_there(client, bucket, key):
        return False
    if wrong.fate is not Fate.CHANGED:
        return StorageError(wrong.code or wrong.fate.value, wrong.reason)
    right = _delete(client, bucket, Target(key, etag=etag), one_by_one=one_by_one)
    if right.fate in (Fate.DELETED, Fate.MARKED) and not _is_there(client, bucket, key):
        return True
    return StorageError(right.code or right.fate.value, right.reason)


def _delete(client: S3Client, bucket: str, target: Target, *, one_by_one: bool) -> Verdict:
    work = Deleting(client, bucket, [target], before_request=lambda: None, alone_when_refused=False)
    try:
        return work.run(one_by_one=one_by_one)[target]
    except StorageRejected as rejected:
        error = described(rejected.__cause__ or rejected)
        if error.code in _REFUSES_CONDITION:
            return Verdict(Fate.FAILED, str(error), error.code)
        raise


_REFUSES_CONDITION = frozenset(
    {"400", "501", "InvalidArgument", "InvalidRequest", "NotImplemented"}
)


def _seen(client: S3Client, bucket: str, key: str) -> CloseSighting:
    target = Target(key)
    return look_at_targets(client, bucket, [target])[target]


def _is_there(client: S3Client, bucket: str, key: str) -> bool:
    return isinstance(_seen(client, bucket, key), Present)


def _word(*, single: bool | StorageError, batch: bool | StorageError) -> ConditionalDelete:
    if single is True and batch is True:
        return "honoured"
    if single is True:
        return "single only"
    if batch is True:
        return "batch only"
    return "ignored" if False in (single, batch) else "unsupported"


# What is left ---------------------------------------------------------------------------------


def _remove_leftovers(client: S3Client, bucket: str, beside: str) -> None:
    """Remove what a probe left that was killed, or that could not remove it.

    Raises:
        ProbeFailed: It is still there. Another one beside it would make two.
    """
    left = [key for key in _leftovers(client, bucket, beside) if _clean_up(client, bucket, key)]
    if left:
        raise ProbeFailed(
            f"The object {left[0]!r} of an earlier probe lies in bucket {bucket!r} and could not "
            "be removed, so no other one was written. Remove it by hand; in a bucket that keeps "
            "versions that takes s3:ListBucketVersions and s3:DeleteObjectVersion, and of a locked "
            "one the lock must end first."
        )


def _leftovers(client: S3Client, bucket: str, beside: str) -> list[str]:
    """Keys of earlier probes, of a bucket with versions also those behind a delete marker."""
    prefix = f"{beside}{PREFIX}"
    try:
        versions = client.list_object_versions(Bucket=bucket, Prefix=prefix)
    except ClientError:
        pass
    else:
        entries = [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]
        if entries:
            return list(dict.fromkeys(entry["Key"] for entry in entries))
    try:
        listed = client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    except ClientError:
        # Without the right to list: the key is always the same, and is written over.
        return []
    return [entry["Key"] for entry in listed.get("Contents", [])]


def _clean_up(client: S3Client, bucket: str, key: str) -> bool:
    """Remove the object, its versions and its markers; true when something is left."""
    try:
        found = versions_of(client, bucket, key)
        targets = (
            [Target(key)]
            if isinstance(found, StorageError)
            else [Target(key, version.identifier) for version in found.versions]
        )
        verdicts = _removed(client, bucket, targets)
        if not targets and _is_there(client, bucket, key):
            # Some servers list no versions of what was written while they kept none.
            verdicts = _removed(client, bucket, [Target(key)])
    except StorageRejected:
        return True
    return any(verdict.fate in (Fate.FAILED, Fate.MARKED) for verdict in verdicts.values())


def _removed(client: S3Client, bucket: str, targets: list[Target]) -> dict[Target, Verdict]:
    return Deleting(client, bucket, targets, before_request=lambda: None).run()


TRIED_AGAIN_AFTER = timedelta(days=90)
"""A server changes without a word: an update, another proxy in front of it."""

MOST_WAIT = 60.0
"""Seconds to wait for another run that is trying the same server."""

BLIND = (
    "does not list multipart uploads below a prefix, so that multipart_uploads finds only those "
    "whose id a row knows: set a lifecycle rule that aborts incomplete uploads, or use a server "
    "that lists them"
)

NOT_TRIED = "not tried yet"
BY_HAND = "`filejobs doctor --probe`"


@dataclass(frozen=True)
class _Known:
    row: Row | None
    days: int

    def is_enough(self, server: str) -> bool:
        """Whether what is known was found out on this server, and not too long ago."""
        row = self.row
        return (
            row is not None
            and row.abilities is not None
            and row.probed_server == server[:200]
            and self.days < TRIED_AGAIN_AFTER.days
        )


class Server(Guard):
    """The server was tried before anything of the operator's is deleted on it."""

    name = "server"
    protects: frozenset[Touch] = frozenset({"objects", "multipart uploads"})

    def look(self, at: Look) -> str:
        """Take over what is known; nothing is tried by looking."""
        said: list[str] = []
        for bucket in (each for each in at.buckets if each.deletes):
            place = adoption_target_of(at, bucket)
            row = _known(place).row
            abilities = None if row is None else row.abilities
            if row is None or row.probed_at is None or abilities is None:
                said.append(f"{NOT_TRIED}: the first live run does that, or {BY_HAND}")
                continue
            learn(place.client, place.bucket, abilities)
            for doubt in doubts(abilities):
                at.log.warning("Bucket %s: %s.", place.bucket, doubt)
            name = row.probed_server or "without a name"
            said.append(f"{in_words(abilities)} (tried {row.probed_at:%Y-%m-%d}, server {name})")
        return "; ".join(dict.fromkeys(said)) or "nothing is deleted from a bucket"

    def enter(self, at: Look) -> None:
        """Try it when nobody has, or when it may be another one by now."""
        for bucket in (each for each in at.buckets if each.deletes):
            place = adoption_target_of(at, bucket)
            try:
                found = _tried_unless_known(place)
            except (ProbeFailed, BotoCoreError) as error:
                at.log.warning("%s Each object is looked at right before its deletion.", error)
                row = _known(place).row
                if row is None or row.abilities is None:
                    # Nobody can tell that `files//a` is not `files/a`, so such keys stay.
                    abilities_of(place.client, place.bucket).folds_slashes = True
                continue
            if found is None:
                continue
            if found.leftover is not None:
                at.log.warning("The probe's own object %s could not be removed.", found.leftover)
            at.log.info("This server was tried: %s.", in_words(found.abilities))
            for doubt in doubts(found.abilities):
                at.log.warning("Bucket %s: %s.", place.bucket, doubt)


def tried(place: AdoptionTarget) -> Probe:
    """Try the server, keep what was found, and go by it from now on. One at a time.

    Args:
        place: Bucket and database.

    Raises:
        ProbeFailed: It could not be tried.
        psycopg.Error: The database refused.
    """
    with _alone(place):
        return _tried(place)


def _tried(place: AdoptionTarget) -> Probe:
    found = probe(place.client, place.bucket, place.marker_key)
    remember_probe(place, found)
    learn(place.client, place.bucket, found.abilities)
    return found


def _tried_unless_known(place: AdoptionTarget) -> Probe | None:
    server = name_of_server(place.client, place.bucket)
    if _known(place).is_enough(server):
        return None
    with _alone(place):
        known = _known(place)
        if not known.is_enough(server):
            return _tried(place)
    # Another run has found it out meanwhile.
    if known.row is not None and known.row.abilities is not None:
        learn(place.client, place.bucket, known.row.abilities)
    return None


@contextmanager
def _alone(place: AdoptionTarget) -> Iterator[None]:
    """Two probes at once would remove each other's object, and draw wrong conclusions.

    The lock is held on the run's own connection: a pool need not have one more for it.
    """
    name = f"{place.database.schema}/probe/{'/'.join(place.row_key.values())}"
    tries = Retrying(
        retry=retry_if_exception_type(LockTaken),
        stop=stop_after_delay(MOST_WAIT),
        wait=wait_random(0.1, 0.5),
        reraise=True,
    )
    with ExitStack() as stack:
        try:
            tries(_locked, place, name, stack)
        except LockTaken as taken:
            raise ProbeFailed(
                f"Another run has been trying the server of bucket {place.bucket!r} for more than "
                f"{MOST_WAIT:.0f} seconds."
            ) from taken
        yield


def _locked(place: AdoptionTarget, name: str, stack: ExitStack) -> None:
    with ExitStack() as until_locked:
        cursor = until_locked.enter_context(place.database.transaction(place.connection))
        if not try_lock(cursor, name):
            raise LockTaken(name)
        stack.push(until_locked.pop_all())


def _known(place: AdoptionTarget) -> _Known:
    with place.database.transaction(place.connection, read_only=True) as cursor:
        row = row_of(cursor, place)
        now = database_now(cursor)
    probed_at = None if row is None else row.probed_at
    return _Known(row, 0 if probed_at is None else (now - probed_at).days)


def in_words(abilities: Abilities) -> str:
    """What is known of a server, for people."""
    said = ["what it makes of a deletion that names the ETag is not known"]
    if abilities.conditional is not None:
        said = [_CONDITIONAL[abilities.conditional]]
    if not abilities.bulk:
        said.append(
            "refuses to delete many objects in one request, so every object takes a request of "
            "its own (`content_md5: true` helps some of these servers)"
        )
    if abilities.folds_slashes:
        said.append("takes files//a and files/a for one object, so such keys are kept")
    return "the server " + "; ".join([*said, *doubts(abilities)])


def doubts(abilities: Abilities) -> list[str]:
    """What keeps objects that were seen from ever being found the same again."""
    found: list[str] = []
    if abilities.seconds_apart is not None and abilities.seconds_apart > ROUNDED_BY:
        found.append(
            f"its listing and its HEAD differ by {abilities.seconds_apart} seconds on the time of "
            "one object, so that no orphan is the one that was seen, and none goes: set its clock "
            "or its time zone right"
        )
    if abilities.etags == "different":
        found.append(
            "its listing and its HEAD name different ETags for one object, so that no orphan is "
            "the one that was seen, and none goes: look at what stands in front of it"
        )
    if abilities.lists_uploads is False:
        found.append(f"it {BLIND}")
    return found


_CONDITIONAL: dict[ConditionalDelete, str] = {
    "honoured": "obeys a deletion that names the ETag",
    "single only": "obeys a deletion that names the ETag only in requests for one object, so every "
    "orphan takes a request of its own",
    "batch only": "obeys a deletion that names the ETag only in batches",
    "ignored": "ignores the ETag that a deletion names; objects are compared right before each "
    "request instead",
    "unsupported": "refuses a deletion that names the ETag; objects are compared right before each "
    "request instead",
}
