"""Generated data: the Quest basket generator of the association-rule literature.

The generator of Agrawal and Srikant (VLDB 1994): a table of patterns (sets of items that are
bought together), and transactions filled with corrupted copies of them. A data set called
T20.I4.D100K has transactions of 20 items on average, patterns of 4, and 100,000 transactions.

Everything is drawn in NumPy blocks; a million transactions of 20 items take some seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle._checks import check_int, check_real
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.errors import ParameterError

_BLOCK = 32_768  # transactions drawn together; part of what a seed means


class _Patterns(NamedTuple):
    """Patterns one after another in ``items``; pattern p is ``items[starts[p]:][:sizes[p]]``."""

    items: Ints
    starts: Ints
    sizes: Ints
    cumulative_weights: npt.NDArray[np.float64]
    corruption: npt.NDArray[np.float64]


def quest(
    T: float = 10,
    I: float = 4,  # noqa: E741  (the name of the literature)
    D: int = 100_000,
    L: int = 2_000,
    N: int = 1_000,
    *,
    correlation: float = 0.5,
    corruption: float = 0.5,
    random_state: RandomState = None,
) -> Any:
    """Generate market baskets with the IBM Quest generator.

    Parameters
    ----------
    T : float
        Mean number of items in a transaction (Poisson).
    I : float
        Mean number of items in a pattern (Poisson, at least 1).
    D : int
        Number of transactions.
    L : int
        Number of patterns.
    N : int
        Number of items.
    correlation : float
        Mean share of its items that a pattern takes over from the pattern before it.
    corruption : float
        Mean corruption level of the patterns (normal, variance 0.1): while a coin of this
        probability falls on heads, one more item of the copy is dropped.
    random_state : int, Generator, RandomState or None
        The same seed gives the same baskets.

    Returns
    -------
    scipy.sparse.csr_array of int8, shape (D, N)
        Zeros and ones; indices sorted, no duplicates.

    Examples
    --------
    >>> from tulle import quest
    >>> baskets = quest(T=10, I=4, D=500, L=100, N=200, random_state=0)
    >>> baskets.shape
    (500, 200)
    >>> 8 < baskets.nnz / 500 < 11
    True
    """
    from scipy.sparse import csr_array, vstack

    check_real("quest", "T", T, 1, 1e6)
    check_real("quest", "I", I, 1, 1e6)
    check_int("quest", "D", D, 1)
    check_int("quest", "L", L, 1)
    check_int("quest", "N", N, 1, 2**31 - 1)
    check_real("quest", "correlation", correlation, 0)
    check_real("quest", "corruption", corruption, 0, 1, closed="left")
    if N < I:
        raise ParameterError(f"patterns of {I:g} items need more than N={N} items: raise N")
    rng = as_generator(random_state)
    patterns = _draw_patterns(I, L, N, correlation, corruption, rng)
    blocks = []
    for start in range(0, D, _BLOCK):
        count = min(_BLOCK, D - start)
        columns, bounds = _draw_block(patterns, T, count, rng)
        ones = np.ones(len(columns), np.int8)
        entries = (ones, columns.astype(np.int32), bounds.astype(np.int32))
        block = csr_array(entries, shape=(count, N))
        block.sum_duplicates()  # patterns of one transaction may share items
        block.data[:] = 1
        blocks.append(block)
    return vstack(blocks, format="csr") if len(blocks) > 1 else blocks[0]


def _draw_patterns(
    mean_size: float,
    count: int,
    n_items: int,
    correlation: float,
    corruption: float,
    rng: np.random.Generator,
) -> _Patterns:
    sizes = np.clip(rng.poisson(mean_size, count), 1, n_items)
    shares = np.minimum(rng.exponential(correlation, count) if correlation else np.zeros(count), 1)
    patterns: list[Ints] = []
    previous = np.empty(0, np.int64)
    for size, share in zip(sizes, shares):
        shared = min(len(previous), round(share * size), size)
        chosen = rng.choice(previous, shared, replace=False).tolist()
        taken = set(chosen)
        while len(chosen) < size:
            item = int(rng.integers(n_items))
            if item not in taken:
                taken.add(item)
                chosen.append(item)
        previous = np.array(chosen)
        patterns.append(previous)
    weights = rng.exponential(1.0, count)
    levels = np.clip(rng.normal(corruption, np.sqrt(0.1), count), 0.0, 0.99)
    return _Patterns(
        items=np.concatenate(patterns),
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes.astype(np.int64),
        cumulative_weights=np.cumsum(weights) / weights.sum(),
        corruption=levels if corruption else np.zeros(count),
    )


def _draw_block(
    patterns: _Patterns, mean_length: float, count: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw the columns of a block of transactions, with duplicates, and where each one begins."""
    lengths = np.maximum(rng.poisson(mean_length, count), 1)
    # no transaction takes more than its length and one copy that does not fit
    budget = int(lengths.sum()) + (count + 1) * int(patterns.sizes.max())
    chosen, kept = _draw_copies(patterns, budget, rng)
    coins = (rng.random(count) < 0.5).tolist()
    filled = np.cumsum(kept)
    begins, ends = _fill(lengths.tolist(), filled.tolist(), coins)
    # the copies after the last transaction are not used; those before it are all in order
    columns, copy_of = _copy_items(patterns, chosen[: ends[-1]], kept[: ends[-1]], rng)
    first_item = np.concatenate([[0], np.cumsum(np.bincount(copy_of, minlength=ends[-1]))])
    return columns, np.append(first_item[begins], first_item[ends[-1]])


