"""The reports that the commands of each family write, opened in a real browser without network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser

from tests.report.browser import Opened, chromium
from tulle.cli import tulle

pytestmark = pytest.mark.slow

PASSPHRASE = "a long enough passphrase for tests"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def run(*words: object) -> None:
    arguments = [str(word) for word in words]
    result = CliRunner().invoke(
        tulle, arguments, env={"TULLE_PASSPHRASE": PASSPHRASE}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output


def people(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 240)
    table = pl.DataFrame(
        {
            "age": age,
            "pay": (20.0 * age + rng.normal(0, 90, 240)).round(2),
            "city": rng.choice(["Bern", "Chur", "Genf"], 240),
            "ill": rng.choice(["yes", "no"], 240),
        }
    )
    table.write_csv(folder / "people.csv")
    return folder / "people.csv"


def condensed(folder: Path) -> Path:
    source, report = people(folder), folder / "condensed.html"
    release = folder / "release.parquet"
    run("condense", source, "-o", release, "-k", 8, "--target", "ill", "--report", report)
    run("audit", source, release, "--target", "ill", "-o", folder / "audit.html", "--public")
    return report


def tuned(folder: Path) -> Path:
    report = folder / "tuned.html"
    run("tune", people(folder), "--target", "ill", "--report", report, "--seed", 1)
    return report


def hidden(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    baskets = [[1, 2, 3, *rng.integers(4, 9, 2)] if i % 3 else [1, 4, 5] for i in range(120)]
    text = "\n".join(" ".join(str(item) for item in sorted(set(b))) for b in baskets)
    (folder / "baskets.dat").write_text(text + "\n")
    (folder / "rules.txt").write_text("2 -> 3\n")
    report = folder / "hidden.html"
    run(
        *("hide", folder / "baskets.dat", "-o", folder / "hidden.dat"),
        *("--rules", folder / "rules.txt", "--min-support", "10%", "--min-confidence", "60%"),
        *("--report", report),
    )
    return report


def sketched(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    words = np.array([f"word{i}" for i in range(60)])
    lines = [" ".join(rng.choice(words, 25)) for _ in range(80)]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    report = folder / "sketched.html"
    run(
        *("sketch", folder / "texts.txt", "-o", folder / "sketches.parquet"),
        *("--key-file", folder / "key", "--report", report, "--seed", 1),
        *("--accept-risk", "made-up words"),
    )
    return report


def encoded(folder: Path) -> Path:
    source, report = people(folder), folder / "encoded.html"
    run("sites", "summary", source, "-o", folder / "one.summary")
    run("sites", "agree", folder / "one.summary", "-o", folder / "sites.agreement")
    run(
        *("sites", "encode", source, "-o", folder / "codes.parquet"),
        *("-a", folder / "sites.agreement", "--report", report),
    )
    return report


@pytest.mark.parametrize("make", [condensed, tuned, hidden, sketched, encoded])
def test_what_each_command_reports_draws_offline(make, browser: Browser, tmp_path: Path) -> None:
    report = make(tmp_path)
    for path in {report, *tmp_path.glob("*.html")}:
        Opened(browser, path).assert_quiet()
