"""In which manner orphans of a bucket are removed: it depends on what the server can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.objects.client import read_versioning
from filejobs_dagster.objects.keys import needs_single_delete

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.client import Versioning

NULL_VERSION = "null"
"""The identifier of a version that was written while the bucket kept none."""

ConditionalDelete = Literal["honoured", "single only", "batch only", "ignored", "unsupported"]
"""What a server makes of a deletion that names the ETag: it obeys, in requests for one object, for
many, or both; it deletes all the same; or it refuses the request."""


class VersioningUnknown(Exception):
    """Whether the bucket keeps versions is not known, so what a deletion does is not either."""


@dataclass(frozen=True)
class Manner:
    """How to remove.

    Attributes:
        versioning: Of the bucket.
        purge_versions: True to remove all versions of an orphan, false to leave a delete marker.
        conditional: What the probe found; None when nobody has probed.
    """

    versioning: Versioning = "off"
    purge_versions: bool = False
    conditional: ConditionalDelete | None = None

    @property
    def purges(self) -> bool:
        """True when versions are removed one by one."""
        return self.purge_versions and self.versioning in ("enabled", "suspended")

    @property
    def names_etag(self) -> bool:
        """True when a deletion names the object's ETag, because the server obeys that."""
        return self.conditional in ("honoured", "single only", "batch only")

    def names_etag_of(self, key: str) -> bool:
        """The same for one key: some cannot be named in a request for many."""
        return self.names_etag and not (
            self.conditional == "batch only" and needs_single_delete(key)
        )

    def leaves_bytes(self, version: str | None) -> bool:
        """True when a simple deletion only hides an object, whatever the answer says of it.

        Args:
            version: Of the current version, as a HEAD named it; None when it named none.
        """
        if self.versioning == "enabled":
            return True
        # Where versions were kept once, a marker takes the place of the version `null` alone.
        return self.versioning != "off" and version not in (None, NULL_VERSION)

    @property
    def one_by_one(self) -> bool:
        """True when only requests for one object are obeyed."""
        return self.conditional == "single only" and not self.purges


def manner_of(
    client: S3Client,
    bucket: str,
    *,
    purge_versions: bool,
    conditional: ConditionalDelete | None,
) -> Manner:
    """Ask the bucket, and put together how its orphans are removed.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        purge_versions: What the settings say.
        conditional: What the probe found.

    Raises:
        VersioningUnknown: All versions are to be removed, and the server does not say whether it
            keeps any.
        BucketUnavailable: No request reaches the bucket.
    """
    versioning = read_versioning(client, bucket)
    if purge_versions and versioning == "unknown":
        raise VersioningUnknown(
            f"purge_versions is true, and the server does not say whether the bucket {bucket!r} "
            "keeps versions. Allow s3:GetBucketVersioning, or set purge_versions to false."
        )
    return Manner(versioning, purge_versions, conditional)
