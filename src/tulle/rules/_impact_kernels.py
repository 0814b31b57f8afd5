"""What removals do to frequent itemsets, by walks over the tree of itemsets.

The tree is in preorder: the sets below node i are ``i + 1 .. after[i] - 1``. A walk through the
sets that a basket holds goes to i + 1 if the basket holds the node's item, else to after[i].
The other way, class by class in NumPy, is in ``_classes.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import kernel


@kernel
def preorder(parent: Any) -> Any:
    """Return the nodes in preorder, and in that order the end of each one's subtree."""
    n = len(parent)
    starts = np.zeros(n + 1, dtype=np.int64)
    for node in range(1, n):
        starts[parent[node] + 1] += 1
    for node in range(n):
        starts[node + 1] += starts[node]
    children = np.empty(max(n - 1, 0), dtype=np.int64)
    free = starts.copy()
    for node in range(1, n):
        children[free[parent[node]]] = node
        free[parent[node]] += 1
    order = np.empty(n, dtype=np.int64)
    after = np.empty(n, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    stack = np.empty(n + 1, dtype=np.int64)
    stack[0] = 0
    depth, count = 1, 0
    while depth > 0:
        node = stack[depth - 1]
        depth -= 1
        place[node] = count
        order[count] = node
        count += 1
        for child in range(starts[node + 1] - 1, starts[node] - 1, -1):
            stack[depth] = children[child]
            depth += 1
    for spot in range(n):
        after[spot] = spot + 1
    for spot in range(n - 1, 0, -1):
        above = place[parent[order[spot]]]
        after[above] = max(after[above], after[spot])
    return order, after


@kernel
def lost_supports(
    indptr: Any, items: Any, kept: Any, rows: Any, item: Any, after: Any, single: Any, n_items: int
) -> Any:
    """Count how many of some baskets supported each set and no longer do."""
    lost = np.zeros(len(item), dtype=np.int32)
    state = np.zeros(n_items, dtype=np.int8)  # 0 not in the basket, 1 held, 2 taken away
    for row in rows:
        whole = True
        for cell in range(indptr[row], indptr[row + 1]):
            state[items[cell]] = 1 if kept[cell] else 2
            whole = whole and kept[cell]
        for cell in range(indptr[row], indptr[row + 1]):
            spot = single[items[cell]]
            if whole or spot < 0:
                continue
            end, broken_until = after[spot], 0
            while spot < end:
                held = state[item[spot]]
                if held == 0:
                    spot = after[spot]
                    continue
                if held == 2:
                    broken_until = max(broken_until, after[spot])
                lost[spot] += spot < broken_until
                spot += 1
        for cell in range(indptr[row], indptr[row + 1]):
            state[items[cell]] = 0
    return lost


@kernel
def removal_costs(
    indptr: Any, items: Any, kept: Any, rows: Any, item: Any, after: Any, single: Any, n_items: int,
    weight: Any, column: Any, n_columns: int,
) -> Any:  # fmt: skip
    """Compute the weight of all sets that go with each item (with a column) of each basket."""
    costs = np.zeros((len(rows), n_columns), dtype=np.float64)
    held = np.zeros(n_items, dtype=np.bool_)
    ends = np.empty(n_items + 1, dtype=np.int64)
    owner = np.empty(n_items + 1, dtype=np.int64)
    before = np.empty(n_items + 1, dtype=np.float64)
    for place in range(len(rows)):
        row = rows[place]
        for cell in range(indptr[row], indptr[row + 1]):
            held[items[cell]] = kept[cell]
        for cell in range(indptr[row], indptr[row + 1]):
            spot = single[items[cell]]
            if spot < 0 or not kept[cell]:
                continue
            end, depth, total = after[spot], 0, 0.0
            while spot < end:
                if not held[item[spot]]:
                    spot = after[spot]
                else:
                    if column[item[spot]] >= 0:
                        ends[depth] = after[spot]
                        owner[depth] = column[item[spot]]
                        before[depth] = total
                        depth += 1
                    total += weight[spot]
                    spot += 1
                while depth > 0 and ends[depth - 1] <= spot:
                    depth -= 1
                    costs[place, owner[depth]] += total - before[depth]
        for cell in range(indptr[row], indptr[row + 1]):
            held[items[cell]] = False
    return costs
