"""Documentation that cannot rot: what it shows is run, what there is is shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import tulle
from tulle.cli import tulle as command_line

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


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
    for snippet in snippets(page):
        exec(compile(snippet, str(page), "exec"), names)


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
