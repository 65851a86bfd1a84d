"""A rehearsal on a real application's database: what it finds, and what it leaves alone."""

from __future__ import annotations

import json
import os
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.rehearse.taking import Options, rehearse
from tests.applications.test_applications import Application, application

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["application"]


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["rails"], indirect=True)
def test_x(application: Application, tmp_path: Path) -> None:
    said: list[str] = []
    found = rehearse(application.settings(), Options(all_tables=True), lambda it: print(it, flush=True))
    print("\n".join(said)[:3000])
    print(json.dumps({**found, "taken": None}, indent=1))
