"""The server is tried once, by a live run, and again when it may be another one by now."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door import server as module
from filejobs_dagster.door.guard import BucketAt, Look
from filejobs_dagster.door.server import ProbeFailed, Server
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import Abilities, abilities_of
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


@dataclass
class AtTheDoor:
    """A guard, and what it looks at.

    Attributes:
        look: What it looks at, by a client of its own.
        written: The keys that the client has written.
    """

    installation: Installation
    look: Look
    written: list[str] = field(default_factory=list)

    def known(self) -> Abilities:
        (bucket,) = self.look.buckets
        return abilities_of(bucket.client, bucket.settings.bucket)

    def runs_live(self) -> int:
        """How many objects a live run writes to try the server."""
        before = len(self.written)
        Server().look(self.look)
        Server().enter(self.look)
        return len(self.written) - before


@pytest.fixture
def at_the_door(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Iterator[AtTheDoor]:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    settings = installation.settings()
    uploads = settings.buckets["uploads"]
    client = make_client(uploads)
    with installation.database.connect("the door") as connection:
        look = Look(
            settings,
            frozenset({"objects"}),
            installation.database,
            connection,
            (BucketAt("uploads", uploads, client, deletes=True),),
            logging.getLogger("door"),
        )
        at = AtTheDoor(installation, look)

        def note(params: dict[str, Any], **_event: object) -> None:
            at.written.append(params["Key"])

        client.meta.events.register("provide-client-params.s3.PutObject", note)
        yield at


def test_looking_tries_nothing_and_the_first_live_run_tries_once(at_the_door: AtTheDoor) -> None:
    assert "not tried yet" in Server().look(at_the_door.look)
    assert at_the_door.written == []
    assert at_the_door.runs_live() > 0
    assert {*at_the_door.written} == {"filejobs-adopted/test.json.probe-object/x"}
    assert at_the_door.known() == Abilities("single only", lists_uploads=True)
    assert at_the_door.runs_live() == 0
    assert "only in requests for one object" in Server().look(at_the_door.look)
    assert at_the_door.installation.keys() == set()


@pytest.mark.parametrize(
    "change",
    [
        "probed_server = 'another software'",
        "probed_at = now() - interval '91 days'",
        # Tried by an earlier version, which asked for less.
        "server = NULL",
    ],
)
def test_a_server_that_may_be_another_one_by_now_is_tried_again(
    at_the_door: AtTheDoor, change: str
) -> None:
    assert at_the_door.runs_live() > 0
    at_the_door.installation.execute(f"UPDATE bucket_adoption SET {change}")
    assert at_the_door.runs_live() > 0
    assert at_the_door.runs_live() == 0


def test_where_it_could_not_be_tried_what_was_known_stays_and_else_the_worst_is_assumed(
    at_the_door: AtTheDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_where: object) -> None:
        raise ProbeFailed("No right to write.")

    with monkeypatch.context() as patch:
        patch.setattr(module, "probe", fails)
        at_the_door.runs_live()
        assert at_the_door.known().folds_slashes
    at_the_door.runs_live()
    assert not at_the_door.known().folds_slashes
    at_the_door.installation.execute("UPDATE bucket_adoption SET probed_server = 'another'")
    monkeypatch.setattr(module, "probe", fails)
    at_the_door.runs_live()
    assert at_the_door.known() == Abilities("single only", lists_uploads=True)
