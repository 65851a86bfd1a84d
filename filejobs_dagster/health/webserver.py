"""The webserver: the page that says its version."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

from filejobs_dagster.health.answer import no, yes

if TYPE_CHECKING:
    from datetime import timedelta

    from filejobs_dagster.health.answer import Answer

LONGEST_ANSWER = 10_000


def webserver(host: str, port: int, timeout: timedelta, path_prefix: str = "") -> Answer:
    """Ask a webserver for its version.

    Args:
        host: Its address.
        port: Its port.
        timeout: For connecting, and for each part of the answer.
        path_prefix: What `dagster-webserver --path-prefix` was given, such as `/dagster`.
    """
    where = f"webserver at {host}:{port}{path_prefix}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout.total_seconds())
    try:
        connection.request("GET", f"{path_prefix}/server_info")
        response = connection.getresponse()
        body = response.read(LONGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        return no(f"{where} does not answer: {type(error).__name__}: {error}")
    finally:
        connection.close()
    if response.status != http.client.OK:
        return no(f"{where} answers with status {response.status}")
    version = _version(body)
    if version is None:
        return no(f"{where} is something else: its /server_info names no version")
    return yes(f"{where} answers, version {version}")


def _version(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    version = said.get("dagster_webserver_version") if isinstance(said, dict) else None
    return version if isinstance(version, str) else None
