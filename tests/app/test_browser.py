"""The app in a real browser: the whole path, nothing leaves the machine, everybody can use it."""

from __future__ import annotations

import shlex
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
from tulle import load_policy

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
            found: Any = self.page.evaluate("axe.run()")
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
        out, err = self.process.communicate(timeout=30)
        assert (self.process.returncode, out, err) == (0, b"", b"")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_from_the_demo_table_to_a_proven_release(browser: Browser, tmp_path: Path) -> None:
    served = Served(tmp_path, browser)
    page = served.page
    served.check_page()
    page.click("#demo")
    served.check_page()
    page.click("#read")
    page.wait_for_selector("#unit-row", timeout=_SLOW)
    served.check_page()
    page.keyboard.press("Tab")
    page.check("#unit-row")
    page.click("#next")

    served.check_page()
    policy = tmp_path / "demo-patients.policy.toml"
    with page.expect_response(lambda answer: answer.url.endswith("/column")):
        page.select_option("#role-3", "ignored")
    assert load_policy(policy).columns[3].role == "ignored"
    page.wait_for_function("document.querySelector('.policy').textContent.includes('ignored\"')")
    page.click("#next")
    page.fill("#recipient", "the <b>registry</b>")
    served.check_page()
    page.click("#next")
    page.click("#split")
    page.wait_for_selector("#next", timeout=_SLOW)
    served.check_page()

    page.click("#next")
    page.fill("#k", "20")
    page.uncheck("#uniform")
    page.click("#measure")
    page.wait_for_selector("#live progress")
    page.reload()  # progress survives
    page.wait_for_selector("[data-drawn] svg", timeout=_SLOW)
    page.wait_for_selector("#measure", state="attached", timeout=_SLOW)
    served.check_page()
    page.get_by_role("link", name="Everything about").first.click()
    page.wait_for_function(
        "() => document.querySelectorAll('.chart').length == "
        "document.querySelectorAll('.chart[data-drawn] svg').length"
    )
    served.check_page()
    page.click("text=Compare it with another")
    page.select_option("#b", index=1)
    page.click("text=Compare >> nth=-1")
    served.check_page()
    page.go_back()
    page.go_back()
    page.click("#choose")
    served.check_page()
    page.click("#make")
    page.wait_for_selector("#prove", timeout=_SLOW)
    served.check_page()
    page.click("#prove")
    page.wait_for_selector("#proof", timeout=_SLOW)
    assert "same bytes" in (page.text_content("#proof") or "")
    command = shlex.split(page.text_content("#command") or "")
    with page.expect_download() as download:
        page.click("a[download]:has-text('data')")
    data = download.value.path().read_bytes()
    page.click("text=History")
    served.check_page()

    assert served.said == []
    assert {url.startswith(served.origin + "/") for url in served.asked} == {True}
    assert not any("demo" in url.removesuffix("/demo") for url in served.asked)
    served.end()
    again = tmp_path / command[command.index("-o") + 1]
    again.unlink()
    subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=True, capture_output=True)
    assert again.read_bytes() == data


def test_names_that_are_markup_and_an_upload(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    name = "<img src=x onerror=alert(1)>"
    rows = "".join(f"{i % 50},t{i % 3}\n" for i in range(200))
    (tmp_path / "up<b>.csv").write_text(f"{name},town\n{rows}")
    served = Served(folder, browser)
    page = served.page
    page.set_input_files("#file", tmp_path / "up<b>.csv")
    page.click("text=Copy it into the folder")
    page.wait_for_url("**/data")
    page.click("#read")
    page.wait_for_selector("#unit-row", timeout=_SLOW)
    page.check("#unit-row")
    page.click("#next")
    assert page.get_by_label(f"Role of {name}").count() == 1
    assert page.evaluate("document.images.length + document.querySelectorAll('main b').length") == 0
    served.check_page()
    assert served.said == []
    assert not any("up" in url.removesuffix("/upload") for url in served.asked)
    served.end()
