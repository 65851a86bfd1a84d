"""A thread that goes on only when it is let through, and that can be killed where it stands."""

from __future__ import annotations

import threading

SECONDS = 30.0


class Killed(BaseException):
    """The process is dead: nothing of it may go on."""


class Turnstile:
    """Where a thread waits for its next step.

    One thread works and arrives at named points; another one, the schedule, lets it through to
    its next point.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._worker: int | None = None
        self._may_pass = 0
        self._killed = False
        self._through = False
        self.point: str | None = None
        self.ended = False

    # The worker's side ------------------------------------------------------------------------

    def belongs_to_me(self) -> None:
        """Say that the calling thread is the one that works."""
        self._worker = threading.get_ident()

    def arrive(self, point: str) -> None:
        """Wait here until let through; other threads than the worker just pass.

        Raises:
            Killed: The process died here.
        """
        if threading.get_ident() != self._worker:
            return
        with self._changed:
            if self._killed:
                raise Killed
            if self._through:
                return
            self.point = point
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._may_pass > 0 or self._killed, 2 * SECONDS)
            if self._killed:
                raise Killed
            self._may_pass -= 1
            self.point = None

    def end(self) -> None:
        """Say that the work is over."""
        with self._changed:
            self.ended = True
            self.point = None
            self._changed.notify_all()

    # The schedule's side ----------------------------------------------------------------------

    def wait(self, seconds: float = SECONDS) -> bool:
        """Wait until the worker stands at a point or is over; False when it does neither."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended or self._stands(), seconds)

    def _stands(self) -> bool:
        return self.point is not None and not self._may_pass

    def release(self) -> None:
        """Let the worker through its present point, without waiting for the next."""
        with self._changed:
            if self.point is not None:
                self._may_pass += 1
                self._changed.notify_all()

    def open(self) -> None:
        """Let the worker through every further point."""
        with self._changed:
            self._through = True
            self._may_pass += 1
            self._changed.notify_all()

    def kill(self) -> None:
        """Let it die at its present point, or at the next."""
        with self._changed:
            self._killed = True
            self._changed.notify_all()
