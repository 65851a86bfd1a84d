"""What object storage answers when it does not do as asked, in sentences without secrets."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError

from filejobs_dagster.text import Teaching, sanitize

LONGEST_REASON = 500

TOO_BUSY = frozenset(
    {
        "429",
        "503",
        "BandwidthLimitExceeded",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
"""Codes with which a server asks for fewer requests."""

CREDENTIALS_OVER = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
"""Codes after which no request will succeed until somebody renews the credentials."""

TRY_AGAIN = TOO_BUSY | frozenset(
    {
        "500",
        "502",
        "504",
        "ConditionalRequestConflict",
        "InternalError",
        "InternalServerError",
        "OperationAborted",
        "RequestTimeout",
    }
)
"""Codes after which the same request may succeed a moment later."""

_NOTHING_WAS_DONE = frozenset({"501"})

CONCERNS_EVERY_REQUEST = (
    TOO_BUSY
    | CREDENTIALS_OVER
    | frozenset(
        {
            "301",
            "307",
            "401",
            "AccountProblem",
            "AllAccessDisabled",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraintException",
            "NoSuchBucket",
            "NotSignedUp",
            "PermanentRedirect",
            "RequestTimeTooSkewed",
            "SignatureDoesNotMatch",
            "TemporaryRedirect",
        }
    )
)
"""Codes that say nothing of one key: the next key would meet the same answer."""

CONDITION_NOT_MET = frozenset({"412", "PreconditionFailed"})
"""Codes that say that the object is another one than the request named."""


class BucketUnavailable(Teaching):
    """The bucket cannot be used; the message says what was found and what to do."""


@dataclass(frozen=True)
class StorageError:
    """Why storage refused something, sanitised and bounded.

    Attributes:
        code: S3's own word (`AccessDenied`), an HTTP status, or the class of an exception.
        message: What came with it.
    """

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def storage_error(code: object, message: object) -> StorageError:
    """Build from what a server said of one key."""
    return StorageError(
        sanitize(str(code or "Unknown"), limit=100),
        sanitize(str(message or ""), limit=LONGEST_REASON),
    )


def described(error: BaseException) -> StorageError:
    """Describe an exception of the client."""
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        return storage_error(answer.get("Code"), answer.get("Message"))
    return storage_error(type(error).__name__, error)


def may_yet_be_done(error: StorageError) -> bool:
    """True when the server, or one behind a gateway, may still carry out what was asked for."""
    code = error.code
    is_server_error = len(code) == len("500") and code.isdecimal() and code.startswith("5")
    return code in TRY_AGAIN or (is_server_error and code not in _NOTHING_WAS_DONE)


def status_of(error: ClientError) -> int:
    """The HTTP status of the answer, 0 when there was none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def concerns_every_request(error: BaseException) -> bool:
    """True when the failure is not one key's: credentials, the bucket, throttling, the network."""
    if not isinstance(error, ClientError):
        return True
    return described(error).code in CONCERNS_EVERY_REQUEST or status_of(error) in {301, 307, 401}
