"""What sketches lose: the error of dot products against its prediction, neighbours and classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tulle._types import Floats, Ints
from tulle.sketch._neighbours import dot_variance
from tulle.sketch.sketches import Sketches


class DotErrors(NamedTuple):
    """Errors of estimated dot products, and the standard deviation predicted for each."""

    predicted: Floats
    measured: Floats

    @property
    def ratio(self) -> float:
        """The root mean square of measured over predicted; 1 if the theory is right."""
        sure = self.predicted > 0
        return float(np.sqrt(np.mean((self.measured[sure] / self.predicted[sure]) ** 2)))


def dot_errors(
    released: Sketches, records: Any, rng: np.random.Generator, pairs: int = 2000
) -> DotErrors:
    """Measure errors over random pairs of released records."""
    rows = np.flatnonzero(~released.suppressed)
    first, second = rng.choice(rows, pairs), rng.choice(rows, pairs)
    x, y = records[first].astype(np.float64), records[second].astype(np.float64)
    common = np.minimum(released.lengths[first], released.lengths[second])
    products = released.values[first].astype(np.float64) * released.values[second]
    truth = np.asarray(x.multiply(y).sum(axis=1)).ravel()
    predicted = np.sqrt(np.maximum(dot_variance(x, y) / common, 0.0))
    return DotErrors(predicted, products.sum(axis=1) / common - truth)


_VOTES = 25  # neighbours that tell a class
_LEARNABLE = 0.1  # of what saying the commonest class leaves to be told
_TESTED = 500  # records whose class is told


def classes_kept(released: Sketches, records: Any, codes: Ints, rng: np.random.Generator) -> float:
    """Compute how much of what the nearest records tell of a class the nearest sketches tell.

    Both are counted beyond always naming the commonest class; records without a class have the
    code -1. NaN where the records themselves tell next to nothing.
    """
    from tulle.sketch.miners import SketchKNeighborsClassifier

    rows = np.flatnonzero(~released.suppressed & (codes >= 0))
    rows = rows[rng.permutation(len(rows))]
    test, train = np.split(rows, [min(len(rows) // 3, _TESTED)])
    if not len(test):
        return float("nan")
    sizes = np.bincount(codes[train])
    usual = float(np.mean(codes[test] == sizes.argmax()))
    matrix = records[train].astype(np.float64)
    norms = np.sqrt(np.maximum(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel(), 1e-12))
    right = 0
    for part in np.array_split(test, range(50, len(test), 50)):
        products = (records[part].astype(np.float64) @ matrix.T).toarray() / norms
        for row, cosines in zip(part, products):
            near = np.argsort(-cosines, kind="stable")[:_VOTES]
            votes = np.bincount(codes[train][near], cosines[near] ** 4)
            right += int(votes.argmax() == codes[row])
    told = right / len(test) - usual
    if told <= _LEARNABLE * (1 - usual):
        return float("nan")
    miner = SketchKNeighborsClassifier(_VOTES).fit(released[train], codes[train])
    seen = float(np.mean(miner.predict(released[test]) == codes[test])) - usual
    return max(0.0, seen / told)


def neighbour_recall(
    released: Sketches, records: Any, rng: np.random.Generator, k: int = 10, queries: int = 300
) -> float:
    """Compute the share of the k nearest records (cosine) that are among the k nearest sketches.

    NaN if there is but one record: it has no neighbours that could be lost.
    """
    rows = np.flatnonzero(~released.suppressed)
    k = min(k, len(rows) - 1)
    if k < 1:
        return float("nan")
    asked = rng.choice(len(rows), min(queries, len(rows)), replace=False)
    matrix, sketches = records[rows].astype(np.float64), released[rows]
    norms = np.sqrt(np.maximum(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel(), 1e-12))
    found = 0
    for start in range(0, len(asked), 50):
        part = asked[start : start + 50]
        true = (matrix[part] @ matrix.T).toarray() / norms
        seen = sketches[part].cosines(sketches)
        for cosines in (true, seen):
            cosines[np.arange(len(part)), part] = -np.inf
        best = [np.argpartition(-cosines, k - 1, axis=1)[:, :k] for cosines in (true, seen)]
        found += sum(len(np.intersect1d(a, b)) for a, b in zip(*best))
    return found / (k * len(asked))
