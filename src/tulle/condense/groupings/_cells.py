"""A grouping laid out for the kernels, and back."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings._cell_kernels import Cells
from tulle.moments import Floats, Ints


def lay_out(matrix: Floats, levels: Ints, groups: Ints) -> Cells:
    """Groups with their records together, room to double, and some empty groups to split into."""
    d = matrix.shape[1]
    taken = np.bincount(groups).astype(np.int64)
    spare = len(taken) // 10 + 8
    usual = int(np.median(taken))
    size = np.concatenate([taken, np.zeros(spare, dtype=np.int64)])
    room = np.concatenate([taken, np.full(spare, usual)])
    room *= 2  # a natural cluster may have nearly twice as many members as a group needs
    room += -room % 4  # four are looked at together
    start = np.concatenate([[0], np.cumsum(room)[:-1]]).astype(np.int64)
    order = np.argsort(groups, kind="stable")
    group = groups[order]
    member = np.arange(len(order)) - np.repeat(np.cumsum(taken) - taken, taken)
    data = np.zeros(d * int(room.sum()))
    centres = np.zeros((len(size), d))
    away = np.zeros(len(order))
    first = d * start[group] + member
    for j, column in enumerate(matrix[order].T):
        data[first + j * room[group]] = column
        centres[: len(taken), j] = np.bincount(group, column) / taken
        away += (column - centres[group, j]) ** 2
    rows = np.full(int(room.sum()), -1, dtype=np.int64)
    rows[start[group] + member] = order
    demands = np.zeros(len(rows), dtype=np.int64)
    demands[start[group] + member] = levels[order]
    need = np.zeros(len(size), dtype=np.int64)
    np.maximum.at(need, group, levels[order])
    own = np.zeros(len(rows))
    own[start[group] + member] = away
    scratch = np.empty((3, int(room.max())))
    return Cells(data, rows, demands, start, room, size, need, centres, own, scratch)


def read_out(cells: Cells, n: int) -> Ints:
    """The group of each record, numbered without gaps."""
    groups = np.empty(n, dtype=np.int64)
    alive = np.flatnonzero(cells.size)
    size = cells.size[alive]
    slots = np.repeat(cells.start[alive] - (np.cumsum(size) - size), size) + np.arange(n)
    groups[cells.rows[slots]] = np.repeat(np.arange(len(alive)), size)
    return groups
