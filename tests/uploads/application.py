"""An application that stores an object, and is killed with SIGKILL right after one of its steps.

usage: python application.py STEP ORDER DATABASE-URL BUCKET
ORDER is "record first", as it should be, or "bytes first". The environment has the S3 server.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING

import boto3
import psycopg

from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef


def main(step: str, order: str, database_url: str, bucket: str) -> None:
    def done(what: str) -> None:
        if what == step:
            print(what, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    storage = boto3.client("s3")
    if order == "bytes first":
        storage.put_object(Bucket=bucket, Key=f"files/{uuid.uuid4()}", Body=b"x" * 10)
        done("put")
    connection = psycopg.connect(database_url)
    uploads = Uploads(connection)
    begun = uploads.begin("files/")
    done("begun, not committed")
    connection.commit()
    done("begun")
    multipart = storage.create_multipart_upload(Bucket=bucket, Key=begun.key)["UploadId"]
    done("multipart created")
    uploads.record_upload_id(begun.id, multipart)
    connection.commit()
    done("multipart recorded")
    part = storage.upload_part(
        Bucket=bucket, Key=begun.key, UploadId=multipart, PartNumber=1, Body=b"x" * 10
    )
    done("part sent")
    parts: list[CompletedPartTypeDef] = [{"PartNumber": 1, "ETag": part["ETag"]}]
    stored = storage.complete_multipart_upload(
        Bucket=bucket, Key=begun.key, UploadId=multipart, MultipartUpload={"Parts": parts}
    )
    done("completed")
    uploads.mark_stored(begun.id, etag=stored["ETag"], size_bytes=10)
    done("marked, not committed")
    connection.commit()
    done("marked")
    uploads.publish(begun.id, "message 1")
    done("published, not committed")
    connection.commit()
    done("published")


if __name__ == "__main__":
    main(*sys.argv[1:])
