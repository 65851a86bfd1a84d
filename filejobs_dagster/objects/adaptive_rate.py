"""How fast deletions are sent: as fast as the server takes them, and slower once it complains."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FASTEST = 3000.0
"""Keys a second. AWS takes about 3,500 writes a second for each prefix."""

SLOWEST = 5.0
"""Keys a second, below which it does not fall: what fails at that rate fails for good."""

SECONDS_UNTIL_FASTER = 30.0
"""Without a complaint for so long, the rate doubles again."""


class AdaptiveRate:
    """A rate that halves with each request that the server turns away. For one thread."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin at full speed.

        Args:
            clock: Seconds from any beginning.
            sleep: Waits for so many seconds.
        """
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        self._changed_at = clock()
        self._complained = False
        self.rate = FASTEST
        self.times_throttled = 0

    def pause(self, keys: int) -> None:
        """Wait until so many keys may be sent."""
        now = self._clock()
        if self.rate < FASTEST and now - self._changed_at >= SECONDS_UNTIL_FASTER:
            self.rate, self._changed_at = min(self.rate * 2, FASTEST), now
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + keys / self.rate
        self._complained = False

    def throttled(self) -> None:
        """Halve the rate, once for each request however many of its keys were turned away."""
        if self._complained:
            return
        self._complained = True
        self.times_throttled += 1
        self._changed_at = self._clock()
        self.rate = max(self.rate / 2, SLOWEST)
