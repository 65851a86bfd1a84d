"""What an operator does in the web UI, and a picture of what is seen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.e2e.deployment import LONG, wait_until

LOCATION = "filejobs"
PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
PATIENCE_MS = LONG * 1000


class Screen:
    """One page of the browser.

    The web UI has no names for tests to hold on to, so things are found as people find them: by
    the words on them.
    """

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        page.set_default_timeout(PATIENCE_MS)

    def picture(self, name: str) -> Path:
        """Keep what is seen as `build/screenshots/NAME.png`."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        # Icons come after the words.
        self.page.wait_for_timeout(1500)
        path = PICTURES / f"{name}.png"
        self.page.screenshot(path=str(path))
        return path

    def go(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")

    def words(self) -> str:
        text: str = self.page.inner_text("body")
        return text

    def wait_for(self, pattern: str) -> None:
        """Wait until the page shows words that match."""
        self.page.wait_for_function(
            "pattern => new RegExp(pattern, 's').test(document.body.innerText)",
            arg=pattern,
            timeout=PATIENCE_MS,
        )

    def press(self, words: str) -> None:
        """Press the last button with these words: dialogs come last."""
        self.page.locator(f'button:has-text("{words}")').last.click()

    def job(self, job: str, tab: str = "") -> None:
        self.go(f"/locations/{LOCATION}/jobs/{job}/{tab}")

    # --- the Launchpad ------------------------------------------------------------------------

    def launchpad(self, job: str) -> str:
        """Open the Launchpad and return the config that it shows."""
        self.job(job, "playground")
        self.page.wait_for_selector(".CodeMirror")
        self.page.wait_for_function(
            "() => document.querySelector('.CodeMirror').CodeMirror.getValue().length > 0"
        )
        shown: str = self.page.evaluate(
            "() => document.querySelector('.CodeMirror').CodeMirror.getValue()"
        )
        return shown

    def write_config(self, config: str) -> None:
        self.page.evaluate(
            "text => document.querySelector('.CodeMirror').CodeMirror.setValue(text)", config
        )

    def launch(self) -> str:
        """Press Launch Run and return the id of the run whose page opens."""
        button = self.page.locator('button:has-text("Launch Run")').last
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('button')]"
            ".some(it => it.innerText.includes('Launch Run') && !it.disabled)"
        )
        button.click()
        wait_until(self._run_page_is_open, "the page of the run opens", LONG)
        return str(self.page.url).rsplit("/runs/", 1)[1][:36]

    def _run_page_is_open(self) -> bool:
        """Confirm that no partition is meant, and follow to the tab that the web UI opens."""
        confirm = self.page.locator('button:has-text("Confirm")')
        if confirm.count():
            confirm.last.click()
        for page in self.page.context.pages:
            if re.search(r"/runs/[0-9a-f-]{36}", page.url):
                if page is not self.page:
                    self.page.close()
                    self.page = page
                    page.set_default_timeout(PATIENCE_MS)
                return True
        return False

    def wait_for_the_end_of_the_run(self) -> str:
        """Wait on a run's page until it says how it ended."""
        # One look finds and reads the word: between two of them the page may be drawn anew.
        word = self.page.wait_for_function(
            "() => (/\\b(Success|Failure|Canceled)\\b/.exec(document.body.innerText) || [])[1]",
            timeout=PATIENCE_MS,
        )
        return str(word.json_value())

    # --- backfills ----------------------------------------------------------------------------

    def backfill(self, job: str, first: str, last: str, *, mode: str | None = None) -> None:
        """Launch a backfill from the Partitions tab, as a person does."""
        self.job(job, "partitions")
        self.press("Launch backfill")
        days = self.page.locator("[role=dialog] input").first
        days.fill(f"[{first}...{last}]")
        days.blur()
        if mode is not None:
            self.page.locator("text=/add tags/i").last.click()
            self.page.locator('input[placeholder*="key" i]').last.fill("filejobs/mode")
            self.page.locator('input[placeholder*="value" i]').last.fill(mode)
            self.press("Apply")
        self.picture(f"backfill-dialog-{mode or 'dry'}")
        self.page.locator("[role=dialog] button").last.click()
