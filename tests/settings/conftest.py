"""A file that is right, and a reader of files that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.settings import Loaded, Problem, SettingsError, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GOOD = """\
installation: acme-production
database: {url: {env: DATABASE_URL}}
buckets:
  uploads:
    bucket: acme-uploads
    owns: ["files/"]
    min_age: 48h
jobs:
  upload_reservations: {schedule: "*/15 * * * *"}
"""

DATABASE_URL = "postgresql://app:hunter2@db.example.com/app"


class Files:
    """Writes settings and reads them back.

    Attributes:
        good: The text of a file without mistakes.
        environ: The environment of that file.
        path: Where each text is written.
    """

    good = GOOD

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ: dict[str, str] = {"DATABASE_URL": DATABASE_URL}

    def read(self, text: str | bytes, environ: Mapping[str, str] | None = None) -> Loaded:
        """What `read_settings` makes of a text."""
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_settings(self.path, self.environ if environ is None else environ)

    def changed(self, old: str, new: str) -> Loaded:
        """What `read_settings` makes of the good file with one passage replaced."""
        assert self.good.count(old) == 1, f"{old!r} does not stand exactly once in the file"
        return self.read(self.good.replace(old, new))

    def only_problem(self, old: str, new: str) -> Problem:
        """The one problem that a change makes."""
        loaded = self.changed(old, new)
        assert len(loaded.problems) == 1, str(SettingsError(loaded.problems))
        assert loaded.settings is None
        return loaded.problems[0]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Files of a directory that is the test's own."""
    return Files(tmp_path / "filejobs.yaml")
