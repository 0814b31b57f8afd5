"""CONTRIBUTING.md describes the house as it is: its layers, and places that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ROWS = re.findall(r"(?m)^\| \d+ \| (.+?) \|", PAGE)


def test_the_layers_are_those_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    drawn = PAGE.split("```\ncli ")[1].split("```")[0]
    lines = [re.split(r" {2,}", line)[0] for line in f"cli {drawn}".strip().split("\n")]
    assert lines == contract["layers"]


def names_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def test_the_walk_is_short() -> None:
    assert 10 <= len(ROWS) <= 15


@pytest.mark.parametrize("row", ROWS)
def test_every_stop_exists(row: str) -> None:
    for place in row.split(";"):
        file, *names = re.findall(r"`([^`]+)`", place)
        known = names_in(ROOT / "src" / "tulle" / file)
        assert {part for name in names for part in name.split(".")} <= known
