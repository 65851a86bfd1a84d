"""The S3 client that every job uses, and whether the bucket can be used at all."""

from __future__ import annotations

import base64
import copy
import functools
import hashlib
from datetime import datetime, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, Protocol, cast

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)

from filejobs_dagster.objects.errors import BucketUnavailable, described, status_of

if TYPE_CHECKING:
    import botocore.session
    from botocore.awsrequest import AWSRequest
    from botocore.hooks import HierarchicalEmitter
    from botocore.loaders import Loader
    from mypy_boto3_s3 import S3Client

__all__ = [
    "BucketAccess",
    "BucketUnavailable",
    "check_access",
    "make_client",
    "read_versioning",
    "timestamp",
]

USER_AGENT = "filejobs_dagster"
SECONDS_TO_CONNECT = 10
SECONDS_TO_READ = 60
CONNECTIONS = 32


class RevealsSecret(Protocol):
    """A secret that gives its value only when asked."""

    def reveal(self) -> str:
        """Return the value."""
        ...


class BucketAccess(Protocol):
    """How to reach a bucket: part of what `filejobs.yaml` says under `buckets`."""

    @property
    def bucket(self) -> str:
        """The bucket's name on the server."""
        ...

    @property
    def endpoint_url(self) -> str | None:
        """The server's address, None for AWS."""
        ...

    @property
    def region(self) -> str | None:
        """The region, None to let botocore find it."""
        ...

    @property
    def access_key_id(self) -> RevealsSecret | None:
        """The access key, None to let botocore find credentials."""
        ...

    @property
    def secret_access_key(self) -> RevealsSecret | None:
        """The secret that belongs to the access key."""
        ...

    @property
    def session_token(self) -> RevealsSecret | None:
        """The token of temporary credentials."""
        ...

    @property
    def addressing(self) -> Literal["auto", "path", "virtual"]:
        """Where the bucket's name goes: into the path or into the host."""
        ...

    @property
    def content_md5(self) -> bool:
        """Whether DeleteObjects carries Content-MD5 instead of a CRC."""
        ...

    @property
    def max_attempts(self) -> int:
        """How often one request is tried."""
        ...


Versioning = Literal["off", "enabled", "suspended", "unknown"]


