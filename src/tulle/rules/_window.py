"""SWA, the sliding window algorithm: one pass, each window of baskets on its own.

In a window, for each sensitive rule, the shortest baskets that support it lose one item of it,
the victim: the item that most of the sensitive rules in the basket share. So windows can be
worked on in parallel and streamed; a release from blocks equals the release of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tulle._types import Flags, Ints
from tulle.transactions import Transactions


def slide(
    baskets: Transactions,
    rules: Sequence[tuple[int, ...]],
    leaving: Sequence[Fraction],
    *,
    window: int,
    victim: str = "transaction",
    lookahead: str = "always",
    seed: int = 0,
    first_row: int = 0,
) -> Flags:
    """Return which cells stay after SWA.

    Parameters
    ----------
    rules
        Items of each sensitive rule, ascending codes; an item that the baskets do not have is -1.
    leaving
        Share of each rule's baskets, in each window, that must lose it, rounded up: 1 - psi.
    lookahead
        Whether a basket in which an earlier rule's victim broke this one counts and is spared:
        ``"always"``, or only for rules that must leave all baskets (``"printed"``).
    first_row
        Number of the first basket in the whole file, so that random victims do not depend on
        the blocks.
    """
    from tulle.rules._window_kernels import remove_victims

    kept = np.ones(len(baskets.items), dtype=bool)
    present = [r for r, items in enumerate(rules) if min(items) >= 0]
    if not present:
        return kept
    chosen = [rules[r] for r in present]
    ends = np.cumsum([0] + [len(items) for items in chosen])
    flat = np.array([item for items in chosen for item in items], dtype=np.int64)
    pairs = supporters(baskets, flat, ends)
    lengths = baskets.lengths
    step = min(window, len(baskets))
    borders = np.searchsorted(pairs[:, 0], np.arange(0, len(baskets) + step, step))
    for begin, end in pairwise(borders):
        if begin == end:
            continue
        rows, own = pairs[begin:end, 0], pairs[begin:end, 1]
        numbers = np.array(present)[own]
        victims = choose_victims(rows, own, numbers, flat, ends, victim, seed, first_row)
        order = _by_rule_then_length(own, lengths[rows])
        rows, own, victims = rows[order], own[order], victims[order]
        heads = np.searchsorted(own, np.arange(len(present) + 1))
        shares = zip(np.diff(heads).tolist(), present)
        quotas = np.array([math.ceil(n * leaving[r]) for n, r in shares], dtype=np.int64)
        spared = np.array([lookahead == "always" or leaving[r] == 1 for r in present])
        remove_victims(
            baskets.indptr, baskets.items, kept, rows, own, victims, heads, quotas, spared, ends,
            flat,
        )  # fmt: skip
    return kept


def supporters(baskets: Transactions, flat: Ints, ends: Ints) -> Ints:
    """Return pairs (row, rule), in the order of rows, then rules."""
    from tulle.rules._window_kernels import find_supporters

    rarest = np.array([flat[a:b][np.argmin(baskets.counts[flat[a:b]])] for a, b in pairwise(ends)])
    counts = np.bincount(rarest, minlength=len(baskets.names))
    starts = np.concatenate(([0], np.cumsum(counts)))
    anchored = np.argsort(rarest, kind="stable")
    return find_supporters(baskets.indptr, baskets.items, starts, anchored, ends, flat)


def choose_victims(
    rows: Ints,
    own: Ints,
    numbers: Ints,
    flat: Ints,
    ends: Ints,
    scope: str,
    seed: int,
    first_row: int,
) -> Ints:
    """Return the victim of each (row, rule): the rule's most shared item; if none is shared, any.

    Sharing is counted among the sensitive rules that the same basket supports (``transaction``)
    or over all pairs of the window (``window``).
    """
    sizes = np.diff(ends)[own]
    with np.errstate(over="ignore"):
        # a random place in each rule from (seed, row, rule) alone, whatever the order of work
        mixed = (rows + first_row).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed += numbers.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(seed)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    chance = (mixed % sizes.astype(np.uint64)).astype(np.int64)
    from tulle.rules._window_kernels import pick_victims

    return pick_victims(rows, own, chance, flat, ends, scope == "window", int(flat.max()) + 1)


def _by_rule_then_length(own: Ints, length: Ints) -> Ints:
    """Return a stable order; short numbers are sorted by counting."""
    most = max(int(length.max()), int(own.max()))
    kind = np.uint16 if most < 2**16 else np.int64
    order = np.argsort(length.astype(kind), kind="stable")
    return order[np.argsort(own[order].astype(kind), kind="stable")]
