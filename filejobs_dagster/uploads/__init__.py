"""Uploads with a durable record, for applications: typed calls of the project's SQL functions.

Nothing here needs Dagster, the settings or the bucket. The functions themselves are in the database
(`postgres/migrations/0006_upload.sql`), so that any other language calls the same ones.
"""

from __future__ import annotations

from filejobs_dagster.uploads.calls import BegunUpload, NoSuchUpload, Uploads, UploadState

__all__ = ["BegunUpload", "NoSuchUpload", "UploadState", "Uploads"]
