"""What stands in database and storage at one moment."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Event:
    """One audit event of a collector."""

    kind: str
    run_id: str
    recorded_at: datetime
    file: uuid.UUID | None = None
    due: datetime | None = None
    batch: int = 0
    keys: tuple[str, ...] = ()
    deleted: int = 0


def known_of(body: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {"kind": body["kind"], "run_id": body["run_id"]}
    if "file_id" in body:
        known["file"] = uuid.UUID(body["file_id"])
        known["due"] = datetime.fromisoformat(body["upload_expires_at"])
    return known | {
        "batch": body.get("batch", 0),
        "keys": tuple(body.get("keys", ())),
        "deleted": body.get("deleted", 0),
    }


@dataclass(frozen=True)
class Seen:
    """What was committed, and what was in storage, at one moment."""

    states: dict[uuid.UUID, str]
    events: list[Event]
    progress: dict[str, list[dict[str, Any]]]
    objects: frozenset[str]

    def of_kind(self, kind: str) -> list[Event]:
        """The audit events of that kind, in order."""
        return [event for event in self.events if event.kind == kind]
