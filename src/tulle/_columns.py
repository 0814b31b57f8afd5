"""Columns as models take them and give them back: numbers, or codes of categories."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tulle._types import Flags, Floats, Ints


@dataclass(frozen=True)
class NumberColumn:
    """Numbers, dates as ticks, or codes that are numbers; NaN is missing."""

    name: str
    values: Floats
    decimals: int | None = None  # what values are rounded to; None keeps full precision
    specials: tuple[float, ...] = ()  # values that stand for a state, such as 9999
    coded: bool = False  # codes: no value may be invented
    keep_rare: bool = False  # whether specials of fewer than k people stay
    step: int = 1  # of how many of the last decimal all values are whole multiples

    def written(self, values: Floats) -> Floats:
        """Round numbers to those that the column may hold."""
        return rounded(values, self.decimals, self.step)


@dataclass(frozen=True)
class CategoryColumn:
    """Codes 0 .. size - 1 of categories, -1 for missing; rare categories are merged already."""

    name: str
    codes: Ints
    size: int
    other: int | None = None  # the code that stands for all merged categories
    keep_rare: bool = False  # whether categories of fewer than k people stay
    moved: Flags | None = None  # rows whose code stands for a rarer one near it


Column = NumberColumn | CategoryColumn


def cells_of(column: Column) -> Floats | Ints:
    return column.values if isinstance(column, NumberColumn) else column.codes


def missing_of(column: Column) -> Flags:
    return np.isnan(column.values) if isinstance(column, NumberColumn) else column.codes < 0


def with_cells(column: Column, name: str, rows: Flags) -> Column:
    """Return a column under another name that is missing outside some rows."""
    if isinstance(column, NumberColumn):
        return replace(column, name=name, values=np.where(rows, column.values, np.nan))
    return replace(column, name=name, codes=np.where(rows, column.codes, -1))


def rounded(values: Floats, decimals: int | None, step: int = 1) -> Floats:
    """Round numbers to decimals, and to whole multiples of ``step`` in the last one."""
    if decimals is None:
        return values
    if step > 1:
        values = np.rint(values * 10.0**decimals / step) * step / 10.0**decimals
    return np.asarray(np.round(values, decimals) + 0.0)


def take_rows(column: Column, rows: Ints) -> Column:
    if isinstance(column, NumberColumn):
        return replace(column, values=column.values[rows])
    moved = None if column.moved is None else column.moved[rows]
    return replace(column, codes=column.codes[rows], moved=moved)
