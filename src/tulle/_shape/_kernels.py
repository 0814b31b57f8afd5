"""Growing one tree on columns that are coded in cells, and following rows down to its leaves.

A column is at most 256 cells, so the candidates for a split are the borders between cells (of
ordered columns) or between categories sorted by what they say about the target (of unordered
ones). Histograms over the cells replace sorting: a node costs its rows times the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import kernel

CELLS = 256


@kernel
def grow(
    features: Any,  # (n, p) uint8, the cells of the columns that are known
    sizes: Any,  # (p,) int64, how many cells each column has
    ordered: Any,  # (p,) bool
    states: Any,  # (n,) int64, the target's states, 0 .. n_states - 1
    n_states: int,
    ranks: Any,  # (n,) float64, the target's order, about 0 with variance 1; all 0 without one
    people: Any,  # (n,) float64, 1 over the rows of the row's person
    least: float,  # people in every leaf
) -> Any:
    """Return the nodes of a tree and the leaf of each row.

    A split explains as much as possible of the variance of the target (of its states, one
    indicator each, and of its ranks), and leaves at least ``least`` people on both sides.
    """
    n, p = features.shape
    room = 64
    split = np.full(room, -1, np.int64)  # the column a node splits on, -1 for a leaf
    left_cells = np.zeros((room, CELLS), np.bool_)  # the cells that go left
    left = np.zeros(room, np.int64)
    right = np.zeros(room, np.int64)
    first = np.zeros(room, np.int64)
    last = np.zeros(room, np.int64)
    rows = np.arange(n)
    leaf_of = np.zeros(n, np.int64)
    spare = np.empty(n, np.int64)

    starts = np.cumsum(sizes) - sizes  # the cells of all columns lie one after the other
    cells = int(sizes.sum())
    counts = np.zeros((cells, n_states))
    total = np.zeros(cells)
    weight = np.zeros(cells)
    sums = np.zeros(cells)
    node_counts = np.zeros(n_states)
    below = np.zeros(n_states)
    order = np.empty(CELLS, np.int64)
    score = np.empty(CELLS)
    best_cells = np.zeros(CELLS, np.bool_)

    first[0], last[0] = 0, n
    used, node = 1, 0
    while node < used:
        a, b = first[node], last[node]
        size = b - a
        node_counts[:] = 0.0
        rank_sum, rank_squares, persons = 0.0, 0.0, 0.0
        for i in range(a, b):
            row = rows[i]
            node_counts[states[row]] += 1.0
            rank_sum += ranks[row]
            rank_squares += ranks[row] * ranks[row]
            persons += people[row]
        state_kept = 0.0
        for s in range(n_states):
            state_kept += node_counts[s] * node_counts[s]
        state_kept /= size
        rank_kept = rank_sum * rank_sum / size
        state_noise = size - state_kept
        rank_noise = rank_squares - rank_kept
        # states count for the share that their variance has at this node, ranks for the other
        noise = state_noise + rank_noise
        found = -1
        if persons >= 2 * least - 1e-9 and noise > 1e-9 * size:
            best = 1e-6 * noise / size
            # what an unordered column's categories are sorted by
            big, next_big = 0, -1
            for s in range(1, n_states):
                if node_counts[s] > node_counts[big]:
                    big, next_big = s, big
                elif next_big < 0 or node_counts[s] > node_counts[next_big]:
                    next_big = s
            by_rank = rank_noise >= state_noise
            for i in range(a, b):
                row = rows[i]
                s, r, w = states[row], ranks[row], people[row]
                for j in range(p):
                    c = starts[j] + features[row, j]
                    counts[c, s] += 1.0
                    total[c] += 1.0
                    weight[c] += w
                    sums[c] += r
            for j in range(p):
                present = 0
                for c in range(starts[j], starts[j] + sizes[j]):
                    if total[c] > 0:
                        order[present] = c
                        present += 1
                if present < 2:
                    continue
                if not ordered[j] and present > 2:
                    for q in range(present):
                        c = order[q]
                        if by_rank:
                            score[q] = sums[c] / total[c]
                        else:
                            difference = counts[c, big]
                            if next_big >= 0:
                                difference -= counts[c, next_big]
                            score[q] = difference / total[c]
                    place = np.argsort(score[:present], kind="mergesort")
                    order[:present] = order[:present][place]
                below[:] = 0.0
                n_left, w_left, r_left, kept_left = 0.0, 0.0, 0.0, 0.0
                kept_right = state_kept * size
                for q in range(present - 1):
                    c = order[q]
                    n_left += total[c]
                    w_left += weight[c]
                    r_left += sums[c]
                    for s in range(n_states):
                        m = counts[c, s]
                        if m > 0:
                            kept_left += m * (2.0 * below[s] + m)
                            kept_right += m * (m - 2.0 * (node_counts[s] - below[s]))
                            below[s] += m
                    if w_left < least - 1e-9:
                        continue
                    if persons - w_left < least - 1e-9:
                        break
                    n_right = size - n_left
                    r_right = rank_sum - r_left
                    explained = kept_left / n_left + kept_right / n_right - state_kept
                    explained += r_left * r_left / n_left + r_right * r_right / n_right - rank_kept
                    if explained > best:
                        best = explained
                        found = j
                        if ordered[j]:
                            best_cells[:] = False
                            best_cells[: c - starts[j] + 1] = True
                        else:  # what did not occur here goes with the many
                            best_cells[:] = n_left > n_right
                            for z in range(present):
                                best_cells[order[z] - starts[j]] = z <= q
            if size * p < cells:
                for i in range(a, b):
                    for j in range(p):
                        c = starts[j] + features[rows[i], j]
                        counts[c, :] = 0.0
                        total[c] = 0.0
                        weight[c] = 0.0
                        sums[c] = 0.0
            else:
                counts[:] = 0.0
                total[:] = 0.0
                weight[:] = 0.0
                sums[:] = 0.0
        if found >= 0:
            if used + 2 > room:
                room *= 2
                split = _longer(split, room)
                left = _longer(left, room)
                right = _longer(right, room)
                first = _longer(first, room)
                last = _longer(last, room)
                wider = np.zeros((room, CELLS), np.bool_)
                wider[: len(left_cells)] = left_cells
                left_cells = wider
            low, high = a, 0
            for i in range(a, b):
                row = rows[i]
                if best_cells[features[row, found]]:
                    rows[low] = row
                    low += 1
                else:
                    spare[high] = row
                    high += 1
            rows[low:b] = spare[:high]
            split[node] = found
            left_cells[node] = best_cells
            left[node], right[node] = used, used + 1
            first[used], last[used] = a, low
            first[used + 1], last[used + 1] = low, b
            used += 2
        else:
            split[node] = -1
            for i in range(a, b):
                leaf_of[rows[i]] = node
        node += 1
    return split[:used], left_cells[:used], left[:used], right[:used], leaf_of


@kernel
def _longer(values: Any, length: int) -> Any:
    longer = np.zeros(length, values.dtype)
    longer[: len(values)] = values
    return longer


@kernel
def follow(features: Any, split: Any, goes_left: Any, left: Any, right: Any) -> Any:
    """Return the leaf (a node's number) that each row of cells ends in.

    ``goes_left`` has a bit for each cell: eight times as many nodes stay in the cache.
    """
    out = np.empty(len(features), np.int64)
    for row in range(len(features)):
        node = 0
        while split[node] >= 0:
            cell = features[row, split[node]]
            if goes_left[node, cell >> 3] & (128 >> (cell & 7)):
                node = left[node]
            else:
                node = right[node]
        out[row] = node
    return out


@kernel
def pick(rises: Any, starts: Any, leaves: Any, members: Any) -> Any:
    """Return, for each row, the last place of its leaf whose running total it has reached."""
    out = np.empty(len(leaves), np.int64)
    for row in range(len(leaves)):
        low, high = starts[leaves[row]], starts[leaves[row] + 1]
        while high - low > 1:
            middle = (low + high) >> 1
            if rises[middle] <= members[row]:
                low = middle
            else:
                high = middle
        out[row] = low
    return out


@kernel
def match(drawn: Any, n_cells: int, leaves: Any, n_leaves: int, by_point: Any) -> Any:
    """Hand the cells drawn in each leaf to its rows: in ascending order, to rows in ``by_point``.

    Both are sorted by counting: there are few cells and leaves.
    """
    n = len(drawn)
    after = np.zeros(n_cells + 1, np.int64)  # where the rows of each cell go
    ends = np.zeros(n_leaves + 1, np.int64)
    for row in range(n):
        after[drawn[row] + 1] += 1
        ends[leaves[row] + 1] += 1
    for cell in range(n_cells):
        after[cell + 1] += after[cell]
    for leaf in range(n_leaves):
        ends[leaf + 1] += ends[leaf]
    by_cell = np.empty(n, np.int64)
    for row in range(n):
        by_cell[after[drawn[row]]] = row
        after[drawn[row]] += 1
    at = ends.copy()
    ordered = np.empty(n, np.int64)  # the cells of each leaf, in ascending order
    for row in by_cell:
        ordered[at[leaves[row]]] = drawn[row]
        at[leaves[row]] += 1
    given = np.empty(n, np.int64)
    for row in by_point:
        given[row] = ordered[ends[leaves[row]]]
        ends[leaves[row]] += 1
    return given
