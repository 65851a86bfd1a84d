"""Places for pins: once, never twice, every version, and what they promise."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

from filejobs_dagster.audit.note import TrustedKey, TrustedKeys, generate, text_of
from filejobs_dagster.audit.origin import Origin, unquoted
from filejobs_dagster.audit.pins.places import FolderPins, S3Pins
from filejobs_dagster.audit.pins.read import read_pins
from filejobs_dagster.audit.pins.store import (
    Equivocation,
    PinEntry,
    PinReceipt,
    PinStore,
    PinStoreUnusable,
)
from filejobs_dagster.audit.seal import NotPinned, SealPolicy
from filejobs_dagster.audit.session import TrimRefused
from filejobs_dagster.audit.statement import ManifestStatement
from filejobs_dagster.audit.trim.archive import StoreArchive
from filejobs_dagster.audit.verify import Incremental, known_chains
from filejobs_dagster.objects.client import make_client
from tests.audit.world import DAY, ORIGIN, MemoryPins, genesis, sha256
from tests.objects.buckets import BucketForTests

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from tests.audit.world import World

KEY = "files.example/audit/a/1/seal/000000000001.note"


def until(days: int = 30) -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=days)


@pytest.fixture
def client(s3_server: EmbeddedS3) -> S3Client:
    return make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))


@pytest.fixture
def locked_bucket(client: S3Client, request: pytest.FixtureRequest) -> str:
    name = f"pins-{abs(hash(request.node.nodeid)):x}-{datetime.now().microsecond}"  # noqa: DTZ005
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.fixture(params=["folder", "bucket", "locked bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, client: S3Client) -> PinStore:
    if request.param == "folder":
        return FolderPins(tmp_path / "pins")
    name = request.getfixturevalue("bucket" if request.param == "bucket" else "locked_bucket")
    return S3Pins(client, name, prefix="pins/")


def test_the_first_text_stays_and_the_same_one_again_is_a_success(store: PinStore) -> None:
    assert store.list("files.example/") == []
    first = store.put_once(KEY, b"one\n", retain_until=until())
    again = store.put_once(KEY, b"one\n", retain_until=until())
    assert (first.was_there, again.was_there) == (False, True)
    assert first.version == again.version
    [entry] = store.list("files.example/audit/a/")
    assert (entry.key, entry.marker) == (KEY, False)
    assert store.get(entry).content == b"one\n"
    assert store.list("files.example/audit/b/") == []


def test_only_what_stands_behind_a_key_is_listed_and_chains_are_asked_for_by_themselves(
    store: PinStore,
) -> None:
    keys = [Origin("files.example/audit", "a").seal_key(1, number) for number in range(1, 5)]
    for key in (*keys, KEY.replace("/a/", "/b%2Fc/")):
        store.put_once(key, b"x\n", retain_until=None)
    behind = store.list_after("files.example/audit/a/1/seal/", keys[1])
    assert [entry.key for entry in behind] == keys[2:]
    assert store.list_after("files.example/audit/a/1/seal/", keys[3]) == []
    assert store.words("files.example/audit/") == {"a", "b%2Fc"}
    assert store.words("files.example/other/") == set()


def test_another_text_at_the_same_place_is_equivocation(store: PinStore) -> None:
    store.put_once(KEY, b"one\n", retain_until=None)
    with pytest.raises(Equivocation, match="another text"):
        store.put_once(KEY, b"two\n", retain_until=None)
    assert [store.get(entry).content for entry in store.list(KEY)] == [b"one\n"]


def test_what_is_not_there_cannot_be_read(store: PinStore) -> None:
    with pytest.raises(PinStoreUnusable):
        store.get(PinEntry("files.example/audit/a/none.note", None, None))


def test_only_a_locked_bucket_says_that_it_protects(store: PinStore) -> None:
    words = store.description
    if isinstance(store, FolderPins):
        assert "NO PROTECTION" in words
        assert not store.protects
        assert store.now() is None
        assert store.list("")[:0] == []
    elif store.protects:
        assert "COMPLIANCE" in words
    else:
        assert "no Object Lock" in words


def test_a_folder_is_never_left_and_unfinished_files_are_no_pins(tmp_path: Path) -> None:
    store = FolderPins(tmp_path / "pins")
    with pytest.raises(PinStoreUnusable, match="leads out"):
        store.put_once("../outside", b"x", retain_until=None)
    store.put_once(KEY, b"one\n", retain_until=None)
    (tmp_path / "pins" / KEY).with_name(".unfinished-x").write_bytes(b"half")
    assert [entry.key for entry in store.list("")] == [KEY]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PinStoreUnusable, match="cannot be used"):
        FolderPins(tmp_path / "file").put_once(KEY, b"x", retain_until=None)


def test_a_locked_pin_says_until_when(client: S3Client, locked_bucket: str) -> None:
    store = S3Pins(client, locked_bucket)
    moment = until(400)
    assert store.put_once(KEY, b"one\n", retain_until=moment).locked_until == moment
    [entry] = store.list(KEY)
    assert entry.stored_at is not None
    assert abs(entry.stored_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert store.get(entry).locked_until == moment
    now = store.now()
    assert now is not None
    assert abs(now - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_a_delete_marker_hides_nothing_from_the_reader(
    client: S3Client, locked_bucket: str
) -> None:
    store = S3Pins(client, locked_bucket)
    store.put_once(KEY, b"one\n", retain_until=until())
    client.delete_object(Bucket=locked_bucket, Key=KEY)
    # CONTROL: a simple look sees no pin any more, and would take a second text.
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(Bucket=locked_bucket, Key=KEY)
    pinned = read_pins(store, Origin("files.example/audit", "a"))
    assert pinned.markers == [KEY]
    assert pinned.seals[1, 1].note == "one\n"
    with pytest.raises(Equivocation):
        store.put_once(KEY, b"two\n", retain_until=None)
    assert store.put_once(KEY, b"one\n", retain_until=None).was_there


def test_a_second_version_with_another_text_is_counted(
    client: S3Client, locked_bucket: str
) -> None:
    store = S3Pins(client, locked_bucket)
    store.put_once(KEY, b"one\n", retain_until=until())
    client.put_object(Bucket=locked_bucket, Key=KEY, Body=b"two\n")
    pinned = read_pins(store, Origin("files.example/audit", "a"), lambda _: False)
    assert pinned.seals[1, 1].versions == 2
    assert pinned.seals[1, 1].note == "one\n"


def test_an_answer_that_was_lost_is_found_by_the_next_attempt(
    client: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Pins(client, bucket)
    put = client.put_object

    def lose_the_answer(**request: Any) -> Any:
        put(**request)
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

    monkeypatch.setattr(client, "put_object", lose_the_answer)
    with pytest.raises(PinStoreUnusable, match="store a pin"):
        store.put_once(KEY, b"one\n", retain_until=None)
    assert store.put_once(KEY, b"one\n", retain_until=None).was_there


def test_two_writers_at_once_are_decided_by_the_server(
    client: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the look and the write: 412, and then the bytes decide."""
    store = S3Pins(client, bucket)
    put = client.put_object
    others = [b"one\n"]

    def another_first(**request: Any) -> Any:
        if others:
            put(Bucket=bucket, Key=request["Key"], Body=others.pop())
        return put(**request)

    monkeypatch.setattr(client, "put_object", another_first)
    assert store.put_once(KEY, b"one\n", retain_until=None).was_there
    others.append(b"theirs\n")
    with pytest.raises(Equivocation):
        store.put_once(KEY.replace("001", "002"), b"ours\n", retain_until=None)


