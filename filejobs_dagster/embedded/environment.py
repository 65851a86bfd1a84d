"""Environments for processes that must see the embedded servers and nothing of the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOREIGN_PREFIXES: tuple[str, ...] = ("AWS_", "BOTO_", "DAGSTER_", "FILEJOBS_", "PG")
"""Variables that would lead a client to another database, bucket, account or Dagster instance.

`PG` covers what libpq reads (`PGHOST`, `PGPORT`, `PGSERVICE`, `PGOPTIONS`, ...), which takes effect
wherever a connection string leaves something open.
"""


def is_foreign(name: str) -> bool:
    """Whether an environment variable of this name may lead a client to something real."""
    return name.startswith(FOREIGN_PREFIXES)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Copy an environment without what the person at the keyboard has set for real systems.

    Args:
        environment: Usually `os.environ`.

    Returns:
        A new dictionary without `AWS_*`, `BOTO_*`, `DAGSTER_*`, `FILEJOBS_*` and `PG*`.
    """
    return {name: value for name, value in environment.items() if not is_foreign(name)}