def make_client(bucket: BucketAccess) -> S3Client:
    """Make a client for one bucket. It may be shared by threads; nothing is sent yet.

    Raises:
        BucketUnavailable: The address or the region is not one that a client can be made for.
    """
    # Loading definitions needs this module and never a client, whose libraries would be a quarter
    # of what our definitions add to every start of Dagster's processes.
    import boto3.session  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    # A session of its own: credentials and configuration are read anew for each client.
    core = Session(event_hooks=copy.copy(_hooks()), include_builtin_handlers=False)
    session = boto3.session.Session(botocore_session=core)
    # Not before: boto3 adds a path of its own to the reader that it finds, once a session.
    core.register_component("data_loader", _descriptions(core.get_config_variable("data_path")))
    # Most of a listing's time goes into botocore's parser of timestamps; this one is five times
    # as fast, by the hook that the AWS command line uses.
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    checksums: Literal["when_required", "when_supported"] = (
        "when_required" if bucket.content_md5 else "when_supported"
    )
    try:
        client = session.client(
            "s3",
            endpoint_url=bucket.endpoint_url,
            region_name=bucket.region or _region_for(bucket, core),
            aws_access_key_id=_value(bucket.access_key_id),
            aws_secret_access_key=_value(bucket.secret_access_key),
            aws_session_token=_value(bucket.session_token),
            config=Config(
                retries={"mode": "standard", "total_max_attempts": bucket.max_attempts},
                connect_timeout=SECONDS_TO_CONNECT,
                read_timeout=SECONDS_TO_READ,
                tcp_keepalive=True,
                max_pool_connections=CONNECTIONS,
                user_agent_extra=USER_AGENT,
                s3={"addressing_style": bucket.addressing},
                request_checksum_calculation=checksums,
                response_checksum_validation=checksums,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise BucketUnavailable(
            f"No client can be made for bucket {bucket.bucket!r}: {described(error)}. "
            "Check endpoint_url (with http:// or https://), region and the two keys."
        ) from error
    if bucket.content_md5:
        client.meta.events.register("before-sign.s3.DeleteObjects", _md5_instead_of_crc)
    return client


def check_access(client: S3Client, bucket: str) -> None:
    """Ask whether the bucket can be used (HEAD, and a listing of one key to learn why not).

    Raises:
        BucketUnavailable: It cannot; the message says what was found and what to do.
    """
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if status_of(error) not in {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN}:
            raise _unavailable(client, bucket, error) from error
        _learn_why(client, bucket)
    except Exception as error:
        raise _unavailable(client, bucket, error) from error


def read_versioning(client: S3Client, bucket: str) -> Versioning:
    """Ask whether the bucket keeps old versions, in which case a simple delete frees nothing.

    Returns:
        `unknown` when the server does not say, for instance because the right to ask is missing.

    Raises:
        BucketUnavailable: No request reaches the bucket.
    """
    try:
        answer = client.get_bucket_versioning(Bucket=bucket)
    except ClientError as error:
        if described(error).code == "NoSuchBucket":
            raise _unavailable(client, bucket, error) from error
        return "unknown"
    except Exception as error:
        raise _unavailable(client, bucket, error) from error
    # A bucket that never kept versions has no status at all, whatever the type says.
    word = str(answer.get("Status", "off")).lower()
    return cast("Versioning", word) if word in {"off", "enabled", "suspended"} else "unknown"


def timestamp(value: str | float) -> datetime:
    """Read a timestamp of a response; always with a time zone.

    `fromisoformat` reads what listings hold; HTTP dates and numbers go botocore's slower way.
    """
    text = str(value)
    try:
        # Python 3.10 does not know the letter Z.
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        from botocore.utils import parse_timestamp  # noqa: PLC0415 (see make_client)

        read = parse_timestamp(text)
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)


@functools.lru_cache(maxsize=1)
def _descriptions(data_path: str | None) -> Loader:
    """Return the process's one reader of S3's description: reading it is nine tenths of a client.

    Args:
        data_path: Where else botocore is told to look (AWS_DATA_PATH).
    """
    from botocore.loaders import create_loader  # noqa: PLC0415 (see make_client)

    return create_loader(data_path)


@functools.lru_cache(maxsize=1)
def _hooks() -> HierarchicalEmitter:
    """Return botocore's own hooks, to be copied: registering them is half of a session."""
    from botocore.hooks import HierarchicalEmitter  # noqa: PLC0415 (see make_client)
    from botocore.session import Session  # noqa: PLC0415

    hooks = HierarchicalEmitter()
    Session(event_hooks=hooks)
    return hooks


def _region_for(bucket: BucketAccess, core: botocore.session.Session) -> str | None:
    """A server that is not AWS needs some region to sign with, and most accept this one."""
    found = core.get_config_variable("region")
    if found is None and bucket.endpoint_url is not None:
        return "us-east-1"
    return cast("str | None", found)


def _value(secret: RevealsSecret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _md5_instead_of_crc(request: AWSRequest, **_event: object) -> None:
    """Sign DeleteObjects with the checksum that servers from before 2023 insist on."""
    for name in list(request.headers.keys()):
        if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum-algorithm")):
            del request.headers[name]
    # botocore writes the XML of an operation as bytes.
    body = cast("bytes", request.data)
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


def _learn_why(client: S3Client, bucket: str) -> None:
    """HEAD has no body, so the reason of a 400 or 403 is in the answer to another request."""
    try:
        client.list_objects_v2(Bucket=bucket, MaxKeys=1)
    except Exception as error:
        raise _unavailable(client, bucket, error) from error


def _unavailable(client: S3Client, bucket: str, error: Exception) -> BucketUnavailable:
    address = client.meta.endpoint_url
    found = described(error)
    return BucketUnavailable(
        f"Bucket {bucket!r} at {address} cannot be used: {found}. {_advice(error, found.code)}"
    )


def _advice(error: Exception, code: str) -> str:
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return (
            "No complete credentials were found: set access_key_id and secret_access_key, or run "
            "where botocore's own chain finds some."
        )
    if isinstance(error, HTTPClientError):
        return "Check endpoint_url, that the server runs, TLS certificates, and firewalls between."
    if not isinstance(error, ClientError):
        return "Check endpoint_url and the bucket's name."
    status = status_of(error)
    for codes, statuses, advice in _ADVICE:
        if code in codes or status in statuses:
            return advice
    return "See the server's own log for the reason."


_ADVICE: tuple[tuple[frozenset[str], frozenset[int], str], ...] = (
    (
        frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}),
        frozenset(),
        "The temporary credentials are over: renew them, or use ones that renew themselves.",
    ),
    (
        frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"}),
        frozenset({HTTPStatus.UNAUTHORIZED}),
        (
            "The server does not know the access key, or the secret does not belong to it: check "
            "the variables that hold them."
        ),
    ),
    (
        frozenset({"RequestTimeTooSkewed"}),
        frozenset(),
        "This machine's clock is wrong: set it (NTP).",
    ),
    (
        frozenset({"NoSuchBucket"}),
        frozenset({HTTPStatus.NOT_FOUND}),
        (
            "There is no bucket of that name at this address: check bucket, endpoint_url, and "
            "whether the server wants `addressing: path`."
        ),
    ),
    (
        frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"}),
        frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT}),
        "The bucket is in another region: set region to the one where it is.",
    ),
    (
        frozenset({"AccessDenied", "AllAccessDisabled"}),
        frozenset({HTTPStatus.FORBIDDEN}),
        (
            "The credentials are valid and may not use this bucket: they need s3:ListBucket on the "
            "bucket, and s3:GetObject and s3:DeleteObject on its objects."
        ),
    ),
    (
        frozenset({"SlowDown", "ServiceUnavailable"}),
        frozenset({HTTPStatus.SERVICE_UNAVAILABLE}),
        "The server is overloaded or starting: wait, and try again.",
    ),
)
