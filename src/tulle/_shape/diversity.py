"""Demands on a sensitive column: what its values must look like among the people of a group.

A group whose members all share a diagnosis reveals it, however large it is. Two demands are known
from the literature: at least ``l`` different values (l-diversity), or a distribution close to that
of the whole table (t-closeness, by the earth mover's distance: values of a category are equally
far apart, numbers lie as many steps apart as there are cells between them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._types import Flags, Floats, Ints

_STEPS = 50  # cells of a number whose distribution is compared


@dataclass(frozen=True)
class Diversity:
    """Hold what is demanded of one sensitive column.

    Parameters
    ----------
    name : str
        The column.
    values : int
        How many different values each group must hold; 1 demands nothing.
    distance : float
        The largest distance of a group's distribution to the table's; 1 demands nothing.
    ordered : bool
        Whether values have an order, so that near ones count as close.
    """

    name: str
    values: int = 1
    distance: float = 1.0
    ordered: bool = False

    def falls_short(self, counts: Floats, whole: Floats) -> Flags:
        """Tell which groups do not meet the demand, from how often each value occurs in each."""
        short: Flags = (counts > 0).sum(axis=1) < self.values
        if self.distance < 1:
            short |= self.distances(counts, whole) > self.distance + 1e-12
        return short

    def distances(self, counts: Floats, whole: Floats) -> Floats:
        """Return the earth mover's distance of each group's distribution to the table's."""
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        gaps = shares - whole / whole.sum()
        if not self.ordered:
            return np.asarray(np.abs(gaps).sum(axis=1) / 2)
        steps = max(len(whole) - 1, 1)
        return np.asarray(np.abs(np.cumsum(gaps, axis=1)).sum(axis=1) / steps)

    def describe(self) -> str:
        parts = []
        if self.values > 1:
            parts.append(f"{self.values} different values")
        if self.distance < 1:
            parts.append(f"a distribution within {self.distance:g} of the table's")
        return " and ".join(parts)


def tally(groups: Ints, codes: Ints) -> Floats:
    """Return how often each code occurs in each group, (groups, codes)."""
    width = int(codes.max(initial=0)) + 1
    size = (int(groups.max(initial=0)) + 1) * width
    counts = np.bincount(groups * width + codes, minlength=size)
    return counts.reshape(-1, width).astype(np.float64)


def in_steps(ranks: Ints) -> Ints:
    """Return ordered codes as at most fifty steps of about as many records each."""
    if int(ranks.max(initial=0)) < _STEPS:
        return ranks
    counts = np.bincount(ranks)
    middle = (np.cumsum(counts) - counts / 2) / len(ranks)
    return np.unique(np.floor(middle * _STEPS), return_inverse=True)[1][ranks]
