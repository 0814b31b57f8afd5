"""Frequent itemsets by depth-first intersection of bit sets.

Sparse data: for each item, rarest first, the baskets that hold it are projected on the more
frequent items (one bit a basket, one row of words an item). Dense data: one projection on all
baskets. Both grow the sets with :func:`_grow`. An item that is in every basket of a set (a
perfect extension) is not searched: each set below is written with and without it.

A set is a node (parent, item, support); node 0 is the empty set; parents come first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, kernel

MOST_SETS = 1 << 27  # 1.6 GB of nodes


@inlined
def _popcount(word: Any) -> Any:
    """Count the bits of a word; the compiler knows this form and makes one instruction of it."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def project(indptr: Any, items: Any, rank: Any, heads: Any) -> Any:
    """Return rows of ranks, ascending; then, rank by rank, the cells that hold it and their
    rows' ends.

    Two counting sorts: first by rank, then (walking the ranks upwards) by row.
    """
    n_rows, n_ranks = len(indptr) - 1, len(heads) - 1
    rows = np.empty(heads[n_ranks], dtype=np.int32)
    free = heads.copy()
    ends = np.zeros(n_rows + 1, dtype=np.int32)
    total = 0
    for row in range(n_rows):
        for cell in range(indptr[row], indptr[row + 1]):
            code = rank[items[cell]]
            if code >= 0:
                rows[free[code]] = row
                free[code] += 1
                total += 1
        ends[row + 1] = total
    codes = np.empty(total, dtype=np.int32)
    cells = np.empty(total, dtype=np.int32)
    filled = ends[:-1].copy()
    for code in range(n_ranks):
        for place in range(heads[code], heads[code + 1]):
            row = rows[place]
            codes[filled[row]] = code
            cells[place] = filled[row]
            filled[row] += 1
            rows[place] = ends[row + 1]
    return codes, cells, rows


@kernel
def _emit(nodes: Any, used: Any, parent: Any, item: Any, support: Any, perfect: Any, n: Any) -> Any:
    """Write one set and its unions with every subset of the perfect extensions."""
    need = used + (1 << min(n, 28))
    if need > MOST_SETS:
        raise MemoryError("too many frequent itemsets")
    if need > nodes.shape[0]:
        larger = np.empty((max(need, 2 * nodes.shape[0]), 3), dtype=np.int32)
        for node in range(used):
            for part in range(3):
                larger[node, part] = nodes[node, part]
        nodes = larger
    nodes[used, 0] = parent
    nodes[used, 1] = item
    nodes[used, 2] = support
    top, bit = 1, 0
    for mask in range(1, 1 << n):
        if mask == 2 * top:
            top, bit = mask, bit + 1
        nodes[used + mask, 0] = used + mask - top
        nodes[used + mask, 1] = perfect[bit]
        nodes[used + mask, 2] = support
    return nodes, need


@kernel
def _enlarged(bits: Any, item: Any, support: Any, used: int, room: int) -> Any:
    more_bits = np.empty((room, bits.shape[1]), dtype=np.uint64)
    more_item = np.empty(max(room, len(item)), dtype=np.int32)
    more_support = np.empty(max(room, len(item)), dtype=np.int32)
    for slot in range(used):
        more_item[slot] = item[slot]
        more_support[slot] = support[slot]
        for word in range(bits.shape[1]):
            more_bits[slot, word] = bits[slot, word]
    return more_bits, more_item, more_support


@kernel
def _grow(
    nodes: Any, used: Any, root: Any, bits: Any, words: int, item: Any, support: Any, n: Any,
    perfect: Any, n_perfect: Any, minimum: int,
) -> Any:  # fmt: skip
    """Add every frequent set below ``root``; slot s has ``bits[s]``, an item and a support."""
    # of each level: next slot, end, parent node, number of perfect extensions
    place = np.zeros(n + 2, dtype=np.int64)
    last = np.zeros(n + 2, dtype=np.int64)
    parents = np.zeros(n + 2, dtype=np.int64)
    perfects = np.zeros(n + 2, dtype=np.int64)
    last[0] = n
    parents[0] = root
    perfects[0] = n_perfect
    level = 0
    while level >= 0:
        if place[level] == last[level]:
            level -= 1
            continue
        slot = place[level]
        place[level] += 1
        top = last[level]
        found = perfects[level]
        room = top + last[level] - slot
        if room > bits.shape[0]:
            bits, item, support = _enlarged(bits, item, support, top, 2 * room)
        for other in range(slot + 1, last[level]):
            common = 0
            for word in range(words):
                both = bits[slot, word] & bits[other, word]
                bits[top, word] = both
                common += _popcount(both)
            if common == support[slot]:
                perfect[found] = item[other]
                found += 1
            elif common >= minimum:
                item[top] = item[other]
                support[top] = common
                top += 1
        here = used
        nodes, used = _emit(
            nodes,
            used,
            parents[level],
            np.int64(item[slot]),
            np.int64(support[slot]),
            perfect,
            found,
        )
        if top > last[level]:
            level += 1
            place[level] = last[level - 1]
            last[level] = top
            parents[level] = here
            perfects[level] = found
    return nodes, used, bits, item, support


