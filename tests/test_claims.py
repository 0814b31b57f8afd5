"""What Tulle never says of a release: in reports, on the terminal, in its pages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tests.report import results
from tulle import audit
from tulle._report import markdown, render, to_json
from tulle.cli import tulle

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
CLAIMS = (
    r"\banonymous",
    r"\banonymi[sz]",  # anonymised data; anonymeter is a tool
    r"\bcompl(y|ies|iant|iance)\b",
    r"\bcertif",
    r"\bk-anonym",
    r"(probability|risk|chance) of re-?identification",
    r"safe to (release|share|publish)",
    r"cannot be (re-?)?identified",
    r"differentially private",
    r"GDPR-",
    r"HIPAA-",
)


def claimed(text: str) -> list[str]:
    return [found.group() for claim in CLAIMS for found in re.finditer(claim, text, re.I)]


def told(page: Path) -> str:
    """A page without the sections that say what is not claimed, and without code."""
    text = re.sub(r"(?ms)^## What it does not claim$.*?(?=^## |\Z)", "", page.read_text())
    return re.sub(r"(?s)```.*?```", "", text)


def test_the_words_are_found_where_they_are() -> None:
    assert claimed("This certificate says that the data are anonymous.")
    assert claimed("The release is k-anonymous and GDPR-compliant.")
    assert not claimed("anonymeter measures a related risk; pseudonymised codes.")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_page_claims_it(page: Path) -> None:
    assert claimed(told(page)) == []


@pytest.mark.slow
@pytest.mark.parametrize("edition", ["owner", "public"])
@pytest.mark.parametrize("family", results.FAMILIES)
def test_no_report_claims_it(family: str, edition: str) -> None:
    result = results.FAMILIES[family]()
    page = render(result, edition).split("<script>")[0]  # what follows is Vega
    for text in (page, to_json(result, edition), markdown(result, edition)):
        assert claimed(text) == []


@pytest.mark.slow
def test_no_audit_claims_it_and_no_rate_is_called_a_probability() -> None:
    rng = np.random.default_rng(0)
    table, control, others = (
        pl.DataFrame({"age": rng.normal(50, 20, 200), "ill": rng.choice(["y", "n"], 200)})
        for _ in range(3)
    )
    for release in (table, others):
        found = audit(table, release, control=control, random_state=0)
        page = found.html().split("<script>")[0]
        assert claimed(page + found.json()) == []
        assert "a rate is not the chance that somebody will be identified" in page


@pytest.mark.slow
def test_no_help_text_claims_it() -> None:
    context = tulle.make_context("tulle", [], resilient_parsing=True)
    for name in tulle.list_commands(context):
        assert claimed(CliRunner().invoke(tulle, [name, "--help"]).output) == []


def test_no_string_of_the_sources_claims_it() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        strings = re.findall(r'"(?:[^"\\\n]|\\.)*"', path.read_text())
        assert claimed(" ".join(strings)) == [], path
