"""Documentation that cannot rot: what it shows is run, what there is is shown."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import tulle
from tulle.cli import tulle as command_line

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# what the pages take for granted: a table of people, and files of them
GIVEN = """
import numpy as np, polars as pl
_rng = np.random.default_rng(0)
table = pl.DataFrame({
    "zip": _rng.choice(["01234", "04109", "98765"], 300),
    "age": _rng.integers(18, 90, 300),
    "sex": _rng.choice(["f", "m"], 300),
    "income": np.round(_rng.normal(3000, 400, 300), 2),
    "level": _rng.integers(2, 9, 300),
})
original, control = table[:200], table[200:]
release = original.with_columns(pl.all().shuffle(1))
X, y = table.drop("sex", "level"), table["sex"]
table.write_csv("people.csv"); table.write_csv("large.csv")
"""


def snippets(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_examples_run(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in [GIVEN, *snippets(page)]:
        exec(compile(snippet, str(page), "exec"), names)


def test_what_the_page_on_spark_calls_is_there() -> None:
    page = (ROOT / "docs" / "spark.md").read_text()
    for snippet in re.findall(r"```{code-block} python\n(.*?)```", page, re.DOTALL):
        compile(snippet, "spark.md", "exec")
    called = set(re.findall(r"\bspark\.(\w+)\(", page))
    assert called == set(tulle.spark.__all__)


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("tulle ")]


def test_commands_of_the_tutorial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tutorial.md"
    for snippet in snippets(page):
        exec(compile(snippet, str(page), "exec"), {})
    for line in commands(page):
        done = CliRunner().invoke(command_line, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}"
    made = ("release.csv", "release.csv.manifest.json", "report.html", "public.html", "policy.toml")
    assert [name for name in (*made, "frontier/explore.html") if not Path(name).exists()] == []


def test_every_public_name_and_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    missing = [name for name in tulle.__all__ if name not in text and name != "__version__"]
    commands = command_line.list_commands(
        command_line.make_context("tulle", [], resilient_parsing=True)
    )
    missing += [name for name in commands if f"tulle {name}" not in text]
    assert missing == []


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pages_refer_to_pages_and_headings_that_exist() -> None:
    known = {page.stem for page in PAGES if page.parent.name == "docs"}
    for page in PAGES:
        text = page.read_text()
        for target in re.findall(r"\{doc\}`(?:[^`<]*<)?/?([\w-]+)>?`", text):
            assert target in known, f"{page.name}: {target}"
        for target, anchor in re.findall(r"\]\(([\w-]*\.md)?#([\w-]+)\)", text):
            other = page.parent / target if target else page
            assert anchor in anchors(other), f"{page.name}: {target}#{anchor}"
    listed = set(re.findall(r"(?m)^([\w-]+)$", (ROOT / "docs" / "index.md").read_text()))
    assert known - listed - {"index"} == set(), "a page that no table of contents lists"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    heads = re.findall(r"(?m)^#+ (.*)$", page.read_text())
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.strip().replace(" ", "-") for head in plain}
