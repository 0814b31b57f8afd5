"""Mixing records of different levels against condensing each level apart, at equal guarantees.

Paper 000 mixes levels because the records of one level may be few, or lie apart: this is the
table of what that saves.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import polars as pl

from benchmarks.bench_condense_levels import DATA, SEED, load
from benchmarks.results import write_table
from tulle import ClassCondenser, Condenser, PrivacyWarning
from tulle._types import Ints

Draw = Callable[[np.random.Generator, int], Ints]


def uniform(low: int, high: int) -> Draw:
    return lambda rng, n: rng.integers(low, high + 1, n)


def few_demanding(rng: np.random.Generator, n: int) -> Ints:
    return np.where(rng.random(n) < 0.2, 20, 3)


LEVELS: dict[str, Draw] = {
    "6 to 10": uniform(6, 10),
    "16 to 20": uniform(16, 20),
    "46 to 50": uniform(46, 50),
    "2 to 50": uniform(2, 50),
    "3, one in 5 asks for 20": few_demanding,
}
REPEATS = {"Magic": 1}  # the paper's grouping takes half a minute there
USUAL_REPEATS = 5


def main(quick: bool = False) -> None:
    names = DATA[:2] if quick else (*DATA, "Magic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # duplicates in the data
        rows = [row(name, words, quick) for name in names for words in LEVELS]
    write_table(
        "condense_mixing",
        "Information loss (100 SSQ / SST): levels mixed, and each level apart",
        [
            "data",
            "records",
            "levels",
            "mixed, default",
            "mixed, paper's grouping",
            "apart, default",
            "apart / mixed",
            "levels that cannot stand alone",
        ],
        rows,
        notes="Every record is in a group of at least its level, in all columns; features on "
        f"standardised columns, without the target; means of {USUAL_REPEATS} draws of levels and "
        "seeds (Magic: one). Apart: the default grouping on the records of one level at a time. "
        "The last column counts (on average) the levels that have fewer records than the level "
        "asks for; no release with each level apart exists there, so their records join the next "
        "higher level (the highest joins the one below), which mixes some. Apart / mixed: above "
        "1, mixing loses less; it is near 1 where levels are so far from each other that the "
        "default itself keeps them apart.",
        packages=("numpy", "numba", "polars"),
        seed=SEED,
        quick=quick,
    )


def row(name: str, words: str, quick: bool) -> list[object]:
    X, _ = load(name)
    repeats = 1 if quick else REPEATS.get(name, USUAL_REPEATS)
    losses = np.array([compare(X, LEVELS[words], repeat) for repeat in range(repeats)])
    fast, papers, apart, short = losses.mean(axis=0).tolist()
    shown = [f"{loss:.2f}" for loss in (fast, papers, apart, apart / fast)]
    return [name, len(X), words, *shown, f"{short:.3g}"]


def compare(X: pl.DataFrame, draw: Draw, repeat: int) -> tuple[float, float, float, int]:
    """Losses of the default mixed, the paper's grouping, and each level apart."""
    levels = draw(np.random.default_rng([SEED, repeat]), len(X))
    mixed = [
        Condenser(grouping=grouping, random_state=repeat).fit(X, levels=levels).information_loss_
        for grouping in ("fast", "levels")
    ]
    units, short = joined(levels)
    apart = ClassCondenser(Condenser(grouping="fast"), random_state=repeat)
    return mixed[0], mixed[1], apart.fit(X, units, levels).information_loss_, short


def joined(levels: Ints) -> tuple[Ints, int]:
    """Which records are condensed together if levels are kept apart as far as possible.

    Returns the highest level of each record's unit, and how many levels have too few records.
    """
    values, counts = np.unique(levels, return_counts=True)
    short = int((counts < values).sum())
    units: list[int] = []
    waiting = 0
    for value, count in zip(values.tolist(), counts.tolist()):
        waiting += count
        if waiting >= value:
            units.append(value)
            waiting = 0
    if waiting and units:  # the highest levels are short: they join the unit below
        units[-1] = int(values[-1])
    tops = np.array(units or [int(values[-1])])
    return tops[np.searchsorted(tops, levels)], short


if __name__ == "__main__":
    main("--quick" in sys.argv)
