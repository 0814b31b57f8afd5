"""Columns cut into cells, alike in all tables: what marginals of several columns are counted in.

Numbers of more than 20 different values are cut at 18 quantiles of the original, as NIST's scores
do it, so that there are at most 19 cells and one for missing values. Other values are cells of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tulle._types import Codes, Floats, Integers, Ints

MOST_VALUES = 20  # different numbers that are not cut


@dataclass(frozen=True)
class Cells:
    """Tables with the same columns, each value as the number of its cell."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]  # cells of each column; they are numbered from 0
    tables: tuple[Codes, ...]  # (n, p) each, the original first

    @property
    def original(self) -> Codes:
        """The cells of the original."""
        return self.tables[0]

    @property
    def release(self) -> Codes:
        """The cells of the release."""
        return self.tables[1]


def number_cells(values: Sequence[Floats]) -> list[Codes]:
    """Cut the numbers of each table at quantiles of the first; NaN is a cell of its own, 0.

    >>> [cells.tolist() for cells in number_cells([np.array([5.0, 7.0, np.nan]), np.array([7.0])])]
    [[1, 2, 0], [2]]
    """
    known = [part[~np.isnan(part)] for part in values]
    edges = np.unique(np.concatenate(known))
    if len(np.unique(known[0])) > MOST_VALUES:
        cuts = np.percentile(known[0], np.arange(0, 100, 100 / 19), method="higher")
        both = np.concatenate(known[:2])
        edges = np.unique([both.min(), *np.unique(cuts)[1:], both.max()])[1:-1]
    places = [np.searchsorted(edges, part, side="left") + 1 for part in values]
    return [np.where(np.isnan(part), 0, at).astype(np.int32) for part, at in zip(values, places)]


def joined(tables: Sequence[Integers], sizes: Sequence[int], columns: Sequence[int]) -> list[Ints]:
    """Return a number for each combination of some columns, alike in all tables."""
    keys: list[Ints] = [np.zeros(len(table), np.int64) for table in tables]
    ends = np.cumsum([len(table) for table in tables])[:-1]
    total = 1
    for column in columns:
        total *= sizes[column]
        keys = [key * sizes[column] + table[:, column] for key, table in zip(keys, tables)]
        if total > 2**20:  # the product of many sizes would not fit an integer
            _, numbers = np.unique(np.concatenate(keys), return_inverse=True)
            keys = np.split(numbers.ravel().astype(np.int64), ends)
            total = int(numbers.max(initial=0)) + 1
    return keys
