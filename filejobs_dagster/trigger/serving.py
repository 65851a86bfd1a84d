"""The server around the app, and what it opens."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import uvicorn

from filejobs_dagster.ledger.sanitize import sanitize, sanitize_exception
from filejobs_dagster.orchestration.launching import CodeUnavailable, opened_place
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.settings import SettingsError, known_secrets, load_settings
from filejobs_dagster.trigger.app import build_app
from filejobs_dagster.trigger.connections import ImpatientProtocol
from filejobs_dagster.trigger.reporting import Reporter
from filejobs_dagster.trigger.starting import Starter
from filejobs_dagster.trigger.tokens import KnownTokens

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg
    from starlette.types import ASGIApp

    from filejobs_dagster.settings import Settings, TriggerSettings
    from filejobs_dagster.trigger.app import Describe

LONGEST_HEAD = 16_384
"""Bytes of a request's line and headers."""

MOST_CONNECTIONS = 256
"""Whoever is not served soon is closed, see `connections`; so these are many."""

PATIENCE = 30
"""Seconds for requests that are being answered when the server is told to stop."""

_TEACHING = (CodeUnavailable, DatabaseUnavailable, SettingsError)
"""Errors whose own message says what was tried, what was found and what to do."""


def serve_trigger(
    instance: dg.DagsterInstance,
    settings: Settings,
    trigger: TriggerSettings,
    *,
    config: Path | None,
    workspace: Path,
    host: str,
    port: int,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        instance: Where runs are kept.
        settings: As they are at the start; each request reads them again.
        trigger: Their section of that name.
        config: The settings file, or None for what FILEJOBS_CONFIG names.
        workspace: The file that Dagster's daemon uses.
        host: The address to listen on; the caller has made sure that it may.
        port: Its port.

    Raises:
        OSError: The address cannot be listened on.
    """
    _log_to_standard_error()
    with opened_place(instance, settings.installation, workspace) as place:
        starter = Starter(place, lambda: load_settings(config))
        reporter = Reporter(lambda: load_settings(config))
        app = build_app(KnownTokens(trigger), starter.start, _describing(settings), reporter.report)
        server_of(app, host, port).run()


def server_of(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """The server, bounded, silent about what it is, and without an access log of its own."""
    # It would print query strings, in which somebody may have put a token.
    logging.getLogger("uvicorn.access").disabled = True
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=PATIENCE,
            log_config=None,
            ws="none",
            http=ImpatientProtocol,
        )
    )


def _describing(settings: Settings) -> Describe:
    secrets = known_secrets(settings)

    def describe(error: Exception) -> str:
        if isinstance(error, _TEACHING):
            return sanitize(str(error), known=secrets)
        return sanitize_exception(error, known=secrets)

    return describe


def _log_to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("filejobs.trigger", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
