"""How the demo says that something went wrong."""

from __future__ import annotations


class DemoFailed(Exception):
    """A step could not be done.

    Attributes:
        tried: What was tried.
        found: What was found instead.
        advice: What to do next.
    """

    def __init__(self, tried: str, found: str, advice: str) -> None:
        super().__init__(f"Tried: {tried}\nFound: {found}\nDo:    {advice}")
        self.tried = tried
        self.found = found
        self.advice = advice
