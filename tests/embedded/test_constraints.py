"""constraints.txt pins everything exactly and names no package index."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import pytest
import tomli
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
SUPPORTED = ("3.10", "3.11", "3.12", "3.13")
INSTALLED_BY_VENV = {"pip", "setuptools"}


def pins() -> list[Requirement]:
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def declared() -> list[Requirement]:
    project = tomli.loads((CHECKOUT / "pyproject.toml").read_text())
    groups = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return [Requirement(text) for group in groups for text in group]


def environment(python: str) -> dict[str, str]:
    here = {name: str(value) for name, value in default_environment().items()}
    return {
        **here,
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }


def applicable(python: str) -> dict[str, str]:
    where = environment(python)
    found: dict[str, str] = {}
    for pin in pins():
        if pin.marker is None or pin.marker.evaluate(where):
            name = canonicalize_name(pin.name)
            assert name not in found, f"{name} has two versions on Python {python}"
            found[name] = next(iter(pin.specifier)).version
    return found


def test_every_line_is_one_exact_version_and_no_address() -> None:
    assert len(pins()) > 100
    for pin in pins():
        assert pin.url is None
        assert [part.operator for part in pin.specifier] == ["=="], str(pin)
        assert "*" not in str(pin.specifier)
    text = (CHECKOUT / "constraints.txt").read_text()
    assert not re.search(r"://|index-url|find-links|trusted-host", text)


@pytest.mark.parametrize("python", SUPPORTED)
def test_everything_that_pyproject_asks_for_is_pinned_within_its_bounds(python: str) -> None:
    versions = applicable(python)
    assert len(declared()) > 20
    for requirement in declared():
        if requirement.marker is not None and not requirement.marker.evaluate(environment(python)):
            continue
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is not pinned for Python {python}: run make constraints"
        assert requirement.specifier.contains(versions[name]), f"{requirement} and {versions[name]}"


def test_sqlalchemy_stays_below_the_release_that_dagster_cannot_use() -> None:
    for python in SUPPORTED:
        assert applicable(python)["sqlalchemy"].startswith("2.0.")


def test_what_dagster_needs_of_its_own_has_the_same_release() -> None:
    for python in SUPPORTED:
        versions = applicable(python)
        family = ("dagster", "dagster-graphql", "dagster-pipes", "dagster-webserver")
        assert len({versions[name] for name in family}) == 1


def test_nothing_unpinned_is_needed_by_what_is_installed() -> None:
    pinned = {canonicalize_name(pin.name) for pin in pins()} | INSTALLED_BY_VENV
    unpinned = set()
    pending = {canonicalize_name(requirement.name) for requirement in declared()}
    seen: set[str] = set()
    known = {canonicalize_name(found.name): found for found in distributions() if found.name}
    while pending:
        name = pending.pop()
        seen.add(name)
        if name not in pinned:
            unpinned.add(name)
        for text in (known[name].requires or []) if name in known else []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending |= {canonicalize_name(requirement.name)} - seen
    assert unpinned == set()


def test_a_pin_is_what_an_installation_gets() -> None:
    try:
        installed = version("dagster")
    except PackageNotFoundError:
        pytest.fail("dagster is not installed: run make test")
    assert installed == applicable("3.11")["dagster"]
