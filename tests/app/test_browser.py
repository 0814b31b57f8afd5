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

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.app.asking import streamed
from tests.report.browser import chromium
from tulle import load_policy
from tulle._app.study import Study

pytestmark = pytest.mark.browser

_AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
_SLOW = 300_000  # milliseconds that work of a job may take on a busy machine


class Served:
    """``tulle app`` in a process of its own, and a browser that opened its link."""

    def __init__(self, folder: Path, browser: Browser, *, checking: bool = True) -> None:
        self.checking = checking
        code = (  # the app draws the seeds of releases: the same ones in every run
            "import random, secrets; secrets.randbits = random.Random(0).getrandbits; "
            "from tulle.cli import main; main()"
        )
        words = [sys.executable, "-c", code, "app", str(folder), "--port", "0", "--no-browser"]
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
        if not self.checking:
            return
        self.page.wait_for_load_state()  # a click returns when the next page begins to arrive
        self.page.evaluate(_AXE)
        for scheme, rules in (("light", "{}"), ("dark", "{runOnly: ['color-contrast']}")):
            self.page.emulate_media(color_scheme=scheme)
            found: Any = self.page.evaluate(f"axe.run({{exclude: [['.chart svg']]}}, {rules})")
            complaints = [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]]
            assert complaints == [], (self.page.url, scheme)
        for width in (360, 1600):
            self.page.set_viewport_size({"width": width, "height": 900})
            assert self.page.evaluate("document.documentElement.scrollWidth") <= width

    def assert_quiet(self, name: str) -> None:
        """No complaint of the browser, no request but to the app, no name in an address."""
        assert self.said == []
        assert self.asked
        assert [url for url in self.asked if not url.startswith(f"{self.origin}/")] == []
        assert not any(name in url.removesuffix("/demo") for url in self.asked)

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


def test_from_the_demo_table_to_a_proven_release(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path, browser) as served:
        page = served.page
        served.check_page()
        page.click("#demo")
        page.wait_for_selector("#first", timeout=_SLOW)
        served.check_page()
        page.click("button:has-text('Look at the columns first')")
        set_a_role(served, tmp_path / "demo-patients.policy.toml")
        page.click("nav.steps >> text=Recipient")
        page.fill("#recipient", "the <b>registry</b>")
        served.check_page()
        page.click("summary:has-text('Each limit')")
        page.fill("#max_linkage", "abc")
        page.click("#next")
        page.wait_for_selector(".said")  # the error is on the page, and what was typed as well
        assert page.input_value("#recipient") == "the <b>registry</b>"
        page.fill("#max_linkage", "")
        page.click("#next")
        page.wait_for_url("**/release")
        served.check_page()
        page.fill("#k", "20")
        data, command = release_and_prove(served)
        look_at_columns(served)
        page.click("text=History")
        served.check_page()
        served.said = [line for line in served.said if "400" not in line]
        served.assert_quiet("demo")
        served.end()
    # the fresh process of the proof ran the command that is copied from the page
    made = Study(tmp_path, "demo-patients.csv").release(1)
    assert command == ["tulle", *made.facts["command"]]
    assert made.proof.description["commands"] == [[*command[1:], "--json"]]
    assert (tmp_path / command[command.index("-o") + 1]).read_bytes() == data


def test_work_is_begun_and_stopped_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path, browser) as served:
        page = served.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        press(page, "demo")
        page.wait_for_selector("#first", timeout=_SLOW)
        page.keyboard.press("Tab")
        press(page, "find", "area")  # many columns are found by their names
        expect(page.locator(".shapes li:visible")).to_have_count(3)
        press(page, "next", backwards=True)
        page.wait_for_selector("#cancel")
        press(page, "cancel")
        page.wait_for_selector("text=was stopped")
        served.check_page()
        press(page, "again")
        page.wait_for_url("**/release")
        served.assert_quiet("demo")
        served.end()


def press(page: Page, wanted: str, typed: str = "", *, backwards: bool = False) -> None:
    """Walk to what has an id with the tabulator, and press or fill it."""
    for _ in range(60):
        if page.evaluate("document.activeElement.id") == wanted:
            break
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
    assert page.evaluate("document.activeElement.id") == wanted
    if typed:
        page.keyboard.type(typed)
    else:
        page.keyboard.press("Enter")


