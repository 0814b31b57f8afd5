"""Which combinations of columns single people out.

A record that no other equals in some columns is found by anyone who knows these columns of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
import polars as pl

from tulle._progress import bar
from tulle._types import Ints
from tulle.table._frames import to_polars

_SETTLED = 0.2  # a combination that singles out this share is a finding: nothing is added to it


@dataclass(frozen=True)
class Combination:
    """Some columns, and how many records are unique in them."""

    columns: tuple[str, ...]
    unique: int
    share: float


@dataclass(frozen=True)
class SinglingOut:
    """What singles people out.

    Attributes
    ----------
    together : all columns at once
    combinations : those of few columns, the smallest first, then by share
    examined, possible : how many combinations were looked at, and how many there are; those that
        contain one that singles out a fifth of the records are not looked at
    """

    together: Combination
    combinations: tuple[Combination, ...]
    examined: int
    possible: int


def singling_out(
    table: Any, names: Sequence[str] | None = None, *, largest: int = 3, budget: int = 300
) -> SinglingOut:
    """Find the combinations of columns that make records unique.

    Parameters
    ----------
    table : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table.
    names : sequence of str, optional
        The columns that others may know; all by default.
    largest : int
        Most columns in a combination.
    budget : int
        Most combinations to examine; if there are more, those of the columns with the most
        distinct values come first.

    Returns
    -------
    SinglingOut
        ``together`` (all columns at once) and ``combinations`` (each with ``columns``, ``unique``
        records and their ``share``): those that single out more people than their parts do.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import singling_out
    >>> people = pl.DataFrame({"sex": ["f", "f", "m", "m"], "age": [40, 41, 40, 41]})
    >>> [(found.columns, found.unique) for found in singling_out(people).combinations]
    [(('sex', 'age'), 4)]
    """
    frame = to_polars(table)
    chosen = list(frame.columns if names is None else names)
    coded = {name: _codes(frame[name]) for name in chosen}
    order = sorted(chosen, key=lambda name: -coded[name][1])
    possible = sum(comb(len(chosen), size) for size in range(1, largest + 1))
    found: dict[frozenset[str], Combination] = {}
    examined = 0
    with bar("Combinations", min(possible, budget)) as advance:
        for some in islice(_candidates(order, largest, found), budget):
            columns = [name for name in chosen if name in some]
            found[frozenset(some)] = _combination(columns, coded, frame.height)
            examined += 1
            advance(1)
    telling = [one for one in found.values() if _tells_more(one, found)]
    telling.sort(key=lambda one: (len(one.columns), -one.share))
    together = _combination(chosen, coded, frame.height)
    return SinglingOut(together, tuple(telling), examined, possible)


def _candidates(
    order: list[str], largest: int, found: dict[frozenset[str], Combination]
) -> Iterator[tuple[str, ...]]:
    """Yield combinations, small ones first, without those that a part of them has settled."""
    for size in range(1, largest + 1):
        for some in combinations(order, size):
            if all(part.share < _SETTLED for part in _parts(some, found)):
                yield some


def _parts(some: Sequence[str], found: dict[frozenset[str], Combination]) -> Iterator[Combination]:
    for size in range(1, len(some)):
        for part in combinations(some, size):
            if frozenset(part) in found:
                yield found[frozenset(part)]


def _tells_more(one: Combination, found: dict[frozenset[str], Combination]) -> bool:
    best = max((part.share for part in _parts(one.columns, found)), default=0.0)
    return one.unique > 0 and one.share > best


def _codes(series: pl.Series) -> tuple[Ints, int]:
    """Return each value as a number from 0; missing counts as a value."""
    ranks = series.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return ranks, int(ranks.max(initial=0)) + 1


def _combination(
    columns: Sequence[str], coded: dict[str, tuple[Ints, int]], records: int
) -> Combination:
    unique = _unique([coded[name] for name in columns], records) if columns and records else 0
    return Combination(tuple(columns), unique, unique / max(records, 1))


def _unique(coded: list[tuple[Ints, int]], records: int) -> int:
    """Count the records whose codes no other record has."""
    keys, space = coded[0]
    for codes, width in coded[1:]:
        if space > 2**62 // width:
            keys, space = _codes(pl.Series(keys))
        keys, space = keys * width + codes, space * width
    if space <= 4 * records + 1024:
        return int(np.count_nonzero(np.bincount(keys) == 1))
    return int(pl.Series(keys).is_unique().sum())
