"""No module needs, even by an import inside a function, a module that needs it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tulle

ROOT = Path(tulle.__file__).parent


def _modules() -> dict[str, Path]:
    names = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def _imported(code: ast.AST, known: Container[str]) -> Iterator[str]:
    """Yield what code imports anywhere, but for what only a type checker does."""
    unread: set[ast.AST] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            unread.update(node.body)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node not in unread:
            inner = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name if name in known else node.module for name in inner)


def _cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the modules of each cycle, after which it is cut."""
    found = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            first, second, *_ = cycle = error.args[1]
            found.append(set(cycle))
            graph[first].discard(second)
            graph[second].discard(first)
        else:
            return found


@pytest.mark.slow
def test_there_are_no_cycles_of_imports() -> None:
    known = _modules()
    graph = {}
    for name, path in known.items():
        code = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = {module for module in _imported(code, known) if module in known} - {name}
    assert _cycles(graph) == []
