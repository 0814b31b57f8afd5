"""Generated data: the Quest basket generator of the association-rule literature, and a hospital.

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
from tulle._types import Floats, Ints
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


# A hospital: who is frail comes more often, stays longer, and gets worse.

_START = np.datetime64("2020-01-01")
_DISEASES = [  # code, name, chapter; the first half are of the frail
    ("I10", "hypertension", "circulation"),
    ("I21", "heart attack", "circulation"),
    ("E11", "diabetes", "metabolism"),
    ("J18", "pneumonia", "respiration"),
    ("S72", "broken thigh bone", "injury"),
    ("K35", "appendicitis", "digestion"),
]
_TESTS = ("creatinine", "haemoglobin", "sodium")


def hospital(people: int = 1_000, *, random_state: RandomState = None) -> dict[str, Any]:
    """Generate a hospital: patients, their visits, laboratory values of visits, and a code book.

    Frail patients come more often, stay longer, and get worse from one visit to the next; a tenth
    of the patients never came.

    Parameters
    ----------
    people : int
        Number of patients.
    random_state : int, Generator, RandomState or None
        The same seed gives the same hospital.

    Returns
    -------
    dict of str to polars.DataFrame
        ``patients`` (key ``patient_id``), ``visits`` (key ``visit_id``), ``labs``, and ``icd`` (key
        ``code``), which is not about people.

    Examples
    --------
    >>> from tulle import hospital
    >>> tables = hospital(200, random_state=0)
    >>> list(tables), tables["patients"].height
    (['patients', 'visits', 'labs', 'icd'], 200)
    """
    import polars as pl

    check_int("hospital", "people", people, 1)
    rng = as_generator(random_state)
    age = np.clip(rng.normal(55, 20, people), 0, 99)
    frail = rng.normal(size=people) + (age - 55) / 25
    patients = pl.DataFrame(
        {
            "patient_id": rng.choice(np.arange(5 * people), people, replace=False) + 100_000,
            "sex": rng.choice(["f", "m"], people),
            "born": _START - (365.25 * age).astype(np.int64),
            "insurance": np.where(rng.random(people) < 0.15, "private", "public"),
        }
    )
    visits, worse = _visits(patients["patient_id"].to_numpy(), frail, rng)
    icd = pl.DataFrame(_DISEASES, schema=["code", "disease", "chapter"], orient="row")
    labs = _labs(visits["visit_id"].to_numpy(), worse, rng)
    return {"patients": patients, "visits": visits, "labs": labs, "icd": icd}


def _visits(ids: Ints, frail: Floats, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Return the visits in random order of their keys, and how ill their patients are by then."""
    import polars as pl

    never = rng.random(len(ids)) < 0.1
    counts = np.where(never, 0, 1 + rng.poisson(np.exp(0.5 + 0.4 * frail)))
    of = np.repeat(np.arange(len(ids)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    gaps = 1 + rng.exponential(np.exp(4.6 - 0.4 * frail[of])).astype(np.int64)
    total = np.cumsum(gaps)
    days = total - (total - gaps)[first] + rng.integers(0, 365, len(ids))[of]
    stay = rng.poisson(np.exp(0.8 + 0.3 * frail[of]))
    ill = rng.random(len(of)) < 1 / (1 + np.exp(-frail[of]))
    code = np.array([code for code, *_ in _DISEASES])[rng.integers(0, 3, len(of)) + 3 * ~ill]
    visits = pl.DataFrame(
        {
            "visit_id": rng.permutation(len(of)) + 1,
            "patient_id": ids[of],
            "admitted": _START + days,
            "discharged": _START + days + stay,
            "ward": np.where(ill, "medicine", "surgery"),
            "icd": code,
            "cost": np.round(900 + 700 * stay + 1500 * ill + rng.exponential(400, len(of)), 2),
        }
    )
    return visits, frail[of] + 0.3 * (np.arange(len(of)) - first)


def _labs(visits: Ints, worse: Floats, rng: np.random.Generator) -> Any:
    """Return up to a few laboratory values of each visit."""
    import polars as pl

    of = np.repeat(np.arange(len(visits)), rng.poisson(1.5, len(visits)))
    which, noise = rng.integers(0, len(_TESTS), len(of)), rng.normal(size=len(of))
    ill = worse[of]
    values = [np.exp(4.4 + 0.2 * ill + 0.15 * noise), 14 - 0.6 * ill + 0.8 * noise, 140 + 3 * noise]
    tests, value = np.array(_TESTS)[which], np.round(np.choose(which, values), 1)
    return pl.DataFrame({"visit_id": visits[of], "test": tests, "value": value})
