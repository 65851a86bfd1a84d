"""A scratch folder of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.streams import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as scratch:
        yield scratch
