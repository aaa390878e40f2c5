"""A person at Prefect's own pages: a headless Chromium, and what is done and seen in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Locator, Page, TimeoutError, sync_playwright
from prefect_server import PATIENCE

# No address but this machine's is asked for: Prefect's pages look for news of Prefect's.
ARGUMENTS = ("--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
Role = Literal["button", "link", "menuitem", "switch", "tab"]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
AGAIN = 10_000.0  # milliseconds until a button is pressed once more
SIZE = {"width": 1280, "height": 800}
PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "day"
WRITE = os.environ.get("WRITE_PICTURES") == "1"  # the pages' pictures anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What somebody does and sees; each waits until it can be done or seen."""

    page: Page
    address: str  # of Prefect's pages
    folder: Path  # of pictures

    @property
    def main(self) -> Locator:
        """The page without its menu."""
        return self.page.get_by_role("main")

    def opens(self, path: str) -> None:
        self.page.goto(f"{self.address}/v2{path}", wait_until="domcontentloaded")

    def sees(self, words: str, patience: float = PATIENCE) -> None:
        self.main.get_by_text(words, exact=True).first.wait_for(timeout=1000 * patience)

    def presses(self, name: str, role: Role = "button") -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click()

    def answers(self, button: str, picture: str | None = None, **fields: object) -> None:
        """What a window over the page asks. picture: of the window, filled in."""
        asked = self.page.get_by_role("dialog").or_(self.page.get_by_role("alertdialog"))
        for name, value in fields.items():
            self.writes(name, value, asked)
        if picture is not None:
            self.takes(picture)
        _insist(
            lambda: asked.get_by_role("button", name=button, exact=True).click(timeout=AGAIN),
            lambda: asked.wait_for(state="hidden", timeout=AGAIN),
        )

    def submits(self) -> None:
        """A form of a page, which then shows another one."""
        form = self.page.url
        _insist(
            lambda: self.page.get_by_role("button", name="Submit", exact=True).click(timeout=AGAIN),
            lambda: self.page.wait_for_url(lambda url: url != form, timeout=AGAIN, wait_until="commit"),
        )

    def chooses(self, item: str) -> None:
        """From the menu of what the page is about."""
        self.main.get_by_role("button", name="Open menu").first.click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def writes(self, field: str, value: object, place: Locator | None = None) -> None:
        """Into a field of a form, in place of what is there: a dictionary as JSON, all else as it is said."""
        place = place or self.main
        if isinstance(value, dict):
            place.locator(f"xpath=.//*[text()='{field} (Optional)']/following::*[@role='textbox'][1]").click()
            self.page.keyboard.press("Control+A")
            self.page.keyboard.insert_text(json.dumps(value))
        else:
            named = place.get_by_label(field, exact=True).or_(place.get_by_label(f"{field} (Optional)", exact=True))
            named.fill(str(value))

    def takes(self, name: str) -> None:
        """A picture of what is seen."""
        self.page.screenshot(path=self.folder / f"{name}.png")


def _insist(press: Callable[[], None], wait: Callable[[], None]) -> None:
    """Forms check what is in them first, and take no notice of their button meanwhile."""
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(TimeoutError):
            press()
        try:
            return wait()
        except TimeoutError:
            if time.monotonic() > end:
                raise


@contextmanager
def person(address: str, folder: Path) -> Iterator[Person]:
    """Somebody in front of the pages at an address; the folder takes pictures where the project's are not written."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, f"none of {', '.join(PROGRAMS)} is installed: `make test-machine` installs it"
    shown = PICTURES if WRITE else folder
    shown.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.set_default_timeout(1000 * PATIENCE)
        yield Person(page=page, address=address, folder=shown)
        browser.close()
