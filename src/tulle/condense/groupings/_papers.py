"""The papers' first grouping: random seeds, each with its nearest records."""

from __future__ import annotations

import numpy as np

from tulle._threads import models_on_one
from tulle._types import Floats, Ints
from tulle.condense.groupings._repair import merge_small, squared


def original(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Let random records take their nearest until their group is as large as every level in it.

    The rest, too few for a group, join the seeds nearest to them.
    """
    groups = np.full(len(matrix), -1)
    left = rng.permutation(len(matrix))
    seeds: list[int] = []
    while len(left) >= levels[left].max():
        order = left[np.argsort(squared(matrix[left], matrix[left[0]]), kind="stable")]
        size = grown(levels[order])
        groups[order[:size]] = len(seeds)
        seeds.append(int(left[0]))
        left = left[groups[left] < 0]
        if len(left) == 0:
            return merge_small(matrix, groups, levels)
    for row in left:
        groups[row] = np.argmin(squared(matrix[seeds], matrix[row])) if seeds else 0
    return merge_small(matrix, groups, levels)


def grown(levels: Ints) -> int:
    """Return how many of the first records make a group as large as every level in it."""
    demands = np.maximum.accumulate(levels)
    enough = np.flatnonzero(np.arange(1, len(levels) + 1) >= demands)
    return int(enough[enough + 1 >= levels[0]][0]) + 1 if len(enough) else len(levels)


# ConstructGroups of paper 000: level by level, groups eat and lose members. Where the paper is
# silent: records of a level that are too few for a group of their own form an undersized one,
# which the next level dissolves; what is undersized at the end merges into its nearest group.


class _Group:
    """Members, and the sums that give mean and SSQ without looking at them again."""

    def __init__(self, rows: list[int], matrix: Floats) -> None:
        self.rows = rows
        self.sums = matrix[rows].sum(axis=0)
        self.squares = float((matrix[rows] ** 2).sum())

    @property
    def mean(self) -> Floats:
        return self.sums / len(self.rows)

    @property
    def ssq(self) -> float:
        return self.squares - float(self.sums @ self.sums) / len(self.rows) if self.rows else 0.0

    def add(self, row: int, matrix: Floats) -> None:
        self.rows.append(row)
        self.sums = self.sums + matrix[row]
        self.squares += float(matrix[row] @ matrix[row])

    def remove(self, row: int, matrix: Floats) -> None:
        self.rows.remove(row)
        self.sums = self.sums - matrix[row]
        self.squares -= float(matrix[row] @ matrix[row])


def levels(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Run Segment, Cannibalize and Attrition for each level, upwards."""
    built = [_Group([row], matrix) for row in np.flatnonzero(levels == 1).tolist()]
    for level in range(2, int(levels.max()) + 1):
        fresh = _segment(np.flatnonzero(levels == level), level, matrix, rng)
        if fresh:
            built = _cannibalize(built, fresh, matrix, levels)
            _attrition(built, fresh, level, matrix, levels)
        built = [group for group in built + fresh if group.rows]
    groups = np.empty(len(matrix), dtype=np.int64)
    for number, group in enumerate(built):
        groups[group.rows] = number
    return merge_small(matrix, groups, levels)


def _segment(rows: Ints, level: int, matrix: Floats, rng: np.random.Generator) -> list[_Group]:
    """Group random records with their nearest of the same level; the rest join the closest
    groups.
    """
    made: list[_Group] = []
    left = rng.permutation(rows)
    while len(left) >= level:
        order = left[np.argsort(squared(matrix[left], matrix[left[0]]), kind="stable")]
        made.append(_Group(order[:level].tolist(), matrix))
        left = left[~np.isin(left, order[:level])]
    if not made:
        return [_Group(left.tolist(), matrix)] if len(left) else []
    for row in left.tolist():
        _closest(made, matrix[row]).add(row, matrix)
    return made


def _cannibalize(
    lower: list[_Group], upper: list[_Group], matrix: Floats, levels: Ints
) -> list[_Group]:
    """Dissolve lower groups whose members fit better above, or that are undersized."""
    kept = []
    for group in lower:
        hosts = [_closest(upper, matrix[row]) for row in group.rows]
        touched = {id(host): host for host in hosts}.values()
        before = group.ssq + sum(host.ssq for host in touched)
        members = list(group.rows)
        for row, host in zip(members, hosts):
            host.add(row, matrix)
        after = sum(host.ssq for host in touched)
        if after < before or len(members) < levels[members].max():
            continue
        for row, host in zip(members, hosts):
            host.remove(row, matrix)
        kept.append(group)
    return kept


def _attrition(
    lower: list[_Group], upper: list[_Group], level: int, matrix: Floats, levels: Ints
) -> None:
    """Let groups with more than ``level`` members give away those that fit better below.

    What each record would gain is computed for all groups before any record moves.
    """
    large = [group for group in upper if len(group.rows) > level]
    if not lower:
        return
    for group, gains in zip(large, [_gains(group, lower, matrix, levels) for group in large]):
        surplus = len(group.rows) - level
        for row in sorted(gains, key=lambda row: (gains[row][0], row), reverse=True)[:surplus]:
            group.remove(row, matrix)
            gains[row][1].add(row, matrix)


def _gains(
    group: _Group, lower: list[_Group], matrix: Floats, levels: Ints
) -> dict[int, tuple[float, _Group]]:
    """Return the records of a group that would be nearer to a lower one, by how much, and which."""
    gains = {}
    for row in group.rows:
        host = _viable(lower, row, matrix, levels)
        if host is None:
            continue
        own, other = (float(np.linalg.norm(matrix[row] - one.mean)) for one in (group, host))
        if own > other:
            gains[row] = (own - other, host)
    return gains


def _viable(lower: list[_Group], row: int, matrix: Floats, levels: Ints) -> _Group | None:
    """Find the closest group that is large enough for a record once it has joined."""
    able = [group for group in lower if len(group.rows) + 1 >= levels[row]]
    return _closest(able, matrix[row]) if able else None


def _closest(groups: list[_Group], point: Floats) -> _Group:
    means = np.array([group.mean for group in groups])
    return groups[int(np.argmin(squared(means, point)))]


# The modified condensation of paper 001: clusters by k-means, then sizes put right.


def modified(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Run k-means with n // k clusters; small ones, smallest first, take the nearest missing
    records.

    A donor gives its surplus only, which always suffices when all levels are alike. With levels,
    k is their mean, and what is still too small merges.
    """
    from sklearn.cluster import KMeans

    k = round(float(levels.mean()))
    places = len(np.unique(np.round(matrix, 9), axis=0))  # k-means tells no more apart
    count = min(max(1, len(matrix) // k), places)
    seed = int(rng.integers(2**31))
    with models_on_one():
        found = KMeans(count, n_init=1, random_state=seed).fit(matrix)
    groups = found.labels_.astype(np.int64)
    for cluster in np.argsort(np.bincount(groups, minlength=count), kind="stable"):
        _fill(cluster, found.cluster_centers_[cluster], matrix, groups, levels)
    return merge_small(matrix, groups, levels)


def _fill(cluster: int, centre: Floats, matrix: Floats, groups: Ints, levels: Ints) -> None:
    """Move the nearest records out of clusters that have more than they need."""
    members = groups == cluster
    missing = int(levels[members].max(initial=0)) - int(members.sum())
    if missing <= 0:
        return
    sizes = np.bincount(groups)
    needs = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(needs, groups, levels)
    spare = sizes - needs
    limit = int(members.sum()) + missing
    apart = squared(matrix, centre)
    for row in np.argsort(apart, kind="stable"):
        donor = groups[row]
        if donor != cluster and spare[donor] > 0 and levels[row] <= limit:
            spare[donor] -= 1
            groups[row] = cluster
            missing -= 1
            if missing == 0:
                return


# MDAV, the field's reference: groups around the records farthest from the middle.


def mdav(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Group by maximum distance to average vector (Domingo-Ferrer and Torra 2005). Deterministic.

    The record farthest from the mean takes its k - 1 nearest, then the record farthest from that
    one does, as long as 3k records are left. With levels the seed is the farthest of those that
    ask for most, and takes as many as it asks for: nobody left asks for more, so every group is
    valid. Records that could not stand alone stay with the last group.
    """
    from tulle.condense.groupings._start_kernels import mdav_block

    groups = np.empty(len(matrix), dtype=np.int64)
    columns = np.array(matrix.T, dtype=np.float64, order="C")
    mdav_block(columns, levels.copy(), np.arange(len(matrix)), 0, groups)
    return groups
