"""Grouping of large inputs with compiled kernels.

The outermost records are grouped first, as MDAV would: an outlier's true partners are not among
the neighbours of a group with its centre in the crowd. The rest is cut across its widest
direction into blocks, MDAV groups each block, and groups near each other exchange members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tulle.moments import Floats, Ints

if TYPE_CHECKING:
    from tulle.condense.groupings._cell_kernels import Cells

BLOCK = 500  # records of a block at least
WORK = 5_000_000  # distances that MDAV may take: as long as it lasts, blocks are larger
PEELED = 0.05  # share of the records that are grouped from outside
OUTER = 0.3  # share among which their partners are looked for
PEEL_WORK = 400  # distances a record while peeling, at most
NEAR = 9  # groups that may exchange members with a group
FIRST = 4  # groups in the first sweep, when everything is still moving
OUTLYING = 10.0  # times the usual error of a member: groups that reach out, the worst first
REACH_WORK = 100_000_000  # operations that this may take
WHOLE = 1500  # up to this many groups all pairs are compared
LEAF, TREES = 40, 2  # beyond, those that share a leaf of some random trees
SWEEPS = 20
ENOUGH = 0.05  # a sweep that gains less than this share of the first is the last


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
    outer = np.flatnonzero(radii >= np.quantile(radii, 1.0 - OUTER))
    order = outer[np.argsort(-radii[outer], kind="stable")]
    columns = np.ascontiguousarray(offsets[order].T)
    peeled = np.full(len(order), -1, dtype=np.int64)
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
    explore(centres, near, far, width)
    return near, far


def _reach_out(cells: Cells, near: Ints) -> None:
    """Gives the worst groups lists of the groups nearest to their members."""
    from tulle.condense.groupings._restructure_kernels import reach_out

    alive = np.flatnonzero(cells.size)
    numbers = np.repeat(alive, cells.size[alive])
    slots = np.arange(len(numbers)) - np.searchsorted(numbers, numbers) + cells.start[numbers]
    errors = np.bincount(numbers, cells.own[slots]) / np.maximum(np.bincount(numbers), 1)
    bad = alive[errors[alive] > OUTLYING * np.median(errors[alive])]
    most = int(REACH_WORK / (len(numbers) * cells.centres.shape[1]))
    reach_out(cells, bad[np.argsort(-errors[bad], kind="stable")[:most]], near)


def refine_large(
    matrix: Floats,
    levels: Ints,
    groups: Ints,
    rng: np.random.Generator,
    width: int = NEAR,
    enough: float = ENOUGH,
) -> Ints:
    """Exchanges members between groups near each other, dissolves and splits groups."""
    from tulle.condense.groupings._cells import lay_out, read_out
    from tulle.condense.groupings._exchange_kernels import sweep
    from tulle.condense.groupings._neighbour_kernels import explore, relist
    from tulle.condense.groupings._restructure_kernels import restructure

    cells = lay_out(matrix, levels, groups)
    near, far = nearest(cells.centres, np.flatnonzero(cells.size), width, rng)
    changed = np.zeros(len(near), dtype=np.int64)
    least = 1e-12 * (1.0 + float(np.abs(matrix).max()) ** 2)
    first = 0.0
    for turn in range(SWEEPS):
        gain = sweep(cells, near, width if turn else FIRST, changed, turn, least)
        if turn % 3 == 0:
            _reach_out(cells, near)
            empty = np.flatnonzero(cells.size == 0)
            free = np.concatenate([empty, np.empty(len(near) - len(empty), dtype=np.int64)])
            gain += restructure(cells, near, changed, turn, least, free, len(empty))
        first = max(first, gain)
        if gain <= enough * first:
            break
        if turn % 2 == 1:
            relist(cells.centres, cells.size, near, far)
            explore(cells.centres, near, far, width // 2)
    return read_out(cells, len(matrix))
