"""Everything that an operator has: code server, web UI, daemon, and Chromium to look at it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.screen import Screen
from tests.e2e.deployment import Deployment
from tests.installation import make_installation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

PROMISE = "FILEJOBS_PROMISED_CHROMIUM"

# Read here, because the tests' environment is cleaned before the first of them starts.
PROMISED = os.environ.get(PROMISE) == "1"

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


def require(program: str | None, *, promised: bool) -> None:
    """Skip where there is no browser; fail where it was promised."""
    if program is not None:
        return
    reason = "Chromium is not installed. As root: apt-get install chromium"
    if promised:
        pytest.fail(f"{PROMISE}=1 promises Chromium. {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    require(CHROMIUM, promised=PROMISED)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (only `make browser` has it)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            # As root, as the continuous integration runs, Chromium has no sandbox.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@pytest.fixture
def deployment(
    tmp_path: Path,
    database_url: str,
    empty_database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Deployment]:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    made = Deployment(installation, tmp_path / "dagster_home", empty_database_url)
    yield made
    made.stop()


@pytest.fixture
def look(deployment: Deployment, chromium: Any) -> Iterator[Callable[[], Screen]]:
    """Starts code server and web UI, with the settings as they stand then, and opens a window."""
    opened: list[tuple[Any, Screen]] = []

    def start() -> Screen:
        deployment.installation.write()
        deployment.start_code_server()
        address = deployment.start_webserver()
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        screen = Screen(context.new_page(), address)
        opened.append((context, screen))
        return screen

    yield start
    for context, screen in opened:
        screen.picture("last-seen")
        context.close()
