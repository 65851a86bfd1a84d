"""Installations whose reservations are in tables of the operator's.

The statements by hand are those of examples/filejobs.by-hand.yaml, and for Active Storage a file
beside this.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import yaml

from filejobs_dagster.jobs.upload_reservations.settings import UploadReservationsSettings
from tests.docs.pages import EXAMPLES, page
from tests.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings
    from filejobs_dagster.settings import Settings

HOUR = timedelta(hours=1)
PAGE = "own-tables.md"
RAILS = Path(__file__).with_name("active_storage.yaml")


def schema(containing: str) -> str:
    """The SQL that makes these tables."""
    (found,) = [text for text in _texts("sql") if containing in text]
    return found


def example(containing: str) -> dict[str, Any]:
    """The settings with statements by hand that speak of this table."""
    (found,) = [text for text in _texts("yaml") if "claim: |" in text and containing in text]
    document: dict[str, Any] = yaml.safe_load(found)
    return document


def declared() -> dict[str, Any]:
    """The declaration of `documents` that the page shows."""
    (found,) = [text for text in _texts("yaml") if "tables:" in text]
    (table,) = yaml.safe_load(found)["jobs"]["upload_reservations"]["tables"]
    return {**table}


def _texts(language: str) -> list[str]:
    of_page = [block.text for block in page(PAGE).blocks if block.language == language]
    if language == "yaml":
        of_page.append((EXAMPLES / "filejobs.by-hand.yaml").read_text(encoding="utf-8"))
    return [*of_page, RAILS.with_suffix(f".{language}").read_text(encoding="utf-8")]


def reservation_source(settings: Settings) -> ReservationSourceSettings | None:
    """The statements by hand of upload_reservations."""
    job = settings.jobs["upload_reservations"]
    assert isinstance(job, UploadReservationsSettings)
    return job.source


@dataclass
class OwnTables(Installation):
    """An installation with tables of the operator's, perhaps in another database.

    Attributes:
        app_url: The database of the operator's tables.
    """

    app_url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"FILEJOBS_APP_DATABASE_URL": self.app_url}

    def use(self, document: dict[str, Any]) -> None:
        """Take over the source, the references and the ownership of a settings file."""
        (bucket,) = document["buckets"].values()
        own = self.document["buckets"]["uploads"]
        own["sources"] = bucket["sources"]
        if "owns_whole_bucket" in bucket:
            del own["owns"], own["protect"]
            own["owns_whole_bucket"] = True
        theirs = document["jobs"]["upload_reservations"]
        self.job(**{key: theirs[key] for key in ("source", "grace") if key in theirs})

    def source(self, **changes: Any) -> None:
        """Change what the settings say of the reservation source."""
        self.document["jobs"]["upload_reservations"]["source"].update(changes)

    def in_the_projects_database(self) -> None:
        """Take the operator's tables to be where the project's are."""
        self.app_url = self.database_url
        del self.document["jobs"]["upload_reservations"]["source"]["database"]
        for source in self.document["buckets"]["uploads"]["sources"]:
            del source["database"]

    def app(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement where the operator's tables are."""
        with psycopg.connect(self.app_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def create(self, statements: str) -> None:
        with psycopg.connect(self.app_url, autocommit=True) as connection:
            connection.execute(statements.encode())

    def document_row(
        self,
        key: str,
        *,
        status: str = "reserved",
        due_ago: timedelta | None = HOUR,
        body: bytes | None = b"bytes",
    ) -> uuid.UUID:
        """One row of `documents`, and its object unless `body` is None."""
        if body is not None:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
        identity = uuid.uuid4()
        self.app(
            "INSERT INTO documents (id, status, storage_key, size_bytes, expires_at)"
            " VALUES (%s, %s, %s, 5, now() - %s::interval)",
            (identity, status, key, due_ago),
        )
        return identity

    def statuses(self) -> dict[str, str]:
        """The state of each document, by its key."""
        return dict(self.app("SELECT storage_key, status FROM documents"))

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of the project's chain, in order; only of some kinds when they are given."""
        bodies = self.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
        return [body for (body,) in bodies if not kinds or body["kind"] in kinds]


def keys_of(events: Sequence[dict[str, Any]]) -> set[str]:
    """The keys of rows that events call collected."""
    return {event["storage_key"] for event in events}