def test_sizes_are_compared(browser: Browser, tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(7), 3_000
    age = rng.integers(18, 90, rows)
    table = {
        "number": np.arange(rows) + 100_000,
        "age": age,
        "ward": rng.choice(list("ABCDE"), rows),
        "admitted": pl.Series(rng.integers(18_000, 19_000, rows)).cast(pl.Date),
        "cost": np.exp(5 + age / 40 + rng.normal(0, 0.4, rows)).round(2),
    }
    pl.DataFrame(table).write_csv(tmp_path / "visits.csv")
    with Served(tmp_path, browser) as served:
        page = served.page
        page.click("text=visits.csv")
        page.wait_for_selector("#first", timeout=_SLOW)
        assert page.is_checked("#out-0")  # the number
        page.click("nav.steps >> text=Compare sizes")
        page.fill("#k", "20, 50")
        page.uncheck("#uniform")
        page.check("#quick")
        measure(served)
        look_at_points(served)
        served.assert_quiet("visits")
        served.end()


def test_hundreds_of_columns_are_shown_by_sixties_and_found_by_name(
    browser: Browser, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 5, (200, 70))
    pl.DataFrame(values, schema=[f"item_{n}" for n in range(70)]).write_csv(tmp_path / "wide.csv")
    with Served(tmp_path, browser, checking=False) as served:
        page = served.page
        page.click("text=wide.csv")
        page.wait_for_selector("#first", timeout=_SLOW)
        shown = page.locator(".shapes li:visible")
        expect(shown).to_have_count(60)
        page.fill("#find", "item_6")  # also those that are not shown at first
        expect(shown).to_have_count(11)
        page.fill("#find", "")
        page.click("#show-all")
        expect(shown).to_have_count(70)
        served.end()


def set_a_role(served: Served, policy: Path) -> None:
    """Change a role in place; the policy file and the page follow."""
    page = served.page
    page.wait_for_selector("#role-3")
    served.check_page()
    page.set_viewport_size({"width": 390, "height": 900})
    for what in ("Role", "Kind"):  # on a telephone nothing is cut off
        box = page.get_by_label(f"{what} of mean_area").bounding_box()
        assert box
        assert box["x"] + box["width"] <= 390
    with page.expect_response(lambda answer: answer.url.endswith("/column")):
        page.select_option("#role-3", "ignored")
    assert load_policy(policy).columns[3].role == "ignored"
    page.wait_for_function("document.querySelector('.policy').textContent.includes('ignored\"')")


def measure(served: Served) -> None:
    """Measure points; progress survives a reload, and the frontier is drawn meanwhile."""
    page = served.page
    page.click("#measure")
    page.wait_for_selector("#live progress")
    served.check_page()
    page.reload()
    page.wait_for_selector("[data-drawn] svg", timeout=_SLOW)
    page.wait_for_selector("#measure", state="attached", timeout=_SLOW)
    served.check_page()


def look_at_points(served: Served) -> None:
    """Open a point, and compare it with another."""
    page = served.page
    page.get_by_role("link", name="Everything about").first.click()
    served.check_page()
    page.click("text=Compare it with another")
    served.check_page()


def look_at_columns(served: Served) -> None:
    """Look at one column and at two, in original and release."""
    page = served.page
    page.click(".shapes a >> nth=0")
    page.wait_for_selector("[data-drawn] svg", timeout=_SLOW)
    served.check_page()
    page.select_option("#y", index=2)
    page.click("button:has-text('Show')")
    page.wait_for_selector("[data-drawn] svg", timeout=_SLOW)
    served.check_page()


def release_and_prove(served: Served) -> tuple[bytes, list[str]]:
    """Release and prove; return the downloaded bytes and the command that gives them."""
    page = served.page
    page.click("#make")
    page.wait_for_selector("#files", timeout=_SLOW)
    page.click("#files summary")
    served.check_page()
    page.click("#prove")
    page.wait_for_selector("#proof", timeout=_SLOW)
    assert "same bytes" in (page.text_content("#proof") or "")
    command = shlex.split(page.text_content("#command") or "")
    with page.expect_download() as download:
        page.click("text=Download the release")
    return download.value.path().read_bytes(), command


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
        page.wait_for_selector("#first", timeout=_SLOW)
        page.click("button:has-text('Look at the columns first')")
        expect(page.get_by_label(f"Role of {name}")).to_have_count(1)
        assert (
            page.evaluate("document.images.length + document.querySelectorAll('main b').length")
            == 0
        )
        served.check_page()
        served.assert_quiet("up%3C")
        served.end()


def test_pages_of_the_other_families(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "shop.dat").write_text("bread milk\nbread milk tea\nmilk\n" * 20)
    (tmp_path / "notes.txt").write_text("pulse and pressure\nknee in a cast\n" * 20)
    (tmp_path / "oslo.csv").write_text("age,illness\n" + "34,Flu\n51,Mumps\n" * 20)
    streamed(tmp_path)
    with Served(tmp_path, browser) as served:
        page = served.page
        page.click("text=visits.state")
        page.locator("#chart-history").scroll_into_view_if_needed()
        page.wait_for_selector("#chart-history[data-drawn] svg")
        served.check_page()
        page.click("text=Tables")
        page.click("text=notes.txt")
        served.check_page()
        page.click("text=Tables")
        page.click("#sites")
        for step in ("Summary", "Agree", "Encode", "Join", "Decode"):
            page.click(f"nav.steps >> text={step}")
            served.check_page()
        page.click("text=Tables")
        page.click("text=shop.dat")
        page.fill("#min_support", "10%")
        page.click("#run")
        page.wait_for_selector("text=Again, with other answers", timeout=_SLOW)
        served.check_page()
        page.click("nav.steps >> text=Hide")
        page.check("input[type=checkbox] >> nth=0")
        served.check_page()
        page.goto(f"{served.origin}/nothing")
        served.check_page()
        served.said = [line for line in served.said if "404" not in line]
        served.assert_quiet("shop")
        served.end()
