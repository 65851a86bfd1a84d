"""One judgement of a key for all jobs: what one keeps as ambiguous, none deletes.

All spellings stand in one installation, each for a key of its own, and a job runs over them once.
"""

from __future__ import annotations

import importlib
import json
import unicodedata
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict
from tenacity import wait_none

from filejobs_dagster.jobs.storage_orphans import sweep as sweeping
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.objects.judgement import LastQuestion
from filejobs_dagster.objects.multipart.aborting import Aborting
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.near import ReferenceForms, fold
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import files_of
from tests.jobs.multipart_uploads.conftest import Sweeper as Aborter
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.storage_orphans.test_sweep_named import Careless
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.references.own_tables import Claim
    from tests.installation import Installation

PREFIX = "files/"
CLASSIFY = importlib.import_module("filejobs_dagster.jobs.storage_orphans.classification.classify")
DIGEST = "0123456789abcdef" * 4


def rest(key: str) -> str:
    return key.removeprefix(PREFIX)


SPELLINGS: Mapping[str, Callable[[str, str], str]] = {
    "a slash in front": lambda key, _: f"/{key}",
    "the bucket in front": lambda key, bucket: f"{bucket}/{key}",
    "an address of S3": lambda key, bucket: f"s3://{bucket}/{key}",
    "an address of a CDN": lambda key, _: f"https://cdn.example.com/x/{key}?v=1#top",
    "an address of a CDN without the prefix": lambda key, _: f"https://cdn.example.com/{rest(key)}",
    "a query": lambda key, _: f"{key}?v=2",
    "percent-encoded": lambda key, _: quote(key, safe=""),
    "percent-encoded twice": lambda key, _: quote(quote(key)),
    "upper case": lambda key, _: key.upper(),
    "composed": lambda key, _: unicodedata.normalize("NFC", key),
    "decoded": lambda key, _: unquote(key),
    "CR and LF behind": lambda key, _: f"{key}\r\n",
    "a blank in front": lambda key, _: f" {key}",
    "BOM in front": lambda key, _: f"\ufeff{key}",
    "a no-break space behind": lambda key, _: f"{key}\u00a0",
    "in quotes": lambda key, _: f'"{key}"',
    "with backslashes": lambda key, _: key.replace("/", "\\"),
    "an ARN": lambda key, bucket: f"arn:aws:s3:::{bucket}/{key}",
    "without the prefix": lambda key, _: rest(key),
    "another first folder": lambda key, _: f"media/{rest(key)}",
    "an array": lambda key, _: f"{{{key},files/zz}}",
    "a list": lambda key, _: f"files/yy, {key}; files/zz",
    "JSON": lambda key, _: json.dumps({"cover": {"file": key}}),
    "HTML": lambda key, _: f'<p>see <img src="/media/{quote(key)}?a=1&amp;b=2"></p>',
    "below a folder": lambda key, _: key.rpartition("/")[0] + "/",
    "derived": lambda key, _: key.split("/")[-2],
}

SUFFIXES: Mapping[str, str] = {
    "composed": "/Cafe\u0301.jpg",
    "JSON": "/Cafe\u0301 two.jpg",
    "HTML": "/a b.jpg",
    "percent-encoded twice": "/a b.jpg",
    "decoded": "/2024 00%3A00.bin",
    "derived": f"/blob-of-its-own/{DIGEST}",
}


@dataclass
class World:
    """An installation, and a job whose due items are made and looked for in the same words."""

    installation: Installation
    client: S3Client

    def make(self, suffix: str) -> str:
        """Something due whose key ends so; returns the key."""
        key = f"{PREFIX}{uuid.uuid4()}{suffix}"
        self.begin(key)
        return key

    def begin(self, key: str) -> None:
        raise NotImplementedError

    def run(self) -> Outcome:
        raise NotImplementedError

    def there(self) -> set[str]:
        return self.installation.keys()

    def mention(self, *values: str) -> None:
        """Rows of the operator's own table."""
        self.installation.execute("INSERT INTO mention SELECT unnest(%s::text[])", (list(values),))


class Reservations(World):
    def begin(self, key: str) -> None:
        self.installation.reserve(key)

    def run(self) -> Outcome:
        return Collector(self.installation, self.client)()


