"""The jobs of `filejobs.yaml`, a module for each; `models` says which belongs to which."""

from __future__ import annotations

from filejobs_dagster.settings.jobs.audit import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
)
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.jobs.models import JOB_MODELS, model_of
from filejobs_dagster.settings.jobs.storage_orphans import StorageOrphansSettings
from filejobs_dagster.settings.jobs.upload_reservations import (
    ReservationSourceSettings,
    UploadReservationsSettings,
)

__all__ = [
    "JOB_MODELS",
    "AuditSealSettings",
    "AuditTrimSettings",
    "AuditVerifySettings",
    "JobSettings",
    "ReservationSourceSettings",
    "StorageOrphansSettings",
    "UploadReservationsSettings",
    "model_of",
]