@kernel
def mine_dense(indptr: Any, items: Any, rank: Any, heads: Any, minimum: int) -> Any:
    """Mine one projection on all baskets."""
    n_rows, n_items = len(indptr) - 1, len(heads) - 1
    words = (n_rows + 63) // 64
    bits = np.zeros((2 * n_items + 2, words), dtype=np.uint64)
    item = np.empty(2 * n_items + 2, dtype=np.int32)
    support = np.empty(2 * n_items + 2, dtype=np.int32)
    perfect = np.empty(n_items + 1, dtype=np.int32)
    slot_of = np.full(n_items, -1, dtype=np.int32)
    n, n_perfect = np.int64(0), np.int64(0)
    for code in range(n_items):
        count = heads[code + 1] - heads[code]
        if count == n_rows:
            perfect[n_perfect] = code
            n_perfect += 1
        else:
            slot_of[code], item[n], support[n] = n, code, count
            n += 1
    for row in range(n_rows):
        word, bit = row >> 6, np.uint64(1) << np.uint64(row & 63)
        for cell in range(indptr[row], indptr[row + 1]):
            code = rank[items[cell]]
            if code >= 0 and slot_of[code] >= 0:
                bits[slot_of[code], word] |= bit
    nodes = np.empty((1024, 3), dtype=np.int32)
    none = np.int64(-1)
    nodes, used = _emit(nodes, np.int64(0), none, none, n_rows, perfect, n_perfect)
    nodes, used, bits, item, support = _grow(
        nodes, used, np.int64(0), bits, words, item, support, n, perfect, n_perfect, minimum
    )
    return nodes[:used]


@kernel
def mine_sparse(indptr: Any, items: Any, rank: Any, heads: Any, minimum: int) -> Any:
    """Mine one projection for each item, rarest first, on the baskets that hold it."""
    n_rows, n_items = len(indptr) - 1, len(heads) - 1
    codes, cells, ends = project(indptr, items, rank, heads)
    count = np.zeros(n_items, dtype=np.int32)
    local = np.full(n_items, -1, dtype=np.int32)
    item = np.empty(2 * n_items + 2, dtype=np.int32)
    support = np.empty(2 * n_items + 2, dtype=np.int32)
    perfect = np.empty(n_items + 1, dtype=np.int32)
    nodes = np.empty((1024, 3), dtype=np.int32)
    nodes[0, 0], nodes[0, 1], nodes[0, 2] = -1, -1, n_rows
    used, root = np.int64(1), np.int64(0)
    for code in range(n_items):
        begin, end = heads[code], heads[code + 1]
        for place in range(begin, end):
            for cell in range(cells[place] + 1, ends[place]):
                count[codes[cell]] += 1
        n, n_perfect = np.int64(0), np.int64(0)
        for other in range(code + 1, n_items):
            if count[other] == end - begin:
                perfect[n_perfect] = other
                n_perfect += 1
            elif count[other] >= minimum:
                hole = n
                while hole > 0 and support[hole - 1] > count[other]:
                    item[hole], support[hole] = item[hole - 1], support[hole - 1]
                    hole -= 1
                item[hole], support[hole] = other, count[other]
                n += 1
            count[other] = 0
        here = used
        nodes, used = _emit(nodes, used, root, code, end - begin, perfect, n_perfect)
        if n == 0:
            continue
        words = (end - begin + 63) // 64
        bits = np.empty((2 * n, words), dtype=np.uint64)
        for slot in range(n):
            local[item[slot]] = slot
            for word in range(words):
                bits[slot, word] = 0
        for place in range(begin, end):
            row = place - begin
            for cell in range(cells[place] + 1, ends[place]):
                slot = local[codes[cell]]
                if slot >= 0:
                    bits[slot, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        for slot in range(n):
            local[item[slot]] = -1
        nodes, used, bits, item, support = _grow(
            nodes, used, here, bits, words, item, support, n, perfect, n_perfect, minimum
        )
    return nodes[:used]


@kernel
def set_sizes(parent: Any) -> Any:
    """Count the items of each set: one more than its parent, which comes before it, has."""
    sizes = np.zeros(len(parent), dtype=np.int64)
    for node in range(1, len(parent)):
        sizes[node] = sizes[parent[node]] + 1
    return sizes


@kernel
def fill_rows(parent: Any, item: Any, indptr: Any, out: Any) -> None:
    """Write the items of each set, ascending: those of its parent, and its own in its place."""
    for node in range(1, len(parent)):
        place = indptr[node]
        waiting = True
        for cell in range(indptr[parent[node]], indptr[parent[node] + 1]):
            if waiting and out[cell] > item[node]:
                out[place] = item[node]
                place += 1
                waiting = False
            out[place] = out[cell]
            place += 1
        if waiting:
            out[place] = item[node]
