"""Do miners find the same in two tables of the same people, row by row?

Codes of several sites guarantee it. Four miners are run on both tables: a decision tree, naive
Bayes, nearest neighbours, and clusters that start from the same people. The records that get the
same answer are counted. Nothing looks at names: categories are taken in the order in which they
appear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tulle._threads import models_on_one
from tulle._types import Floats, Ints

_MOST = 4000  # records that the miners look at
_INDICATORS = 40  # of one column; rarer categories stand at 0 in all of them
_CLUSTERS = 5


def same_answers(
    first: pl.DataFrame, second: pl.DataFrame, target: str, rng: np.random.Generator
) -> dict[str, float]:
    """Compute the share of records with the same answer from each miner; 1 is guaranteed.

    Empty if there are fewer than 20 records, one class only, or nothing to tell them apart by.
    """
    rows = np.sort(rng.permutation(len(first))[:_MOST])
    tables = [table[rows] for table in (first, second)]
    classes = [_in_order(table[target]) for table in tables]
    matrices = [_matrix(table.drop(target)) for table in tables]
    if len(rows) < 20 or classes[0].max() == 0 or not all(m.shape[1] for m in matrices):
        return {}
    answers = [_answers(*part) for part in zip(matrices, classes)]
    return {
        name: float(np.mean(answers[0][name] == answers[1][name])) for name in sorted(answers[0])
    }


def _answers(matrix: Floats, classes: Ints) -> dict[str, Ints]:
    """Return each miner's answer for each record it learnt from."""
    from sklearn.cluster import KMeans
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    models: dict[str, Any] = {
        "same_tree": DecisionTreeClassifier(max_depth=8, random_state=0),
        "same_bayes": GaussianNB(),
        "same_neighbours": KNeighborsClassifier(5, algorithm="brute"),
    }
    starts = np.unique(matrix, axis=0, return_index=True)[1]
    seeds = np.sort(starts)[:: max(1, len(starts) // _CLUSTERS)][:_CLUSTERS]
    with models_on_one():
        found = {name: model.fit(matrix, classes).predict(matrix) for name, model in models.items()}
        clusters = KMeans(len(seeds), init=matrix[seeds], n_init=1, random_state=0)
        return found | {"same_clusters": clusters.fit_predict(matrix)}


def _matrix(table: pl.DataFrame) -> Floats:
    """Return numbers on one scale, and an indicator for each of the commonest categories."""
    parts = [part for column in table for part in _columns(column) if np.ptp(part) > 0]
    return np.column_stack(parts) if parts else np.empty((len(table), 0))


def _columns(column: pl.Series) -> list[Floats]:
    if not (column.dtype.is_numeric() or column.dtype.is_temporal()):
        codes = _in_order(column)
        counts = np.bincount(codes)
        shown = np.argsort(-counts, kind="stable")[:_INDICATORS]
        return [(codes == code).astype(np.float64) for code in shown]
    plain = column.to_physical() if column.dtype.is_temporal() else column
    values = plain.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    gone = ~np.isfinite(values)
    if gone.all():
        return []
    values = np.where(gone, np.nan, values)
    # by a power of two, which is exact: squares of huge and of tiny numbers stay finite
    values = np.ldexp(values, -int(np.frexp(np.nanmax(np.abs(values)))[1]))
    spread = float(np.nanstd(values)) or 1.0
    scaled = np.where(gone, 0.0, (values - np.nanmean(values)) / spread)
    # so many digits that a straight line of the values gives the same, ties included
    rounded = np.asarray(np.round(scaled, 6), dtype=np.float64)
    return [rounded, gone.astype(np.float64)] if gone.any() else [rounded]


def _in_order(column: pl.Series) -> Ints:
    """Enumerate values by first appearance; missing is a value of its own."""
    place: dict[Any, int] = {}
    numbered = [place.setdefault(value, len(place)) for value in column.to_list()]
    return np.array(numbered, dtype=np.int64)
