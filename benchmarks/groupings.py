"""Data and measures that the benchmarks of groupings share."""

from __future__ import annotations

import numpy as np
import polars as pl
import polars.selectors as cs

from benchmarks.results import data_folder
from tulle.condense.groupings import group_records

SEED = 0


def standardised(matrix: np.ndarray) -> np.ndarray:
    spread = matrix.std(axis=0)
    return ((matrix - matrix.mean(axis=0)) / np.where(spread > 0, spread, 1))[:, spread > 0]


def mixture(n: int, d: int = 10, seed: int = SEED) -> np.ndarray:
    """Twenty correlated Gaussians whose spectrum decays, standardised."""
    rng = np.random.default_rng(seed)
    which = rng.integers(20, size=n)
    centres = rng.normal(size=(20, d)) * 3
    matrix = np.empty((n, d))
    for component in range(20):
        rows = which == component
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        drawn = rng.normal(size=(rows.sum(), d)) * 0.75 ** np.arange(d)
        matrix[rows] = centres[component] + drawn @ turn
    return standardised(matrix)


def numeric(path: str, rows: int | None = None) -> np.ndarray:
    """The columns of numbers of a file of the data folder, standardised."""
    table = pl.read_csv(data_folder() / f"{path}.csv.gz", infer_schema_length=None, n_rows=rows)
    numbers = table.select(cs.numeric()).fill_null(strategy="mean")
    return standardised(numbers.to_numpy().astype(float))


def loss(matrix: np.ndarray, groups: np.ndarray) -> float:
    """100 SSQ / SST."""
    sizes = np.bincount(groups)
    means = np.column_stack([np.bincount(groups, column) for column in matrix.T]) / sizes[:, None]
    within = ((matrix - means[groups]) ** 2).sum()
    return float(100 * within / ((matrix - matrix.mean(axis=0)) ** 2).sum())


def grouped(matrix: np.ndarray, k: int, method: str, **options: object) -> np.ndarray:
    levels = np.full(len(matrix), k)
    rng = np.random.default_rng(options.pop("seed", SEED))  # type: ignore[arg-type]
    return group_records(matrix, levels, rng, method=method, **options)  # type: ignore[arg-type]
