"""Sending one message to one destination by apprise; who is told; and the heartbeat's address.

apprise's own words never leave this module: they name hosts, and the parts of a URL are tokens.
What went wrong is said in words from a closed list.
"""

from __future__ import annotations

import re
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from filejobs_dagster.alerts.digest import Digest, Severity
    from filejobs_dagster.settings import AlertsSettings

NOT_A_URL = "its URL is none that apprise understands; look at its variable"
SEVERAL = "its variable holds several URLs; give each a destination of its own"
UNREACHED = "it could not be reached in time"
NO_ANSWER = "it did not answer in time"
REFUSED = "it did not take the message"
NOT_INSTALLED = "apprise is not installed here; install the package with its dependencies"

_STATUS = re.compile(r"error=(\d{3})\b")
_UNREACHABLE = re.compile(r"connection error|socket|timed? ?out", re.IGNORECASE)


class NotSent(Exception):
    """The destination did not take the message. The text is from a closed list."""


def send(url: str, digest: Digest, timeout: float) -> None:
    """Send, and wait for the destination's answer for at most `timeout` seconds.

    Args:
        url: apprise's URL of one service.
        digest: What to say.
        timeout: In seconds.

    Raises:
        NotSent: It was not taken, or it is not known whether it was.
    """
    # apprise has no limit of its own over a whole call that all its plug-ins keep; a thread that
    # hangs is left behind, and dies with the process.
    answers: SimpleQueue[str | None] = SimpleQueue()
    worker = threading.Thread(
        target=_answer, args=(url, digest, timeout, answers), name="filejobs alert", daemon=True
    )
    worker.start()
    try:
        reason = answers.get(timeout=timeout)
    except Empty:
        reason = NO_ANSWER
    if reason is not None:
        raise NotSent(reason)


def mistake_in(url: str) -> str | None:
    """Why a message to this URL could never be sent, or None. Nothing is sent."""
    try:
        import apprise  # noqa: PLC0415 (a third of a second, which only sending should wait for)
    except ImportError:
        return NOT_INSTALLED
    services = apprise.Apprise()
    try:
        understood = services.add(url)
    except Exception as error:  # noqa: BLE001 (a plug-in's fault; its words may quote the URL)
        return f"{NOT_A_URL} ({type(error).__name__})"
    if not understood or not len(services):
        return NOT_A_URL
    return SEVERAL if len(services) > 1 else None


def _answer(url: str, digest: Digest, timeout: float, answers: SimpleQueue[str | None]) -> None:
    try:
        answers.put(_tried(url, digest, timeout))
    except BaseException as error:  # noqa: BLE001 (whatever a plug-in does, the outbox goes on)
        answers.put(f"{REFUSED} ({type(error).__name__})")


def _tried(url: str, digest: Digest, timeout: float) -> str | None:
    mistake = mistake_in(url)
    if mistake is not None:
        return mistake
    import apprise  # noqa: PLC0415 (see mistake_in)

    services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="filejobs"))
    services.add(url)
    markdown = _takes_markdown(services[0], apprise.NotifyFormat.MARKDOWN)
    result = services.notify(
        title=digest.subject,
        body=digest.markdown if markdown else digest.text,
        body_format=apprise.NotifyFormat.MARKDOWN if markdown else apprise.NotifyFormat.TEXT,
        notify_type=_type_of(digest, apprise),
        timeout=timeout,
    )
    return None if result else _reason(result)


def _takes_markdown(service: Any, markdown: Any) -> bool:
    """Whether a service shows Markdown first; one that takes everything gets plain text."""
    formats = service.notify_format
    first = formats[0] if isinstance(formats, tuple | list) else formats
    return bool(first == markdown)


def _type_of(digest: Digest, apprise: Any) -> Any:
    kinds = {None: "SUCCESS", "warning": "WARNING", "critical": "FAILURE"}
    return apprise.NotifyType[kinds[digest.severity]]


def _reason(result: Any) -> str:
    said = " ".join(str(entry.message) for entry in result.logs())
    status = _STATUS.search(said)
    if status is not None:
        return f"it answered {status[1]}"
    timed_out = any(each.status.name == "TIMEOUT" for each in result)
    if timed_out:
        return NO_ANSWER
    return UNREACHED if _UNREACHABLE.search(said) else REFUSED


def complain(text: str) -> None:
    """Say on standard error what must not stop anything. The caller has taken the secrets out."""
    sys.stderr.write(f"filejobs: {text}\n")


# Who is told, without anything of where that is but for the one call that sends.

BOTH: frozenset[Severity] = frozenset({"warning", "critical"})


@dataclass(frozen=True)
class Destination:
    """Somebody who is told.

    Attributes:
        name: How it is called wherever it is shown.
        url: apprise's URL; a secret, all of it.
        severities: Which alerts it gets.
    """

    name: str
    url: str = field(repr=False)
    severities: frozenset[Severity] = BOTH


def destinations_of(alerts: AlertsSettings) -> tuple[Destination, ...]:
    """The destinations of the settings, in their order."""
    return tuple(
        Destination(each.name, each.url.reveal().strip(), frozenset(each.severities))
        for each in alerts.to
    )


# The dead man's switch: a URL that is asked for while all is well, and no longer.

TIMEOUT = 5.0
"""Seconds; a tick has sixty, and alerts come first."""

NOT_A_HEARTBEAT = "the heartbeat's variable holds no http or https URL"


def beat(url: str, timeout: float = TIMEOUT) -> str | None:
    """Ask for the URL once.

    Returns:
        None when it answered with success, else why not, without any part of the URL.
    """
    if mistake_in_heartbeat(url) is not None:
        return NOT_A_HEARTBEAT
    request = urllib.request.Request(  # noqa: S310 (http and https only, see above)
        url, headers={"User-Agent": "filejobs"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            answer.read(1)
    except urllib.error.HTTPError as error:
        return f"the heartbeat's URL answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        # urllib's own words may quote the URL.
        return f"the heartbeat's URL could not be reached ({type(error).__name__})"
    return None


def mistake_in_heartbeat(url: str) -> str | None:
    """Why this URL could never be asked for, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return NOT_A_HEARTBEAT
    del port
    return None if parts.scheme in {"http", "https"} and parts.hostname else NOT_A_HEARTBEAT
