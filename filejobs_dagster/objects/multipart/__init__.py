"""Multipart uploads that nobody finished: bytes that no listing of objects shows.

`list_uploads` and `list_parts` only read. Aborting is a deletion of bytes, so it is the gate's:
`Gate.abort`.
"""

from filejobs_dagster.objects.multipart.listing import MultipartUpload, list_uploads
from filejobs_dagster.objects.multipart.parts import (
    Aborted,
    AbortFate,
    Parts,
    PartsUnknown,
    list_parts,
)

__all__ = [
    "AbortFate",
    "Aborted",
    "MultipartUpload",
    "Parts",
    "PartsUnknown",
    "list_parts",
    "list_uploads",
]