def test_a_bucket_that_is_not_there_teaches(client: S3Client) -> None:
    store = S3Pins(client, "no-such-bucket")
    for attempt in (
        lambda: store.put_once(KEY, b"x", retain_until=None),
        lambda: store.list(""),
        store.now,
        lambda: store.protects,
    ):
        with pytest.raises(PinStoreUnusable, match="NoSuchBucket"):
            attempt()


def test_names_of_chains_become_single_words_and_come_back() -> None:
    for chain in ("a", "files/é", "..", ".", "a b\n", "100%"):
        origin = Origin("files.example/audit", chain)
        key = origin.seal_key(1, 7)
        assert key.count("/") == "x/x/x/1/seal/7".count("/")
        assert "\n" not in key
        assert unquoted(key.removeprefix("files.example/audit/").split("/")[0]) == chain
        name = origin.read_key(key)
        assert name is not None
        assert (name.kind, name.incarnation, name.number) == ("seal", 1, 7)
    assert origin.read_key("files.example/audit/100%25/1/events/x") is None


@pytest.mark.parametrize("base", ["", "a//b", "../a", "a/..", "a b", "a+b", "a\nb", "/a", "a/"])
def test_a_base_that_leads_elsewhere_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match="not usable"):
        Origin(base, "a")


def test_a_chain_is_sealed_trimmed_and_verified_with_pins_in_a_locked_bucket(
    empty_world: World, client: S3Client, locked_bucket: str
) -> None:
    world = empty_world
    world.pins = store = S3Pins(client, locked_bucket, prefix="pins/")
    policy = replace(world.seal_policy, pin_for=400 * DAY)
    for age in (200 * DAY, 200 * DAY, 100 * DAY):
        world.append_in_the_past(10, age)
        world.seal(policy=policy)
    archive = StoreArchive(S3Pins(client, locked_bucket, prefix="pins/"), keep_for=DAY)
    trimmed = world.trim(batch=15, pin_for=400 * DAY, archive=archive)
    assert [batch.to_seq for batch in trimmed.batches] == [15, 20]
    world.seal(policy=policy)
    result = world.verify()
    assert result.clean
    assert result.pins is not None
    assert "COMPLIANCE" in result.pins
    assert known_chains(world.database, world.connection, world.verify_policy) == ["a"]
    key = f"{ORIGIN}/a/1/seal/000000000003.note"
    client.delete_object(Bucket=locked_bucket, Key=f"pins/{key}")
    assert world.verify().codes == {"PIN_MARKER"}
    client.put_object(Bucket=locked_bucket, Key=f"pins/{key}", Body=b"another text")
    assert world.verify().codes == {"PIN_MARKER", "EQUIVOCATION"}
    with pytest.raises(TrimRefused, match="EQUIVOCATION"):
        world.trim()
    versions = [entry for entry in store.list(key) if not entry.marker]
    assert len(versions) == 2


