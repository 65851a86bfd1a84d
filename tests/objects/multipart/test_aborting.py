"""Aborting through the gate: believed when ListParts has nothing left, repeated until then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import filejobs_dagster
from filejobs_dagster.book.outcomes import AdmissionFailed, ProofRefused, StorageRejected
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.objects.multipart import AbortFate, list_parts
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.own_tables import Claim
from tests.objects.buckets import BucketForTests
from tests.objects.multipart.server import (
    NOW,
    MultipartServer,
    Part,
    is_abort,
    is_listing_of_parts,
)
from tests.objects.scripted import Answer, Request, ScriptedS3, errors
from tests.objects.test_gate import imports_of
from tests.references.sources import SourceForTests

if TYPE_CHECKING:
    import psycopg
    from mypy_boto3_s3 import S3Client

PACKAGE = Path(filejobs_dagster.__file__).parent
_ABORTING = "filejobs_dagster.objects.multipart.aborting"


def no_proof_needed() -> None:
    """The caller's lock is not what these tests look at."""


def aborts(scripted: ScriptedS3) -> int:
    return sum(map(is_abort, scripted.requests))


# It goes


def test_an_idle_upload_goes_and_its_parts_are_the_bytes_freed(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    server.most = 2
    upload_id = server.begin("files/a", 5, 7, 11)

    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert aborted.fate is AbortFate.ABORTED
    assert (aborted.parts, aborted.bytes_freed, aborted.bytes_left) == (3, 23, 0)
    assert server.uploads == {}
    assert aborts(scripted) == 1


def test_parts_that_stay_are_aborted_again_until_they_are_gone(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    server.uploads[upload_id].stubborn = 2

    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert (aborted.fate, aborted.requests, aborted.bytes_freed) == (AbortFate.ABORTED, 3, 12)
    assert aborts(scripted) == 3
    assert server.uploads == {}


def test_a_part_in_flight_at_the_abort_is_found_and_taken_too(
    server: MultipartServer, gate: Gate
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    server.uploads[upload_id].late = [Part(100, NOW, '"late"')]

    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert (aborted.fate, aborted.parts, aborted.bytes_freed) == (AbortFate.ABORTED, 3, 112)
    assert server.uploads == {}


def test_control_one_abort_that_is_believed_leaves_the_part_that_was_in_flight(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    server.uploads[upload_id].late = [Part(100, NOW, '"late"')]

    answer = scripted_client.abort_multipart_upload(
        Bucket="acme", Key="files/a", UploadId=upload_id
    )

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    left = list_parts(scripted_client, "acme", "files/a", upload_id)
    assert left is not None
    assert left.size == 100, "paid for without end, and the careless collector counts it as gone"


def test_parts_that_never_go_are_said_to_be_left_and_the_tries_end(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    server.uploads[upload_id].stubborn = 1_000

    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert aborted.fate is AbortFate.PARTS_LEFT
    assert (aborted.bytes_freed, aborted.parts_left, aborted.bytes_left) == (0, 2, 12)
    assert aborts(scripted) == 5


def test_a_server_that_is_busy_for_a_moment_is_asked_again(
    server: MultipartServer, gate: Gate
) -> None:
    upload_id = server.begin("files/a", 5)
    busy = [Answer(503, errors("SlowDown")), Answer(500, errors("InternalError"))]
    server.hooks = [lambda request: busy.pop() if busy and is_abort(request) else None]

    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert (aborted.fate, aborted.bytes_freed) == (AbortFate.ABORTED, 5)


# No such upload


def test_an_upload_that_is_gone_already_is_a_success_and_frees_nothing(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    aborted = gate.abort("files/a", "aborted-by-somebody", no_proof_needed)

    assert (aborted.fate, aborted.bytes_freed) == (AbortFate.ALREADY_GONE, 0)
    assert aborted.gone
    assert aborts(scripted) == 0
    assert scripted.of("HEAD"), "404 never says that there are no bytes: the key was looked at"


def test_an_upload_that_was_completed_is_told_by_the_object_of_its_key(
    server: MultipartServer, gate: Gate
) -> None:
    server.objects["files/a"] = b"complete"

    aborted = gate.abort("files/a", "completed", no_proof_needed)

    assert aborted.fate is AbortFate.OBJECT_THERE
    assert aborted.object_size == 8
    assert "8 bytes" in aborted.reason
    assert server.objects == {"files/a": b"complete"}


def test_a_client_that_completes_before_the_abort_arrives_keeps_its_object(
    server: MultipartServer, gate: Gate
) -> None:
    upload_id = server.begin("files/a", 5, 7)

    def complete(request: Request) -> Answer | None:
        if is_abort(request):
            server.uploads.pop(upload_id, None)
            server.objects["files/a"] = b"123456789012"
        return None

    server.hooks = [complete]
    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert (aborted.fate, aborted.bytes_freed) == (AbortFate.OBJECT_THERE, 0)
    assert server.objects == {"files/a": b"123456789012"}


def test_an_abort_whose_answer_was_lost_is_this_runs_own_success(
    server: MultipartServer, gate: Gate
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    lost = [Answer(500, errors("InternalError", "the answer of a proxy behind which it worked"))]

    def work_and_lose(request: Request) -> Answer | None:
        if is_abort(request) and lost:
            del server.uploads[upload_id]
            return lost.pop()
        return None

    server.hooks = [work_and_lose]
    aborted = gate.abort("files/a", upload_id, no_proof_needed)

    assert (aborted.fate, aborted.parts, aborted.bytes_freed) == (AbortFate.ABORTED, 2, 12)


def test_a_key_that_must_not_be_looked_at_is_said_and_never_called_gone(
    server: MultipartServer, gate: Gate
) -> None:
    server.hooks = [
        lambda request: (
            Answer(403) if request.method == "HEAD" and "files" in request.path else None
        )
    ]
    aborted = gate.abort("files/a", "completed-or-not", no_proof_needed)
    assert aborted.fate is AbortFate.FAILED
    assert "could not be seen" in aborted.reason


# It stays


def test_an_upload_that_got_a_part_since_it_was_judged_is_left_alone(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5, 7)
    server.uploads[upload_id].parts[3] = Part(3, NOW - timedelta(minutes=5))

    aborted = gate.abort("files/a", upload_id, no_proof_needed, idle_since=NOW - timedelta(days=1))

    assert aborted.fate is AbortFate.ACTIVE
    assert aborts(scripted) == 0
    assert upload_id in server.uploads


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("other/a", "not owned"),
        ("files/brand/logo.png", "protected"),
        ("files/../secret", "ambiguous path"),
        ("files/\udc80", "not UTF-8"),
    ],
)
def test_a_key_that_is_not_ours_is_not_even_asked_for(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3, key: str, reason: str
) -> None:
    server.begin(key, 5, upload_id="u")
    aborted = gate.abort(key, "u", no_proof_needed)
    assert (aborted.fate, aborted.reason) == (AbortFate.KEPT, reason)
    assert scripted.requests == []


def test_an_upload_whose_key_a_live_row_names_stays(
    server: MultipartServer, gate: Gate, connection: psycopg.Connection, scripted: ScriptedS3
) -> None:
    [(row, key)] = connection.execute("SELECT id, key FROM begin_upload('files/')").fetchall()
    upload_id = server.begin(key, 5)

    aborted = gate.abort(key, upload_id, no_proof_needed)
    assert (aborted.fate, aborted.reason) == (AbortFate.KEPT, "referenced by upload")
    assert aborts(scripted) == 0

    connection.execute("SELECT mark_uncertain(%s, 'no answer')", (row,))
    assert gate.abort(key, upload_id, no_proof_needed).fate is AbortFate.KEPT


def test_the_collector_of_a_claimed_row_may_abort_its_upload_and_nobody_else(
    server: MultipartServer, gate: Gate, connection: psycopg.Connection
) -> None:
    [(row, key)] = connection.execute("SELECT id, key FROM begin_upload('files/')").fetchall()
    connection.execute("SELECT mark_uncertain(%s, 'no answer')", (row,))
    connection.execute("SELECT cancel_upload(%s)", (row,))
    connection.execute(
        "UPDATE upload SET state = 'cleanup' WHERE id = %s AND state <> 'cleanup'", (row,)
    )
    connection.execute("UPDATE upload SET attempts = 2 WHERE id = %s", (row,))
    upload_id = server.begin(key, 5)

    fenced = gate.abort(key, upload_id, no_proof_needed, claims=[Claim(row, 1)])
    assert (fenced.fate, fenced.reason) == (AbortFate.KEPT, "referenced by upload")
    mine = gate.abort(key, upload_id, no_proof_needed, claims=[Claim(row, 2)])
    assert mine.fate is AbortFate.ABORTED


def test_a_row_that_comes_while_parts_are_left_ends_the_aborts(
    server: MultipartServer, gate: Gate, connection: psycopg.Connection, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5)
    server.uploads[upload_id].stubborn = 10

    def refer(request: Request) -> Answer | None:
        if is_abort(request):
            connection.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
        return None

    server.hooks = [refer]
    aborted = gate.abort("files/a", upload_id, no_proof_needed)
    assert (aborted.fate, aborted.reason) == (AbortFate.KEPT, "referenced by file")
    assert aborts(scripted) == 1


def test_a_row_that_comes_between_two_tries_of_the_client_itself_ends_the_aborts(
    server: MultipartServer, scripted: ScriptedS3, connection: psycopg.Connection
) -> None:
    upload_id = server.begin("files/a", 5)

    def refer(request: Request) -> Answer | None:
        if not is_abort(request):
            return None
        connection.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
        return Answer(500, errors("InternalError"))

    server.hooks = [refer]
    patient = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=3))
    bucket = BucketForTests(endpoint_url=None, bucket="acme")
    aborted = Gate(patient, bucket, ReferenceCheck(connection)).abort(
        "files/a", upload_id, no_proof_needed
    )
    assert (aborted.fate, aborted.reason) == (AbortFate.KEPT, "referenced by file")
    assert aborts(scripted) == 1


def test_one_upload_that_is_refused_fails_and_its_parts_are_as_they_were(
    server: MultipartServer, gate: Gate
) -> None:
    upload_id = server.begin("files/a", 5)
    server.hooks = [
        lambda request: Answer(403, errors("AccessDenied")) if is_abort(request) else None
    ]
    aborted = gate.abort("files/a", upload_id, no_proof_needed)
    assert (aborted.fate, aborted.bytes_left) == (AbortFate.FAILED, 5)
    assert "AccessDenied" in aborted.reason


def test_an_abort_after_which_the_parts_are_not_listed_is_not_believed(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5)
    server.uploads[upload_id].stubborn = 1_000

    def nothing_after_an_abort(request: Request) -> Answer | None:
        return Answer(200, "") if is_listing_of_parts(request) and aborts(scripted) else None

    server.hooks = [nothing_after_an_abort]
    aborted = gate.abort("files/a", upload_id, no_proof_needed)
    assert (aborted.fate, aborted.bytes_freed) == (AbortFate.FAILED, 0)


# It stops


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "NoSuchBucket"])
@pytest.mark.parametrize("when", [is_abort, is_listing_of_parts])
def test_what_concerns_every_request_stops_the_caller(
    server: MultipartServer, gate: Gate, code: str, when: object
) -> None:
    upload_id = server.begin("files/a", 5)
    status = 404 if code == "NoSuchBucket" else 403
    server.hooks = [
        lambda request: Answer(status, errors(code)) if when(request) else None  # type: ignore[operator]
    ]
    with pytest.raises(StorageRejected, match=code) as caught:
        gate.abort("files/a", upload_id, no_proof_needed)
    assert caught.value.unanswered == ("files/a",)
    assert upload_id in server.uploads


def test_a_server_that_stays_too_busy_stops_the_caller(server: MultipartServer, gate: Gate) -> None:
    upload_id = server.begin("files/a", 5)
    server.hooks = [lambda request: Answer(503, errors("SlowDown")) if is_abort(request) else None]
    with pytest.raises(StorageRejected, match="SlowDown"):
        gate.abort("files/a", upload_id, no_proof_needed)


def test_the_proof_is_asked_for_before_every_request_and_its_refusal_ends_it(
    server: MultipartServer, gate: Gate, scripted: ScriptedS3
) -> None:
    upload_id = server.begin("files/a", 5)
    server.uploads[upload_id].stubborn = 10
    left = [True, True]

    def proof() -> None:
        if not left.pop():
            raise AssertionError
        if not left:
            left.append(False)

    with pytest.raises(ProofRefused):
        gate.abort("files/a", upload_id, proof)
    assert aborts(scripted) == 2


def test_a_source_that_cannot_be_asked_lets_nothing_go(
    server: MultipartServer,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    scripted: ScriptedS3,
) -> None:
    upload_id = server.begin("files/a", 5)
    broken = SourceForTests(name="avatars", sql="SELECT no_such_column FROM file")
    bucket = BucketForTests(endpoint_url=None, bucket="acme")
    gate = Gate(scripted_client, bucket, ReferenceCheck(connection, [broken]))
    with pytest.raises(AdmissionFailed, match="avatars"):
        gate.abort("files/a", upload_id, no_proof_needed)
    assert aborts(scripted) == 0


# No way around it


def test_only_one_module_aborts_and_only_the_gate_uses_it() -> None:
    senders, users = set(), set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith("prove/"):
            # Its careless versions abort what they should not, in a bucket made for that.
            continue
        text = path.read_text("utf-8")
        if "abort_multipart_upload" in text:
            senders.add(module)
        if "aborting" in text and _ABORTING in imports_of(text):
            users.add(module)
    # The probe and a copy in parts abort what they have just begun, under keys of the house's own.
    assert senders == {
        "objects/multipart/aborting.py", "door/server.py", "objects/quarantine.py",
    }  # fmt: skip
    assert users == {"objects/gate.py"}
