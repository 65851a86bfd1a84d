"""Bytes that come after the row of their upload was collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.jobs.conftest import Collector
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from tests.installation import Installation


@pytest.mark.parametrize("measured", [True, False])
def test_an_upload_that_comes_after_its_row_was_collected_is_counted_as_a_late_landing(
    installation: Installation, measured: bool
) -> None:
    client = make_client(installation.settings().buckets["uploads"])
    collect, clean = Collector(installation, client), Cleaner(installation, client)
    sweep, uploads = Sweeper(installation, client), Uploads(installation)
    installation.reserve("files/slow", body=None)
    upload = uploads.begin()
    uploads.call("mark_uncertain", upload.id, "the connection broke")
    uploads.change(
        upload,
        "uncertain_since = clock_timestamp() - interval '2 hours',"
        " activity_at = clock_timestamp() - interval '2 hours'",
    )
    # Whoever does not look cannot say what never arrived, and still knows what it has deleted.
    collected = collect(count_bytes=measured).detail
    assert collected["never_arrived"] == (1 if measured else None)
    assert clean().detail["classes"]["never arrived"] == 1

    late, other = ["files/slow", upload.key], "files/other"
    sweep.seen_before(*late, other)
    seen = sweep("dry").detail
    assert seen["late_landing"] == 2
    said = dict(each.split(": ", 1) for each in seen["samples"]["late landing"])
    assert said.keys() == set(late)
    assert said["files/slow"].startswith("upload_reservations collected its row at ")
    assert said[upload.key].startswith("upload_cleanup collected its row at ")
    assert "2 orphans came after their row was collected" in seen["explained"]

    went = sweep().detail
    assert (went["late_landing"], went["deleted"]) == (2, 3)
    assert sweep().detail["late_landing"] == 0


def test_a_key_that_never_arrived_is_forgotten_when_others_have_been_noted_long_after_it(
    installation: Installation,
) -> None:
    collect = Collector(installation, installation.client)
    for key in ("files/long ago", "files/now"):
        installation.reserve(key, body=None)
        assert collect().detail["never_arrived"] == 1
        installation.execute(
            "UPDATE never_arrived SET collected_at = now() - interval '31 days'"
            " WHERE key = 'files/long ago'"
        )
    assert installation.execute("SELECT key, job FROM never_arrived") == [
        (b"files/now", "upload_reservations")
    ]
