"""One name, one thing: a class name means the same wherever it is read."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import tulle

ROOT = Path(tulle.__file__).parent


@pytest.mark.slow
def test_a_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    several = {name: files for name, files in homes.items() if len(files) > 1}
    assert len(several) <= 1, several


def named_in(text: str) -> list[str]:
    """Return the modules and objects that the docstrings and comments of a module name."""
    files = re.findall(r"([\w/]+)\.py\b", text)
    return files + re.findall(r":(?:mod|class|func|meth|attr):`~?([\w.]+)`", text)


def test_docstrings_point_to_what_exists() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    defined = {word for path in texts for word in path.relative_to(ROOT).with_suffix("").parts}
    defined |= {name for t in texts.values() for name in re.findall(r"(?:def|class) (\w+)", t)}
    for path, text in texts.items():
        known = defined.union(["tulle"], re.findall(r"(\w+)(?=:| =)", text))
        lost = [name for name in named_in(text) if not {*re.split("[./]", name)} <= known]
        assert lost == [], path
