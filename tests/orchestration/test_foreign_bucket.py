"""A copy of the database, pointed at the original's bucket, removes nothing there."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.uploads import Uploads
from tests.orchestration.conftest import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installation import Installation
    from tests.orchestration.conftest import Code

JOBS: dict[str, dict[str, object]] = {
    "upload_reservations": {"by_hand": True},
    "deleted_files": {"by_hand": True, "restore_window": "1d"},
    "upload_cleanup": {"by_hand": True},
}


def reserved(installation: Installation) -> str:
    installation.reserve("files/reserved")
    return "files/reserved"


def soft_deleted(installation: Installation) -> str:
    installation.client.put_object(Bucket=installation.bucket, Key="files/deleted", Body=b"bytes")
    installation.execute(
        "INSERT INTO file (id, state, storage_key, deleted_at)"
        " VALUES (%s, 'deleted', 'files/deleted', now() - interval '3 days')",
        (uuid.uuid4(),),
    )
    return "files/deleted"


def cancelled(installation: Installation) -> str:
    with installation.database.connect("application") as connection:
        uploads = Uploads(connection)
        begun = uploads.begin("files/")
        connection.commit()
        stored = installation.client.put_object(
            Bucket=installation.bucket, Key=begun.key, Body=b"bytes"
        )
        uploads.mark_stored(begun.id, etag=stored["ETag"], size_bytes=5)
        uploads.cancel(begun.id)
        connection.commit()
    return begun.key


WORK: dict[str, Callable[[Installation], str]] = {
    "upload_reservations": reserved,
    "deleted_files": soft_deleted,
    "upload_cleanup": cancelled,
}


def adopted_as(installation: Installation, name: str) -> None:
    """Write the marker that an installation of that name would have written."""
    settings = installation.settings()
    with installation.database.connect("adopt") as connection:
        place = AdoptionTarget.of(
            settings.model_copy(update={"installation": name}),
            settings.buckets["uploads"],
            installation.client,
            installation.database,
            connection,
        )
        adopt(place, by="the test")
    # The row is the original's; its copy went elsewhere before the adoption.
    installation.execute("DELETE FROM bucket_adoption")


@pytest.mark.parametrize("job", list(JOBS))
def test_a_live_run_refuses_a_bucket_of_another_installation(code: Code, job: str) -> None:
    installation = code.installation
    installation.document["jobs"] = {job: JOBS[job]}
    key = WORK[job](installation)
    adopted_as(installation, "somebody-else")
    code.adopted = False

    result = code.run(job, dry_run=False)

    assert not result.success
    assert "belongs to the installation 'somebody-else'" in failure_of(result)
    assert installation.has_object(key)
    assert code.run(job).success, "a dry run is warned and goes on"


@pytest.mark.parametrize("job", list(JOBS))
def test_control_in_its_own_bucket_the_same_run_removes_it(code: Code, job: str) -> None:
    installation = code.installation
    installation.document["jobs"] = {job: JOBS[job]}
    key = WORK[job](installation)

    result = code.run(job, dry_run=False)

    assert result.success, failure_of(result)
    assert not installation.has_object(key)
