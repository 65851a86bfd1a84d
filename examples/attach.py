"""An application that sends a large file in parts and publishes it, whoever cancels meanwhile."""
# ruff: noqa: INP001 (an example is no package)

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    import psycopg
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef


def attach(
    connection: psycopg.Connection,
    storage: S3Client,
    bucket: str,
    parts: Sequence[bytes],
    subject: str,
) -> UUID | None:
    """Store the parts as one object; the attachment's id, or None when it was not published."""
    uploads = Uploads(connection, schema="public")
    begun = uploads.begin("files/", ".bin")
    connection.commit()  # the record, before anything else
    try:
        created = storage.create_multipart_upload(Bucket=bucket, Key=begun.key)["UploadId"]
        go_on = uploads.record_upload_id(begun.id, created)
        connection.commit()  # before the first part
        sent: list[CompletedPartTypeDef] = []
        for number, part in enumerate(parts, start=1):
            if not go_on:  # somebody has cancelled
                uploads.mark_uncertain(begun.id, "stopped: cancelled")
                connection.commit()
                return None
            etag = storage.upload_part(
                Bucket=bucket, Key=begun.key, UploadId=created, PartNumber=number, Body=part
            )["ETag"]
            sent.append({"PartNumber": number, "ETag": etag})
            go_on = uploads.touch(begun.id)  # a sign of life
            connection.commit()
        stored = storage.complete_multipart_upload(
            Bucket=bucket, Key=begun.key, UploadId=created, MultipartUpload={"Parts": sent}
        )
    except (BotoCoreError, ClientError) as error:  # is it there or not?
        uploads.mark_uncertain(begun.id, type(error).__name__)
        connection.commit()
        return None
    uploads.mark_stored(begun.id, etag=stored["ETag"], size_bytes=sum(map(len, parts)))
    attachment = uploads.publish(begun.id, subject)  # None: a cancel was first
    connection.commit()
    return attachment
