"""The reports of the four families on real data, opened in a browser without network.

Pictures go to ``docs/pictures``; they are to be looked at.
"""

from __future__ import annotations

import gzip
import os
import runpy
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
from click.testing import CliRunner

from benchmarks.bench_audit import SEED, adult
from benchmarks.results import data_folder, timed, write_table
from tulle.cli import tulle

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
BROWSER = Path(__file__).parents[1] / "tests" / "report" / "browser.py"
RULES = "170 -> 38\n41, 48 -> 39\n36 -> 38\n48, 310 -> 39\n"
MINED = ("--min-support", "1%", "--min-confidence", "50%")
SHOWN = ("adult", "retail", "newsgroups", "sites", "adult-public-phone")
HIGHEST = 1700
WIDE = {"viewport": {"width": 900, "height": 800}}
DARK = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}


def run(*words: object) -> None:
    environment = {"TULLE_PASSPHRASE": "a passphrase for a picture"}
    arguments = [str(word) for word in words]
    CliRunner(catch_exceptions=False).invoke(
        tulle, arguments, env=environment, standalone_mode=False
    )


def unpacked(source: str, target: Path, lines: int | None) -> Path:
    with gzip.open(data_folder() / source, "rt", encoding="utf-8") as file:
        text = [line for place, line in enumerate(file) if lines is None or place < lines]
    target.write_text("".join(text), encoding="utf-8")
    return target


def condensed(folder: Path, quick: bool) -> None:
    rows = 1500 if quick else None
    adult("train", rows).write_csv(folder / "adult.csv")
    adult("test", rows).write_csv(folder / "control.csv")
    release, control = folder / "release.csv", ("--control", folder / "control.csv")
    options = ("-k", 20, "--target", "class", "--seed", SEED)
    run("condense", folder / "adult.csv", "-o", release, *options, *control,
        "--report", folder / "adult.html")  # fmt: skip
    run("audit", folder / "adult.csv", release, *control, "--public", "-o",
        folder / "adult-public.html", "--seed", SEED)  # fmt: skip


def hidden(folder: Path, quick: bool) -> None:
    baskets = unpacked("transactions/retail.dat.gz", folder / "retail.dat", None)
    (folder / "rules.txt").write_text(RULES)
    run("hide", baskets, "-o", folder / "shared.dat", "--rules", folder / "rules.txt", *MINED,
        "--seed", SEED, "--report", folder / "retail.html")  # fmt: skip


def sketched(folder: Path, quick: bool) -> None:
    few = 1000 if quick else None
    texts = unpacked("text/20news_bydate.jsonl.gz", folder / "news.jsonl", few)
    run("sketch", texts, "-o", folder / "news.parquet", "--key-file", folder / "key",
        "--seed", SEED, "--report", folder / "newsgroups.html",
        "--accept-risk", "public newsgroups")  # fmt: skip


def encoded(folder: Path, quick: bool) -> None:
    whole = adult("train", 1500 if quick else None)
    places = pl.arange(whole.height, eager=True) % 3
    sites = [folder / f"site{i}.csv" for i in range(3)]
    for i, site in enumerate(sites):
        whole.filter(places == i).write_csv(site)
        run("sites", "summary", site, "-o", site.with_suffix(".json"))
    agreement = folder / "three.agreement"
    run("sites", "agree", *(site.with_suffix(".json") for site in sites), "-o", agreement)
    adult("test", None).write_csv(folder / "public.csv")
    for i, site in enumerate(sites):
        report = ("--report", folder / "sites.html", "--public", folder / "public.csv")
        run("sites", "encode", site, "-o", site.with_suffix(".parquet"), "-a", agreement,
            "--seed", SEED, *(report if i == 0 else ()))  # fmt: skip


def look(folder: Path, quick: bool) -> list[list[Any]]:
    """Opens every report, wide and light, narrow and dark; refuses a word or a request."""
    names = runpy.run_path(str(BROWSER))  # other packages are called tests, too
    chromium, opening = names["chromium"], names["Opened"]
    rows = []
    with chromium() as browser:
        for page in sorted(folder.glob("*.html")):
            for tail, options in {"": WIDE, "-phone": DARK}.items():
                opened = opening(browser, page, **options)
                charts = opened.page.evaluate("document.querySelectorAll('.chart svg').length")
                if not quick and page.stem + tail in SHOWN:
                    _take_picture(opened, page.stem + tail)
                said, asked = len(opened.said), len(opened.asked) - 1
                opened.assert_quiet()
                rows.append([page.stem + tail, os.path.getsize(page) // 1024, charts, said, asked])
    return rows


def _take_picture(opened: Any, name: str) -> None:
    size = opened.page.viewport_size
    height = opened.page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height, HIGHEST)}
    opened.page.screenshot(path=PICTURES / f"report-{name}.png", full_page=True, clip=clip)


def main(quick: bool) -> None:
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        print("left out: it needs Chromium and Playwright (see scripts/test-tools)")
        return
    with tempfile.TemporaryDirectory() as name:
        folder, seconds = Path(name), {}
        for make in (condensed, hidden, sketched, encoded):
            _, seconds[make.__name__] = timed(lambda make=make: make(folder, quick))
        rows = look(folder, quick)
    spent = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    write_table(
        "audit_reports",
        "Reports in Chromium without network",
        ["report", "kB", "charts drawn", "console messages", "outside requests"],
        rows,
        notes=f"CPU seconds from file to release and report: {spent}.",
        packages=("altair", "playwright"),
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
