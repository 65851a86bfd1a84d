"""Deleted files for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jobs.deleted_files.collecting import files_of

if TYPE_CHECKING:
    from tests.installation import Installation
    from tests.jobs.deleted_files.collecting import Files


@pytest.fixture
def files(installation: Installation) -> Files:
    return files_of(installation)
