"""Python and the packages."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_PYTHON = (3, 10)
DISTRIBUTION = "filejobs_dagster"

_INSTALL = "install the versions of constraints.txt: pip install -c constraints.txt ."
_PAIRED = ("dagster-postgres", "dagster-aws")
_LIBRARY_OFFSET = 16
"""dagster 1.N.M is released together with libraries 0.(N+16).M."""


def check_software() -> Iterator[Finding]:
    """Look at the version of Python and at every package that the project requires."""
    yield _python(sys.version_info[:3])
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield warning(
            "packages", f"{DISTRIBUTION} is not installed as a package", f"{_INSTALL} (or -e .)"
        )
        return
    problems = [*_unmet(required), *_unpaired()]
    if problems:
        yield failed("packages", "; ".join(problems), _INSTALL)
    else:
        shown = ("dagster", *_PAIRED, "sqlalchemy", "psycopg")
        versions = ", ".join(f"{name} {installed_version(name)}" for name in shown)
        yield ok("packages", versions)


def installed_version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def library_version_for(dagster: str) -> str | None:
    """The version of Dagster's libraries that belongs to a version of dagster itself."""
    parts = dagster.split(".")
    if len(parts) < 3 or parts[0] != "1" or not parts[1].isdigit():  # noqa: PLR2004
        return None
    return ".".join(["0", str(int(parts[1]) + _LIBRARY_OFFSET), *parts[2:]])


def _python(found: tuple[int, ...]) -> Finding:
    shown = ".".join(map(str, found))
    if found[:2] < OLDEST_PYTHON:
        return failed("python", f"Python {shown}", "use Python 3.10 or newer")
    return ok("python", f"Python {shown}")


def _unmet(required: list[str]) -> Iterator[str]:
    for text in required:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed_version(requirement.name)
        if version is None:
            yield f"{requirement.name} is not installed"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is {version} where {requirement.specifier} belongs"


def _unpaired() -> Iterator[str]:
    dagster = installed_version("dagster")
    expected = None if dagster is None else library_version_for(dagster)
    for name in _PAIRED:
        version = installed_version(name)
        if expected is not None and version is not None and version != expected:
            yield f"{name} {version} does not belong to dagster {dagster} ({expected} does)"