def test_a_pin_without_a_lock_in_a_bucket_that_locks_covers_no_trim(
    empty_world: World, client: S3Client, locked_bucket: str
) -> None:
    world = empty_world
    world.pins = S3Pins(client, locked_bucket)
    world.append_in_the_past(10, 200 * DAY)
    world.seal()
    world.append(1)
    with pytest.raises(TrimRefused, match="SEAL_UNPINNED: the pin of seal 1"):
        world.trim()


def test_a_pin_that_is_written_over_is_seen_by_the_listing_where_nothing_keeps_versions(
    empty_world: World, client: S3Client, bucket: str
) -> None:
    """Old pins, which an incremental check does not read: their hash stands in the listing."""
    world = empty_world
    world.pins = store = S3Pins(client, bucket, prefix="pins/")
    for _ in range(4):
        world.append(1)
        world.seal()
    assert world.verify(mode=Incremental()).clean
    key = f"pins/{ORIGIN}/a/1/seal/000000000002.note"
    note = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    client.put_object(Bucket=bucket, Key=key, Body=note.replace(b"\n2\n", b"\n1\n"))
    expected = {"PIN_REPLACED", "PIN_SIG", "SEAL_PIN_MISMATCH"}
    assert world.verify(mode=Incremental()).codes == expected
    # The same bytes in several parts have another hash in the listing: read, and nothing is wrong.
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    part = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=note)[
        "ETag"
    ]
    client.complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=upload,
        MultipartUpload={"Parts": [{"ETag": part, "PartNumber": 1}]},
    )  # fmt: skip
    [entry] = store.list(key.removeprefix("pins/"))
    assert not entry.has_bytes(note)
    assert world.verify(mode=Incremental()).clean
    # CONTROL: what only listed keys and versions would find.
    client.put_object(Bucket=bucket, Key=key, Body=b"another text")
    listed = {one.key for one in store.list(f"{ORIGIN}/a/1/seal/")}
    assert len(listed) == 4
    assert {one.version for one in store.list(f"{ORIGIN}/a/")} == {"null"}
    # A manifest is one of the pins.
    client.put_object(Bucket=bucket, Key=key, Body=note)
    [manifest] = store.list(f"{ORIGIN}/a/1/manifest/")
    client.put_object(Bucket=bucket, Key=f"pins/{manifest.key}", Body=note)
    assert world.verify(mode=Incremental()).codes == {"MANIFEST", "PIN_REPLACED"}


