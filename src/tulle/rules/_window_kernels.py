"""The sliding window algorithm in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import kernel


@kernel
def find_supporters(
    indptr: Any, items: Any, starts: Any, anchored: Any, ends: Any, rule_items: Any
) -> Any:
    """Find pairs (row, rule) of baskets that support a rule, by row, then rule.

    ``anchored[starts[i]:starts[i + 1]]`` are the rules whose rarest item is i; the others of its
    items are looked for only in baskets that hold this one.
    """
    found = np.empty((1024, 2), dtype=np.int64)
    used = 0
    for row in range(len(indptr) - 1):
        for cell in range(indptr[row], indptr[row + 1]):
            item = items[cell]
            for place in range(starts[item], starts[item + 1]):
                rule = anchored[place]
                other, here = ends[rule], indptr[row]
                while other < ends[rule + 1] and here < indptr[row + 1]:
                    if items[here] == rule_items[other]:
                        other += 1
                    elif items[here] > rule_items[other]:
                        break
                    here += 1
                if other < ends[rule + 1]:
                    continue
                if used == len(found):
                    more = np.empty((2 * used, 2), dtype=np.int64)
                    for pair in range(used):
                        more[pair, 0] = found[pair, 0]
                        more[pair, 1] = found[pair, 1]
                    found = more
                place_of = used
                # a basket's rules in their order: few, so by insertion
                while (
                    place_of > 0 and found[place_of - 1, 0] == row and found[place_of - 1, 1] > rule
                ):
                    found[place_of, 0] = row
                    found[place_of, 1] = found[place_of - 1, 1]
                    place_of -= 1
                found[place_of, 0] = row
                found[place_of, 1] = rule
                used += 1
    return found[:used]


@kernel
def pick_victims(
    rows: Any, own: Any, chance: Any, flat: Any, ends: Any, by_window: bool, n_items: int
) -> Any:
    """Pick the most shared item of each pair's rule; where none is shared, the random one."""
    victims = np.empty(len(rows), dtype=np.int64)
    shared = np.zeros(n_items, dtype=np.int64)
    begin = 0
    while begin < len(rows):
        end = begin + 1
        while end < len(rows) and (by_window or rows[end] == rows[begin]):
            end += 1
        for pair in range(begin, end):
            for place in range(ends[own[pair]], ends[own[pair] + 1]):
                shared[flat[place]] += 1
        for pair in range(begin, end):
            top = ends[own[pair]]
            for place in range(ends[own[pair]], ends[own[pair] + 1]):
                if shared[flat[place]] > shared[flat[top]]:
                    top = place
            if shared[flat[top]] == 1:
                top = ends[own[pair]] + chance[pair]
            victims[pair] = flat[top]
        for pair in range(begin, end):
            for place in range(ends[own[pair]], ends[own[pair] + 1]):
                shared[flat[place]] = 0
        begin = end
    return victims


@kernel
def _is_whole(
    items: Any, kept: Any, begin: int, end: int, rule_items: Any, first: int, last: int
) -> Any:
    """Return whether a basket still holds all items of a rule, and where its items are."""
    other, here = first, begin
    while other < last and here < end:
        if items[here] == rule_items[other]:
            if not kept[here]:
                return False
            other += 1
        here += 1
    return other == last


@kernel
def remove_victims(
    indptr: Any, items: Any, kept: Any, rows: Any, rules: Any, victims: Any, heads: Any,
    quotas: Any, spared: Any, ends: Any, rule_items: Any,
) -> None:  # fmt: skip
    """Remove, for each rule, the victim from its first unbroken baskets until the quota is met.

    Pairs ``heads[r]:heads[r + 1]`` are those of rule r, shortest basket first. A basket in which
    an earlier removal broke the rule counts, and is not touched again, if the rule is ``spared``.
    """
    for rule in range(len(heads) - 1):
        need = quotas[rule]
        first, last = ends[rule], ends[rule + 1]
        whole = np.empty(heads[rule + 1] - heads[rule], dtype=np.bool_)
        for pair in range(heads[rule], heads[rule + 1]):
            begin, end = indptr[rows[pair]], indptr[rows[pair] + 1]
            intact = not spared[rule]
            intact |= _is_whole(items, kept, begin, end, rule_items, first, last)
            whole[pair - heads[rule]] = intact
            need -= not intact
        for pair in range(heads[rule], heads[rule + 1]):
            if need <= 0:
                break
            if whole[pair - heads[rule]]:
                for here in range(indptr[rows[pair]], indptr[rows[pair] + 1]):
                    if items[here] == victims[pair]:
                        kept[here] = False
                        break
                need -= 1
