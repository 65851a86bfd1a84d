"""Sends deletions and believes only what the server says of each key.

PRIVATE to the gate: nothing else in the package may delete objects. Use `Gate.delete`, which
proves first that a key is owned, unprotected and not referenced.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_random_exponential

from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.objects.deletion import (
    Deletion,
    DeletionStopped,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.errors import (
    TRY_AGAIN,
    StorageError,
    concerns_every_request,
    described,
    storage_error,
)
from filejobs_dagster.objects.keys import MOST_KEYS_PER_REQUEST, needs_single_delete
from filejobs_dagster.objects.measure import Absent, look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef
    from tenacity.wait import wait_base

MOST_TRIES = 4
"""How often a key is tried whose failure may pass; botocore's own tries come on top."""

BACK_OFF: wait_base = wait_random_exponential(multiplier=0.5, max=8)
"""Seconds between tries: random up to 0.5, 1, 2, … so that collectors do not move in step."""

GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
"""Codes that say there was no such object. A bare 404 is not enough: proxies send it, too."""

ONE_BAD_KEY = frozenset({"MalformedXML", "KeyTooLongError", "InvalidObjectName"})
"""Codes of a whole batch that one of its keys may have caused."""


class _Fate(Enum):
    DELETED = "deleted"
    MARKED = "marked"
    ALREADY_GONE = "already gone"
    FAILED = "failed"


def delete_objects(
    client: S3Client,
    bucket: str,
    keys: Sequence[str],
    *,
    before_request: Callable[[], None] = lambda: None,
    wait: wait_base = BACK_OFF,
) -> Deletion:
    """Delete objects, up to a thousand in a request, and say what became of each.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        keys: Exact keys. Repeated ones count once.
        before_request: Called right before every request that deletes, each of botocore's own
            tries included; an exception of it stops the deletion.
        wait: Between tries of keys whose failure may pass.

    Returns:
        Each key in exactly one group.

    Raises:
        StorageRejected: A whole request failed, also after botocore's own tries.
        ProofRefused: `before_request` raised.
    """
    return _Deleting(client, bucket, keys, before_request, wait).run()


