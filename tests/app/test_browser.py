"""The app in a real browser: the whole path, nothing leaves the machine, everybody can use it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.report.browser import chromium

_AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
_SLOW = 300_000  # milliseconds that work of a job may take on a busy machine


class Served:
    """``tulle app`` in a process of its own, and a browser that opened its link."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        words = [sys.executable, "-m", "tulle", "app", str(folder), "--port", "0", "--no-browser"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().decode().strip()
        self.origin = self.link.partition("/enter")[0]
        self.said: list[str] = []
        self.asked: list[str] = []
        self.context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(self.link)

    def check_page(self) -> None:
        """No complaint of axe in light and dark, no scrolling sideways on a telephone."""
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.evaluate(_AXE)
            found: Any = self.page.evaluate("axe.run({exclude: [['.chart svg']]})")
            assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == [], (
                self.page.url,
                scheme,
            )
        self.page.set_viewport_size({"width": 360, "height": 800})
        assert self.page.evaluate("document.documentElement.scrollWidth") <= 360, self.page.url
        self.page.set_viewport_size({"width": 1600, "height": 900})
        assert self.page.evaluate("document.documentElement.scrollWidth") <= 1600

    def end(self) -> None:
        """Interrupt the server as a person would; it says nothing and ends well."""
        self.context.close()
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=120)
        assert (self.process.returncode, out, err) == (0, b"", b"")

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind where a test failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_names_that_are_markup_and_an_upload(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    name = "<img src=x onerror=alert(1)>"
    rows = "".join(f"{i % 50},t{i % 3}\n" for i in range(200))
    (tmp_path / "up<b>.csv").write_text(f"{name},town\n{rows}")
    with Served(folder, browser) as served:
        page = served.page
        page.set_input_files("#file", tmp_path / "up<b>.csv")
        page.click("button:has-text('Copy it into the folder')")
        page.wait_for_url("**/data")
        page.click("#read")
        page.wait_for_selector("#unit-row", timeout=_SLOW)
        page.check("#unit-row")
        page.click("#next")
        assert page.get_by_label(f"Role of {name}").count() == 1
        assert (
            page.evaluate("document.images.length + document.querySelectorAll('main b').length")
            == 0
        )
        served.check_page()
        assert served.said == []
        assert not any("up" in url.removesuffix("/upload") for url in served.asked)
        served.end()
