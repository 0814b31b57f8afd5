"""The ingredients of the default model, one taken out at a time, on the twelve tables.

``TULLE_DATA=folder python -m benchmarks.bench_ingredients [--quick] [--tables german,gss]
[--seeds 0,1]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.bench_recipe import MEASURES, MOST, measured
from benchmarks.judged_tables import TWELVE, options, say, warm
from benchmarks.results import write_table

TREES, MODEL, SHAPED = "tulle._shape.trees", "tulle._shape.model", "tulle.condense._shaped"
# what is set to what; the default, and then each ingredient taken out
VARIANTS: dict[str, tuple[dict[tuple[str, str], Any], dict[str, Any]]] = {
    "the default": ({}, {}),
    "one tree a column": ({(SHAPED, "TREES"): 1}, {}),
    "trees grown on everybody": ({(TREES, "_GROWN_ON"): 1.0}, {}),
    "no evidence for a split": ({(TREES, "_EVIDENCE"): (1e-6, 1e-6)}, {}),
    "evidence of 2, whatever the size": ({(TREES, "_EVIDENCE"): (2.0, 2.0)}, {}),
    "columns in the order of the file": ({(MODEL, "drawing_order"): "given"}, {}),
    "groups of k": ({(MODEL, "_GROUP"): 1, (MODEL, "_GROUP_BY_COLUMN"): 0}, {}),
    "one group of all": ({(MODEL, "_GROUP"): 10**6}, {}),
    "random groups": ({(MODEL, "condense"): "random"}, {}),
    "exact totals": ({}, {"exact_totals": True}),
}
SHOWN = {name: words for name, words in MEASURES.items() if not name.startswith("null")}


def main(quick: bool = False) -> None:
    asked = options(tables=("german", "gss") if quick else TWELVE, seeds=(0,) if quick else (0, 1))
    most = asked.rows or (2000 if quick else MOST)
    warm()
    rows, base = [], None
    for name, (values, more) in VARIANTS.items():
        with setting(values):
            found = np.array(
                [
                    [np.mean([one[measure] for one in runs]) for measure in SHOWN]
                    for runs in (
                        [measured(table, asked.k[0], seed, most, more) for seed in asked.seeds]
                        for table in asked.tables
                    )
                ]
            )
        base = found if base is None else base
        rows.append([name, *found.mean(axis=0).tolist(), *paired(found, base)])
        say(name, *(f"{value:.4f}" for value in found.mean(axis=0)))
    write_table(
        "ingredients",
        "The ingredients of the default model, one taken out at a time",
        ["model", *SHOWN.values(), "told apart, paired (SE)", "membership, paired (SE)"],
        rows,
        notes=f"Means over {len(asked.tables)} tables of at most {most} rows, "
        f"{len(asked.seeds)} seeds, k = {asked.k[0]}; measures as in `recipe.md`. Paired: minus "
        "the default's on the same tables and seeds, with the standard error over tables.",
        seed=asked.seeds[0],
        quick=quick,
    )


def paired(found: np.ndarray, base: np.ndarray) -> list[str]:
    """Return the differences to the default over tables, with their standard errors."""
    told = []
    for column in (0, 3):
        apart = (found - base)[:, column]
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
        told.append(f"{apart.mean():+.4f} ({error:.4f})")
    return told


@contextmanager
def setting(values: dict[tuple[str, str], Any]) -> Iterator[None]:
    """Change what a model is made with, for a while."""
    before = {place: getattr(import_module(place[0]), place[1]) for place in values}
    try:
        for (module, name), value in values.items():
            setattr(import_module(module), name, _stand_in(name, value, before[module, name]))
        yield
    finally:
        for (module, name), value in before.items():
            setattr(import_module(module), name, value)


def _stand_in(name: str, value: Any, before: Any) -> Any:
    if value == "random":  # the same groups, of people by lot
        return lambda points, groups, owners, k, rng=None: before(
            points, np.random.default_rng(0).permutation(groups), owners, k, rng
        )
    if value == "given":
        return lambda shared, settled: list(range(len(shared)))
    return value


if __name__ == "__main__":
    main("--quick" in sys.argv)
