"""The server around the app, and what it opens."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from filejobs_dagster.orchestration.launching import CodeUnavailable, opened_place
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.settings import SettingsError, known_secrets, load_settings
from filejobs_dagster.text import sanitize, sanitize_exception
from filejobs_dagster.trigger.app import build_app
from filejobs_dagster.trigger.reporting import Reporter
from filejobs_dagster.trigger.starting import Starter
from filejobs_dagster.trigger.tokens import KnownTokens

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    import dagster as dg
    from starlette.types import ASGIApp

    from filejobs_dagster.settings import Settings, TriggerSettings
    from filejobs_dagster.trigger.app import Describe

# HTTP/1.1 that does not wait for ever: what a caller without a token may cost is bounded in time.
#
# uvicorn closes a connection that is idle between two requests. One that never sends a whole
# head, or that goes on sending the body of a request which was answered long ago, it keeps; so
# few as its limit of connections would shut everybody else out, without a token and for as long
# as they like. So would one that opens them faster than they are closed: of too many the oldest
# gives way.

HEAD_WITHIN = 5.0
"""Seconds from the opening of a connection, or from the last answer, to the next whole head."""

MOST_WAITING = 128
"""Connections that have nothing to be answered; the oldest gives way to one more."""

MOST_WAITING_OF_ONE = 32
"""The same of one address."""


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which closes a connection that has nothing to be answered for long.

    Attributes:
        fuse: Closes it in the end; None while something is being answered.
    """

    fuse: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head; whoever waits the longest gives way when there are too many."""
        super().connection_made(transport)
        self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a head is complete; a part of one, or of a body, is no reason to."""
        super().data_received(data)
        if self._is_answering():
            self.put_out()

    def on_response_complete(self) -> None:
        """Wait for the next head, unless it was sent together with the last."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.put_out()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        waiting = [
            (fuse.when(), other)
            for other in self.connections
            if isinstance(other, ImpatientProtocol) and (fuse := other.fuse) is not None
        ]
        waiting.sort(key=lambda each: each[0])
        of_one = [each for each in waiting if each[1].address() == self.address()]
        for crowd, most in ((of_one, MOST_WAITING_OF_ONE), (waiting, MOST_WAITING)):
            for _, oldest in crowd[: max(0, len(crowd) + 1 - most)]:
                oldest.put_out()
                oldest.transport.abort()

    def address(self) -> str | None:
        """Where it comes from."""
        return None if self.client is None else self.client[0]

    def _is_answering(self) -> bool:
        # Before the first request there is no cycle, whatever its type says.
        return bool(self.cycle) and not self.cycle.response_complete

    def _watch(self) -> None:
        self.put_out()
        if not self._is_answering() and not self.transport.is_closing():
            self.fuse = self.loop.call_later(HEAD_WITHIN, self.transport.close)

    def put_out(self) -> None:
        """Wait no longer."""
        if self.fuse is not None:
            self.fuse.cancel()
            self.fuse = None


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
