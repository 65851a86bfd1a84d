"""What can still be known from a settings file that has mistakes: whom to tell of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from filejobs_dagster.settings.alerts import AlertsSettings, DestinationSettings
from filejobs_dagster.settings.document import UnreadableDocumentError, read_document
from filejobs_dagster.settings.model import DatabaseSettings
from filejobs_dagster.settings.secrets import ENVIRON
from filejobs_dagster.settings.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from filejobs_dagster.settings.model import Settings

Part = TypeVar("Part", bound=Section)


@dataclass(frozen=True)
class Salvaged:
    """The two sections that an alert needs, each as far as it is right by itself.

    Attributes:
        database: None when the file does not say where it is, or its variable is not set.
        alerts: With the destinations that are right; None when none is.
        complete: True when the section `alerts` is right as a whole.
    """

    database: DatabaseSettings | None
    alerts: AlertsSettings | None
    complete: bool = False


def salvage(path: Path, environ: Mapping[str, str] = os.environ) -> Salvaged:
    """Read the sections `database` and `alerts` of a file, whatever the others say.

    Args:
        path: The file.
        environ: Where the secrets' variables are.

    Returns:
        Nothing in it when the file cannot be read, or is not YAML.
    """
    try:
        said = read_document(path.read_bytes().decode("utf-8-sig")).value
    except (OSError, ValueError, UnreadableDocumentError):
        return Salvaged(None, None)
    return _salvaged(said if isinstance(said, dict) else {}, environ)


def last_good(settings: Settings) -> dict[str, Any]:
    """The same two sections as they may be kept: secrets by the names of their variables alone."""
    return {
        "database": settings.database.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "alerts": settings.alerts.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }


def recalled(kept: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Salvaged:
    """What `last_good` kept, with the secrets as the environment has them now."""
    return _salvaged(kept, environ)


def _salvaged(said: Mapping[str, Any], environ: Mapping[str, str]) -> Salvaged:
    alerts = _part(AlertsSettings, said.get("alerts"), environ)
    return Salvaged(
        database=_part(DatabaseSettings, said.get("database"), environ),
        alerts=alerts or _those_that_are_right(said.get("alerts"), environ),
        complete=alerts is not None,
    )


def _part(model: type[Part], said: Any, environ: Mapping[str, str]) -> Part | None:
    try:
        return model.model_validate(said, context={ENVIRON: environ})
    except ValidationError:
        return None


def _those_that_are_right(said: Any, environ: Mapping[str, str]) -> AlertsSettings | None:
    to = said.get("to") if isinstance(said, dict) else None
    right = [
        destination
        for entry in (to if isinstance(to, list) else [])
        if (destination := _part(DestinationSettings, entry, environ)) is not None
    ]
    one_each = {destination.name: destination for destination in right}
    return AlertsSettings(to=list(one_each.values())) if one_each else None
