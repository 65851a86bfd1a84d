"""HTTP/1.1 that does not wait for ever: what a caller without a token may cost is bounded in time.

uvicorn closes a connection that is idle between two requests. One that never sends a whole head,
or that goes on sending the body of a request which was answered long ago, it keeps; so few as its
limit of connections would shut everybody else out, without a token and for as long as they like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_WITHIN = 5.0
"""Seconds from the opening of a connection, or from the last answer, to the next whole head."""


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which closes a connection that has nothing to be answered for long."""

    _fuse: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a head is complete; a part of one, or of a body, is no reason to."""
        super().data_received(data)
        if self._is_answering():
            self._put_out()

    def on_response_complete(self) -> None:
        """Wait for the next head, unless it was sent together with the last."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._put_out()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        # Before the first request there is no cycle, whatever its type says.
        return bool(self.cycle) and not self.cycle.response_complete

    def _watch(self) -> None:
        self._put_out()
        if not self._is_answering() and not self.transport.is_closing():
            self._fuse = self.loop.call_later(HEAD_WITHIN, self.transport.close)

    def _put_out(self) -> None:
        if self._fuse is not None:
            self._fuse.cancel()
            self._fuse = None