def test_whoever_has_nothing_but_the_place_finds_out_by_the_manifest(empty_world: World) -> None:
    world = empty_world

    def manifests() -> list[ManifestStatement]:
        return [
            ManifestStatement.parse(text_of(world.pins.objects[key][0][1].decode()))
            for key in world.pins.under("/manifest/")
        ]

    world.append_in_the_past(10, 200 * DAY)
    world.append_in_the_past(5, 10 * DAY)
    world.seal()
    [first] = manifests()
    assert (first.origin, first.chain, first.incarnation) == (f"{ORIGIN}/a", "a", 1)
    assert first.keys == (str(world.signer.verifier),)
    assert (first.first_seq, first.before, first.seal_no, first.size) == (1, genesis("a"), 1, 15)
    assert first.note == sha256(world.pins.objects[f"{ORIGIN}/a/1/seal/000000000001.note"][0][1])
    world.append(1)
    world.seal()
    assert manifests() == [first], "the same day, and nothing else has changed"
    another = generate("files.example/audit-seal-2")
    trusted = TrustedKeys((*world.trusted.keys, TrustedKey(another.verifier, 3)))
    verify = replace(world.verify_policy, trusted=trusted)
    world.seal(policy=SealPolicy(verify, (world.signer, another)))
    assert manifests()[-1].keys == (str(world.signer.verifier), str(another.verifier))
    assert world.verify(policy=verify).clean
    # One of the day before, as far as anybody can tell, is not enough for today.
    world.pins.objects.clear()
    forced_away = "SET LOCAL session_replication_role = replica; TRUNCATE audit_pin, audit_seal"
    with world.connection.transaction():
        world.connection.execute(forced_away.encode())
    world.seal()
    yesterday = replace(manifests()[0], sealed_at="2020-01-01T00:00:00.000000Z")
    assert not yesterday.is_as_good_as(manifests()[0])
    assert manifests()[0].is_as_good_as(manifests()[0])


def test_a_manifest_that_could_not_be_put_is_put_by_the_next_run(empty_world: World) -> None:
    class NoManifests(MemoryPins):
        def put_once(
            self, key: str, content: bytes, *, retain_until: datetime | None
        ) -> PinReceipt:
            if "/manifest/" in key:
                raise PinStoreUnusable("it does not answer")
            return super().put_once(key, content, retain_until=retain_until)

    world = empty_world
    pins = world.pins
    world.append(3)
    world.pins = NoManifests(pins.objects)
    with pytest.raises(NotPinned, match="Seal 1 of the chain 'a' is pinned, and the manifest"):
        world.seal()
    result = world.verify()
    assert result.clean
    assert [one.code for one in result.warnings] == ["MANIFEST_MISSING"]
    world.pins = pins
    # Also where an idle chain gets no seal.
    assert not world.seal(policy=replace(world.seal_policy, heartbeat=False)).made
    assert world.verify().warnings == ()
    assert len(world.pins.under("/manifest/")) == 1
