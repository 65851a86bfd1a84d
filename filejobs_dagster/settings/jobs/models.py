"""Which model belongs to which job: add a job here."""

from __future__ import annotations

from filejobs_dagster.settings.jobs.audit import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
)
from filejobs_dagster.settings.jobs.deleted_files import DeletedFilesSettings
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.jobs.multipart_uploads import MultipartUploadsSettings
from filejobs_dagster.settings.jobs.run_history import RunHistorySettings
from filejobs_dagster.settings.jobs.storage_orphans import StorageOrphansSettings
from filejobs_dagster.settings.jobs.table_retention import TableRetentionSettings
from filejobs_dagster.settings.jobs.upload_cleanup import UploadCleanupSettings
from filejobs_dagster.settings.jobs.upload_reservations import UploadReservationsSettings

JOB_MODELS: dict[str, type[JobSettings]] = {
    "upload_reservations": UploadReservationsSettings,
    "storage_orphans": StorageOrphansSettings,
    "upload_cleanup": UploadCleanupSettings,
    "multipart_uploads": MultipartUploadsSettings,
    "deleted_files": DeletedFilesSettings,
    "table_retention": TableRetentionSettings,
    "audit_seal": AuditSealSettings,
    "audit_trim": AuditTrimSettings,
    "audit_verify": AuditVerifySettings,
    "run_history": RunHistorySettings,
}
"""The jobs that can be told more than every job can."""


def model_of(job: str) -> type[JobSettings]:
    """The model of a job's settings."""
    return JOB_MODELS.get(job, JobSettings)
