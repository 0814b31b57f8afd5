"""Joint structure: covariances, association of any columns, effects and clusters.

*Effects*: does a regression find in the release what it clearly finds in the original? An analyst
regresses a number on the other columns and reads off what is significant. Each number is regressed
so in both tables, by least squares, with standard errors that hold for any spread and count people,
not rows. An effect that is clear in the original is *lost* where the release has it no longer, or
turned around: not significant there, or with the other sign.

*Clusters*: does someone who clusters the release find the clusters of the original? k-means finds
centres in the original and in the release; the originals go to the nearest centre of each. The two
partitions of the same people are compared, and how far people are from the centres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._threads import models_on_one
from tulle._types import Flags, Floats, Integers, Ints


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
    upper = np.triu(np.ones(original.shape, dtype=bool))
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


CLEAR = 4.0  # standard errors: people drawn once more would hardly ever lose it
_SIGNIFICANT = 1.96
_SMALL = 1e-9


class Effects(NamedTuple):
    """The effects that are clear in the original, and which of them the release lost."""

    outcomes: Ints
    causes: Ints
    lost: Flags

    @property
    def share(self) -> float:
        """The share that is lost."""
        return float(self.lost.mean()) if len(self.lost) else 0.0


def effects(
    original: Floats, release: Floats, outcomes: int, people: Ints | None = None
) -> Effects:
    """Regress each of the first ``outcomes`` columns on all others, in both tables.

    ``people`` says whose row of the original it is, where people have several.
    """
    clear: list[tuple[int, int, bool]] = []
    for place in range(outcomes):
        others = np.delete(np.arange(original.shape[1]), place)
        before = scores(original[:, others], original[:, place], people)
        after = scores(release[:, others], release[:, place], None)
        for cause, old, new in zip(others, before, after):
            if abs(old) >= CLEAR:
                clear.append((place, int(cause), bool(new * np.sign(old) < _SIGNIFICANT)))
    told = np.array(clear, dtype=np.int64).reshape(-1, 3)
    return Effects(told[:, 0], told[:, 1], told[:, 2] > 0)


def scores(causes: Floats, outcome: Floats, people: Ints | None) -> Floats:
    """Return each cause's slope in standard errors, 0 where it cannot be told from the others."""
    spread = causes.std(axis=0)
    varies = spread > _SMALL
    found = np.zeros(causes.shape[1])
    if not varies.any() or outcome.std() <= _SMALL or len(outcome) <= varies.sum() + 2:
        return found
    design = (causes[:, varies] - causes[:, varies].mean(axis=0)) / spread[varies]
    values, axes = np.linalg.eigh(design.T @ design / len(design))
    kept = values > 1e-6 * values[-1]  # what follows from other columns has no slope of its own
    inverse = (axes[:, kept] / values[kept]) @ axes[:, kept].T / len(design)
    centred = outcome - outcome.mean()
    slopes = inverse @ (design.T @ centred)
    pulls = design * (centred - design @ slopes)[:, None]
    if people is not None:
        _, own = np.unique(people, return_inverse=True)
        summed = np.zeros((int(own.max()) + 1, pulls.shape[1]))
        np.add.at(summed, own.ravel(), pulls)
        pulls = summed
    errors = np.sqrt(np.einsum("ij,jk,ik->i", inverse, pulls.T @ pulls, inverse))
    own_part = 1 - (axes[:, ~kept] ** 2).sum(axis=1) > 0.5
    found[varies] = np.where(own_part, slopes / np.maximum(errors, _SMALL), 0.0)
    return found


CLUSTERS = 5
_STARTS = 3


class ClusterScores(NamedTuple):
    """How clusters of a release do on the originals."""

    agreement: float  # adjusted Rand index: 1 the same partition, 0 chance
    error: float  # squared distance to the release's centres over that to the original's own


def cluster_scores(original: Floats, release: Floats, seed: int) -> ClusterScores | None:
    """Compare clusters of two tables in the same standardised dimensions; None without any."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    if min(len(np.unique(part, axis=0)) for part in (original, release)) < CLUSTERS:
        return None
    labels, errors = [], []
    with models_on_one():
        for part in (original, release):
            model = KMeans(CLUSTERS, n_init=_STARTS, random_state=seed).fit(part)
            away = model.transform(original)
            labels.append(away.argmin(axis=1))
            errors.append(float((away.min(axis=1) ** 2).sum()))
    if errors[0] == 0:
        return None
    return ClusterScores(float(adjusted_rand_score(*labels)), errors[1] / errors[0])
