"""`filejobs.yaml` and the environment, as types; or every mistake in them, in words that teach."""

from __future__ import annotations

from filejobs_dagster.settings.alerts import (
    AlertsSettings,
    DestinationSettings,
    HeartbeatSettings,
)
from filejobs_dagster.settings.audit import AuditSettings, PlaceSettings, PublicKeySettings
from filejobs_dagster.settings.known import alert_secrets, database_secrets, known_secrets
from filejobs_dagster.settings.load import (
    ALLOW_LIVE_VARIABLE,
    PATH_VARIABLE,
    UNREADABLE_INSTALLATION,
    Loaded,
    Salvaged,
    last_good,
    load_settings,
    read_settings,
    recalled,
    salvage,
)
from filejobs_dagster.settings.model import DatabaseSettings, Settings
from filejobs_dagster.settings.problems import Problem, SettingsError
from filejobs_dagster.settings.rules import RewriteSettings, TransformSettings
from filejobs_dagster.settings.schema import settings_json_schema
from filejobs_dagster.settings.secrets import OtherDatabase, Secret
from filejobs_dagster.settings.section import JobSettings
from filejobs_dagster.settings.storage import BucketSettings, SourceSettings
from filejobs_dagster.settings.trigger import TokenSettings, TriggerSettings
from filejobs_dagster.settings.values import Duration, parse_duration

__all__ = [
    "ALLOW_LIVE_VARIABLE",
    "PATH_VARIABLE",
    "UNREADABLE_INSTALLATION",
    "AlertsSettings",
    "AuditSettings",
    "BucketSettings",
    "DatabaseSettings",
    "DestinationSettings",
    "Duration",
    "HeartbeatSettings",
    "JobSettings",
    "Loaded",
    "OtherDatabase",
    "PlaceSettings",
    "Problem",
    "PublicKeySettings",
    "RewriteSettings",
    "Salvaged",
    "Secret",
    "Settings",
    "SettingsError",
    "SourceSettings",
    "TokenSettings",
    "TransformSettings",
    "TriggerSettings",
    "alert_secrets",
    "database_secrets",
    "known_secrets",
    "last_good",
    "load_settings",
    "parse_duration",
    "read_settings",
    "recalled",
    "salvage",
    "settings_json_schema",
]
