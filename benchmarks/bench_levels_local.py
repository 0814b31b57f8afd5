"""A few people who ask for much must not cost all: 2 % of Abalone at level 100, the rest at 5.

``TULLE_DATA=folder python -m benchmarks.bench_levels_local [--quick] [--seeds 0,1] [--label NAME]``
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from benchmarks.judged_measures import judge
from benchmarks.judged_tables import (
    load,
    means,
    options,
    parted,
    released,
    say,
    warm,
    write_versions,
)

LOW, HIGH, SHARE = 5, 100, 0.02
MEASURES = {
    "apart": "told apart",
    "tv": "three-way TV",
    "model": "model loses",
    "membership": "membership",
    "cpu": "CPU s",
}


def levels_of(people: pd.DataFrame, where: str, rng: np.random.Generator) -> np.ndarray:
    """Return the level of each person: 2 % ask for 100, drawn at random or the largest ones."""
    levels = np.full(len(people), LOW)
    few = round(SHARE * len(people))
    if where == "2 % at random":
        levels[rng.permutation(len(people))[:few]] = HIGH
    elif where == "2 % of the largest":
        levels[np.argsort(-people["whole_weight"].to_numpy(), kind="stable")[:few]] = HIGH
    elif where == "all at 100":
        levels[:] = HIGH
    return levels


WHO = ("all at 5", "2 % at random", "2 % of the largest", "all at 100")


def main(quick: bool = False) -> None:
    asked = options(tables=("abalone",), seeds=(0,) if quick else (0, 1, 2))
    warm()
    frame, target = load("abalone", 1500 if quick else asked.rows)
    rows = []
    for where in WHO:
        found = []
        for seed in asked.seeds:
            members, strangers = parted(frame, seed)
            levels = levels_of(members, where, np.random.default_rng(seed))
            made, cpu = released(members, LOW, seed, levels=levels)
            found.append(judge(made, members, strangers, target, seed) | {"cpu": cpu})
        mean = means(found)
        say(where, mean)
        rows.append([where, *(mean[measure] for measure in MEASURES)])
    write_versions(
        "levels_local",
        "Abalone with 2 % of the people at level 100 and the rest at 5",
        ["who asks for 100", *MEASURES.values()],
        rows,
        asked.label,
        quick,
        notes="Two thirds are released, judged as in recipe.md. A level acts locally if 2 % at "
        f"level 100 cost little of what separates all at 5 from all at 100. Means of "
        f"{len(asked.seeds)} seeds.",
        seed=asked.seeds[0],
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
