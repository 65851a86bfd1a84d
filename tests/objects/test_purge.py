"""In a bucket that keeps versions: marked or purged, and never more than the orphan."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.book.outcomes import DeletionStopped
from filejobs_dagster.objects import purging, removing
from filejobs_dagster.objects.deletion_mode import (
    Abilities,
    DeletionMode,
    VersioningUnknown,
    deletion_mode_of,
    learn,
)
from filejobs_dagster.objects.targets import Expected
from tests.objects.grouped import Removal
from tests.objects.orphans import (
    gate_on,
    keys_of,
    markers_in,
    no_proof_needed,
    put,
    seen,
    versions_in,
)
from tests.objects.scripted import XML, Answer, Request, ScriptedS3, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate

MARK = DeletionMode("enabled")
PURGE = DeletionMode("enabled", purge_versions=True)


@pytest.fixture
def gate(client: S3Client, connection: psycopg.Connection, versioned_bucket: str) -> Gate:
    return gate_on(client, connection, versioned_bucket)


def history(client: S3Client, bucket: str, key: str, count: int = 3) -> None:
    """Write a key several times."""
    for number in range(count):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" * (number + 1))


# Marked


def test_without_purging_an_orphan_is_marked_and_nothing_is_called_freed(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    removal = gate.remove([seen(client, versioned_bucket, "files/a")], no_proof_needed, MARK)
    assert removal == Removal(marked=(b"files/a",))
    assert len(versions_in(client, versioned_bucket)) == 3
    assert markers_in(client, versioned_bucket) == ["files/a"]
    assert keys_of(client, versioned_bucket) == set()


def test_an_orphan_that_is_marked_already_gets_no_second_marker(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    (orphan,) = put(client, versioned_bucket, "files/a")
    gate.remove([orphan], no_proof_needed, MARK)
    assert gate.remove([orphan], no_proof_needed, MARK) == Removal(already_gone=(b"files/a",))
    assert markers_in(client, versioned_bucket) == ["files/a"]


# Purged


def test_purging_takes_every_version_and_marker_of_exactly_that_key(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    client.delete_object(Bucket=versioned_bucket, Key="files/a")
    client.put_object(Bucket=versioned_bucket, Key="files/a", Body=b"current")
    others = ["files/a/b", "files/aa", "files/a.info", "files/A"]
    for key in others:
        history(client, versioned_bucket, key, 2)
    client.delete_object(Bucket=versioned_bucket, Key="files/a/b")
    orphan = seen(client, versioned_bucket, "files/a")

    removal = gate.remove([orphan], no_proof_needed, PURGE)

    assert removal == Removal(purged={b"files/a": 5}, freed=1 + 2 + 3 + len(b"current"))
    left = [key for key, _ in versions_in(client, versioned_bucket)]
    assert left == sorted([*others, *others])
    assert markers_in(client, versioned_bucket) == ["files/a/b"]


def test_purging_by_the_prefix_takes_other_keys_too_control(
    client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a", 1)
    history(client, versioned_bucket, "files/a/b", 1)
    found = client.list_object_versions(Bucket=versioned_bucket, Prefix="files/a")["Versions"]
    for it in found:
        client.delete_object(Bucket=versioned_bucket, Key=it["Key"], VersionId=it["VersionId"])
    assert versions_in(client, versioned_bucket) == []


def test_older_versions_of_an_object_that_is_in_use_stay(
    gate: Gate, client: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    history(client, versioned_bucket, "files/a")
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/a')")
    before = versions_in(client, versioned_bucket)
    orphan = seen(client, versioned_bucket, "files/a")
    removal = gate.remove([orphan], no_proof_needed, PURGE)
    assert removal.kept == {b"files/a": "referenced by file"}
    assert versions_in(client, versioned_bucket) == before


def test_a_version_that_is_newer_than_what_was_seen_saves_all_of_them(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    client.put_object(Bucket=versioned_bucket, Key="files/a", Body=b"somebody uploads again")
    before = versions_in(client, versioned_bucket)
    removal = gate.remove([orphan], no_proof_needed, PURGE)
    assert list(removal.changed) == [b"files/a"]
    # Behind the same current version, but younger than the sighting: an upload that raced.
    earlier = replace(seen(client, versioned_bucket, "files/a"), modified=1_000_000_000_000)
    assert list(gate.remove([earlier], no_proof_needed, PURGE).undecided) == [b"files/a"]
    assert versions_in(client, versioned_bucket) == before


def test_what_a_marker_hides_by_now_is_gone_already_and_its_versions_stay(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    client.delete_object(Bucket=versioned_bucket, Key="files/a")
    removal = gate.remove([orphan], no_proof_needed, PURGE)
    assert removal == Removal(already_gone=(b"files/a",))
    assert len(versions_in(client, versioned_bucket)) == 3


def test_a_key_that_has_no_version_at_all_is_gone_already(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    (orphan,) = put(client, versioned_bucket, "files/a")
    assert list(gate.remove([orphan], no_proof_needed, PURGE).purged) == [b"files/a"]
    assert gate.remove([orphan], no_proof_needed, PURGE).already_gone == (b"files/a",)


def test_killed_between_old_and_current_the_object_is_still_what_it_was(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    asked: list[None] = []

    def killed() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gate.remove([orphan], killed, PURGE)
    assert seen(client, versioned_bucket, "files/a") == orphan
    assert len(versions_in(client, versioned_bucket)) == 1
    assert gate.remove([orphan], no_proof_needed, PURGE).purged == {b"files/a": 1}


def test_with_the_current_one_first_a_kill_brings_an_old_version_back_to_life_control(
    client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    latest = client.head_object(Bucket=versioned_bucket, Key="files/a")
    client.delete_object(Bucket=versioned_bucket, Key="files/a", VersionId=latest["VersionId"])
    assert client.head_object(Bucket=versioned_bucket, Key="files/a")["ContentLength"] == 2


def test_a_refused_proof_between_old_and_current_leaves_the_key_unanswered(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    asked: list[None] = []

    def lost() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise RuntimeError("given up for dead")

    with pytest.raises(DeletionStopped) as stopped:
        gate.remove([orphan], lost, PURGE)
    assert stopped.value.kind == "proof"
    assert stopped.value.so_far == Removal(freed=1 + 2)
    assert stopped.value.unanswered == (b"files/a",)


def test_more_versions_than_are_read_at_once_go_all_the_same(
    gate: Gate, client: S3Client, versioned_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "MOST_AT_ONCE", 3)
    history(client, versioned_bucket, "files/a", 8)
    history(client, versioned_bucket, "files/b", 2)
    orphans = [seen(client, versioned_bucket, key) for key in ("files/a", "files/b")]
    removal = gate.remove(orphans, no_proof_needed, PURGE)
    assert removal.purged == {b"files/a": 8, b"files/b": 2}
    assert removal.freed == sum(range(1, 9)) + 3
    assert versions_in(client, versioned_bucket) == []


def test_odd_keys_are_purged_and_their_twins_stay(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    odd = ["files/a b", "files/a+b", "files/a%20b", "files/tab\tx", "files/caf\u00e9"]
    for key in [*odd, "files/cafe\u0301"]:
        history(client, versioned_bucket, key, 2)
    orphans = [seen(client, versioned_bucket, key) for key in odd]
    removal = gate.remove(orphans, no_proof_needed, PURGE)
    assert removal.purged == {key.encode(): 2 for key in odd}
    assert {key for key, _ in versions_in(client, versioned_bucket)} == {"files/cafe\u0301"}


def test_an_upload_between_the_last_look_and_the_request_survives(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    """A version's identifier names that version alone, whatever has become the current one."""
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    asked: list[None] = []

    def upload() -> None:
        asked.append(None)
        if len(asked) == 2:
            put(client, versioned_bucket, "files/a", body=b"uploaded in the last moment")

    removal = gate.remove([orphan], upload, PURGE)
    assert removal.purged == {b"files/a": 3}
    assert seen(client, versioned_bucket, "files/a").size == len(b"uploaded in the last moment")
    assert len(versions_in(client, versioned_bucket)) == 1


