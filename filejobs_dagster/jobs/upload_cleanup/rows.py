"""Rows of `upload`, as the statements return them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.references.claims import Claim

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True)
class Upload:
    """A row in `cleanup`, claimed or, in a dry run, merely seen.

    Attributes:
        id: Of the row.
        key: The object's key.
        provider_id: The provider's id of its multipart upload; None for a single PUT.
        etag: Without quotes, as it was stored; None when nobody knows.
        version: The object's version; None when nobody knows, or where there are none.
        size: In bytes, or None.
        stored: True when the object was known to be there once.
        due: When the row is to be tried.
        attempt: The fencing number.
        failed_before: True when an earlier attempt failed, and it was the row's fault.
    """

    id: UUID
    key: str
    provider_id: str | None
    etag: str | None
    version: str | None
    size: int | None
    stored: bool
    due: datetime
    attempt: int
    failed_before: bool = False

    @property
    def claim(self) -> Claim:
        """What the gate must know to let the object go."""
        return Claim(self.id, self.attempt)


@dataclass(frozen=True)
class Uncertain:
    """A row in `uncertain`, as it was seen before storage was asked.

    Attributes:
        id: Of the row.
        key: The object's key.
        provider_id: The provider's id of its multipart upload; None for a single PUT.
        etag: What the writer knew of it, without quotes; None as a rule.
        size: In bytes, or None.
        due: When it is to be looked at.
        since: When it became uncertain.
        active: The last sign of life of its writer.
        cancelled: True when somebody has cancelled it meanwhile.
    """

    id: UUID
    key: str
    provider_id: str | None
    etag: str | None
    size: int | None
    due: datetime
    since: datetime
    active: datetime
    cancelled: bool


@dataclass(frozen=True)
class Retained:
    """A row in `retained` whose lock may be over.

    Attributes:
        id: Of the row.
        key: The object's key.
        version: The object's version, or None.
        due: When it is to be looked at.
    """

    id: UUID
    key: str
    version: str | None
    due: datetime
