"""One name, one thing: a class name means the same wherever it is read."""

from __future__ import annotations

import ast
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