class DeletedFiles(World):
    def begin(self, key: str) -> None:
        files_of(self.installation).delete(key)

    def run(self) -> Outcome:
        files = files_of(self.installation)
        files.client = self.client
        return files()


class Cleanup(World):
    def make(self, suffix: str) -> str:
        return Uploads(self.installation).cancelled(suffix=suffix).key

    def run(self) -> Outcome:
        return Cleaner(self.installation, self.client)()


class Orphans(World):
    def begin(self, key: str) -> None:
        self.installation.client.put_object(Bucket=self.installation.bucket, Key=key, Body=b"x")

    def run(self) -> Outcome:
        sweep = Sweeper(self.installation, self.client)
        sweep.put("files/used")
        sweep.refer("files/used")
        first = sweep()
        assert first.ok, first.error
        return sweep()

    def there(self) -> set[str]:
        return super().there() - {"files/used"}


class Multipart(World):
    def begin(self, key: str) -> None:
        self.installation.client.create_multipart_upload(Bucket=self.installation.bucket, Key=key)

    def run(self) -> Outcome:
        # What moto lists has just begun.
        return Aborter(self.installation, self.client)(idle_for=timedelta(0))

    def there(self) -> set[str]:
        listed = self.installation.client.list_multipart_uploads(Bucket=self.installation.bucket)
        return {upload["Key"] for upload in listed.get("Uploads", [])}


JOBS: Mapping[str, type[World]] = {
    "upload_reservations": Reservations,
    "deleted_files": DeletedFiles,
    "upload_cleanup": Cleanup,
    "storage_orphans": Orphans,
    "multipart_uploads": Multipart,
}


@pytest.fixture(params=JOBS)
def world(request: pytest.FixtureRequest, installation: Installation) -> World:
    """One job's installation, with a table of the operator's that holds some exact keys."""
    installation.execute("CREATE TABLE mention (value text)")
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "mentions", "sql": "select value from mention", "keys_checked_by_hand": True}
    ]
    client = make_client(installation.settings().buckets["uploads"])
    made = JOBS[request.param](installation, client)
    made.mention(*(f"files/exact/{number}" for number in range(60)))
    return made


def spell_all(world: World) -> dict[str, str]:
    """Make one due item for each spelling, mentioned so; returns what each key is spelled like."""
    made: dict[str, str] = {}
    for name, spelled in SPELLINGS.items():
        key = world.make(SUFFIXES.get(name, "/Photo.jpg"))
        world.mention(spelled(key, world.installation.bucket))
        made[key] = name
    return made


def exact_only(self: Gate, keys: Sequence[str], claims: Sequence[Claim]) -> dict[str, str]:
    """CONTROL: what the gate asked before."""
    named = self._references.named(keys, claims=claims)
    return {key: f"referenced by {', '.join(names)}" for key, names in named.items()}


def test_what_would_be_meant_in_another_spelling_stays_in_every_job(world: World) -> None:
    spelled = spell_all(world)
    free = world.make("/Free.jpg")

    outcome = world.run()

    assert outcome.ok, outcome.error
    gone = {spelled[key] for key in set(spelled) - world.there()}
    assert gone == set()
    assert free not in world.there()
    if not isinstance(world, Orphans):
        kept = {it for it in outcome.detail["classes"] if it.startswith("kept: ambiguous: near")}
        assert "kept: ambiguous: near mentions (below a referenced folder)" in kept


def test_the_gate_keeps_by_itself_what_the_sweep_would_not_have_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(world, Orphans):
        pytest.skip("the other jobs have nothing but the gate")
    monkeypatch.setattr(CLASSIFY, "ambiguous", lambda *_: iter(()))
    spelled = spell_all(world)

    assert world.run().ok

    assert {spelled[key] for key in set(spelled) - world.there()} == set()


def test_control_who_asks_for_exact_keys_alone_loses_all_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gate, "_judged", exact_only)
    monkeypatch.setattr(CLASSIFY, "ambiguous", lambda *_: iter(()))
    # The rows that mention the keys are found by the search of names, too.
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    spelled = spell_all(world)

    assert world.run().ok

    assert {spelled[key] for key in set(spelled) & world.there()} == set()


