"""ConstructGroups of paper 000: level by level, groups eat and lose members.

Where the paper is silent: records of a level that are too few for a group of their own form an
undersized one, which the next level dissolves; what is undersized at the end merges into its
nearest group.
"""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings.repair import merge_small, squared
from tulle.moments import Floats, Ints


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
    """Segment, Cannibalize, Attrition for each level, upwards."""
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
    """Random records with their nearest of the same level; the rest join the closest groups."""
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
    """Dissolves lower groups whose members fit better above, or that are undersized."""
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
    """Groups with more than ``level`` members give those away that fit better below."""
    for group in upper:
        surplus = len(group.rows) - level
        if surplus <= 0 or not lower:
            continue
        gains = []
        for row in group.rows:
            host = _viable(lower, row, matrix, levels)
            if host is not None:
                own = np.linalg.norm(matrix[row] - group.mean)
                gains.append((own - np.linalg.norm(matrix[row] - host.mean), row))
        for gain, row in sorted(gains, reverse=True)[:surplus]:
            host = _viable(lower, row, matrix, levels)
            if gain > 0 and host is not None:
                group.remove(row, matrix)
                host.add(row, matrix)


def _viable(lower: list[_Group], row: int, matrix: Floats, levels: Ints) -> _Group | None:
    """The closest group that is large enough for a record once it has joined."""
    able = [group for group in lower if len(group.rows) + 1 >= levels[row]]
    return _closest(able, matrix[row]) if able else None


def _closest(groups: list[_Group], point: Floats) -> _Group:
    means = np.array([group.mean for group in groups])
    return groups[int(np.argmin(squared(means, point)))]
