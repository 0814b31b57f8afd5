"""Grouping of large inputs with compiled kernels.

The outermost records are grouped first, as MDAV would: an outlier's true partners are not among
the neighbours of a group with its centre in the crowd. The rest is cut across its widest
direction into blocks, MDAV groups each block, and groups near each other exchange members.
"""

from __future__ import annotations

import numpy as np

from tulle.moments import Floats, Ints

BLOCK = 500  # records of a block at least
WORK = 20_000_000  # distances that MDAV may take: as long as it lasts, blocks are larger
PEELED = 0.05  # share of the records that are grouped from outside
PEEL_WORK = 400  # distances a record while peeling, at most
NEAR = 12  # groups that may exchange members with a group
WHOLE = 1500  # up to this many groups all pairs are compared
LEAF, TREES = 40, 3  # beyond, those that share a leaf of some random trees
SWEEPS = 20
ENOUGH = 0.01  # a sweep that gains less than this share of the first is the last


def group_large(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:
    """Groups of ``spread`` (the matrix, with or without a column of levels), then refined."""
    groups = start(spread, levels, rng)
    return refine_large(matrix, levels, groups, rng)


def start(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """A valid grouping: peeled from outside, cut into blocks, MDAV in each."""
    from tulle.condense.groupings._start_kernels import mdav_block

    groups, number = _peel(matrix, levels)
    rows = np.flatnonzero(groups < 0)
    unit = int(levels[0]) if (levels == levels[0]).all() else 1
    affordable = int(WORK * levels.mean() / len(levels))
    ends = _blocks(matrix, rows, max(BLOCK, 4 * int(levels.max()), affordable), unit, 8, rng)
    for low, high in zip([0, *ends[:-1]], ends):
        block = rows[low:high]
        columns = np.ascontiguousarray(matrix[block].T)
        number = mdav_block(columns, levels[block], block.copy(), number, groups)
    return groups


def _peel(matrix: Floats, levels: Ints) -> tuple[Ints, int]:
    from tulle.condense.groupings._start_kernels import peel

    n = len(matrix)
    groups = np.full(n, -1, dtype=np.int64)
    if n < 8 * int(levels.max()):
        return groups, 0
    offsets = matrix - matrix.mean(axis=0)
    radii = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    order = np.argsort(-radii, kind="stable")
    columns = np.ascontiguousarray(offsets[order].T)
    peeled = np.full(n, -1, dtype=np.int64)
    number = peel(columns, radii[order], levels[order], int(PEELED * n), PEEL_WORK * n, peeled)
    groups[order] = peeled
    return groups, int(number)


def _blocks(
    points: Floats, rows: Ints, leaf: int, unit: int, rounds: int, rng: np.random.Generator
) -> Ints:
    """Reorders the rows into blocks and returns the end of each."""
    from tulle.condense.groupings._start_kernels import cut_blocks

    ends = np.empty(len(rows) // leaf + 2, dtype=np.int64)
    return ends[: cut_blocks(points, rows, leaf, unit, rounds, kernel_seed(rng), ends)]


def kernel_seed(rng: np.random.Generator) -> np.ndarray:
    """The state of the kernels' generator: one word, not zero."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)


def nearest(
    centres: Floats, alive: Ints, width: int, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """The nearest groups of each group with their squared distances, -1 where there are none."""
    from tulle.condense.groupings._neighbour_kernels import compare_blocks, explore

    near = np.full((len(centres), width), -1, dtype=np.int64)
    far = np.full(near.shape, np.inf)
    if len(alive) <= WHOLE:
        compare_blocks(centres, alive, np.array([len(alive)]), near, far)
        return near, far
    for _ in range(TREES):
        rows = alive.copy()
        ends = _blocks(centres, rows, LEAF, 1, 1, rng)
        compare_blocks(centres, rows, ends, near, far)
    for _ in range(2):
        explore(centres, near, far, width)
    return near, far


def refine_large(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Exchanges members between groups near each other, dissolves and splits groups."""
    from tulle.condense.groupings._cells import lay_out, read_out
    from tulle.condense.groupings._exchange_kernels import restructure, sweep
    from tulle.condense.groupings._neighbour_kernels import explore, relist

    cells = lay_out(matrix, levels, groups)
    near, far = nearest(cells.centres, np.flatnonzero(cells.size), NEAR, rng)
    changed = np.zeros(len(near), dtype=np.int64)
    least = 1e-12 * (1.0 + float(np.abs(matrix).max()) ** 2)
    first = 0.0
    for turn in range(SWEEPS):
        gain = sweep(cells, near, changed, turn, least)
        empty = np.flatnonzero(cells.size == 0)
        free = np.concatenate([empty, np.empty(len(near) - len(empty), dtype=np.int64)])
        gain += restructure(cells, near, changed, turn, least, free, len(empty))
        first = max(first, gain)
        if gain <= ENOUGH * first:
            break
        if turn % 2 == 1:
            relist(cells.centres, cells.size, near, far)
            explore(cells.centres, near, far, NEAR // 2)
    return read_out(cells, len(matrix))
