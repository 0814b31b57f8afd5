"""Documentation that cannot rot: what it shows is run, what there is is shown."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import tulle
from tulle.cli import tulle as command_line

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

TOLD = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
# Python and bash blocks are run as they stand; console and text are illustrations
TAGS = {"python", "bash", "toml", "console", "text"}


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: the tag of each, and its text."""
    return re.findall(r"(?m)^```([^\n`]*)\n(.*?)^```$", page.read_text(), re.DOTALL)


def shell_lines(text: str) -> list[list[str]]:
    """The commands of a block as words, without prompts and comments, those of ``&&`` apart."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    parts = [" ".join(map(shlex.quote, one)).split(" '&&' ") for one in words if one]
    return [shlex.split(part) for line in parts for part in line]


def shell(text: str) -> None:
    """Run a bash block: only Tulle, and what leads to where it runs."""
    for words in shell_lines(text):
        if words[0] == "cd":
            os.chdir(words[1])
        elif words[:2] != ["source", ".venv/bin/activate"]:
            assert words[0] == "tulle", f"{words[0]} is not run here: tag the block as console"
            done = CliRunner().invoke(command_line, words[1:])
            assert done.exit_code == 0, f"{shlex.join(words)}\n{done.output}\n{done.exception}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_examples_run(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_a_page_runs_from_top_to_bottom_in_an_empty_folder(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for tag, text in blocks(page):
        if tag == "python":
            exec(compile(text, str(page), "exec"), names)
        elif tag == "bash":
            shell(text)
        elif tag == "toml":
            tomllib.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_block_says_whether_it_is_run(page: Path) -> None:
    tags = {tag for tag, _ in blocks(page) if not tag.startswith("{")}
    assert tags <= TAGS


def test_what_the_page_on_spark_calls_is_there() -> None:
    page = (ROOT / "docs" / "spark.md").read_text()
    for snippet in re.findall(r"```{code-block} python\n(.*?)```", page, re.DOTALL):
        compile(snippet, "spark.md", "exec")
    called = set(re.findall(r"\bspark\.(\w+)\(", page))
    assert called == set(tulle.spark.__all__)


def test_the_tutorial_ends_with_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "tutorial.md"
    test_a_page_runs_from_top_to_bottom_in_an_empty_folder(page, tmp_path, monkeypatch)
    made = ("release.csv", "release.csv.manifest.json", "report.html", "public.html", "policy.toml")
    assert [name for name in (*made, "frontier/explore.html") if not Path(name).exists()] == []


def known(words: list[str]) -> click.Command:
    """The command that some words after ``tulle`` name; those of groups by two words."""
    context = command_line.make_context("tulle", [], resilient_parsing=True)
    found: click.Command = command_line
    for word in words:
        if not isinstance(found, click.Group) or word.startswith("-"):
            break
        inner = found.get_command(context, word)
        assert inner is not None, f"there is no command 'tulle {' '.join(words)}'"
        found = inner
    return found


def options_of(command: click.Command) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("page", TOLD, ids=lambda path: path.stem)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    for tag, block in blocks(page):
        text = text.replace(block, "")
        for words in shell_lines(block) if tag in ("bash", "console") else []:
            if words[0] != "tulle":
                continue
            command = known(words[1:])
            given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
            missing = given - options_of(command) - {"--help", "--version", "--debug"}
            assert not missing, f"{page.name}: {shlex.join(words)}"
    for span in re.findall(r"`tulle\s+([a-z][^`]*)`", text):
        command = known([word for word in span.split() if re.fullmatch(r"[a-z]+", word)][:2])
        given = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", span))
        assert given <= options_of(command) | {"--help"}, f"{page.name}: tulle {span}"


def test_make_has_the_targets_that_pages_name() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for page in TOLD:
        text = page.read_text()
        named = re.findall(r"`make\s+([a-z-]+)|^(?:\$ )?make ([a-z-]+)", text, re.MULTILINE)
        assert {one or other for one, other in named} <= targets, page.name


def test_every_public_name_and_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    missing = [name for name in tulle.__all__ if name not in text and name != "__version__"]
    commands = command_line.list_commands(
        command_line.make_context("tulle", [], resilient_parsing=True)
    )
    missing += [name for name in commands if f"tulle {name}" not in text]
    assert missing == []


def test_the_image_is_made_of_what_there_is() -> None:
    """No builder is at hand where tests run: its steps are checked one by one."""
    steps = (ROOT / "Containerfile").read_text()
    for copied in re.findall(r"(?m)^COPY (.*) /src\S*$", steps):
        assert all((ROOT / name).exists() for name in copied.split())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = re.findall(r"/src\[([a-z,]+)\]", steps)
    assert set(asked.split(",")) <= set(extras["optional-dependencies"])
    assert known(["warm"]).name == "warm"
    assert "NUMBA_CACHE_DIR=/opt/tulle" in steps.partition("tulle warm")[0]
    assert steps.index("tulle warm") < steps.index("USER tulle")  # it is not compiled again


def test_the_page_of_commands_is_what_help_says() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "commands"))
    assert (ROOT / "docs" / "commands.md").read_text() == made["commands_page"]()
    assert (ROOT / "docs" / "llms.txt").read_text() == made["index_for_agents"]()


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pages_refer_to_pages_and_headings_that_exist() -> None:
    known = {page.stem for page in PAGES if page.parent == ROOT / "docs"}
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
