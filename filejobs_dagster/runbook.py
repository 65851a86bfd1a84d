"""The one place that makes links into the page of what to do: it is red, what now."""

from __future__ import annotations

import re

PAGE = "docs/runbook.md"

CHECKS = (
    "python",
    "packages",
    "settings",
    "jobs",
    "alerts",
    "heartbeat",
    "database",
    "migrations",
    "privileges",
    "your tables",
    "schema rights",
    "installations",
    "primary",
    "standbys",
    "pooler",
    "dagster",
    "bucket",
    "named elsewhere",
    "probe",
    "door",
    "reservations",
    "deleted_files",
    "deleted rows",
    "derived",
    "retention",
    "multipart_uploads",
    "audit privileges",
    "audit writers",
    "audit key",
    "audit public keys",
    "audit",
)
"""What `filejobs doctor` looks at: a finding's name is one of these, or begins with it."""

OWN = "own check"
"""A finding of a job that this project does not know."""

RUNNING = "already running"
"""Why a run is refused that no guard has refused."""

_GUARD = "door "
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def of_condition(kind: str) -> str:
    """The link for an alert of this kind, or for a standing of this word."""
    return _link(kind)


def of_refusal(what: str) -> str:
    """The link for what refuses a live run: a guard's name, or a class of its error's."""
    return _link(f"refused {_HUMP.sub(' ', what)}")


def of_finding(check: str) -> str:
    """The link for a finding of the doctor, by the name of its check."""
    if check.startswith(_GUARD):
        return of_refusal(check.removeprefix(_GUARD))
    # The longest: `audit key` begins with `audit`, too.
    fitting = [known for known in CHECKS if f"{check} ".startswith(f"{known} ")]
    return _link(f"doctor {max(fitting, key=len, default=OWN)}")


def _link(name: str) -> str:
    return f"{PAGE}#{_NOT_IN_A_NAME.sub('-', name.lower())}"
