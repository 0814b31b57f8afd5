"""ConstructGroups as Figures 2 to 5 of paper 000 print it: sets of records, everything recomputed.

Where the paper is silent, as ``tulle.condense.groupings._papers`` reads it: records of a level that
are too few for a group form an undersized one, which the next level dissolves; "fewer than p - 1
members" is asked of a group; what is undersized at the end merges into its nearest group, smallest
first.
"""

from __future__ import annotations

import numpy as np

Group = list[int]


def construct_groups(
    matrix: np.ndarray, levels: np.ndarray, rng: np.random.Generator
) -> set[frozenset[int]]:
    """Figure 2. The order in which records are sampled is the only chance."""
    held = [[row] for row in range(len(matrix)) if levels[row] == 1]  # H1
    for p in range(2, int(max(levels)) + 1):
        asking = [row for row in range(len(matrix)) if levels[row] == p]  # Dp
        upper = segment(matrix, asking, p, rng)
        if upper:
            held, upper = cannibalize(matrix, levels, held, upper)
            held, upper = attrition(matrix, levels, held, upper, p)
        held = held + upper
    return {frozenset(group) for group in merged(matrix, levels, held)}


def segment(matrix: np.ndarray, rows: list[int], p: int, rng: np.random.Generator) -> list[Group]:
    """Figure 3."""
    left = [int(row) for row in rng.permutation(rows)]
    made: list[Group] = []
    while len(left) >= p:
        X = left[0]
        nearest = sorted(left, key=lambda row: apart(matrix[row], matrix[X]))[:p]
        made.append(nearest)
        left = [row for row in left if row not in nearest]
    if not made:
        return [left] if left else []
    for row in left:
        made[closest(matrix, made, row)].append(row)
    return made


def cannibalize(
    matrix: np.ndarray, levels: np.ndarray, lower: list[Group], upper: list[Group]
) -> tuple[list[Group], list[Group]]:
    """Figure 4."""
    kept = []
    for group in lower:
        trial = [list(one) for one in upper]
        for row in group:
            trial[closest(matrix, upper, row)].append(row)
        old, new = (sum(ssq(matrix, one) for one in some) for some in ([*upper, group], trial))
        if new < old or len(group) < max(levels[row] for row in group):
            upper = trial
        else:
            kept.append(group)
    return kept, upper


def attrition(
    matrix: np.ndarray, levels: np.ndarray, lower: list[Group], upper: list[Group], p: int
) -> tuple[list[Group], list[Group]]:
    """Figure 5: Improve of all points first, then the best surplus points of each group move."""
    lower, upper = [list(one) for one in lower], [list(one) for one in upper]
    improve: dict[int, tuple[float, int]] = {}
    for group in upper:
        for X in group:
            viable = [i for i, one in enumerate(lower) if len(one) + 1 >= levels[X]]
            if viable:
                host = viable[closest(matrix, [lower[i] for i in viable], X)]
                current = apart(matrix[X], mean(matrix, group)) ** 0.5
                improve[X] = (current - apart(matrix[X], mean(matrix, lower[host])) ** 0.5, host)
    for group in upper:
        able = [X for X in group if X in improve and improve[X][0] > 0]
        best = sorted(able, key=lambda X: (improve[X][0], X), reverse=True)
        for X in best[: max(0, len(group) - p)]:
            group.remove(X)
            lower[improve[X][1]].append(X)
    return lower, upper


def merged(matrix: np.ndarray, levels: np.ndarray, groups: list[Group]) -> list[Group]:
    groups = [group for group in groups if group]
    while len(groups) > 1:
        small = [group for group in groups if len(group) < max(levels[row] for row in group)]
        if not small:
            break
        one = min(small, key=len)
        groups.remove(one)
        centre = mean(matrix, one)
        min(groups, key=lambda group: apart(mean(matrix, group), centre)).extend(one)
    return groups


def closest(matrix: np.ndarray, groups: list[Group], row: int) -> int:
    return min(range(len(groups)), key=lambda i: apart(mean(matrix, groups[i]), matrix[row]))


def mean(matrix: np.ndarray, group: Group) -> np.ndarray:
    return matrix[group].mean(axis=0)


def ssq(matrix: np.ndarray, group: Group) -> float:
    return float(((matrix[group] - mean(matrix, group)) ** 2).sum())


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(((one - other) ** 2).sum())
