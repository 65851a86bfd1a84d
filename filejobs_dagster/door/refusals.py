"""Why a bucket may not be swept: each with its own name, because each has its own way out."""

from __future__ import annotations

from filejobs_dagster.runbook import of_refusal


class AdoptionRefused(Exception):
    """Bucket and database do not belong together, or it is not known whether they do."""

    @property
    def see(self) -> str:
        """Where the pages say what to do."""
        return of_refusal(type(self).__name__)


class NotAdopted(AdoptionRefused):
    """Nobody has adopted the bucket."""


class PrefixesNotAdopted(AdoptionRefused):
    """The settings own more of the bucket than was adopted."""


class WrongBucket(AdoptionRefused):
    """What the settings own belongs to another installation. Nothing overrides that."""


class WrongEnvironment(AdoptionRefused):
    """The bucket was adopted for another environment. Nothing overrides that."""


class WrongDatabase(AdoptionRefused):
    """The bucket belongs to another database."""


class DatabaseRestored(AdoptionRefused):
    """The database is behind the marker."""


class LeftBehind(AdoptionRefused):
    """The marker was written on a later timeline: a standby of this server was promoted."""


class BucketOfAnotherInstallation(AdoptionRefused):
    """Another installation on the same schema has adopted the bucket."""


class MarkerUnreadable(AdoptionRefused):
    """What the bucket says of its owner could not be read, so nothing may be concluded from it."""


class MarkerNotWritten(AdoptionRefused):
    """The marker could not be written."""


class MarkerTaken(AdoptionRefused):
    """Somebody else wrote the marker meanwhile."""
