"""CONTRIBUTING.md describes the house as it is: its layers, and the way of a record."""

from __future__ import annotations

import re
import sys
import threading
import tomllib
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle.cli import tulle

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ROWS = re.findall(r"(?m)^\| \d+ \| (.+?) \|", PAGE)


def test_the_layers_are_those_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    drawn = PAGE.split("```\ncli ")[1].split("```")[0]
    lines = [re.split(r" {2,}", line)[0] for line in f"cli {drawn}".strip().split("\n")]
    assert lines == contract["layers"]


def stops() -> list[tuple[str, str]]:
    """The stops of the walk in their order: a file, and a function, method or class in it."""
    found = []
    for row in ROWS:
        for place in row.split(";"):
            file, *names = re.findall(r"`([^`]+)`", place)
            found += [(file, name) for name in names]
    return found


def traced(words: list[str]) -> dict[tuple[str, str], int]:
    """Run a command, and return when each function of the package was called first."""
    home, first = f"{ROOT / 'src' / 'tulle'}/", {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # the body of a class is run too, when it is defined: it has no fast locals
        if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(home):
            first.setdefault((code.co_filename.removeprefix(home), code.co_qualname), len(first))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        done = CliRunner().invoke(tulle, words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.exit_code == 0, done.output
    return first


def test_the_walk_is_short() -> None:
    assert 10 <= len(ROWS) <= 16


@pytest.mark.slow
def test_a_run_passes_every_stop_of_the_walk_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = {"age": rng.integers(18, 90, 400), "sex": rng.choice(["f", "m"], 400)}
    pl.DataFrame(people | {"pay": rng.normal(3000, 300, 400).round(2)}).write_csv("patients.csv")
    (command,) = re.findall(r"`tulle (condense [^`]+)`, stop by stop", PAGE)
    first = traced([*command.split(), "--seed", "1"])
    when = {
        (file, name): min(
            (
                time
                for (where, what), time in first.items()
                if where == file and (what == name or what.startswith(f"{name}."))
            ),
            default=None,
        )
        for file, name in stops()
    }
    assert [stop for stop, time in when.items() if time is None] == [], "not on the way"
    assert list(when) == sorted(when, key=lambda stop: when[stop] or 0)


def test_the_forms_of_a_record_are_those_of_the_walk() -> None:
    forms = dict.fromkeys(re.findall(r"(?m)^\| \d+ \| .* \| (.+?) \|$", PAGE))
    (said,) = re.findall(r"The record takes (\d+) forms", PAGE)
    (counted,) = re.findall(r"(?m)^\| now \|.* (\d+) \|$", PAGE)
    assert int(said) == int(counted) == sum(form.count(", then ") + 1 for form in forms)
