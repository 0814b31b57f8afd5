"""Rules of frequent itemsets, by hashing.

A set's hash is the exclusive or of random words of its items, so the hash of a set without some
items costs one operation an item; every subset of a frequent set is in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, kernel


@kernel
def hash_sets(parent: Any, item: Any, words: Any) -> Any:
    """Return the hash of each set, and an open-addressing table of the sets."""
    hashes = np.zeros(len(parent), dtype=np.uint64)
    size = 4
    while size < 2 * len(parent):
        size *= 2
    table = np.full(size, -1, dtype=np.int32)
    mask = np.uint64(size - 1)
    for node in range(len(parent)):
        if node > 0:
            hashes[node] = hashes[parent[node]] ^ words[item[node]]
        place = hashes[node] & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = node
    return hashes, table


@inlined
def find(table: Any, hashes: Any, wanted: Any) -> int:
    """Find the node of a hash, -1 if there is none."""
    mask = np.uint64(len(table) - 1)
    place = wanted & mask
    while table[place] >= 0 and hashes[table[place]] != wanted:
        place = (place + np.uint64(1)) & mask
    return table[place]


@kernel
def implications(
    parent: Any, item: Any, support: Any, words: Any, hashes: Any, table: Any,
    numerator: int, denominator: int, longest: int, most: int,
) -> Any:  # fmt: skip
    """Return rows (set, antecedent, consequent) of all rules with enough confidence, up to a limit.

    Consequents grow item by item: if one fails, all that contain it fail.
    """
    rules = np.empty((1024, 3), dtype=np.int32)
    used = 0
    own = np.empty(len(words) + 1, dtype=np.uint64)
    place = np.empty(len(words) + 1, dtype=np.int64)
    for node in range(1, len(parent)):
        size, ancestor = 0, node
        while ancestor > 0:
            own[size] = words[item[ancestor]]
            ancestor = parent[ancestor]
            size += 1
        if size < 2:
            continue
        head = np.uint64(0)
        depth = 0
        place[0] = 0
        while depth >= 0:
            if place[depth] == size:
                depth -= 1
                if depth >= 0:
                    head ^= own[place[depth]]
                    place[depth] += 1
                continue
            grown = head ^ own[place[depth]]
            antecedent = find(table, hashes, hashes[node] ^ grown)
            holds = depth + 1 < size and (
                np.int64(support[node]) * denominator >= numerator * np.int64(support[antecedent])
            )
            if not holds:
                place[depth] += 1
                continue
            if used == most:
                raise MemoryError("too many rules")
            if used == len(rules):
                more = np.empty((2 * used, 3), dtype=np.int32)
                for row in range(used):
                    for part in range(3):
                        more[row, part] = rules[row, part]
                rules = more
            rules[used, 0] = node
            rules[used, 1] = antecedent
            rules[used, 2] = find(table, hashes, grown)
            used += 1
            if depth + 1 < longest:
                head = grown
                depth += 1
                place[depth] = place[depth - 1] + 1
            else:
                place[depth] += 1
    return rules[:used]
