"""The jobs of `filejobs.yaml`, a module for each; `models` says which belongs to which."""

from __future__ import annotations

from filejobs_dagster.settings.jobs.audit import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
)
from filejobs_dagster.settings.jobs.deleted_files import DeletedFilesSettings, DerivedSettings
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.jobs.models import JOB_MODELS, model_of
from filejobs_dagster.settings.jobs.multipart_uploads import MultipartUploadsSettings
from filejobs_dagster.settings.jobs.run_history import RunHistorySettings
from filejobs_dagster.settings.jobs.storage_orphans import StorageOrphansSettings
from filejobs_dagster.settings.jobs.table_retention import (
    ChildTableSettings,
    RetentionRuleSettings,
    TableRetentionSettings,
)
from filejobs_dagster.settings.jobs.upload_cleanup import UploadCleanupSettings
from filejobs_dagster.settings.jobs.upload_reservations import (
    ReservationSourceSettings,
    UploadReservationsSettings,
)

__all__ = [
    "JOB_MODELS",
    "AuditSealSettings",
    "AuditTrimSettings",
    "AuditVerifySettings",
    "ChildTableSettings",
    "DeletedFilesSettings",
    "DerivedSettings",
    "JobSettings",
    "MultipartUploadsSettings",
    "ReservationSourceSettings",
    "RetentionRuleSettings",
    "RunHistorySettings",
    "StorageOrphansSettings",
    "TableRetentionSettings",
    "UploadCleanupSettings",
    "UploadReservationsSettings",
    "model_of",
]
