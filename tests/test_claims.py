"""What Tulle never says of a release, and that what its pages say in figures was measured."""

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


# -- figures ---------------------------------------------------------------------------------------

YARDSTICKS = ROOT / "docs" / "yardsticks.md"
SECTIONS = {text.splitlines()[0]: text for text in YARDSTICKS.read_text().split("\n## ")[1:]}
BARS = {
    0.1,
    0.5,
    0.52,
    0.758,
    0.925,
    0.935,
    0.004,
    0.65,
    0.75,
    0.58,
    0.7,
    0.57,
    0.55,
}  # chance, and targets
SOURCES = ("arXiv", "GitHub", "made here", "by its defaults")


def decimals(text: str) -> set[float]:
    """The figures with decimals, without their sign."""
    text = re.sub(r"(?m)`[^`]*`|\(https?:\S*\)|arXiv \S+|SynthEval 1\.7|^#.*$", "", text)
    return {float(number) for number in re.findall(r"\d+\.\d+", text)}


def linked(page: Path, text: str) -> list[str]:
    """The results pages that a text links to."""
    paths = re.findall(r"\]\(((?:\.\./)?benchmarks/results/\w+\.md)\)", text)
    return [(page.parent / path).read_text() for path in paths]


def measured(page: Path, text: str) -> set[float]:
    """The figures of the results that a text links to; shares in per cent, too."""
    found = decimals("\n".join(linked(page, text)))
    return found | {round(100 * number, 4) for number in found}


def first_table(text: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the first table of a text, plain."""
    found = re.search(r"(?m)(^\|.*\n)+", text)
    lines = found.group().replace("*", "").splitlines() if found else ["|"]
    header, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return header, rows[1:]


@pytest.mark.parametrize("name", SECTIONS)
def test_each_figure_of_other_peoples_measures_stands_in_the_results_that_are_linked(name) -> None:
    section = SECTIONS[name]
    assert decimals(section) - measured(YARDSTICKS, section) - BARS == set()


@pytest.mark.parametrize("name", SECTIONS)
def test_each_row_of_the_page_is_a_row_of_the_results(name) -> None:
    """Where the columns of the page are those of the results, under the same names."""
    header, rows = first_table(SECTIONS[name])
    for text in linked(YARDSTICKS, SECTIONS[name]):
        known, results = first_table(text)
        both = [column for column in header if column and column in known]
        if len(both) > 2:
            taken = {tuple(row[known.index(column)] for column in both) for row in results}
            shown = {tuple(row[header.index(column)] for column in both) for row in rows}
            assert shown - taken == set()


@pytest.mark.parametrize("name", SECTIONS)
def test_each_figure_of_a_table_is_measured_on_that_table(name) -> None:
    """Where the columns of the page are called ``Adult: Shape, %``, after tables of the results."""
    header, rows = first_table(SECTIONS[name])
    results = "\n".join(linked(YARDSTICKS, SECTIONS[name])).splitlines()
    for at, column in enumerate(header):
        table, named, _ = column.partition(": ")
        found = [line.split(" | ") for line in results if f"| {table.lower()}" in line]
        cells = {cell.strip(" |") for line in found for cell in line}
        assert not named or {row[at] for row in rows} <= cells | {""}, column


@pytest.mark.parametrize("name", SECTIONS)
def test_our_figures_have_their_range_and_those_of_peers_a_source(name) -> None:
    header, rows = first_table(SECTIONS[name])
    if len(header) > 1:
        assert any(word in SECTIONS[name] for word in SOURCES)
    spent = [at for at, column in enumerate(header) if re.search("CPU|MB", column)]
    for row in rows:
        if any(cell.startswith("Tulle") for cell in row):
            cells = [cell for at, cell in enumerate(row) if at not in spent]
            assert [cell for cell in cells if decimals(cell) and " to " not in cell] == []


def test_figures_of_the_readme_are_those_of_the_pages_it_links_to() -> None:
    page = ROOT / "README.md"
    text = page.read_text().partition("\n## Measured\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert rows
    for row in rows:
        assert decimals(row) - measured(page, row) == set()
    quoted = text.partition("(docs/yardsticks.md)")[2]
    lines = [line for line in quoted.splitlines() if line[:2] == "- "]
    assert len(lines) == 4
    assert decimals("\n".join(lines)) <= decimals(YARDSTICKS.read_text())
