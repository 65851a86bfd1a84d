"""HTTP/1.1 that does not wait for ever: what a caller without a token may cost is bounded in time.

uvicorn closes a connection that is idle between two requests. One that never sends a whole head,
or that goes on sending the body of a request which was answered long ago, it keeps; so few as its
limit of connections would shut everybody else out, without a token and for as long as they like.
So would one that opens them faster than they are closed: of too many the oldest gives way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

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
