"""Killed at every request, and with more uploads than anybody wants: the long tests."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.objects.multipart.server import MultipartServer, is_abort, is_listing_of_parts
from tests.objects.scripted import XML, Answer, Request

if TYPE_CHECKING:
    from tests.jobs.multipart_uploads.conftest import Sweeper
    from tests.objects.scripted import ScriptedS3

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(240)]


def is_marker(request: Request) -> bool:
    return request.method == "PUT"


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (is_marker, 1),
        (is_abort, 1),
        (is_abort, 2),
        (is_abort, 3),
        (is_listing_of_parts, 6),
    ],
    ids=["counting", "first abort", "second abort", "next batch", "after an abort"],
)
def test_killed_anywhere_and_run_again_nothing_is_lost_and_nothing_stuck(
    sweep: Sweeper, scripted: ScriptedS3, at: object, number: int
) -> None:
    sweep.adopt()
    key, living = sweep.row("writing")
    sweep.server.begin(key, 100, upload_id=living)
    for name in "abcde":
        sweep.server.begin(f"files/{name}", 5)
    met: list[Request] = []
    child: list[subprocess.Popen[bytes]] = []

    def kill(request: Request) -> Answer | None:
        if child and at(request):  # type: ignore[operator]
            met.append(request)
            if len(met) == number:
                child[0].kill()
                child[0].wait()
        return None

    sweep.server.hooks = [kill]
    installation = sweep.installation
    installation.write()
    child.append(
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.jobs.multipart_uploads.killed"),
                *(str(installation.folder), installation.database_url, scripted.address),
            ]
        )
    )
    assert child[0].wait(120) == -9
    sweep.server.hooks = []

    again = sweep()

    assert again.ok, again.error
    assert again.detail["swept"] is True
    assert sweep.there == {living}
    intents = sweep.events("multipart.abort.intent")
    aborted = {it["upload_id"] for intent in intents for it in intent["uploads"]}
    assert len(aborted) == 5, "each of them stands in an intent that came before its abort"


def test_many_more_uploads_take_no_more_memory(sweep: Sweeper, scripted: ScriptedS3) -> None:
    few, many = (_peak(sweep, scripted, pages) for pages in (3, 15))
    assert many < few * 1.5 + 1_000_000, f"{few:,} bytes became {many:,}"


def _peak(sweep: Sweeper, scripted: ScriptedS3, pages: int) -> int:
    """Bytes at the peak of a dry run over a thousand young uploads a page."""
    server, page = MultipartServer(), [0]

    def answer(request: Request) -> Answer:
        scripted.requests.clear()
        if "uploads" not in request.path:
            return server(request)
        page[0] += 1
        return Answer(body=_young(page[0], pages))

    scripted.script = answer
    tracemalloc.start()
    outcome = sweep("dry", idle_for=timedelta(days=3000), ask_again_for=timedelta(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"young": pages * 1000}
    return peak


def _young(number: int, pages: int) -> str:
    uploads = "".join(
        f"<Upload><Key>files/{number:04}/{entry:04}</Key><UploadId>{number}-{entry}</UploadId>"
        "<Initiated>2026-01-01T00:00:00Z</Initiated></Upload>"
        for entry in range(1000)
    )
    root = "ListMultipartUploadsResult"
    more = str(number < pages).lower()
    return f"{XML}<{root}><IsTruncated>{more}</IsTruncated>{uploads}</{root}>"
