"""Answers about multipart uploads, before botocore parses them.

Servers repeat in them what they were asked for, and Ceph 16 writes a key there as it is, also with
characters that no XML can carry: the answer then cannot be parsed at all. None of it is needed.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Without a key there is nothing to go on from; the last upload of a page serves as well.
_OF_UPLOADS = re.compile(
    rb"<(NextKeyMarker|KeyMarker|Prefix)>.*?</\1>|<(?:NextKeyMarker|KeyMarker|Prefix)\s*/>",
    re.DOTALL,
)
_OF_PARTS = re.compile(rb"<Key>.*?</Key>", re.DOTALL)


def leave_out_echoes(client: S3Client) -> None:
    """Let this client's answers be parsed without what they repeat; a second call does nothing."""
    # botocore asks handlers of these names before those of `s3.*`, one of which parses every body.
    for operation, handler in (
        ("ListMultipartUploads", _without_markers),
        ("ListParts", _without_key),
    ):
        client.meta.events.register_first(
            f"before-parse.*.{operation}", handler, unique_id=f"filejobs-{operation}"
        )


def _without_markers(response_dict: dict[str, Any], **_event: object) -> None:
    _leave_out(_OF_UPLOADS, response_dict)


def _without_key(response_dict: dict[str, Any], **_event: object) -> None:
    _leave_out(_OF_PARTS, response_dict)


def _leave_out(echoes: re.Pattern[bytes], response_dict: dict[str, Any]) -> None:
    # An answer that is an error may carry a key that says which; it is read as it is.
    if response_dict["status_code"] == HTTPStatus.OK:
        response_dict["body"] = echoes.sub(b"", response_dict["body"])
