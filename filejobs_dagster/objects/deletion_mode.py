"""What a server can do, and in which manner orphans of a bucket are therefore removed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from filejobs_dagster.objects.client import read_versioning
from filejobs_dagster.objects.identity import NULL_VERSION
from filejobs_dagster.objects.targets import needs_single_delete

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.client import Versioning
    from filejobs_dagster.objects.identity import Agreement

ConditionalDelete = Literal["honoured", "single only", "batch only", "ignored", "unsupported"]
"""What a server makes of a deletion that names the ETag: it obeys, in requests for one object, for
many, or both; it deletes all the same; or it refuses the request."""


@dataclass
class Abilities:
    """What the server of a bucket can do, as far as it is known: until then, what S3 itself does.

    Attributes:
        conditional: What it makes of a deletion with a condition; None when nobody has tried.
        bulk: False when it refuses requests that delete many objects: each takes its own then.
        folds_slashes: True when `files//a` and `files/a` are one object there, so that a deletion
            of the one takes the other.
        seconds_apart: By which its listing and its HEAD differ on the time of one object; None
            when its listing did not show that object.
        etags: How the two agree on its ETag.
        lists_uploads: False when it has a multipart upload and does not list it below its prefix;
            None when nobody knows.
    """

    conditional: ConditionalDelete | None = None
    bulk: bool = True
    folds_slashes: bool = False
    seconds_apart: int | None = 0
    etags: Agreement = "same"
    lists_uploads: bool | None = None


_KNOWN: WeakKeyDictionary[S3Client, dict[str, Abilities]] = WeakKeyDictionary()


def abilities_of(client: S3Client, bucket: str) -> Abilities:
    """What is known of a bucket's server: the same object for all that work with one client.

    The door fills it in from what is kept in the database, before a job begins. So every deletion
    of every job goes by it, and nobody has to hand it on; and what a deletion learns on its way
    (`bulk`), the next one of the run knows.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
    """
    return _KNOWN.setdefault(client, {}).setdefault(bucket, Abilities())


def learn(client: S3Client, bucket: str, abilities: Abilities) -> None:
    """From now on, all that work with this client go by these abilities."""
    known = abilities_of(client, bucket)
    for each in fields(Abilities):
        setattr(known, each.name, getattr(abilities, each.name))


class VersioningUnknown(Exception):
    """Whether the bucket keeps versions is not known, so what a deletion does is not either."""


@dataclass(frozen=True)
class DeletionMode:
    """How to remove.

    Attributes:
        versioning: Of the bucket.
        purge_versions: True to remove all versions of an orphan, false to leave a delete marker.
        conditional: What the probe found; None when nobody has probed.
        quarantine: True when what goes must be there to be brought back.
    """

    versioning: Versioning = "off"
    purge_versions: bool = False
    conditional: ConditionalDelete | None = None
    quarantine: bool = False

    @property
    def purges(self) -> bool:
        """True when versions are removed one by one."""
        kept = self.quarantine or not self.purge_versions
        return not kept and self.versioning in ("enabled", "suspended")

    @property
    def copies(self) -> bool:
        """True when what goes is copied into quarantine first.

        Where the bucket keeps versions, the delete marker is the quarantine.
        """
        return self.quarantine and self.versioning != "enabled"

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


def deletion_mode_of(
    client: S3Client, bucket: str, *, purge_versions: bool, quarantine: bool = False
) -> DeletionMode:
    """Ask the bucket, and put together how its orphans are removed.

    Whether it keeps versions is asked each time, since somebody may turn them on at any time. A
    server that does not implement the question (501) is `unknown`, not `off`: a gateway in front of
    one that keeps versions answers the same. Then the version that a HEAD names decides whether an
    object was only hidden.

    Args:
        client: From `make_client`; what is known of the server is taken from `abilities_of`.
        bucket: The bucket's name.
        purge_versions: What the settings say.
        quarantine: True to keep what goes for a while; then no version is purged.

    Raises:
        VersioningUnknown: All versions are to be removed, and the server does not say whether it
            keeps any.
        BucketUnavailable: No request reaches the bucket.
    """
    versioning = read_versioning(client, bucket)
    if purge_versions and not quarantine and versioning == "unknown":
        raise VersioningUnknown(
            f"purge_versions is true, and the server does not say whether the bucket {bucket!r} "
            "keeps versions. Allow s3:GetBucketVersioning, or set purge_versions to false."
        )
    conditional = abilities_of(client, bucket).conditional
    return DeletionMode(versioning, purge_versions, conditional, quarantine)
