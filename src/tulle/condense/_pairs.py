"""Records paired with pseudo-records of their own group, for measures that compare the two.

Only a measurement needs this (paper 001's interval): the pairs live as long as it does, and a
fitted condenser keeps neither groups nor records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.condense._synthesis import synthesize


class Pairs:
    """Watches a fit and draws one pseudo-record for each record, at random within its group.

    Standardised columns, so that classes and parts of a table can be looked at together.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._originals: list[Floats] = []
        self._released: list[Floats] = []

    def __call__(self, matrix: Floats, groups: Ints, moments: GroupMoments) -> None:
        released, released_groups = synthesize(moments, self._rng)
        shuffled = self._rng.permutation(len(groups))
        order = shuffled[np.argsort(groups[shuffled], kind="stable")]
        self._originals.append(matrix[order])
        self._released.append(released[np.argsort(released_groups, kind="stable")])

    def together(self) -> tuple[Floats, Floats]:
        """Return all records and, row by row, their counterparts."""
        width = min(part.shape[1] for part in self._originals)  # a pool has its labels too
        return (
            np.concatenate([part[:, :width] for part in self._originals]),
            np.concatenate([part[:, :width] for part in self._released]),
        )


def fit_paired(
    condenser: Any, X: Any, y: Any, levels: Any, rng: np.random.Generator
) -> Pairs | None:
    """Fit a condenser and pair its records; None for a stream, which has no list of members."""
    if hasattr(condenser, "partial_fit"):
        condenser.fit(X, y, levels)
        return None
    pairs = Pairs(rng)
    condenser._fit(X, y, levels, watch=pairs)
    return pairs
