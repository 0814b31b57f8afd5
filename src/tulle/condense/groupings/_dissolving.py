"""Groups dissolved into others and split in two, for small inputs with NumPy alone.

Exchanges keep the number of groups; this changes it where that lowers the error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tulle.condense.groupings._padded import PaddedGroups
from tulle.moments import Ints


def restructure(state: PaddedGroups, neighbours: Ints) -> None:
    """Dissolves groups whose members fit better elsewhere, splits those that can be split."""
    near = state.near()
    for group in np.flatnonzero(_dissolving_may_gain(state, near, neighbours)):
        _dissolve(state, int(group), near[group], neighbours)
    needs = state.levels[state.members].max(axis=1)
    for group in np.flatnonzero(state.sizes >= 2 * np.maximum(needs, 1)):
        _split(state, int(group))


def _dissolving_may_gain(state: PaddedGroups, near: Ints, neighbours: Ints) -> NDArray[np.bool_]:
    """An upper bound of the gain, with every member alone in the best group, is positive.

    Members look at the groups near their own and at those of the records near them: the centre
    of a group that bridges two clusters is near neither.
    """
    groups, points = state.labels(), state.points[:-1]
    centres, levels = state.centres(), state.levels[:-1]
    own = points - centres[groups]
    gains = np.einsum("ij,ij->i", own, own)
    cheapest = np.full(len(points), np.inf)
    for host in (*near[groups].T, *groups[neighbours].T):
        size = state.sizes[host]
        away = points - centres[host]
        cost = np.einsum("ij,ij->i", away, away) * (size / (size + 1.0))
        cost[(host == groups) | (size == 0) | (levels > size + 1)] = np.inf
        cheapest = np.minimum(cheapest, cost)
    total = np.bincount(groups, gains - cheapest, minlength=len(state.sizes))
    return (state.sizes > 1) & (total > state.least)


def _dissolve(state: PaddedGroups, group: int, near: Ints, neighbours: Ints) -> None:
    rows = state.members[group, : state.sizes[group]].copy()
    hosts = np.union1d(near, state.labels()[neighbours[rows]])
    hosts = hosts[(hosts != group) & (state.sizes[hosts] > 0)]
    if len(hosts) == 0:
        return
    sizes = state.sizes[hosts].copy()
    centres = state.points[state.members[hosts]].sum(axis=1) / sizes[:, None]
    points = state.points[rows]
    gain = float(((points - points.mean(axis=0)) ** 2).sum())
    chosen = np.empty(len(rows), dtype=np.int64)
    for number, point in enumerate(points):
        cost = ((centres - point) ** 2).sum(axis=1) * sizes / (sizes + 1.0)
        full = sizes >= state.members.shape[1] - 1
        cost[full | (state.levels[rows[number]] > sizes + 1)] = np.inf
        best = int(cost.argmin())
        gain -= float(cost[best])
        if gain <= state.least:
            return
        sizes[best] += 1
        centres[best] += (point - centres[best]) / sizes[best]
        chosen[number] = best
    state.members[group] = state.nobody
    state.sizes[group] = 0
    for row, host in zip(rows, hosts[chosen]):
        state.add(np.array([host]), np.array([row]))


def _split(state: PaddedGroups, group: int) -> None:
    """The member farthest from the mean takes its nearest until they are a valid group."""
    empty = np.flatnonzero(state.sizes == 0)
    rows = state.members[group, : state.sizes[group]].copy()
    points = state.points[rows]
    seed = points[((points - points.mean(axis=0)) ** 2).sum(axis=1).argmax()]
    order = rows[((points - seed) ** 2).sum(axis=1).argsort(kind="stable")]
    needs = np.maximum.accumulate(state.levels[order])
    size = int(np.argmax(np.arange(1, len(order) + 1) >= np.maximum(needs, 1))) + 1
    rest = order[size:]
    if len(rest) < max(1, int(state.levels[rest].max(initial=1))):
        return
    if len(empty):
        fresh = int(empty[0])
    else:
        fresh = len(state.sizes)
        row = np.full((1, state.members.shape[1]), state.nobody)
        state.members = np.vstack([state.members, row])
        state.sizes = np.append(state.sizes, 0)
    for target, chosen in ((fresh, order[:size]), (group, rest)):
        state.members[target] = state.nobody
        state.members[target, : len(chosen)] = chosen
        state.sizes[target] = len(chosen)
