"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from filejobs_dagster.runbook import of_finding

Verdict = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: What was looked at.
        verdict: `skipped` when something that it needs has failed.
        found: What was found, in a sentence without secrets.
        advice: What to do; empty when there is nothing to do.
        page: A link that says more than that of the check, or nothing.
    """

    check: str
    verdict: Verdict
    found: str
    advice: str = ""
    page: str = ""

    @property
    def see(self) -> str:
        """Where the pages say what to do; empty when there is nothing to do."""
        if self.verdict not in ("warning", "failed"):
            return ""
        return self.page or of_finding(self.check)


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, advice: str) -> Finding:
    """It works, and somebody should look."""
    return Finding(check, "warning", found, advice)


def failed(check: str, found: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check, "failed", found, advice)


def skipped(check: str, because: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, "skipped", because)
