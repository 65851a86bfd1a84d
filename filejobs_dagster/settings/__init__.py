"""`filejobs.yaml` and the environment, as types; or every mistake in them, in words that teach."""

from __future__ import annotations

from filejobs_dagster.settings.audit import AuditSettings, PlaceSettings, PublicKeySettings
from filejobs_dagster.settings.durations import Duration, format_duration, parse_duration
from filejobs_dagster.settings.jobs import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
    JobSettings,
    ReservationSourceSettings,
    StorageOrphansSettings,
    UploadReservationsSettings,
)
from filejobs_dagster.settings.known import known_secrets
from filejobs_dagster.settings.load import (
    ALLOW_LIVE_VARIABLE,
    PATH_VARIABLE,
    UNREADABLE_INSTALLATION,
    Loaded,
    load_settings,
    read_settings,
)
from filejobs_dagster.settings.model import DatabaseSettings, Settings, reservation_source
from filejobs_dagster.settings.orphans import BreakersSettings, ReportSettings
from filejobs_dagster.settings.other_database import OtherDatabase
from filejobs_dagster.settings.problems import Problem, SettingsError
from filejobs_dagster.settings.rules import RewriteSettings, TransformSettings
from filejobs_dagster.settings.schema import settings_json_schema
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.storage import BucketSettings, SourceSettings

__all__ = [
    "ALLOW_LIVE_VARIABLE",
    "PATH_VARIABLE",
    "UNREADABLE_INSTALLATION",
    "AuditSealSettings",
    "AuditSettings",
    "AuditTrimSettings",
    "AuditVerifySettings",
    "BreakersSettings",
    "BucketSettings",
    "DatabaseSettings",
    "Duration",
    "JobSettings",
    "Loaded",
    "OtherDatabase",
    "PlaceSettings",
    "Problem",
    "PublicKeySettings",
    "ReportSettings",
    "ReservationSourceSettings",
    "RewriteSettings",
    "Secret",
    "Settings",
    "SettingsError",
    "SourceSettings",
    "StorageOrphansSettings",
    "TransformSettings",
    "UploadReservationsSettings",
    "format_duration",
    "known_secrets",
    "load_settings",
    "parse_duration",
    "read_settings",
    "reservation_source",
    "settings_json_schema",
]
