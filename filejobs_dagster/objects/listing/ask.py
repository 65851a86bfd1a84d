"""Asks for one page: through botocore, except for its parser, which takes nine tenths of the time.

Addresses, signatures, credentials that renew themselves, proxies, certificates, redirects to
another region and retries all stay botocore's own. Right before it would parse a page of a listing
in this thread, the body is taken out, and an empty one is left to it.

The server's clock, by which it dates objects, is read from the answers.
"""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event

from filejobs_dagster.objects.errors import TRY_AGAIN, described, status_of
from filejobs_dagster.objects.listing.answer import Answer, read_answer
from filejobs_dagster.objects.listing.page import ListingFailed, ListingStopped, Spelling, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

# The storage server's clock, by which it dates objects.


def date_of(headers: Mapping[str, str]) -> datetime | None:
    """The time an answer was given, to the second; None when the server does not say."""
    text = headers.get("date")
    if text is None:
        return None
    try:
        read = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date in `-0000` has no zone in Python, and means UTC.
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)


def read_server_date(client: S3Client, bucket: str) -> datetime | None:
    """Ask the server for its time (HEAD of the bucket), before anything is listed.

    Returns:
        None when its answers have no date.

    Raises:
        ListingFailed: It does not answer.
    """
    try:
        answer = client.head_bucket(Bucket=bucket)
    except Exception as error:
        raise ListingFailed(
            f"Bucket {bucket!r} did not say what time it is: {described(error)}. "
            "See what `filejobs doctor` says of the bucket."
        ) from error
    return date_of(answer["ResponseMetadata"]["HTTPHeaders"])


MOST_KEYS = 1000
"""Of a page: the most that S3 gives."""

MOST_TRIES = 5
"""How often a page is asked for when the reason may pass; botocore's own tries come on top."""

BACK_OFF: wait_base = wait_random_exponential(multiplier=0.5, max=20)
"""Seconds between those tries: random up to 0.5, 1, 2, … so that threads do not move in step."""

# botocore asks handlers of this name before those of `s3.*`, one of which parses every body.
_EVENT = "before-parse.*.ListObjectsV2"
_NOTHING = b"<ListBucketResult/>"
_END = b"</ListBucketResult>"
_INCOMPLETE = (
    b"<Error><Code>InternalError</Code><Message>the body ended early: %d bytes of %s, "
    b"without the end of the listing</Message></Error>"
)


class _Taken(threading.local):
    """The body of this thread's request, when it is one of ours."""

    wanted = False
    body: bytes | None = None

    def begin(self) -> None:
        self.wanted, self.body = True, None

    def end(self) -> bytes | None:
        body = self.body
        self.wanted, self.body = False, None
        return body


_taken = _Taken()


class Asker:
    """Asks for pages of one bucket's listing; may be shared by threads.

    Attributes:
        server_date: What the first answer with a date said of the server's time.
        read_at: This machine's time when that answer came.
        stop: Set when nobody waits for answers any more; ends waits between tries.
    """

    def __init__(self, client: S3Client, bucket: str, *, wait: wait_base = BACK_OFF) -> None:
        """Prepare the client; nothing is sent."""
        self._client = client
        self._bucket = bucket
        self._wait = wait
        self.server_date: datetime | None = None
        self.read_at: datetime | None = None
        self.stop = threading.Event()
        client.meta.events.register_first(_EVENT, _take_body, unique_id="filejobs-listing")

    def ask(
        self,
        prefix: bytes,
        *,
        after: bytes | None = None,
        token: str | None = None,
        limit: int = MOST_KEYS,
        tries: int = MOST_TRIES,
    ) -> Answer:
        """Ask for one page.

        Args:
            prefix: What its keys begin with.
            after: The key, or what would be one, behind which the page begins.
            token: Of the page before, instead of `after`.
            limit: The most keys.
            tries: How often it is asked for when the reason of a failure may pass.

        Raises:
            ListingFailed: Storage refused, did not answer, or answered with something else.
            ListingStopped: `stop` was set.
            UnicodeDecodeError: A prefix or key that is no UTF-8 cannot be asked for.
        """
        request: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": prefix.decode(),
            "EncodingType": "url",
        }
        if limit != MOST_KEYS:
            request["MaxKeys"] = limit
        if token is not None:
            request["ContinuationToken"] = token
        elif after is not None:
            request["StartAfter"] = after.decode()
        answer = read_answer(self._body(request, prefix, tries))
        _require_prefix(answer, prefix)
        return answer

    def _body(self, request: dict[str, Any], prefix: bytes, tries: int) -> bytes:
        retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(tries),
            wait=self._wait,
            sleep=sleep_using_event(self.stop),
            reraise=True,
        )
        try:
            return retrying(self._send, request)
        except (ListingFailed, ListingStopped):
            raise
        except Exception as error:
            reason = str(described(error)).rstrip(".")
            raise ListingFailed(
                f"Bucket {self._bucket!r} was not listed: a page below {shown(prefix)} could not "
                f"be had: {reason}. Nothing was concluded from the other pages; see what "
                "`filejobs doctor` says of the bucket."
            ) from error

    def _send(self, request: dict[str, Any]) -> bytes:
        if self.stop.is_set():
            raise ListingStopped("The listing was stopped before it was complete.")
        _taken.begin()
        try:
            parsed = self._client.list_objects_v2(**request)
        finally:
            body = _taken.end()
        if body is None:
            raise ListingFailed(
                f"Bucket {self._bucket!r} was not listed: botocore did not hand over the answer as "
                "this version of filejobs expects. Install the versions of constraints.txt."
            )
        if self.server_date is None:
            self.server_date = date_of(parsed["ResponseMetadata"]["HTTPHeaders"])
            self.read_at = datetime.now(timezone.utc)
        return body


def _take_body(response_dict: dict[str, Any], **_event: object) -> None:
    """Take the body of a page, and make of an incomplete one an error that is tried again."""
    if not _taken.wanted or response_dict["status_code"] != 200:  # noqa: PLR2004
        return
    body: bytes = response_dict["body"]
    said = response_dict["headers"].get("content-length")
    end = body[-100:].rstrip()
    if b"<Error>" in body[:300] or b"<Error " in body[:300]:
        # botocore knows what to do with an error that comes as a success.
        return
    # A self-closing root has no end tag, and no entries.
    if not end.endswith((_END, b"ListBucketResult/>", b":ListBucketResult>")) or (
        said is not None and said.isdigit() and int(said) != len(body)
    ):
        response_dict["status_code"] = 500
        response_dict["body"] = _INCOMPLETE % (len(body), str(said).encode())
        return
    _taken.body = body
    response_dict["body"] = _NOTHING


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, ClientError):
        return described(error).code in TRY_AGAIN or status_of(error) >= 500  # noqa: PLR2004
    return isinstance(error, HTTPClientError)


def _require_prefix(answer: Answer, prefix: bytes) -> None:
    """An answer to another question would make everything else look absent."""
    echoed = answer.prefix
    # Some servers spell the echo for URLs, in one way or another, and some leave it as it is.
    if echoed is None or prefix in {it.read(echoed) for it in Spelling}:
        return
    raise ListingFailed(
        f"Asked for keys below {shown(prefix)}, the server says that it lists those below "
        f"{shown(echoed)}. A proxy between here and the server may have changed the request."
    )
