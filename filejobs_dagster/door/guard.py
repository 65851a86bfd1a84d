"""What a guard is, what it looks at, and how it refuses.

Why a bucket may not be swept has a class for each reason, because each has its own way out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.runbook import of_refusal

if TYPE_CHECKING:
    import logging

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import BucketSettings, Settings

# Why a bucket may not be swept: each with its own name, because each has its own way out.


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


class Refusal(Exception):
    """A guard does not let a live run in, or not go on.

    Attributes:
        found: One sentence: what was found, without secrets.
        advice: What to do; never something that deletes more.
        doubts: False where only a step is missing, and what a dry run counts is right all the
            same. True where nothing may be concluded from what database and bucket say.
        see: Where the pages say what to do; whoever asks the guard fills it in.
    """

    see: str = ""

    def __init__(self, found: str, advice: str = "", *, doubts: bool = True) -> None:
        super().__init__(f"{found} {advice}".strip())
        self.found = found
        self.advice = advice
        self.doubts = doubts

    def __str__(self) -> str:
        """What was found, what to do, and where more stands."""
        said = f"{self.found} {self.advice}".strip()
        return f"{said} See {self.see}" if self.see else said

    def told_by(self, guard: str) -> Refusal:
        """The same, with the link for the guard, or for what the guard met."""
        cause = self.__cause__
        self.see = of_refusal(type(cause).__name__ if isinstance(cause, AdoptionRefused) else guard)
        return self


@dataclass(frozen=True)
class BucketAt:
    """One bucket that guards look at.

    Attributes:
        entry: Its name in the settings.
        settings: What they say of it.
        client: From `make_client`; guards read with it, and write the marker and the probe only.
        deletes: True when the run deletes bytes from it; false when it is looked at only for what
            its marker says of the database.
    """

    entry: str
    settings: BucketSettings
    client: S3Client
    deletes: bool


@dataclass(frozen=True)
class Look:
    """What guards look at: the same for a run and for `filejobs doctor`.

    Attributes:
        settings: All of them.
        touches: What the run changes; of the doctor, what all jobs of the settings change.
        database: Where the project's tables are.
        connection: An open connection to it, outside a transaction.
        buckets: All of the settings.
        log: Where remarks go that refuse nothing.
        job: Whose run it is; None for the doctor, which looks for all.
        counted: Entries of the buckets whose marker this run has just written.
        kept: What a guard remembers of its look until it proves again, by its name.
    """

    settings: Settings
    touches: frozenset[Touch]
    database: Database
    connection: Connection
    buckets: tuple[BucketAt, ...]
    log: logging.Logger
    job: str | None = None
    counted: set[str] = field(default_factory=set)
    kept: dict[str, Any] = field(default_factory=dict)


class Guard(ABC):
    """One proof.

    Attributes:
        name: In records, findings and messages.
        protects: A run that touches one of these must pass.
    """

    name: str
    protects: frozenset[Touch]

    @abstractmethod
    def look(self, at: Look) -> str:
        """Look, and change nothing: dry runs and the doctor do the same.

        Returns:
            What was found, in a sentence or less.

        Raises:
            Refusal: A live run would lose something, or nobody can tell that it would not.
        """

    def enter(self, at: Look) -> None:  # noqa: B027 (most guards write nothing)
        """What a live run writes once every guard has let it in, before its first claim.

        Raises:
            Refusal: It could not be written.
        """

    def prove(self, at: Look) -> None:  # noqa: B027 (most need no second look)
        """Look again at what may have changed, before each batch of a live run.

        Raises:
            Refusal: The run must stop.
        """
