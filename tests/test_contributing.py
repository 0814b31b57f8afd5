"""The walk of CONTRIBUTING.md leads through files and names that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"(?m)^\| \d+ \| (.+?) \|", (ROOT / "CONTRIBUTING.md").read_text())


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