# The second try


class _Body:
    def stream(self, *_: Any, **__: Any) -> Any:
        yield b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>no</Message></Error>"


def busy_once(world: World, meanwhile: Callable[[], None]) -> list[None]:
    """Answer the first request that deletes with 503, after something else has been committed."""
    answered: list[None] = []

    def before_send(request: Any, **_: Any) -> AWSResponse | None:
        # The door's own probe deletes an object, too.
        if answered or "-wanted" not in f"{request.url} {request.body!r}":
            return None
        answered.append(None)
        meanwhile()
        headers: Any = HeadersDict({"content-type": "application/xml"})
        body: Any = _Body()
        return AWSResponse("http://127.0.0.1", 503, headers, body)

    hooks: Any = world.client.meta.events
    for name in ("DeleteObjects", "DeleteObject", "AbortMultipartUpload"):
        hooks.register(f"before-send.s3.{name}", before_send)
    return answered


@pytest.mark.parametrize("spelled", [lambda key: key, lambda key: f"/{key}"], ids=["exact", "near"])
def test_what_is_referenced_before_the_second_try_stays_in_every_job(
    world: World, spelled: Callable[[str], str]
) -> None:
    key, free = world.make("-wanted"), world.make("-free")
    answered = busy_once(world, lambda: world.mention(spelled(key)))

    world.run()

    assert answered
    assert key in world.there()
    assert free not in world.there()


def test_control_a_second_try_without_a_question_loses_the_object(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, keep = LastQuestion.withdrawn, Aborting._must_stay
    monkeypatch.setattr(
        LastQuestion,
        "withdrawn",
        lambda self, targets, *, again: {} if again else ask(self, targets, again=again),
    )
    monkeypatch.setattr(Aborting, "_must_stay", lambda self: None if self._sent else keep(self))
    key = world.make("-wanted")
    busy_once(world, lambda: world.mention(key))

    world.run()

    assert key not in world.there()


# Listed from the key, or found in the value: the same judgement


@pytest.mark.parametrize("key", ["files/a/Photo.jpg", "files/é b/c+d%20.jpg", "files/x/A'B.JPG"])
def test_whatever_is_listed_from_a_key_is_near_to_it_for_a_sweep_too(key: str) -> None:
    forms = ReferenceForms([b"files/"], b"acme")
    folders = {folder.decode() for folder in forms.folders(key.encode())}
    listed = forms.spellings(key)
    assert len(listed) <= 40
    for spelling in set(listed) - folders:
        assert fold(key.encode()) in forms.of(spelling.encode()), spelling


@pytest.mark.parametrize("times", [1, 3])
def test_a_part_that_comes_before_the_second_try_of_an_abort_keeps_its_upload(
    installation: Installation, times: int
) -> None:
    """Once botocore tries again by itself, and once the gate does."""
    bucket = installation.settings().buckets["uploads"]
    client, slow = make_client(bucket), installation.client
    key, calls = "files/slow.bin", 0
    upload = slow.create_multipart_upload(Bucket=bucket.bucket, Key=key)["UploadId"]
    named: Any = {"Bucket": bucket.bucket, "Key": key, "UploadId": upload}

    def busy(**_: Any) -> AWSResponse | None:
        nonlocal calls
        calls += 1
        if calls > times:
            return None
        if calls == 1:
            slow.upload_part(**named, PartNumber=1, Body=b"x")
        headers: Any = HeadersDict({"content-type": "application/xml"})
        body: Any = _Body()
        return AWSResponse("http://127.0.0.1", 503, headers, body)

    hook: Any = busy
    client.meta.events.register_last("before-send.s3.AbortMultipartUpload", hook)
    idle_since = datetime.now(timezone.utc) - timedelta(hours=48)
    with (
        installation.database.connect("test") as connection,
        ReferenceCheck(connection) as references,
    ):
        gate = Gate(client, bucket, references, wait=wait_none())
        gate.abort(key, upload, lambda: None, idle_since=idle_since)
    [kept] = slow.list_parts(**named)["Parts"]
    assert kept["Size"] == 1
