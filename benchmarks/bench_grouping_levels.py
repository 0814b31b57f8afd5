"""Levels per record on MAGIC: mixed, against all at the highest level and each level apart."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.groupings import SEED, loss, numeric
from benchmarks.results import timed, write_table
from tulle.condense.groupings import group_records


def distributions(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "U{3..20}": rng.integers(3, 21, n),
        "U{16..20}": rng.integers(16, 21, n),
        "3, 5 % at 20": np.where(rng.random(n) < 0.05, 20, 3),
        "5, 5 % at 50": np.where(rng.random(n) < 0.05, 50, 5),
        "3, 30 % at 20": np.where(rng.random(n) < 0.30, 20, 3),
    }


def apart(matrix: np.ndarray, levels: np.ndarray) -> np.ndarray:
    groups = np.empty(len(levels), dtype=np.int64)
    used = 0
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        found = group_records(matrix[rows], levels[rows], np.random.default_rng(SEED))
        groups[rows] = found + used
        used += found.max() + 1
    return groups


def main(quick: bool) -> None:
    matrix = numeric("tables/magic", 3000 if quick else None)
    rows = []
    group_records(matrix, np.full(len(matrix), 10), np.random.default_rng(SEED))  # compile
    for name, levels in distributions(len(matrix), np.random.default_rng(SEED)).items():
        top = np.full(len(matrix), levels.max())
        highest, uniform = timed(
            lambda top=top: loss(matrix, group_records(matrix, top, np.random.default_rng(SEED)))
        )
        each = loss(matrix, apart(matrix, levels))
        mixed, seconds = timed(
            lambda levels=levels: loss(
                matrix, group_records(matrix, levels, np.random.default_rng(SEED))
            )
        )
        rows.append(
            [
                name,
                highest,
                each,
                mixed,
                f"{mixed / min(highest, each):.3f}",
                f"{seconds / uniform:.1f}",
            ]
        )
    write_table(
        "grouping_levels",
        f"MAGIC, {len(matrix):,} x {matrix.shape[1]}: loss with levels per record (fast)",
        [
            "levels",
            "all at the highest",
            "each level apart",
            "mixed",
            "mixed / better of both",
            "time / uniform",
        ],
        rows,
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
