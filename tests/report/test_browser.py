"""Reports in a real browser without network: every chart is drawn, nothing complains or leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser

from tests.report import results
from tests.report.browser import Opened, chromium
from tulle import audit
from tulle._report import save
from tulle.table.policy import CONTEXT

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("edition", ["owner", "public"])
@pytest.mark.parametrize("family", results.FAMILIES)
def test_every_report_draws_offline_without_a_word(
    family: str, edition: str, browser: Browser, tmp_path: Path
) -> None:
    path = save(results.FAMILIES[family](), tmp_path / "report.html", edition=edition)
    opened = Opened(browser, path)
    assert opened.page.evaluate("document.querySelectorAll('.chart').length") >= 1
    opened.assert_quiet()


def test_dark_narrow_keyboard_and_print(browser: Browser, tmp_path: Path) -> None:
    path = save(results.condensed(), tmp_path / "report.html")
    light = Opened(browser, path)
    dark = Opened(browser, path, color_scheme="dark", viewport={"width": 380, "height": 800})
    grounds = [
        opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        for opened in (light, dark)
    ]
    assert grounds[0] != grounds[1]
    # charts and tables scroll within themselves, the page does not
    assert dark.page.evaluate("document.documentElement.scrollWidth") <= 380
    # names stay words and charts stay readable on a telephone
    widths = "[...document.querySelectorAll(SELECTOR)].map(e => e.getBoundingClientRect().width)"
    assert min(dark.page.evaluate(widths.replace("SELECTOR", "'main > section tbody th'"))) > 100
    assert min(dark.page.evaluate(widths.replace("SELECTOR", "'#chart-attacks svg'"))) > 500
    scrolling = """[...document.querySelectorAll('.wide')].every(
        e => e.tabIndex === 0 && e.getAttribute('role') === 'region' && e.ariaLabel)"""
    assert dark.page.evaluate(scrolling)
    light.page.keyboard.press("Tab")
    assert light.page.evaluate("document.activeElement.className") == "skip"
    named = """[...document.querySelectorAll('.chart')].map(
        c => c.closest('[role=img]').ariaLabel).every(l => l.includes('in the table below'))"""
    assert light.page.evaluate(named)
    light.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    closed = "document.querySelectorAll('details:not([open]):not(.rows)').length"
    assert light.page.evaluate(closed) == 0
    assert len(light.page.pdf()) > 10_000
    for opened in (light, dark):
        opened.page.context.close()


def test_the_summary_is_one_printed_page(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"a column with a rather long name {i}" for i in range(8)]
    tables = [pl.DataFrame({name: rng.normal(size=150) for name in names}) for _ in range(3)]
    found = audit(*tables, random_state=0, attempts=50, title="A release")
    context = dict.fromkeys(
        CONTEXT, "some twenty words of what was agreed with the recipient, " * 2
    )
    path = found.extended(context=context).save(tmp_path / "report.html")
    # A4 with margins of 15 mm, in CSS pixels
    opened = Opened(browser, path, viewport={"width": 680, "height": 1009})
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    end = "document.querySelector('.first').getBoundingClientRect().bottom"
    assert opened.page.evaluate(end) <= 1009
    opened.page.context.close()


def test_names_of_columns_and_categories_stay_names(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "'\"&<b>"]
    table = pl.DataFrame({names[0]: rng.normal(size=200), names[1]: rng.choice(names, 200)})
    found = audit(table, table.reverse(), random_state=0, attempts=20, title=names[1])
    for edition in ("owner", "public"):
        path = found.extended(command=names[0]).save(tmp_path / f"{edition}.html", edition=edition)
        opened = Opened(browser, path)
        opened.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        opened.page.query_selector_all("path[aria-label*='second']")[-1].hover(force=True)
        # what is shown then comes from the data too
        assert names[1] in opened.page.text_content("#vg-tooltip-element.visible")
        assert opened.page.evaluate("document.images.length + document.scripts.length") == 3
        assert opened.page.evaluate("document.querySelectorAll('main b').length") == 0
        assert names[0] in opened.page.inner_text("main")
        opened.assert_quiet()


def test_the_page_cannot_phone_home(browser: Browser, tmp_path: Path) -> None:
    path = save(results.rules(), tmp_path / "report.html")
    opened = Opened(browser, path)
    tried = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
    assert opened.page.evaluate(tried) == "refused"
    assert any("Content Security Policy" in word for word in opened.said)
    sneaking = """() => {
        const script = document.createElement("script");
        script.textContent = "window.sneaked = true";
        document.body.append(script);
        return window.sneaked === true;
    }"""
    assert opened.page.evaluate(sneaking) is False
    opened.page.context.close()
