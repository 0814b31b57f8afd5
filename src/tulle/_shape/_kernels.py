"""Growing one tree on columns that are coded in cells, and following rows down to its leaves.

A column is at most 256 cells, so the candidates for a split are the borders between cells (of
ordered columns) or between categories sorted by what they say about the target (of unordered
ones). Histograms over the cells replace sorting: a node costs its rows times the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, int64, kernel, part
from tulle._threads import on_all_cores

CELLS = 256
ROWS = 100_000  # that one thread follows at a time


def grow(
    features: Any,  # (n, p) uint8, the cells of the columns that are known
    sizes: Any,  # (p,) int64, how many cells each column has
    ordered: Any,  # (p,) bool
    states: Any,  # (n,) int64, the target's states, 0 .. n_states - 1
    n_states: int,
    ranks: Any,  # (n,) float64, the target's order, about 0 with variance 1; all 0 without one
    people: Any,  # (n,) int64, the person of each row, ascending; -1 for a row of nobody
    least: float,  # people in every leaf
    evidence: float,  # how many times what a split of noise explains a split must explain
    *,
    several: bool = False,  # whether people have several rows: they are then counted in each node
) -> Any:
    """Return the nodes of a tree (column, -1 in a leaf; left child), its cells and its leaves.

    The right child is the node after the left one.

    A split explains as much as possible of the variance of the target (of its states, one
    indicator each, and of its ranks), and leaves at least ``least`` different people on both sides.
    """
    n = len(features)
    # every leaf has a row of a person, and there are fewer inner nodes than leaves
    inside = int((people >= 0).sum())
    room = 2 * min(n, int(inside / least) + 1) + 1
    nodes = np.zeros((room, 4), np.int64)  # ... and the first and the last of its rows
    left_cells = np.zeros((room, CELLS), np.bool_)
    rows, leaves = np.stack([np.arange(n), np.zeros(n, np.int64)])
    starts = np.r_[0, np.cumsum(sizes)]  # the cells of all columns lie one after the other
    counts = np.zeros((starts[-1], n_states))
    sums = np.zeros((starts[-1], 3))  # rows, people, ranks
    used = _grow(
        features, starts, ordered, states, ranks, people, least, float(evidence),
        nodes, left_cells, rows, leaves, np.empty(n, np.int64),
        counts, sums, np.zeros((2, n_states)), np.empty(CELLS, np.int64), np.empty(CELLS),
        np.zeros((2, CELLS)), np.empty(starts[-1], np.int64), several,
    )  # fmt: skip
    return np.ascontiguousarray(nodes[:used, :2].T), left_cells[:used], leaves


@kernel
def _grow(
    features: Any, starts: Any, ordered: Any, states: Any, ranks: Any, people: Any, least: float,
    evidence: float, nodes: Any, left_cells: Any, rows: Any, leaves: Any, spare: Any,
    counts: Any, sums: Any, totals: Any, order: Any, score: Any, held: Any, place_of: Any,
    several: bool,
) -> int:  # fmt: skip
    """Split nodes until none can be split, and return how many there are."""
    node_counts, below = totals[0], totals[1]
    n, p = features.shape
    nodes[0, 3] = n
    used, node = 1, 0
    while node < used:
        first, last = nodes[node, 2], nodes[node, 3]
        size = float(last - first)
        rank_sum, rank_squares, persons = _measure(
            rows, first, last, states, ranks, people, several, node_counts
        )
        state_kept = 0.0
        for s in range(len(node_counts)):
            state_kept += node_counts[s] * node_counts[s]
        state_kept /= size
        rank_kept = rank_sum * rank_sum / size
        state_noise, rank_noise = size - state_kept, rank_squares - rank_kept
        found = -1
        # states count for the share that their variance has at this node, ranks for the other
        noise = state_noise + rank_noise
        # several rows of a person may be on both sides
        enough = least if several else 2 * least
        if persons >= enough - 1e-9 and noise > 1e-9 * size:
            best = evidence * noise / size
            big, next_big = _largest_two(node_counts)
            if rank_noise >= state_noise:
                big = -1  # categories are sorted by their ranks
            _count(rows, first, last, features, starts, states, ranks, people, counts, sums)
            for j in range(p):
                present = _present(starts[j], starts[j + 1], sums, order)
                if present < 2:
                    continue
                if not ordered[j] and present > 2:
                    _sort(order, present, counts, sums, big, next_big, score)
                if several:
                    _count_people(
                        rows, first, last, features, j, starts[j], people, order, present,
                        place_of, held,
                    )  # fmt: skip
                gain, place = _best_border(
                    order, present, counts, sums, node_counts, below,
                    size, persons, rank_sum, state_kept, rank_kept, least, best, held, several,
                )  # fmt: skip
                if place >= 0:
                    best, found = gain, j
                    _send_left(
                        order, present, place, starts[j], ordered[j], sums, size, left_cells[node]
                    )
            _clear(rows, first, last, features, starts, counts, sums)
        nodes[node, 0] = found
        if found >= 0:
            middle = _divide(rows, first, last, features, found, left_cells[node], spare)
            nodes[node, 1] = used
            nodes[used, 2], nodes[used, 3] = first, middle
            nodes[used + 1, 2], nodes[used + 1, 3] = middle, last
            used += 2
        else:
            for i in range(first, last):
                leaves[rows[i]] = node
        node += 1
    return used


@part
def _measure(
    rows: Any, first: int, last: int, states: Any, ranks: Any, people: Any, several: bool,
    node_counts: Any,
) -> Any:  # fmt: skip
    """Count states; return the sums of ranks and of their squares, and how many people there are.

    Rows of a person follow each other in every node.
    """
    for s in range(len(node_counts)):
        node_counts[s] = 0.0
    rank_sum, rank_squares, persons = 0.0, 0.0, 0.0
    for i in range(first, last):
        row = rows[i]
        node_counts[states[row]] += 1.0
        rank_sum += ranks[row]
        rank_squares += ranks[row] * ranks[row]
        fresh = not several or i == first or people[row] != people[rows[i - 1]]
        if fresh and people[row] >= 0:
            persons += 1.0
    return rank_sum, rank_squares, persons


@part
def _largest_two(values: Any) -> Any:
    """Return the places of the largest and the second largest; -1 where only one is."""
    big, next_big = 0, -1
    for s in range(1, len(values)):
        if values[s] > values[big]:
            big, next_big = s, big
        elif next_big < 0 or values[s] > values[next_big]:
            next_big = s
    return big, next_big


@part
def _count(
    rows: Any, first: int, last: int, features: Any, starts: Any,
    states: Any, ranks: Any, people: Any, counts: Any, sums: Any,
) -> None:  # fmt: skip
    """Add up what each cell of each column holds."""
    for i in range(first, last):
        row = rows[i]
        s, r, w = states[row], ranks[row], 1.0 if people[row] >= 0 else 0.0
        for j in range(features.shape[1]):
            c = starts[j] + features[row, j]
            counts[c, s] += 1.0
            sums[c, 0] += 1.0
            sums[c, 1] += w
            sums[c, 2] += r


@part
def _count_people(
    rows: Any, first: int, last: int, features: Any, column: int, start: int, people: Any,
    order: Any, present: int, place_of: Any, held: Any,
) -> None:  # fmt: skip
    """Count how many people have their first and their last cell at each place of an order.

    So many more are to the left of the border after it, and so many fewer to the right.
    """
    for q in range(present):
        place_of[order[q]] = q
        held[0, q], held[1, q] = 0.0, 0.0
    lowest, highest = int64(CELLS), int64(-1)
    for i in range(first, last):
        row = rows[i]
        if i > first and highest >= 0 and people[row] != people[rows[i - 1]]:
            held[0, lowest] += 1.0
            held[1, highest] += 1.0
            lowest, highest = int64(CELLS), int64(-1)
        if people[row] >= 0:
            place = place_of[start + features[row, column]]
            lowest, highest = min(lowest, place), max(highest, place)
    if highest >= 0:
        held[0, lowest] += 1.0
        held[1, highest] += 1.0


@part
def _clear(
    rows: Any, first: int, last: int, features: Any, starts: Any, counts: Any, sums: Any
) -> None:
    """Set to zero what :func:`_count` added up."""
    p = features.shape[1]
    if (last - first) * p < len(sums):
        for i in range(first, last):
            for j in range(p):
                _empty(starts[j] + features[rows[i], j], counts, sums)
    else:
        for c in range(len(sums)):
            _empty(c, counts, sums)


@part
def _empty(c: int, counts: Any, sums: Any) -> None:
    for s in range(counts.shape[1]):
        counts[c, s] = 0.0
    sums[c, 0], sums[c, 1], sums[c, 2] = 0.0, 0.0, 0.0


@part
def _present(start: int, stop: int, sums: Any, order: Any) -> int:
    """List the cells of a column that occur, and return how many there are."""
    present = 0
    for c in range(start, stop):
        if sums[c, 0] > 0:
            order[present] = c
            present += 1
    return present


@part
def _sort(
    order: Any, present: int, counts: Any, sums: Any, big: int, next_big: int, score: Any
) -> None:
    """Sort categories by what they say about the target: its ranks, or its two largest states."""
    for q in range(present):
        c = order[q]
        told = sums[c, 2]
        if big >= 0:
            told = counts[c, big]
            if next_big >= 0:
                told -= counts[c, next_big]
        told /= sums[c, 0]
        z = q  # those before are in order: insert
        while z > 0 and score[z - 1] > told:
            score[z], order[z] = score[z - 1], order[z - 1]
            z -= 1
        score[z], order[z] = told, c


@part
def _best_border(
    order: Any, present: int, counts: Any, sums: Any, node_counts: Any, below: Any,
    size: float, persons: float, rank_sum: float, state_kept: float, rank_kept: float,
    least: float, best: float, held: Any, several: bool,
) -> Any:  # fmt: skip
    """Return how much more than ``best`` the best border between two cells explains, and its place.

    The place is -1 if none explains more.
    """
    n_states = len(node_counts)
    for s in range(n_states):
        below[s] = 0.0
    found = -1
    n_left, r_left, kept_left = 0.0, 0.0, 0.0
    people_left, people_right = 0.0, persons
    kept_right = state_kept * size
    for q in range(present - 1):
        c = order[q]
        n_left += sums[c, 0]
        people_left += held[0, q] if several else sums[c, 1]
        people_right -= held[1, q] if several else sums[c, 1]
        r_left += sums[c, 2]
        for s in range(n_states):
            m = counts[c, s]
            if m > 0:
                kept_left += m * (2.0 * below[s] + m)
                kept_right += m * (m - 2.0 * (node_counts[s] - below[s]))
                below[s] += m
        if people_left < least - 1e-9:
            continue
        if people_right < least - 1e-9:
            break
        n_right, r_right = size - n_left, rank_sum - r_left
        explained = kept_left / n_left + kept_right / n_right - state_kept
        explained += r_left * r_left / n_left + r_right * r_right / n_right - rank_kept
        if explained > best:
            best, found = explained, q
    return best, found


@part
def _send_left(
    order: Any, present: int, place: int, start: int, ordered: bool,
    sums: Any, size: float, best_cells: Any,
) -> None:  # fmt: skip
    """Mark the cells that go left; what did not occur here goes with its order, or the many."""
    n_left = 0.0
    for q in range(place + 1):
        n_left += sums[order[q], 0]
    for cell in range(len(best_cells)):
        best_cells[cell] = cell <= order[place] - start if ordered else n_left > size - n_left
    if not ordered:
        for q in range(present):
            best_cells[order[q] - start] = q <= place


@part
def _divide(
    rows: Any, first: int, last: int, features: Any, column: int, best_cells: Any, spare: Any
) -> int:
    """Put the rows that go left first, and return where the others begin."""
    low, high = first, 0
    for i in range(first, last):
        row = rows[i]
        if best_cells[features[row, column]]:
            rows[low] = row
            low += 1
        else:
            spare[high] = row
            high += 1
    for i in range(high):
        rows[low + i] = spare[i]
    return low


def follow(features: Any, split: Any, goes_left: Any, left: Any) -> Any:
    """Return the leaf (a node's number) that each row of cells ends in.

    ``goes_left`` has a bit for each cell: eight times as many nodes stay in the cache. What goes
    right goes to the node after ``left``.
    """
    leaf = split < 0  # a row stays there, wherever its cell lies
    stay = np.where(leaf, np.arange(len(split)), left)
    bits = np.where(leaf[:, None], np.uint8(255), goes_left)
    leaves = np.empty(len(features), np.int64)
    parts = [slice(first, first + ROWS) for first in range(0, len(features), ROWS)]
    on_all_cores(
        lambda rows: _follow(features[rows], np.maximum(split, 0), bits, stay, leaves[rows]),
        parts,
        features.size,
    )
    return leaves


@kernel
def _follow(features: Any, split: Any, goes_left: Any, left: Any, out: Any) -> None:
    n = len(features)
    for r0 in range(0, n, 4):  # four at a time, which do not wait for each other
        r1, r2, r3 = min(r0 + 1, n - 1), min(r0 + 2, n - 1), min(r0 + 3, n - 1)
        n0, n1, n2, n3, before = int64(0), int64(0), int64(0), int64(0), int64(-1)
        while before != n0 + n1 + n2 + n3:  # children have higher numbers
            before = n0 + n1 + n2 + n3
            n0 = _next(features, r0, n0, split, goes_left, left)
            n1 = _next(features, r1, n1, split, goes_left, left)
            n2 = _next(features, r2, n2, split, goes_left, left)
            n3 = _next(features, r3, n3, split, goes_left, left)
        out[r0], out[r1], out[r2], out[r3] = n0, n1, n2, n3


@inlined
def _next(features: Any, row: int, node: int, split: Any, goes_left: Any, left: Any) -> Any:
    cell = features[row, split[node]]
    return left[node] + 1 - ((goes_left[node, cell >> 3] >> (7 - (cell & 7))) & 1)


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
    for place in range(n):
        row = by_cell[place]
        ordered[at[leaves[row]]] = drawn[row]
        at[leaves[row]] += 1
    given = np.empty(n, np.int64)
    for place in range(n):
        row = by_point[place]
        given[row] = ordered[ends[leaves[row]]]
        ends[leaves[row]] += 1
    return given
