"""Whether this bucket belongs to this database, as a run asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.objects.adoption import (
    Adopted,
    Place,
    check,
    raise_counter,
    remember_probe,
)
from filejobs_dagster.objects.probe import ProbeFailed, probe

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.objects.manner import ConditionalDelete
    from filejobs_dagster.settings.storage import BucketSettings


class BucketAdoption:
    """Marker and row of one bucket."""

    def __init__(
        self,
        context: RunContext,
        client: S3Client,
        bucket: BucketSettings,
        environment: str | None,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            context: The run.
            client: Of the bucket.
            bucket: What the settings say of it.
            environment: What the settings say of the installation.
        """
        self._log = context.log
        self._place = Place(
            client=client,
            bucket=bucket.bucket,
            endpoint=bucket.endpoint_url,
            marker_key=bucket.marker,
            installation=context.identity.installation,
            environment=environment,
            database=context.database,
            connection=context.connection,
        )
        self._adopted: Adopted | None = None

    def check(self) -> None:
        """Compare marker and database.

        Raises:
            AdoptionRefused: They do not belong together, or it is not known.
        """
        self._adopted = check(self._place)

    def raise_counter(self) -> None:
        """Count one more live run, in the database and then in the marker.

        Both are compared once more before: another job of this installation may have counted its
        own run since this one began.

        Raises:
            AdoptionRefused: Either side is another one by now.
            MarkerNotWritten: Storage refused.
        """
        self.check()
        self._adopted = raise_counter(self._place, self._known())

    def conditional_delete(self) -> ConditionalDelete | None:
        """What the server makes of a deletion with a condition; tried once for each bucket.

        Returns:
            None when it could not be tried: each object is then looked at right before.
        """
        known = self._known().row.conditional_delete
        if known is not None:
            return known
        try:
            found = probe(self._place.client, self._place.bucket, self._place.marker_key)
        except ProbeFailed as error:
            self._log.warning("%s Each object is looked at right before its deletion.", error)
            return None
        remember_probe(self._place, found)
        if found.leftover is not None:
            self._log.warning("The probe's own object %s could not be removed.", found.leftover)
        self._log.info("This server's answer to a conditional deletion: %s.", found.conditional)
        return found.conditional

    def _known(self) -> Adopted:
        if self._adopted is None:
            self.check()
        if self._adopted is None:  # pragma: no cover - check() sets it or raises
            raise AssertionError("check() returned without an answer")
        return self._adopted
