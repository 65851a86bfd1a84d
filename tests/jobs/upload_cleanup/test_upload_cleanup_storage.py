"""upload_cleanup when storage misbehaves, on a server that answers what a test tells it to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from filejobs_dagster.objects import client as client_module
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.migrate import shipped
from tests.jobs.upload_cleanup.uploads import Begun, Cleaner, Uploads, events
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result, scripted_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.installation import Installation

ETAG = "0123456789abcdef0123456789abcdef"
GONE = Answer(404)


@dataclass
class Store:
    """A tiny S3: objects and parts by key, and faults that come before it answers.

    Attributes:
        objects: Keys that have an object.
        parts: How many parts each multipart upload has, by its id.
        fault: Answers instead of the store; None lets it answer.
        lands: After how many aborts the parts of an upload are really gone.
    """

    objects: set[str] = field(default_factory=set)
    parts: dict[str, int] = field(default_factory=dict)
    fault: Callable[[Request], Answer | None] = field(default=lambda _request: None)
    lands: int = 1
    aborts: int = 0

    def __call__(self, request: Request) -> Answer:
        answer = self.fault(request)
        return self.serve(request) if answer is None else answer

    def serve(self, request: Request) -> Answer:
        address = urlsplit(request.path)
        key = unquote(address.path.split("/", 2)[2]) if address.path.count("/") > 1 else ""
        query = parse_qs(address.query, keep_blank_values=True)
        if "uploadId" in query:
            return self._multipart(request.method, key, query["uploadId"][0])
        if request.method == "HEAD":
            headers = {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 10:00:00 GMT"}
            return Answer(headers=headers) if not key or key in self.objects else GONE
        if request.method == "GET" and "versioning" in query:
            return Answer(body="<VersioningConfiguration/>")
        if request.method == "POST" and "delete" in query:
            named = request.named_keys()
            self.objects.difference_update(named)
            return Answer(body=result(deleted=named))
        return Answer(501, errors("NotImplemented"))

    def _multipart(self, method: str, key: str, upload_id: str) -> Answer:
        if upload_id not in self.parts:
            return Answer(404, errors("NoSuchUpload"))
        if method == "DELETE":
            self.aborts += 1
            if self.aborts >= self.lands:
                del self.parts[upload_id]
            return Answer(204)
        part = (
            "<Part><PartNumber>1</PartNumber><Size>7</Size><ETag>x</ETag>"
            "<LastModified>2025-11-29T10:00:00.000Z</LastModified></Part>"
        )
        body = part * self.parts[upload_id]
        return Answer(
            body=f"<ListPartsResult><Key>{key}</Key><UploadId>{upload_id}</UploadId>"
            f"<IsTruncated>false</IsTruncated>{body}</ListPartsResult>"
        )


@dataclass
class Scene:
    """An installation whose bucket is the scripted one."""

    installation: Installation
    uploads: Uploads
    clean: Cleaner
    store: Store
    server: ScriptedS3

    def cancelled(self) -> Begun:
        upload = self.uploads.begin()
        self.store.objects.add(upload.key)
        self.uploads.call("mark_stored", upload.id, ETAG, 0)
        assert self.uploads.call("cancel_upload", upload.id) == "cleanup"
        return upload

    def cancelled_parts(self, provider_id: str, *, parts: int) -> Begun:
        """A cancelled upload whose parts are still there."""
        upload = self.uploads.begin()
        self.uploads.call("record_upload_id", upload.id, provider_id)
        self.uploads.call("mark_uncertain", upload.id, "a timeout")
        self.uploads.change(upload, "state = 'cleanup'")
        self.store.parts[provider_id] = parts
        return upload

    def refusing(self, *poison: Begun) -> Callable[[Request], Answer | None]:
        """A store that refuses some keys, and says so inside a 200."""
        poisoned = {it.key for it in poison}

        def refuse(request: Request) -> Answer:
            named = request.named_keys()
            fine = [key for key in named if key not in poisoned]
            self.store.objects.difference_update(fine)
            refused = {key: "AccessDenied" for key in named if key in poisoned}
            return Answer(body=result(deleted=fine, refused=refused))

        return on_delete(refuse)


@pytest.fixture
def scene(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(client_module, "SECONDS_TO_READ", 0.3)
    with scripted_s3() as server:
        own = replace(installation, endpoint_url=server.address, document={})
        own.document["jobs"] = {"upload_cleanup": {"by_hand": True, "mode": "live"}}
        client = make_client(own.settings().buckets["uploads"])
        store = Store()
        server.script = store
        yield Scene(own, Uploads(own), Cleaner(own, client), store, server)


def on_delete(answer: Callable[[Request], Answer]) -> Callable[[Request], Answer | None]:
    def fault(request: Request) -> Answer | None:
        return answer(request) if "?delete" in request.path else None

    return fault


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(403, errors("AccessDenied")), id="403"),
        pytest.param(Answer(503, errors("SlowDown")), id="503", marks=THOROUGH),
        pytest.param(Answer(200, errors("SlowDown")), id="200 with SlowDown"),
        pytest.param(Answer(200, errors("InternalError")), id="200 with 500", marks=THOROUGH),
        pytest.param(Answer(400, errors("ExpiredToken")), id="expired token", marks=THOROUGH),
    ],
)
def test_a_request_that_storage_refuses_fails_the_run_leaves_the_rows_and_counts_no_attempt(
    scene: Scene, answer: Answer
) -> None:
    made = [scene.cancelled() for _ in range(3)]
    scene.store.fault = on_delete(lambda _request: answer)

    outcome = scene.clean(batch_size=2)

    assert not outcome.ok
    assert outcome.acted == 0
    assert scene.store.objects == {it.key for it in made}
    rows = [scene.uploads.row(it) for it in made]
    tried = [row for row in rows if row["attempts"]]
    assert len(tried) == 2, "no further row was claimed"
    for row in tried:
        assert row["state"] == "cleanup"
        assert row["last_error"]
        assert row["forgiven"] == 1, "an outage makes no dead letters"
        assert row["claimed_by"] is None

    scene.store.fault = lambda _request: None
    scene.uploads.due_now()
    assert scene.clean().acted == 3
    assert scene.store.objects == set()


def test_a_timeout_after_success_is_asked_again_and_found_gone(scene: Scene) -> None:
    upload = scene.cancelled()

    def succeed_and_be_silent(request: Request) -> Answer:
        scene.store.serve(request)
        time.sleep(0.6)
        return Answer(500)

    scene.store.fault = on_delete(succeed_and_be_silent)
    outcome = scene.clean()
    assert scene.store.objects == set(), "it did succeed"
    assert outcome.ok == (scene.uploads.state(upload) == "cleaned")

    scene.store.fault = lambda _request: None
    scene.uploads.due_now()
    again = scene.clean()
    assert again.ok
    row = scene.uploads.row(upload)
    assert (row["state"], row["outcome"]) == ("cleaned", "already gone")


def test_control_a_cleaner_that_believes_the_timeout_would_retry_for_ever_or_lose_the_row(
    scene: Scene,
) -> None:
    """What the answer says of a request that timed out is nothing: only a look tells."""
    upload = scene.cancelled()
    scene.store.fault = on_delete(lambda _request: Answer(200, ""))

    outcome = scene.clean()

    assert scene.store.objects == {upload.key}, "a 200 without a word, and it is still there"
    assert scene.uploads.state(upload) == "cleanup"
    assert outcome.acted == 0


def test_one_poison_item_does_not_hold_up_the_others_and_becomes_a_dead_letter(
    scene: Scene,
) -> None:
    poison, *others = [scene.cancelled() for _ in range(5)]

    scene.store.fault = scene.refusing(poison)
    first = scene.clean(max_attempts=3)
    assert first.ok
    assert first.detail["classes"] == {"deleted": 4, "left for later": 1}
    assert first.detail["swept"] is False
    assert first.detail["samples"]["left for later"] == [f"{poison.key}: AccessDenied: made up"]
    assert [scene.uploads.state(it) for it in others] == ["cleaned"] * 4
    row = scene.uploads.row(poison)
    assert (row["state"], row["attempts"], row["dead_at"]) == ("cleanup", 1, None)

    assert scene.clean(max_attempts=3).scanned == 0, "its pause is not over"
    for _ in range(2):
        scene.uploads.due_now()
        last = scene.clean(max_attempts=3)
    assert last.detail["dead_letters"] == 1
    assert last.detail["classes"] == {"dead letter": 1}
    assert scene.uploads.row(poison)["dead_at"] is not None
    [event] = events(scene.installation, "upload.dead_letter")
    assert (event["storage_key"], event["attempt"]) == (poison.key, 3)

    scene.uploads.due_now()
    quiet = scene.clean(max_attempts=3)
    assert quiet.ok
    assert (quiet.scanned, quiet.detail["dead_letters"]) == (0, 1)
    assert quiet.detail["oldest_left"] is not None


def test_what_fails_uses_up_no_limit_and_is_tried_behind_all_others(scene: Scene) -> None:
    poison = [scene.cancelled() for _ in range(3)]
    fine = [scene.cancelled() for _ in range(5)]
    scene.store.fault = scene.refusing(*poison)

    first = scene.clean(limit=3, batch_size=5)
    assert first.detail["classes"] == {"left for later": 3, "deleted": 3}
    assert (first.detail["truncated"], first.detail["swept"]) == (True, False)

    scene.uploads.due_now()
    second = scene.clean(limit=2, batch_size=2)
    assert second.detail["classes"] == {"deleted": 2}, "what never failed comes first"
    assert second.detail["stopped_reason"] == "limit"
    assert {scene.uploads.state(it) for it in fine} == {"cleaned"}
    assert [scene.uploads.row(it)["attempts"] for it in poison] == [1, 1, 1]


def test_a_pause_that_an_older_version_wrote_goes_on_where_all_pauses_are(scene: Scene) -> None:
    waits, works = scene.cancelled(), scene.cancelled()
    long = "next_attempt_at = clock_timestamp() + interval '9 hours', attempts = 4"
    scene.uploads.change(waits, f"{long}, last_error = 'AccessDenied'")
    scene.uploads.change(works, f"{long}, claimed_by = 'a run', claimed_at = now()")

    [moves] = [each for each in shipped() if each.name.endswith("upload_setback.sql")]
    scene.installation.execute(moves.text)

    [(item, attempts, reason)] = scene.installation.execute(
        "SELECT convert_from(item, 'UTF8'), attempts, reason FROM setback"
    )
    assert (item, attempts, reason) == (str(waits.id), 4, "AccessDenied")
    assert scene.clean(mode="dry").detail["classes"] == {"waits after a failure": 1}
    scene.installation.execute("DELETE FROM setback")
    assert scene.clean(mode="dry").detail["classes"] == {"would collect": 1}, "the claim lasts"


def test_an_uncertain_upload_that_cannot_be_looked_at_waits_as_everything_that_fails(
    scene: Scene,
) -> None:
    odd = scene.uploads.begin()
    scene.uploads.call("mark_uncertain", odd.id, "a timeout")
    scene.store.fault = lambda it: Answer(500) if odd.key in it.path else None

    for attempts in (1, 2):
        assert scene.clean().detail["classes"] == {"still uncertain": 1}
        assert scene.clean().scanned == 0
        assert scene.installation.value("SELECT attempts FROM setback") == attempts
        scene.uploads.due_now()
    scene.store.fault = lambda _request: None
    assert scene.clean().detail["classes"] == {"still uncertain": 1}, "there is no object yet"
    assert scene.installation.value("SELECT count(*) FROM setback") == 0, "but an answer"


def test_a_few_poison_items_alone_become_dead_letters_and_hold_up_no_question(
    scene: Scene,
) -> None:
    poison = [scene.cancelled() for _ in range(2)]
    scene.store.fault = on_delete(
        lambda request: Answer(body=result(refused=dict.fromkeys(request.named_keys(), "Denied")))
    )
    asked = scene.uploads.begin()
    scene.store.objects.add(asked.key)
    scene.uploads.call("mark_uncertain", asked.id, "a timeout")

    assert scene.clean(max_attempts=2).detail["classes"] == {
        "left for later": 2, "uncertain, resolved: stored": 1,
    }  # fmt: skip
    scene.uploads.due_now()
    last = scene.clean(max_attempts=2)

    assert last.ok, "what fails again says nothing new of the storage"
    assert (last.detail["swept"], last.detail["dead_letters"]) == (False, 2)
    assert last.detail["oldest_left"] is not None
    assert scene.store.objects == {asked.key, *(it.key for it in poison)}


@pytest.mark.parametrize(("rows", "batch_size"), [(10, 100), (2, 2)])
def test_a_right_that_is_missing_makes_no_dead_letters(
    scene: Scene, rows: int, batch_size: int
) -> None:
    for _ in range(rows):
        scene.cancelled()
    scene.store.fault = on_delete(
        lambda request: Answer(body=result(refused=dict.fromkeys(request.named_keys(), "Denied")))
    )

    outcome = scene.clean(max_attempts=1, batch_size=batch_size)

    assert outcome.error is not None
    assert f"refused {rows} objects in a row" in outcome.error
    assert scene.installation.value("SELECT count(*) FROM upload WHERE dead_at IS NULL") == rows


def test_no_number_of_attempts_makes_a_pause_that_no_interval_can_hold(scene: Scene) -> None:
    refused, abandoned = scene.cancelled(), scene.cancelled()
    scene.store.fault = scene.refusing(refused, abandoned)
    assert scene.clean().detail["classes"] == {"left for later": 2}
    scene.installation.execute("UPDATE setback SET attempts = 500")
    scene.uploads.due_now()
    scene.uploads.claimed_by_another(abandoned)

    classes = scene.clean(max_attempts=1000).detail["classes"]
    assert classes == {"left for later": 1, "waits after a failure": 1}

    pauses = scene.installation.execute(
        "SELECT not_before > clock_timestamp() + interval '11 hours' FROM setback"
    )
    assert pauses == [(True,), (True,)]


@THOROUGH
def test_the_pause_grows_up_to_the_cap_and_is_never_the_same(scene: Scene) -> None:
    upload = scene.cancelled()
    scene.store.fault = scene.refusing(upload)
    pauses = []
    for _ in range(5):
        scene.uploads.due_now()
        scene.clean()
        pauses.append(
            scene.installation.value(
                "SELECT extract(epoch FROM not_before - clock_timestamp())::float FROM setback"
            )
        )
    for attempt, pause in enumerate(pauses):
        full = 300 * 2**attempt
        assert full / 2 - 5 <= pause <= full
    scene.installation.execute("UPDATE setback SET attempts = 30")
    scene.uploads.due_now()
    scene.clean(max_attempts=100)
    capped = scene.installation.value(
        "SELECT extract(epoch FROM not_before - clock_timestamp())::float FROM setback"
    )
    assert 12 * 3600 - 5 <= capped <= 24 * 3600


def test_parts_in_flight_at_the_abort_are_aborted_again_until_none_is_listed(
    scene: Scene,
) -> None:
    upload = scene.cancelled_parts("U1", parts=1)
    scene.store.lands = 2

    outcome = scene.clean()

    assert outcome.ok
    assert scene.store.aborts == 2
    assert scene.store.parts == {}
    assert scene.uploads.row(upload)["outcome"] == "never arrived"


@THOROUGH
def test_parts_that_never_go_leave_the_row_for_later(scene: Scene) -> None:
    upload = scene.cancelled_parts("U1", parts=1)
    other = scene.cancelled()
    scene.store.lands = 1000

    outcome = scene.clean()

    assert outcome.detail["classes"] == {"deleted": 1, "left for later": 1}
    assert scene.uploads.state(other) == "cleaned"
    row = scene.uploads.row(upload)
    assert row["state"] == "cleanup"
    assert "aborting its multipart upload" in row["last_error"]


def test_an_abort_that_lost_to_the_completion_takes_the_object(scene: Scene) -> None:
    upload = scene.cancelled_parts("U1", parts=1)
    del scene.store.parts["U1"]
    scene.store.objects.add(upload.key)

    assert scene.clean().detail["classes"] == {"deleted": 1}
    assert scene.store.objects == set()


def test_a_silent_bucket_says_nothing_of_what_is_there(scene: Scene) -> None:
    upload = scene.cancelled()

    def away(request: Request) -> Answer | None:
        return GONE if request.method == "HEAD" and scene.server.of("GET") else None

    # From the question for its versioning on, the whole bucket answers 404.
    scene.store.fault = away
    outcome = scene.clean()

    assert not outcome.ok
    assert scene.uploads.state(upload) == "cleanup", "a bucket that is gone makes nothing clean"
    assert scene.store.objects == {upload.key}


def test_one_object_that_cannot_be_looked_at_is_left_and_the_others_go(scene: Scene) -> None:
    odd, fine = scene.cancelled(), scene.cancelled()

    def broken(request: Request) -> Answer | None:
        return Answer(500) if request.method == "HEAD" and odd.key in request.path else None

    scene.store.fault = broken
    outcome = scene.clean()

    assert outcome.ok
    assert outcome.detail["classes"] == {"deleted": 1, "cannot be looked at": 1}
    assert scene.uploads.state(fine) == "cleaned"
    assert "cannot be looked at: 500" in scene.uploads.row(odd)["last_error"]
