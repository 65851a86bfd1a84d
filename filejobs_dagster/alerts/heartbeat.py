"""The dead man's switch: a URL that is asked for while all is well, and no longer."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

TIMEOUT = 5.0
"""Seconds; a tick has sixty, and alerts come first."""

NO_URL = "the heartbeat's variable holds no http or https URL"


def beat(url: str, timeout: float = TIMEOUT) -> str | None:
    """Ask for the URL once.

    Returns:
        None when it answered with success, else why not, without any part of the URL.
    """
    if mistake_in(url) is not None:
        return NO_URL
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


def mistake_in(url: str) -> str | None:
    """Why this URL could never be asked for, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return NO_URL
    del port
    return None if parts.scheme in {"http", "https"} and parts.hostname else NO_URL
