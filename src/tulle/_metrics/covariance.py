"""How well the joint structure survives: covariances, correlations, association of any columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tulle._types import Floats, Integers


def covariance_compatibility(original: Floats, released: Floats) -> float:
    """Compute the papers' mu: the correlation between the entries of two covariance matrices.

    1 is perfect, -1 the opposite. NaN where it is not defined: fewer than two columns that vary.

    >>> rng = np.random.default_rng(0)
    >>> matrix = rng.normal(size=(50, 3))
    >>> round(covariance_compatibility(matrix, matrix + 7), 12)
    1.0
    """
    return agreement(_covariances(original), _covariances(released))


def agreement(original: Floats, released: Floats) -> float:
    """Compute the correlation between corresponding entries of two covariance matrices."""
    upper = np.triu_indices(len(original))
    return _pearson(original[upper], released[upper])


def association(numbers: Floats, codes: Integers) -> Floats:
    """Measure how strongly every two columns are associated, (p + q, p + q); numbers come first.

    Two numbers: Pearson's correlation. Two categories: Cramer's V. A number and a category: the
    correlation ratio, the root of the share of variance that the category explains. Numbers that
    are missing (NaN) are left out, pair by pair. NaN where a column is constant.
    """
    p, q = numbers.shape[1], codes.shape[1]
    matrix = np.full((p + q, p + q), np.nan)
    matrix[:p, :p] = _correlations(numbers)
    for j in range(q):
        mine, sizes = _numbered(codes[:, j])
        for i in range(p):
            matrix[i, p + j] = matrix[p + j, i] = _correlation_ratio(numbers[:, i], mine, sizes)
        for i in range(j + 1):
            other, other_sizes = _numbered(codes[:, i])
            value = _cramers_v(mine, sizes, other, other_sizes)
            matrix[p + i, p + j] = matrix[p + j, p + i] = value
    return matrix


def spread_behind(numbers: Floats, codes: Integers) -> NDArray[np.int64]:
    """Count the records on which the spread of each column rests; numbers come first.

    Of numbers the square of the summed squared deviations over the sum of their squares: ``m`` if
    ``m`` records deviate and all others are at the mean. Of categories all records but those of
    the commonest one. An association is about no more people than that. What is the same for all
    rests on all.

    >>> spread_behind(np.array([[0.0], [0.0], [0.0], [9.0]] * 50), np.array([[1], [1], [1], [2]]))
    array([85,  1])
    """
    found = []
    for column in numbers.T:
        known = column[~np.isnan(column)]
        squares = (known - known.mean()) ** 2 if len(known) else known
        total = float((squares**2).sum())
        found.append(int(float(squares.sum()) ** 2 / total) if total > 0 else len(column))
    for column in codes.T:
        most = int(_numbered(column)[1].max())
        found.append(len(column) - most or most)
    return np.array(found, dtype=np.int64)


def _covariances(matrix: Floats) -> Floats:
    centred = matrix - matrix.mean(axis=0)
    return np.asarray(centred.T @ centred / len(matrix))


def _pearson(left: Floats, right: Floats) -> float:
    left, right = left - left.mean(), right - right.mean()
    scale = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(np.clip(left @ right / scale, -1, 1)) if scale > 0 else float("nan")


def _correlations(numbers: Floats) -> Floats:
    """Compute Pearson's correlations, each over the records that have both numbers."""
    there = ~np.isnan(numbers)
    middle = np.where(there, numbers, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    values, known = np.where(there, numbers - middle, 0.0), there.astype(np.float64)
    counts = np.maximum(known.T @ known, 1)
    sums = values.T @ known
    spread = np.maximum((values**2).T @ known - sums**2 / counts, 0.0)
    scale = np.sqrt(spread * spread.T)
    # what is left of a constant column is rounding
    varies = spread > 1e-12 * ((values**2).T @ known)
    together = values.T @ values - sums * sums.T / counts
    scale[~(varies & varies.T) | (scale == 0)] = np.nan
    return np.clip(together / scale, -1, 1)


def _numbered(codes: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Renumber integers as 0, 1, ... and count how often each occurs."""
    _, numbers, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return numbers.ravel().astype(np.int64), counts.astype(np.int64)


def _correlation_ratio(
    values: Floats, groups: NDArray[np.int64], sizes: NDArray[np.int64]
) -> float:
    there = ~np.isnan(values)
    if not there.all():
        values = values[there]
        groups, sizes = _numbered(groups[there])
    total = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if total == 0 or len(sizes) < 2:
        return float("nan")
    means = np.bincount(groups, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum())
    return float(np.sqrt(min(1.0, between / total)))


def _cramers_v(
    left: NDArray[np.int64],
    left_sizes: NDArray[np.int64],
    right: NDArray[np.int64],
    right_sizes: NDArray[np.int64],
) -> float:
    least = min(len(left_sizes), len(right_sizes)) - 1
    if least < 1:
        return float("nan")
    pairs, together = _counted(left * len(right_sizes) + right, len(left_sizes) * len(right_sizes))
    first, second = np.divmod(pairs, len(right_sizes))
    share = float((together**2 / (left_sizes[first] * right_sizes[second])).sum()) - 1
    return float(np.sqrt(np.clip(share / least, 0.0, 1.0)))


def _counted(pairs: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs that occur and how often; a table of all pairs would not always fit."""
    if most > 4 * len(pairs):
        found, counts = np.unique(pairs, return_counts=True)
        return found, counts.astype(np.int64)
    counts = np.bincount(pairs, minlength=most)
    found = np.flatnonzero(counts)
    return found, counts[found]
