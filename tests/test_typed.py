"""What an editor knows of results: a frame that goes in is of the same type when it comes out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ASKED = {
    "Condenser(5).fit_resample(table)": "DataFrame",
    "Condenser(5).fit(table).impute(table)": "DataFrame",
    "StreamCondenser(5).fit_resample(table)": "DataFrame",
    "SiteCodec(agreement).transform(table)": "DataFrame",
    "association_rules(baskets, min_support=1, min_confidence=0.5)": "DataFrame",
    "frequent_itemsets('baskets.dat', min_support=1)": "DataFrame",
    "RuleHider([], min_support=1).fit_transform(baskets)": "list[list[str]]",
    "RuleHider([], min_support=1).fit_transform('baskets.dat')": "Transactions",
}


def test_results_have_types(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    head = "import polars as pl\nfrom tulle import *\n"
    head += (
        "def f(table: pl.DataFrame, agreement: SiteAgreement, baskets: list[list[str]]) -> None:"
    )
    page.write_text("\n    ".join([head, *(f"reveal_type({call})" for call in ASKED)]))
    root = Path(__file__).parents[1]
    options = ["--follow-imports=silent", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(page)],
        capture_output=True, text=True, cwd=root,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(told) == len(ASKED), done.stdout
    for line, kind in zip(told, ASKED.values()):
        assert kind in line