def test_an_upload_while_the_older_versions_go_keeps_the_one_that_was_seen_too(
    gate: Gate, client: S3Client, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a")
    orphan = seen(client, versioned_bucket, "files/a")
    asked: list[None] = []

    def upload() -> None:
        asked.append(None)
        if len(asked) == 1:
            put(client, versioned_bucket, "files/a", body=b"uploaded in the last moment")

    removal = gate.remove([orphan], upload, PURGE)
    assert list(removal.changed) == [b"files/a"]
    assert len(versions_in(client, versioned_bucket)) == 2


# Servers that list or answer badly

ETAG = "0123456789abcdef0123456789abcdef"
THERE = {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 10:00:00 GMT"}
ORPHAN = Expected(b"files/a", ETAG, 0, 1764410400_000)


def listed(*versions: tuple[str, str], after: str | None = None) -> Answer:
    """A page of versions: identifier and `latest`, `older` or `marker`; then whence to go on."""
    entries = [
        f"<{tag}><Key>files/a</Key><VersionId>{identifier}</VersionId><IsLatest>"
        f"{str(kind == 'latest').lower()}</IsLatest><LastModified>2025-11-29T10:00:00.000Z"
        f"</LastModified><Size>0</Size><ETag>&quot;{ETAG}&quot;</ETag></{tag}>"
        for identifier, kind in versions
        for tag in ["DeleteMarker" if kind == "marker" else "Version"]
    ]
    more = (
        f"<NextKeyMarker>files/a</NextKeyMarker><NextVersionIdMarker>{after}</NextVersionIdMarker>"
    )
    if after is None:
        more = ""
    return Answer(
        body=f"{XML}<ListVersionsResult><IsTruncated>{str(after is not None).lower()}"
        f"</IsTruncated>{more}{''.join(entries)}</ListVersionsResult>"
    )


class BadServer:
    """Lists the pages that it is given; deletes and lies as it is told."""

    def __init__(self, *pages: Answer) -> None:
        self.pages = list(pages)
        self.deleted: list[str] = []
        self.answers = True
        self.head_of_version = Answer(404)
        self.head_afterwards = Answer(404)

    def __call__(self, request: Request) -> Answer:
        if "versions" in request.path:
            return self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if request.method == "HEAD":
            if "versionId" in request.path:
                return self.head_of_version
            return self.head_afterwards if "current" in self.deleted else Answer(headers=THERE)
        named = re.findall("<VersionId>(.*?)</VersionId>", request.body)
        self.deleted += named
        said = "".join(
            f"<Deleted><Key>files/a</Key><VersionId>{it}</VersionId></Deleted>" for it in named
        )
        return Answer(body=f"{XML}<DeleteResult>{said if self.answers else ''}</DeleteResult>")


@pytest.fixture
def bad_gate(scripted_client: S3Client, connection: psycopg.Connection) -> Gate:
    return gate_on(scripted_client, connection, "acme")


def test_pages_that_overlap_do_not_make_the_current_version_one_of_the_older(
    scripted: ScriptedS3, bad_gate: Gate
) -> None:
    server = scripted.script = BadServer(
        listed(("current", "latest"), ("old", "older"), after="old"),
        listed(("current", "latest"), ("old", "older"), ("oldest", "older")),
    )
    assert bad_gate.remove([ORPHAN], no_proof_needed, PURGE).purged == {b"files/a": 3}
    assert server.deleted == ["oldest", "old", "current"]
    assert len(scripted.of("POST")) == 2


def test_two_versions_that_are_both_the_latest_are_left_alone(
    scripted: ScriptedS3, bad_gate: Gate
) -> None:
    server = scripted.script = BadServer(listed(("current", "latest"), ("another", "latest")))
    removal = bad_gate.remove([ORPHAN], no_proof_needed, PURGE)
    assert "which of its versions is the latest" in removal.failed[b"files/a"]
    assert server.deleted == []


def test_a_marker_that_the_answer_does_not_name_and_that_is_still_there_is_not_called_gone(
    scripted: ScriptedS3, bad_gate: Gate
) -> None:
    server = scripted.script = BadServer(listed(("current", "latest"), ("hides", "marker")))
    server.answers = False
    server.head_of_version = Answer(405, headers={"x-amz-delete-marker": "true"})
    removal = bad_gate.remove([ORPHAN], no_proof_needed, PURGE)
    assert removal.removed() == ()
    assert "delete marker" in removal.failed[b"files/a"]
    assert "current" not in server.deleted


def test_versions_that_are_reported_gone_for_ever_do_not_keep_it_busy_for_ever(
    scripted: ScriptedS3, bad_gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "MOST_AT_ONCE", 2)
    page = listed(("current", "latest"), ("old", "older"), after="old")
    server = scripted.script = BadServer(page)
    removal = bad_gate.remove([ORPHAN], no_proof_needed, PURGE)
    assert removal == Removal(failed={b"files/a": "reported as gone, and still there"})
    assert server.deleted == ["old"]


def test_an_older_version_that_came_back_to_life_is_found_out(
    scripted: ScriptedS3, bad_gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "SECONDS_UNTIL_SECOND_LOOK", 0)
    server = scripted.script = BadServer(listed(("current", "latest"), ("old", "older")))
    server.head_afterwards = Answer(
        headers={"ETag": '"another"', "Last-Modified": "Sat, 29 Nov 2025 09:00:00 GMT"}
    )
    with pytest.raises(DeletionStopped, match="an older version") as stopped:
        bad_gate.remove([ORPHAN], no_proof_needed, PURGE)
    assert stopped.value.kind == "verification"
    assert stopped.value.so_far.purged == {}


def test_a_younger_object_after_the_purge_makes_nobody_a_liar(
    scripted: ScriptedS3, bad_gate: Gate
) -> None:
    server = scripted.script = BadServer(listed(("current", "latest"), ("old", "older")))
    server.head_afterwards = Answer(
        headers={"ETag": '"another"', "Last-Modified": "Sat, 29 Nov 2025 10:00:01 GMT"}
    )
    assert bad_gate.remove([ORPHAN], no_proof_needed, PURGE).purged == {b"files/a": 2}


# Suspended versions


@pytest.mark.parametrize("purge", [False, True])
def test_where_versions_are_suspended_only_the_orphan_goes(
    gate: Gate, client: S3Client, versioned_bucket: str, purge: bool
) -> None:
    history(client, versioned_bucket, "files/in-use", 2)
    put(client, versioned_bucket, "files/a", body=b"from before")
    client.put_bucket_versioning(
        Bucket=versioned_bucket, VersioningConfiguration={"Status": "Suspended"}
    )
    (null,) = put(client, versioned_bucket, "files/null")
    old = seen(client, versioned_bucket, "files/a")
    deletion_mode = deletion_mode_of(client, versioned_bucket, purge_versions=purge)
    removal = gate.remove([old, null], no_proof_needed, deletion_mode)
    if purge:
        assert removal.purged == {b"files/a": 1, b"files/null": 1}
        assert removal.freed == len(b"from before") + len(b"bytes")
    else:
        assert removal == Removal(
            marked=(b"files/a",), deleted=(b"files/null",), freed=len(b"bytes")
        )
    assert keys_of(client, versioned_bucket) == {"files/in-use"}
    assert len([key for key, _ in versions_in(client, versioned_bucket) if "in-use" in key]) == 2


# Locks


@pytest.fixture
def locking_bucket(client: S3Client, bucket: str) -> str:
    name = f"{bucket[:40]}-lock"
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


def retain(client: S3Client, bucket: str, key: str, version: str) -> None:
    until = datetime.now(timezone.utc) + timedelta(days=1)
    client.put_object_retention(
        Bucket=bucket,
        Key=key,
        VersionId=version,
        Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until},
    )


def hold(client: S3Client, bucket: str, key: str, version: str) -> None:
    client.put_object_legal_hold(
        Bucket=bucket, Key=key, VersionId=version, LegalHold={"Status": "ON"}
    )


@pytest.mark.parametrize(
    ("lock", "which"),
    # The embedded server cannot say what retains an older version; Ceph can, and is asked.
    [(retain, "current"), (hold, "current"), (hold, "older")],
)
def test_a_locked_version_keeps_its_object_and_the_others_of_the_batch_go(
    client: S3Client,
    connection: psycopg.Connection,
    locking_bucket: str,
    lock: Callable[[S3Client, str, str, str], None],
    which: str,
) -> None:
    gate = gate_on(client, connection, locking_bucket)
    for key in ("files/a", "files/b", "files/c"):
        history(client, locking_bucket, key, 2)
    listed = client.list_object_versions(Bucket=locking_bucket, Prefix="files/b")["Versions"]
    [version] = [it["VersionId"] for it in listed if it["IsLatest"] is (which == "current")]
    lock(client, locking_bucket, "files/b", version)
    orphans = [seen(client, locking_bucket, f"files/{letter}") for letter in "abc"]

    removal = gate.remove(orphans, no_proof_needed, PURGE)

    assert removal.purged == {b"files/a": 2, b"files/c": 2}
    locked = removal.locked[b"files/b"]
    assert (locked.until is None, locked.legal_hold) == (lock is hold, lock is hold)
    assert keys_of(client, locking_bucket) == {"files/b"}
    assert version in {it for _, it in versions_in(client, locking_bucket)}


def test_what_is_dated_anew_by_its_lock_is_locked_and_undecided_only_when_that_is_over(
    client: S3Client, connection: psycopg.Connection, locking_bucket: str
) -> None:
    gate = gate_on(client, connection, locking_bucket)
    history(client, locking_bucket, "files/a", 1)
    [(_, version)] = versions_in(client, locking_bucket)
    hold(client, locking_bucket, "files/a", version)
    it = seen(client, locking_bucket, "files/a")
    listed_before = replace(it, modified=it.modified - 60_000)

    locked = gate.remove([listed_before], no_proof_needed, PURGE).locked

    assert locked[b"files/a"].legal_hold is True
    client.put_object_legal_hold(
        Bucket=locking_bucket, Key="files/a", VersionId=version, LegalHold={"Status": "OFF"}
    )
    removal = gate.remove([listed_before], no_proof_needed, PURGE)
    assert "only its tags, ACL or lock were changed" in removal.undecided[b"files/a"]
    assert keys_of(client, locking_bucket) == {"files/a"}


def test_the_version_that_was_seen_tells_the_same_object_whatever_its_time_says(
    client: S3Client, gate: Gate, versioned_bucket: str
) -> None:
    history(client, versioned_bucket, "files/a", 1)
    [(_, version)] = versions_in(client, versioned_bucket)
    it = seen(client, versioned_bucket, "files/a")
    dated_anew = replace(it, modified=it.modified + 60_000)
    another = replace(dated_anew, seen_as="another")

    assert b"files/a" in gate.remove([dated_anew], no_proof_needed, PURGE).undecided
    assert b"files/a" in gate.remove([another], no_proof_needed, PURGE).changed
    removal = gate.remove([replace(dated_anew, seen_as=version)], no_proof_needed, PURGE)
    assert removal.purged == {b"files/a": 1}


# Manner


def test_a_bucket_without_versions_has_none_to_purge(client: S3Client, bucket: str) -> None:
    learn(client, bucket, Abilities("honoured"))
    deletion_mode = deletion_mode_of(client, bucket, purge_versions=True)
    assert not deletion_mode.purges
    assert deletion_mode.names_etag


def test_whether_to_purge_is_not_guessed(scripted: ScriptedS3, scripted_client: S3Client) -> None:
    scripted.script = lambda _request: Answer(403, errors("AccessDenied"))
    with pytest.raises(VersioningUnknown, match="s3:GetBucketVersioning"):
        deletion_mode_of(scripted_client, "acme", purge_versions=True)
    assert deletion_mode_of(scripted_client, "acme", purge_versions=False) == DeletionMode(
        "unknown"
    )
