"""A real browser without network, and everything that a page says or asks for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_DRAWN = (
    "() => document.querySelectorAll('.chart').length == "
    "document.querySelectorAll('.chart[data-drawn] svg').length"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of the system."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield found
        found.close()


class Opened:
    """A page and everything that it said or asked for."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.path = path
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page: Page = browser.new_context(offline=True, **options).new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri(), timeout=120_000)
        self.page.wait_for_function(_DRAWN, timeout=120_000)

    def assert_quiet(self) -> None:
        """No complaint, and nothing asked for but the file itself."""
        assert self.said == []
        assert self.asked == [self.path.as_uri()]
        self.page.context.close()
