"""How well the joint structure survives: covariances, correlations, association of any columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.integer]


def covariance_compatibility(original: Floats, released: Floats) -> float:
    """The papers' mu: correlation between corresponding entries of two covariance matrices.

    1 is perfect, -1 the opposite. NaN where it is not defined: fewer than two columns that vary.

    >>> rng = np.random.default_rng(0)
    >>> matrix = rng.normal(size=(50, 3))
    >>> round(covariance_compatibility(matrix, matrix + 7), 12)
    1.0
    """
    upper = np.triu_indices(original.shape[1])
    return _pearson(_covariances(original)[upper], _covariances(released)[upper])


def association(numbers: Floats, codes: Codes) -> Floats:
    """How strongly each two columns go together, (p + q, p + q); numbers come first.

    Two numbers: Pearson's correlation. Two categories: Cramer's V. A number and a category: the
    correlation ratio, the root of the share of variance that the category explains. NaN where a
    column is constant.
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


def _covariances(matrix: Floats) -> Floats:
    centred = matrix - matrix.mean(axis=0)
    return np.asarray(centred.T @ centred / len(matrix))


def _pearson(left: Floats, right: Floats) -> float:
    left, right = left - left.mean(), right - right.mean()
    scale = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / scale if scale > 0 else float("nan")


def _correlations(numbers: Floats) -> Floats:
    covariances = _covariances(numbers) if numbers.shape[1] else np.empty((0, 0))
    spread = np.sqrt(np.diag(covariances))
    scale = np.where(spread > 0, spread, np.nan)
    return np.clip(covariances / np.outer(scale, scale), -1, 1)


def _numbered(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes as 0, 1, ... and how often each occurs."""
    _, numbers, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return numbers.ravel().astype(np.int64), counts.astype(np.int64)


def _correlation_ratio(
    values: Floats, groups: NDArray[np.int64], sizes: NDArray[np.int64]
) -> float:
    total = float(((values - values.mean()) ** 2).sum())
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
    # only pairs that occur: the table of two columns with many categories would not fit
    pairs, together = np.unique(left * len(right_sizes) + right, return_counts=True)
    first, second = np.divmod(pairs, len(right_sizes))
    share = float((together**2 / (left_sizes[first] * right_sizes[second])).sum()) - 1
    return float(np.sqrt(np.clip(share / least, 0.0, 1.0)))
