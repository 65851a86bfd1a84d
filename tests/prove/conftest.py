"""A stage on the worker's own server, which is a server of one's own to `filejobs prove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.prove.stage import open_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.prove.stage import Stage


@pytest.fixture
def stage(empty_database_url: str) -> Iterator[Stage]:
    with open_stage(empty_database_url) as stage:
        yield stage
