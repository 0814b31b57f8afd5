"""A release at every k from 3 to a third of the people: utility must fall slowly, without a cliff.

``TULLE_DATA=folder python -m benchmarks.bench_over_k [--quick] [--tables wdbc,pima] [--k 3,10,90]
[--seeds 0,1,2]``

The default synthesis next to the papers' uniform one, on two thirds of each of five tables: what a
nearest neighbour and a boosted model learn from the release is asked on the other third.
"""

from __future__ import annotations

import itertools
import sys

import altair as alt
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from benchmarks.judged_measures import as_numbers, as_points, model_score, told_apart
from benchmarks.judged_tables import cell, load, means, options, parted, release, say, warm
from benchmarks.results import save_chart, write_table

TABLES = ("wdbc", "pima", "abalone", "magic", "german")
MOST = {"magic": 1500, "abalone": 1500}
SIZES = (3, 10, 30, 100, 300, 1000)
WAYS = ("shape", "uniform")
MEASURES = ("1-NN", "model", "told apart", "1-NN of the original", "model of the original")


def main(quick: bool = False) -> None:
    asked = options(tables=TABLES[:2] if quick else TABLES, seeds=(0,) if quick else (0, 1), k=())
    warm()
    rows = []
    for name in asked.tables:
        frame, target = load(name, MOST.get(name))
        sizes = asked.k or sizes_for(2 * len(frame) // 3, quick)
        rows += measured(name, frame, target, sizes, asked.seeds)
        write(rows, len(asked.seeds), quick)
    draw(rows, quick)


def write(rows: list[list], seeds: int, quick: bool) -> None:
    falls = [largest_fall(list(part)) for _, part in itertools.groupby(rows, lambda row: row[:2])]
    fall_notes = "; ".join(falls)
    write_table(
        "over_k",
        "Releases at every k: the default synthesis and the papers' uniform one",
        [
            "table",
            "synthesis",
            "k",
            "1-NN",
            "model",
            "told apart",
            "1-NN of the original",
            "model of it",
        ],
        [[*row[:3], *map(cell, row[3:])] for row in rows],
        notes="Two thirds of a table are released (of magic and abalone: of 1,500 rows), one "
        "third asks. 1-NN: share of strangers whose target the nearest released record has "
        "(abalone: within one ring), Gower's distance. Model: AUC or R2 of gradient boosting. "
        f"Told apart: AUC, release against strangers. Means of {seeds} seeds. Largest fall of 1-NN "
        f"from one k to the next: {fall_notes}. A class that fewer than k people hold, or little "
        "more, is not in a release: german's and pima's smaller one at the last k, where nothing "
        "is left to learn.",
        packages=("numpy", "numba", "pandas", "scikit-learn"),
        seed=0,
        quick=quick,
    )


def sizes_for(members: int, quick: bool) -> list[int]:
    """Return group sizes up to a third of the people, which is the last one."""
    sizes = [k for k in SIZES if k < members / 3.5]
    return [*(sizes[::3] if quick else sizes), members // 3]


def measured(name: str, frame: pd.DataFrame, target: str, sizes: list[int], seeds: list[int]):
    rows = []
    for way, k in itertools.product(WAYS, sizes):
        found = means([once(frame, target, way, k, seed) for seed in seeds])
        say(name, way, k, {what: round(value, 3) for what, value in found.items()})
        rows.append([name, way, k, *found.values()])
    return rows


def once(frame: pd.DataFrame, target: str, way: str, k: int, seed: int) -> dict[str, float]:
    """Release the members of a split and ask the strangers."""
    members, strangers = parted(frame, seed)
    made = release(members, k, seed, synthesis=way)
    (made, own, others), numeric = as_numbers([made[list(members)], members, strangers])
    place = list(members).index(target)
    found = (
        neighbour(made, others, own, numeric, place),
        model_score(made, others, place, numeric),
        told_apart(made, others),
        neighbour(own, others, own, numeric, place),
        model_score(own, others, place, numeric),
    )
    return dict(zip(MEASURES, found))


def neighbour(train, test, like, numeric, target: int) -> float:
    """Return how often the nearest record's target is right; of many numbers, within one."""
    inputs = [np.delete(table, target, axis=1) for table in (train, test, like)]
    points = as_points(inputs[:2], inputs[2], np.delete(numeric, target))
    nearest = cdist(points[1], points[0], "cityblock").argmin(axis=1)
    allowed = 1 if numeric[target] and len(np.unique(like[:, target])) > 10 else 0
    return float(np.mean(np.abs(train[nearest, target] - test[:, target]) <= allowed))


def largest_fall(rows: list[list]) -> str:
    """Say between which two k most of the nearest neighbour's accuracy is lost."""
    falls = [(one[3] - two[3], one[2], two[2]) for one, two in itertools.pairwise(rows)]
    lost, first, second = max(falls)
    return f"{rows[0][0]}, {rows[0][1]}: {lost:.3f} from k = {first} to {second}"


def draw(rows: list[list], quick: bool) -> None:
    names = ["table", "synthesis", "k", "1-NN", "model", "told apart", "original"]
    data = pd.DataFrame([row[:7] for row in rows], columns=names)
    axis = alt.X("k:Q", scale=alt.Scale(type="log"), title="group size k")
    scale = alt.Y("1-NN:Q", scale=alt.Scale(zero=False), title="1-NN on strangers")
    lines = alt.Chart().mark_line(point=True).encode(axis, scale, color="synthesis:N")
    original = alt.Chart().mark_rule(strokeDash=[4, 3]).encode(y="mean(original):Q")
    chart = alt.layer(original, lines, data=data).properties(width=200, height=150)
    chart = chart.facet("table:N", columns=3).resolve_scale(x="independent", y="independent")
    save_chart("over_k", chart, quick=quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
