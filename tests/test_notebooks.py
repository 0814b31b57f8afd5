"""The notebooks run from top to bottom, and what they show holds; no Jupyter is needed for that."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tulle.errors import PrivacyWarning

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def run(name: str) -> list[Any]:
    """The value of the last expression of each cell, as a notebook would show it."""
    book = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert all(cell["outputs"] == [] for cell in book["cells"] if cell["cell_type"] == "code")
    names: dict[str, Any] = {}
    shown = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            *work, last = ast.parse("".join(cell["source"])).body
            is_value = isinstance(last, ast.Expr)
            exec(compile(ast.Module(work if is_value else [*work, last], []), name, "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
    return shown


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def pages(shown: list[Any]) -> list[str]:
    return [one._repr_html_() for one in shown if hasattr(one, "_repr_html_")]


@pytest.mark.slow
def test_a_table_is_released_attacked_and_explored() -> None:
    shown = run("table")
    *_, reasons, frontier, why = shown
    assert reasons[0].startswith(("Nothing notable", "Not decided"))
    assert {point.spec.k for point in frontier.points} >= {10, 40}
    assert why == frontier.choice.reason
    told = pages(shown)
    assert sum("<iframe" in page for page in told) == 2
    assert sum("at least 20" in page for page in told) == 1


@pytest.mark.slow
def test_people_with_visits_are_released_as_people() -> None:
    shown = run("panel")
    _, (rows, people), both, *_, counts, _, levels = shown
    assert rows > people > 300
    assert both == set()
    original, released = counts.to_dicts()
    assert released["people"] == original["people"]
    assert abs(released["visits each"] / original["visits each"] - 1) < 0.1
    assert levels[0] != "bad"


def test_a_rule_is_hidden_in_baskets() -> None:
    _, rules, (touched, _, failure), (before, after), kept = run("baskets")
    assert rules.height == 5
    assert 0 < touched < 200
    assert failure == 0
    assert 0 < after < before
    assert kept.height == 5
