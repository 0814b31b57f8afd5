"""Members of large groups traded many at once, for small inputs with NumPy alone.

In large groups one member hardly moves the mean, and exchanges one by one take more rounds than
there are.
"""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings._padded import PaddedGroups
from tulle.condense.groupings.repair import squared
from tulle.moments import Floats, Ints

MANY = 32  # members of groups that trade
SWEEPS = 10  # over all pairs of groups near each other, at most


def trade_all(state: PaddedGroups) -> None:
    """Trades between large groups near each other, as long as the error falls."""
    large = set(np.flatnonzero(state.sizes >= MANY).tolist())  # swaps leave sizes as they are
    for _ in range(SWEEPS if len(large) > 1 else 0):
        near = state.near()
        pairs = {(min(a, b), max(a, b)) for a in large for b in near[a].tolist()}
        able = [(a, b) for a, b in sorted(pairs) if a != b and {a, b} <= large]
        if not sum(trade(state, a, b) for a, b in able):
            return


def trade(state: PaddedGroups, a: int, b: int) -> int:
    """Swaps the members that lean most to the other group, as long as both together gain.

    A swap gains at least what the two lean to each other's group. Returns how many were swapped.
    """
    total = 0
    while True:
        of_a, leans_a = _leaning(state, a, b)
        of_b, leans_b = _leaning(state, b, a)
        most = min(len(of_a), len(of_b))
        count = int((leans_a[:most] + leans_b[:most] > state.least).sum())
        if count == 0:
            return total
        x, y = of_a[:count], of_b[:count]
        state.members[a, x], state.members[b, y] = state.members[b, y], state.members[a, x]
        total += count


def _leaning(state: PaddedGroups, a: int, b: int) -> tuple[Ints, Floats]:
    """Members of a that may be in b, those first that are nearest to it; by how much they are."""
    rows, others = (state.members[group, : state.sizes[group]] for group in (a, b))
    points = state.points[rows]
    leans = squared(points, points.mean(axis=0))
    leans -= squared(points, state.points[others].mean(axis=0))
    leans[state.levels[rows] > state.sizes[b]] = -np.inf
    order = np.argsort(-leans, kind="stable")
    return order, leans[order]
