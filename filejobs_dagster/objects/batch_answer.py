"""What an answer to DeleteObjects says of each target: servers word it in many ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.objects.errors import CREDENTIALS_OVER, StorageError, storage_error

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef

    from filejobs_dagster.book.outcomes import Fate
    from filejobs_dagster.objects.targets import Target


class BatchAnswer:
    """An answer of 200, which says nothing yet: each key has its own success or error.

    Attributes:
        nameless: An error without its key, which any of the targets may have met.
    """

    def __init__(self, answer: DeleteObjectsOutputTypeDef) -> None:
        """Read it. Some servers leave Key out, and some VersionId."""
        self._refused = {
            (error.get("Key"), error.get("VersionId") or None): storage_error(
                error.get("Code"), error.get("Message")
            )
            for error in answer.get("Errors", [])
        }
        self._confirmed = {
            (entry.get("Key"), entry.get("VersionId") or None): entry.get("DeleteMarker", False)
            for entry in answer.get("Deleted", [])
        }
        self.nameless = self._refused.get((None, None))

    def refusal_of(self, target: Target) -> StorageError | None:
        """Why it was refused; an error weighs more than a success of the same key."""
        named = self._refused.get((target.key, target.version))
        return named or self._refused.get((target.key, None))

    def success_of(self, target: Target) -> Fate | None:
        """Deleted or marked; None where the answer does not name it."""
        marker = self._confirmed.get((target.key, target.version))
        return None if marker is None else target.fate_when_gone(marker=marker)

    def credentials_over(self) -> StorageError | None:
        """An error after which no request will succeed, if there is one."""
        return next((it for it in self._refused.values() if it.code in CREDENTIALS_OVER), None)
