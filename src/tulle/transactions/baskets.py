"""The one data structure of the rule family: baskets as compressed rows.

A basket is a set of item codes; codes are 0, 1, ... in the order of :attr:`Transactions.names`.
Names appear only at the edges (reading, errors about the user's own rules, results).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tulle._types import Codes, Flags
from tulle.errors import DataError

Rows = npt.NDArray[np.int64]
_MANY = 100_000  # items; fewer are not worth the start of polars


@dataclass(frozen=True, eq=False, repr=False)
class Transactions:
    """Hold baskets as compressed rows, ``items[indptr[t]:indptr[t + 1]]`` being those of basket t.

    Codes rise strictly inside a row: a repeated item counts once.

    Parameters
    ----------
    indptr
        Where each row begins, and the end of the last one.
    items
        Item codes, row after row.
    names
        Name of each code.
    unknown
        Cells of which a release does not say whether the basket holds the item (method
        ``blocking``): rows of the same shape, disjoint from the items.

    Examples
    --------
    >>> baskets = Transactions.from_lists([["bread", "milk"], ["milk", "beer", "milk"]])
    >>> baskets
    Transactions(2 baskets, 3 items)
    >>> baskets.to_lists()
    [['bread', 'milk'], ['milk', 'beer']]
    """

    indptr: Rows
    items: Codes
    names: npt.NDArray[Any]
    unknown: Transactions | None = field(default=None)

    # --- making ---------------------------------------------------------------------------

    @classmethod
    def from_lists(cls, baskets: Iterable[Iterable[Hashable]]) -> Transactions:
        """Build baskets of any hashable items, coded in the order of their first appearance.

        Parameters
        ----------
        baskets : iterable of iterables
            The items of each basket.

        Returns
        -------
        Transactions
        """
        rows = baskets if isinstance(baskets, list | tuple) else list(baskets)
        if not set(map(type, rows)) <= {list, tuple}:
            rows = [_as_row(row) for row in rows]
        ends = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=ends[1:])
        try:
            items, names = _coded(rows)
        except TypeError:
            raise DataError(
                "a basket must be a list of items, and an item a number, a text or another value "
                "that can be a key"
            ) from None
        if any(map(_is_missing, names.tolist())):
            raise DataError("there are missing values among the items: leave them out of baskets")
        return cls.from_rows(ends, items, names)

    @classmethod
    def from_rows(
        cls, indptr: npt.NDArray[Any], items: npt.NDArray[Any], names: npt.NDArray[Any]
    ) -> Transactions:
        """Build baskets from compressed rows whose codes may be unsorted or repeated.

        Parameters
        ----------
        indptr : ndarray
            Where each row begins, and the end of the last one.
        items : ndarray
            Item codes, row after row.
        names : ndarray
            Name of each code.

        Returns
        -------
        Transactions
        """
        starts = np.asarray(indptr, dtype=np.int64)
        codes = np.asarray(items, dtype=np.int32)
        falls = np.flatnonzero(codes[1:] <= codes[:-1]) + 1
        if not np.isin(falls, starts).all():
            from tulle.transactions._kernels import sort_rows

            codes = codes.copy()
            starts = sort_rows(starts, codes)
            codes = codes[: starts[-1]]
        return cls(starts, codes, names)

    @classmethod
    def from_pairs(
        cls, rows: npt.NDArray[Any], items: npt.NDArray[Any], n_rows: int, names: npt.NDArray[Any]
    ) -> Transactions:
        """Build baskets from (row, code) pairs in any order.

        Parameters
        ----------
        rows : ndarray
            Row of each pair.
        items : ndarray
            Item code of each pair.
        n_rows : int
            Number of baskets.
        names : ndarray
            Name of each code.

        Returns
        -------
        Transactions
        """
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and (rows[1:] >= rows[:-1]).all():  # basket after basket, as most tables are
            ends = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows))))
            return cls.from_rows(ends, items, names)
        keys = np.unique(rows * len(names) + items)
        return cls._from_keys(keys, n_rows, names)

    @classmethod
    def _from_keys(cls, keys: Rows, n_rows: int, names: npt.NDArray[Any]) -> Transactions:
        rows, codes = np.divmod(keys, max(len(names), 1))
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows))))
        return cls(indptr.astype(np.int64), codes.astype(np.int32), names)

    # --- looking --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"Transactions({len(self)} baskets, {len(self.names)} items)"

    @property
    def lengths(self) -> Rows:
        """The number of items in each basket."""
        return np.diff(self.indptr)

    @property
    def n_filled(self) -> int:
        """The number of baskets that are not empty."""
        return int(np.count_nonzero(self.lengths))

    @cached_property
    def counts(self) -> Rows:
        """The number of baskets that hold each item."""
        return np.bincount(self.items, minlength=len(self.names))

    @cached_property
    def row_of(self) -> Rows:
        """The row of each stored cell."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    @cached_property
    def _inverted(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.items, kind="stable")
        return np.concatenate(([0], np.cumsum(self.counts))), order

    def cells(self, item: int) -> Rows:
        """Return the positions in :attr:`items` of one item, in row order.

        Parameters
        ----------
        item : int
            The code of the item.

        Returns
        -------
        ndarray of int
        """
        starts, order = self._inverted
        return order[starts[item] : starts[item + 1]]

    def rows_with(self, itemset: Sequence[int] | Codes) -> Rows:
        """Return the baskets that hold every item of a set, in ascending order.

        Parameters
        ----------
        itemset : sequence of int
            Item codes.

        Returns
        -------
        ndarray of int
        """
        lists = sorted((self.row_of[self.cells(int(item))] for item in itemset), key=len)
        found = lists[0]
        for other in lists[1:]:
            found = found[_among(found, other)]
        return found

    def cells_at(self, rows: Rows, item: int) -> Rows:
        """Return the positions in :attr:`items` of one item in rows that all hold it.

        Parameters
        ----------
        rows : ndarray of int
            Ascending rows.
        item : int
            The code of the item.

        Returns
        -------
        ndarray of int
        """
        cells = self.cells(item)
        return cells[np.searchsorted(self.row_of[cells], rows)]

    @cached_property
    def index(self) -> dict[Any, int]:
        """The code of each name."""
        return {name: code for code, name in enumerate(self.names.tolist())}

    def is_part_of(self, others: Transactions) -> bool:
        """Tell whether each basket holds only items that its counterpart holds.

        Parameters
        ----------
        others : Transactions
            Baskets of the same names, row for row.

        Returns
        -------
        bool
        """
        width = max(len(self.names), 1)
        own, known = (b.row_of * width + b.items for b in (self, others))
        return bool(_among(own, known).all())

    def to_lists(self) -> list[list[Any]]:
        """Return the baskets as lists of item names.

        Returns
        -------
        list of list
        """
        names = self.names.tolist()
        flat = [names[code] for code in self.items.tolist()]
        ends = self.indptr.tolist()
        return [flat[start:end] for start, end in pairwise(ends)]

    # --- changing -------------------------------------------------------------------------

    def keeping(self, kept: Flags) -> Transactions:
        """Return the same baskets with only some of the cells.

        Parameters
        ----------
        kept : ndarray of bool
            For each entry of :attr:`items`, whether it stays.

        Returns
        -------
        Transactions
        """
        running = np.concatenate(([0], np.cumsum(kept)))
        return Transactions(running[self.indptr], self.items[kept], self.names)

    def adding(self, rows: Rows, items: Codes | Rows) -> Transactions:
        """Return the same baskets with some cells added.

        Parameters
        ----------
        rows : ndarray of int
            Row of each new cell.
        items : ndarray of int
            Item code of each new cell.

        Returns
        -------
        Transactions
        """
        width = max(len(self.names), 1)
        keys = np.concatenate((self.row_of * width + self.items, rows * width + items))
        return Transactions._from_keys(np.unique(keys), len(self), self.names)

    def take(self, rows: Rows) -> Transactions:
        """Return the baskets of some rows, in the order given.

        Parameters
        ----------
        rows : ndarray of int
            The rows.

        Returns
        -------
        Transactions
        """
        lengths = self.lengths[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        shift = np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        unknown = None if self.unknown is None else self.unknown.take(rows)
        return Transactions(indptr, self.items[np.arange(indptr[-1]) + shift], self.names, unknown)


def _as_row(basket: Any) -> Any:
    if isinstance(basket, list | tuple):
        return basket
    if isinstance(basket, str | bytes):
        raise DataError("a basket must be a list of items, not a text: split it first")
    if isinstance(basket, set | frozenset):  # their order differs from run to run
        return sorted(basket, key=repr)
    try:
        return list(basket)
    except TypeError:
        raise DataError(
            f"a basket must be a list of items. Got a basket of type {type(basket).__name__}."
        ) from None


# Opening lists costs more than mining them, unless numbers and texts go another way than the rest:
# numbers are read in one pass and coded by their place in a range, texts by polars.


def _coded(rows: Sequence[Any]) -> tuple[Codes, npt.NDArray[Any]]:
    """Return the codes of all items in order of first appearance, and the name of each code."""
    first = next((item for row in rows for item in row[:1]), None)
    if type(first) is int:
        with suppress(TypeError, OverflowError):  # other things are among them
            numbers = np.frombuffer(array("q", chain.from_iterable(rows)), dtype=np.int64)
            if int(numbers.max()) - int(numbers.min()) <= 4 * len(numbers) + 1000:
                codes, first_ones = by_appearance(numbers)
                return codes, _as_names(numbers[first_ones].tolist())
    flat = list(chain.from_iterable(rows))
    if type(first) is str and len(flat) > _MANY:
        import polars as pl

        with suppress(TypeError, pl.exceptions.PolarsError):
            texts = pl.Series(flat, dtype=pl.String, strict=True)
            numbers = texts.cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)
            codes, first_ones = by_appearance(numbers)
            return codes, _as_names(texts.gather(first_ones).to_list())
    known = {name: code for code, name in enumerate(dict.fromkeys(flat))}
    return np.fromiter(map(known.__getitem__, flat), np.int32, len(flat)), _as_names([*known])


def by_appearance(numbers: Rows) -> tuple[Codes, Rows]:
    """Return codes in order of first appearance, and where each appears first."""
    places = numbers - numbers.min()
    first = np.full(int(places.max()) + 1, -1, dtype=np.int64)
    first[places[::-1]] = np.arange(len(places) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    known = present[np.argsort(first[present])]
    code = np.empty(len(first), dtype=np.int32)
    code[known] = np.arange(len(known))
    return code[places], first[known]


def _as_names(values: list[Any]) -> npt.NDArray[Any]:
    names = np.empty(len(values), dtype=object)
    names[:] = values
    return names


def _is_missing(item: Hashable) -> bool:
    try:
        return item is None or bool(item != item)
    except TypeError:  # a missing value that does not even say whether it is one
        return True


def _among(values: Rows, others: Rows) -> Flags:
    """Return which of some sorted values occur among other sorted values."""
    if len(others) == 0:
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(others, values), len(others) - 1)
    return np.asarray(others[places] == values)
