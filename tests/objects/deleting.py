"""What `Gate.delete` sends, without its questions: for tests of what servers answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.objects.sending import BACK_OFF, Deleting
from filejobs_dagster.objects.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

    from filejobs_dagster.book.outcomes import Outcomes


def delete_objects(
    client: S3Client,
    bucket: str,
    keys: Sequence[str],
    *,
    before_request: Callable[[], None] = lambda: None,
    wait: wait_base = BACK_OFF,
) -> Outcomes[str]:
    """Delete objects, up to a thousand in a request, and say what became of each.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        keys: Exact keys. Repeated ones count once.
        before_request: Called right before every request that deletes, each of botocore's own
            tries included; an exception of it stops the deletion.
        wait: Between tries of keys whose failure may pass.

    Returns:
        What became of each key.

    Raises:
        StorageRejected: A whole request failed, also after botocore's own tries.
        ProofRefused: `before_request` raised.
    """
    targets = [Target(key) for key in keys]
    work = Deleting(client, bucket, targets, before_request=before_request, wait=wait)
    work.run()
    return work.outcomes()
