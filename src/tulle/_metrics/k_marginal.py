"""NIST's k-marginal score: do combinations of k columns occur as often as they did?

For each set of k columns the shares of all combinations of cells are compared; the mean of the sums
of absolute differences, L1, is between 0 and 2, and the score is (2 - L1) x 500: 1000 for equal
shares, 0 if nothing is in common. A sample of the original loses points too: the share of the
records that scores as the release does is the *equivalent subsample*.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tulle._metrics.cells import Cells, joined
from tulle._types import Floats, Integers, Ints

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
_MOST_KEYS = 4_000_000  # counted in an array; beyond that by sorting


def sets_of(columns: int, k: int, most: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Choose sets of k columns: all, or ``most`` of them at random."""
    k = min(k, columns)
    if columns <= 60:
        every = list(combinations(range(columns), k))
        if len(every) <= most:
            return every
        return [every[i] for i in np.sort(rng.choice(len(every), most, replace=False))]
    drawn = {tuple(np.sort(rng.choice(columns, k, replace=False)).tolist()) for _ in range(most)}
    return sorted(drawn)


def differences(
    original: Integers, release: Integers, sizes: Sequence[int], sets: Sequence[tuple[int, ...]]
) -> Floats:
    """Return the L1 difference of each set of columns, between 0 and 2.

    >>> left, right = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 1]])
    >>> differences(left, right, (2, 2), [(0, 1), (0,)]).tolist()
    [1.0, 0.0]
    """
    return np.array([_difference(*joined((original, release), sizes, some)) for some in sets])


def score(differences: Floats) -> float:
    """Return NIST's score of L1 differences: 1000 is perfect."""
    return float((2 - differences.mean()) * 500)


def by_column(differences: Floats, sets: Sequence[tuple[int, ...]], columns: int) -> Floats:
    """Return the score of the sets that each column is in; NaN if it is in none."""
    total, count = np.zeros(columns), np.zeros(columns)
    for value, some in zip(differences, sets):
        total[list(some)] += value
        count[list(some)] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray((2 - total / count) * 500)


def equivalent_share(
    cells: Cells, sets: Sequence[tuple[int, ...]], found: float, rng: np.random.Generator
) -> float:
    """Return the share of the original that, drawn at random, has the score ``found``.

    ``found`` is of the same ``sets``. Between the shares that are tried it is interpolated; below
    the smallest it is 0.
    """
    original, records = cells.original, len(cells.original)
    order = rng.permutation(records)
    shares = [share for share in SHARES if share * records >= 1]
    scores = [
        score(differences(original, original[order[: round(s * records)]], cells.sizes, sets))
        for s in shares
    ]
    rising = np.maximum.accumulate([0.0, *scores, 1000.0])
    return float(np.interp(found, rising, [0.0, *shares, 1.0]))


def _difference(original: Ints, release: Ints) -> float:
    top = int(max(original.max(initial=0), release.max(initial=0))) + 1
    if top > _MOST_KEYS:
        _, numbers = np.unique(np.concatenate([original, release]), return_inverse=True)
        original, release = numbers[: len(original)], numbers[len(original) :]
        top = int(numbers.max()) + 1
    before = np.bincount(original, minlength=top) / len(original)
    after = np.bincount(release, minlength=top) / len(release)
    return float(np.abs(before - after).sum())