def _draw_copies(patterns: _Patterns, items: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw patterns by weight, corrupted, until their sizes add up to ``items`` or more."""
    chosen_parts, kept_parts, total = [], [], 0
    while total < items:
        draws = max(64, items // 2)
        chosen = np.searchsorted(patterns.cumulative_weights, rng.random(draws), side="right")
        chosen = np.minimum(chosen, len(patterns.sizes) - 1)
        level = patterns.corruption[chosen]
        with np.errstate(divide="ignore"):
            dropped = np.log(1.0 - rng.random(draws)) / np.log(level)
        kept = patterns.sizes[chosen] - np.minimum(dropped, patterns.sizes[chosen]).astype(np.int64)
        chosen, kept = chosen[kept > 0], kept[kept > 0]
        chosen_parts.append(chosen)
        kept_parts.append(kept)
        total += int(kept.sum())
    return np.concatenate(chosen_parts), np.concatenate(kept_parts)


def _fill(lengths: list[int], filled: list[int], coins: list[bool]) -> tuple[list[int], list[int]]:
    """Assign copies to transactions: those that fit, and half the time one that does not.

    A copy that does not fit and is not forced in opens the next transaction.
    """
    begins, ends, begin = [], [], 0
    for length, forced in zip(lengths, coins):
        before = filled[begin - 1] if begin else 0
        end = bisect_right(filled, before + length, begin)
        if end == begin or (forced and filled[end - 1] < before + length):
            end += 1
        begins.append(begin)
        ends.append(end)
        begin = end
    return begins, ends


def _copy_items(
    patterns: _Patterns, chosen: Ints, kept: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Copy ``kept`` random items of each chosen pattern (selection sampling, one position at a
    time).
    """
    sizes = patterns.sizes[chosen]
    wanted = kept.astype(np.float64)
    live = np.arange(len(chosen))
    columns, copies = [], []
    for position in range(int(sizes.max())):
        live = live[(sizes[live] > position) & (wanted[live] > 0)]
        if not len(live):
            break
        taken = live[rng.random(len(live)) * (sizes[live] - position) < wanted[live]]
        wanted[taken] -= 1
        columns.append(patterns.items[patterns.starts[chosen[taken]] + position])
        copies.append(taken)
    copy_of = np.concatenate(copies)
    order = np.argsort(copy_of, kind="stable")
    return np.concatenate(columns)[order], copy_of[order]
