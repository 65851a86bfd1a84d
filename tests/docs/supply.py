"""What the project is made of: a bill of materials of constraints.txt, and the licences in it.

`python -m tests.docs.supply` prints the bill, CycloneDX 1.6 as JSON, of what is installed.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import CHECKOUT

COMPATIBLE = {
    "Apache", "BSD", "CNRI-Python", "DFSG", "ISC", "LGPL", "Lesser", "MIT", "MPL", "Mozilla", "PSF",
    "Python",
}  # fmt: skip
"""Words of licences under which Apache-2.0 may use a library that it does not change."""


def pinned() -> dict[str, str]:
    """Every distribution of constraints.txt that is installed here, with its version there."""
    found = {}
    for line in (CHECKOUT / "constraints.txt").read_text().splitlines():
        name, _, rest = line.partition("==")
        version = rest.split(";")[0].strip()
        try:
            if rest and metadata.version(name) == version:
                found[name] = version
        except metadata.PackageNotFoundError:
            continue
    return found


def licence_of(name: str) -> str:
    """As the distribution says it: an expression, else classifiers, else a line of text."""
    said = metadata.metadata(name)
    classified = [
        text.rsplit(" :: ", 1)[-1]
        for text in said.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    short = (said["License"] or "").split("\n")[0]
    return said["License-Expression"] or "; ".join(classified) or short


def is_compatible(licence: str) -> bool:
    """Whether one of the words of a licence is known, and none demands what it must not."""
    words = set(re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*", licence.replace("-only", "")))
    strict = {"AGPL", "GPL", "SSPL", "BUSL"} & words
    parts = {part for word in words for part in (word, word.split("-")[0])}
    return bool(parts & COMPATIBLE) and not strict


def reasons() -> dict[str, str]:
    """Why each direct dependency is there: the comment above it in pyproject.toml."""
    text = (CHECKOUT / "pyproject.toml").read_text()
    block = text.split("\ndependencies = [\n", 1)[1].split("\n]", 1)[0]
    found, said = {}, ""
    for line in block.splitlines():
        if line.strip().startswith("#"):
            said = f"{said} {line.strip('# ')}".strip()
        else:
            name = re.match(r'\s*"([A-Za-z0-9_-]+)', line)
            assert name is not None, line
            found[name[1]], said = said, ""
    return found


def needed() -> list[str]:
    """What the direct dependencies need in turn, as far as each Python and each machine gets it."""
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    everywhere = {line.partition("==")[0] for line in lines if ";" not in line and "==" in line}
    found, ahead = set[str](), [Requirement("filejobs_dagster")]
    while ahead:
        asked = ahead.pop()
        for text in metadata.requires(asked.name) or []:
            each = Requirement(text)
            name = canonicalize_name(each.name)
            wanted = each.marker is None or any(
                each.marker.evaluate({"extra": extra}) for extra in asked.extras or {""}
            )
            if wanted and name in everywhere - found:
                found.add(name)
                ahead.append(each)
    return sorted(found - set(reasons()))


def bill() -> dict[str, object]:
    """The whole bill of materials."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "filejobs_dagster",
                                   "version": metadata.version("filejobs_dagster")}},
        "components": [
            {"type": "library", "name": name, "version": version,
             "purl": f"pkg:pypi/{name}@{version}",
             "licenses": [{"license": {"name": licence_of(name)}}]}
            for name, version in sorted(pinned().items())
        ],
    }  # fmt: skip


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
