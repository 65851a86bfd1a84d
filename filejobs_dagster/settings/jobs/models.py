"""Which model belongs to which job: add a job here."""

from __future__ import annotations

from filejobs_dagster.settings.jobs.audit import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
)
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.jobs.storage_orphans import StorageOrphansSettings
from filejobs_dagster.settings.jobs.upload_reservations import UploadReservationsSettings

JOB_MODELS: dict[str, type[JobSettings]] = {
    "upload_reservations": UploadReservationsSettings,
    "storage_orphans": StorageOrphansSettings,
    "audit_seal": AuditSealSettings,
    "audit_trim": AuditTrimSettings,
    "audit_verify": AuditVerifySettings,
}
"""The jobs that can be told more than every job can."""


def model_of(job: str) -> type[JobSettings]:
    """The model of a job's settings."""
    return JOB_MODELS.get(job, JobSettings)