class _Deleting:
    """One call of `delete_objects`: the fate of each key as it becomes known."""

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        keys: Sequence[str],
        before_request: Callable[[], None],
        wait: wait_base,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._keys = tuple(dict.fromkeys(keys))
        self._before_request = before_request
        self._wait = wait
        # One entry a key: a key cannot come to stand in two groups.
        self._fates: dict[str, tuple[_Fate, str]] = {}
        self._thread = threading.get_ident()
        self._passing: dict[str, str] = {}

    def run(self) -> Deletion:
        with self._proving_each_attempt():
            for chunk in _chunks([key for key in self._keys if not needs_single_delete(key)]):
                self._delete_chunk(chunk)
            for key in self._keys:
                if needs_single_delete(key):
                    self._delete_one(key)
        return self._deletion()

    @contextmanager
    def _proving_each_attempt(self) -> Iterator[None]:
        """Ask for the proof where botocore sends: its own retries are new requests, too."""
        events: Any = self._client.meta.events
        names = ("before-send.s3.DeleteObjects", "before-send.s3.DeleteObject")
        for name in names:
            events.register_first(name, self._prove)
        try:
            yield
        finally:
            for name in names:
                events.unregister(name, self._prove)

    # One by one -------------------------------------------------------------------------------

    def _delete_one(self, key: str) -> None:
        self._with_tries([key], self._ask_for_one)

    def _ask_for_one(self, keys: Sequence[str]) -> list[str]:
        (key,) = keys
        try:
            answer = self._client.delete_object(Bucket=self._bucket, Key=key)
        except ProofRefused:
            raise
        except (ParamValidationError, UnicodeError) as error:
            # An empty key, or one that is no UTF-8: S3 has no such key, and nothing was sent.
            self._settle(key, _Fate.FAILED, str(described(error)))
        except ClientError as error:
            if concerns_every_request(error):
                raise self._rejected(error) from error
            return self._consider(key, described(error))
        except Exception as error:
            raise self._rejected(error) from error
        else:
            self._settle(key, _Fate.MARKED if answer.get("DeleteMarker") else _Fate.DELETED)
        return []

    # In batches -------------------------------------------------------------------------------

    def _delete_chunk(self, chunk: Sequence[str]) -> None:
        if not all(chunk):
            # The empty key would make botocore refuse the whole batch.
            self._delete_one("")
            chunk = [key for key in chunk if key]
        self._with_tries(chunk, self._ask_for_batch)

    def _ask_for_batch(self, keys: Sequence[str]) -> list[str]:
        try:
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys]}
            )
        except ProofRefused:
            raise
        except ClientError as error:
            if described(error).code not in ONE_BAD_KEY:
                raise self._rejected(error) from error
            for key in keys:
                self._delete_one(key)
            return []
        except Exception as error:
            raise self._rejected(error) from error
        return self._read_answer(keys, answer)

    def _read_answer(self, keys: Sequence[str], answer: DeleteObjectsOutputTypeDef) -> list[str]:
        """Settle each key of the batch; return those whose failure may pass."""
        refused = {
            error.get("Key"): storage_error(error.get("Code"), error.get("Message"))
            for error in answer.get("Errors", [])
        }
        # Some servers leave Key out of their answer.
        confirmed = {entry.get("Key"): entry for entry in answer.get("Deleted", [])}
        again: list[str] = []
        unnamed: list[str] = []
        for key in keys:
            # An error weighs more than a success of the same key.
            if key in refused:
                again += self._consider(key, refused[key])
            elif key in confirmed:
                marked = confirmed[key].get("DeleteMarker", False)
                self._settle(key, _Fate.MARKED if marked else _Fate.DELETED)
            else:
                unnamed.append(key)
        return again + self._confirm(unnamed, refused.get(None))

    def _confirm(self, keys: Sequence[str], refused: StorageError | None) -> list[str]:
        """Look at keys that the answer did not name, instead of believing that all went well."""
        try:
            seen = look(self._client, self._bucket, keys)
        except StorageRejected as error:
            raise self._rejected(error.__cause__ or error) from error
        again: list[str] = []
        for key, sighting in seen.items():
            if isinstance(sighting, Absent):
                self._settle(key, _Fate.MARKED if sighting.delete_marker else _Fate.DELETED)
            elif refused is not None and refused.code in TRY_AGAIN:
                again += self._consider(key, refused)
            else:
                self._settle(key, _Fate.FAILED, f"unconfirmed: {_doubt(refused, sighting)}")
        return again

    # Common -----------------------------------------------------------------------------------

    def _with_tries(self, keys: Sequence[str], ask: Callable[[Sequence[str]], list[str]]) -> None:
        pending = list(keys)

        def once() -> list[str]:
            nonlocal pending
            pending = ask(pending) if pending else []
            return pending

        Retrying(
            stop=stop_after_attempt(MOST_TRIES),
            wait=self._wait,
            retry=retry_if_result(bool),
            retry_error_callback=lambda _state: None,
        )(once)
        for key in pending:
            reason = f"{self._passing[key]} (after {MOST_TRIES} tries)"
            self._settle(key, _Fate.FAILED, reason)

    def _prove(self, **_event: object) -> None:
        if threading.get_ident() != self._thread:
            # Another deletion on the same client: it has its own proof.
            return
        try:
            self._before_request()
        except Exception as error:
            raise self._stopped(
                ProofRefused,
                "Deleting stopped, because what must hold before bytes go was not proven: "
                + sanitize_exception(error),
            ) from error

    def _consider(self, key: str, error: StorageError) -> list[str]:
        """Settle a refused key, or return it when its failure may pass."""
        if error.code in TRY_AGAIN:
            self._passing[key] = str(error)
            return [key]
        fate = _Fate.ALREADY_GONE if error.code in GONE else _Fate.FAILED
        self._settle(key, fate, str(error))
        return []

    def _settle(self, key: str, fate: _Fate, reason: str = "") -> None:
        self._fates[key] = (fate, reason)

    def _rejected(self, error: BaseException) -> DeletionStopped:
        return self._stopped(
            StorageRejected,
            f"A whole request to delete was rejected by storage, in bucket {self._bucket!r}: "
            f"{described(error)}. {_advice(self._bucket, error)}",
        )

    def _stopped(self, kind: type[DeletionStopped], reason: str) -> DeletionStopped:
        return kind(
            reason,
            deleted_so_far=self._deletion(),
            unanswered=[key for key in self._keys if key not in self._fates],
        )

    def _deletion(self) -> Deletion:
        return Deletion(
            deleted=self._all(_Fate.DELETED),
            marked=self._all(_Fate.MARKED),
            already_gone=self._all(_Fate.ALREADY_GONE),
            failed={
                key: reason for key, (fate, reason) in self._fates.items() if fate is _Fate.FAILED
            },
        )

    def _all(self, wanted: _Fate) -> tuple[str, ...]:
        return tuple(key for key, (fate, _) in self._fates.items() if fate is wanted)


def _advice(bucket: str, error: BaseException) -> str:
    if described(error).code == "AccessDenied":
        # The doctor deletes nothing, and so cannot tell that this right is missing.
        return (
            f"Deleting needs s3:DeleteObject on the objects (arn:aws:s3:::{bucket}/*); Ceph asks "
            f"for it on the bucket itself (arn:aws:s3:::{bucket}), too, before it reads a batch."
        )
    return "See what `filejobs doctor` says of the bucket."


def _doubt(refused: StorageError | None, sighting: object) -> str:
    if refused is not None:
        return f"the answer did not name the key, and said {refused}"
    if isinstance(sighting, StorageError):
        return f"the answer did not name the key, and HEAD said {sighting}"
    return "the answer did not name the key, and its object is still there"


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), MOST_KEYS_PER_REQUEST):
        yield keys[start : start + MOST_KEYS_PER_REQUEST]
