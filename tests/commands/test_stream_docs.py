"""The first stream of the user guide, followed word for word in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tulle.cli import tulle

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"


def test_the_first_stream_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part = PAGE.read_text().partition("## On the command line")[2]
    code, console = re.findall(r"```(?:python|console)\n(.*?)```", part, re.DOTALL)[:2]
    exec(compile(code, str(PAGE), "exec"), {})
    *commands, last = [line[2:] for line in console.splitlines() if line.startswith("$ ")]
    for command in commands:
        done = CliRunner().invoke(tulle, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    shown = console.splitlines()[-1]
    assert last.startswith("cat ")
    assert Path(shlex.split(last)[1]).read_text().strip() == shown


def test_every_option_of_the_guide_exists() -> None:
    part = PAGE.read_text().partition("## On the command line")[2].partition("\n## ")[0]
    known = {name for option in tulle.get_command(None, "stream").params for name in option.opts}
    assert set(re.findall(r"--[a-z][a-z-]*", part)) <= known
