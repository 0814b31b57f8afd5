"""Columns as the synthesis takes them and gives them back: numbers, or codes of categories."""

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
    """Return the array of a column, whatever its kind."""
    return column.values if isinstance(column, NumberColumn) else column.codes


def missing_of(column: Column) -> Flags:
    """Return where a column is missing."""
    return np.isnan(column.values) if isinstance(column, NumberColumn) else column.codes < 0


def with_cells(column: Column, name: str, rows: Flags) -> Column:
    """Return a column under another name that is missing outside some rows."""
    if isinstance(column, NumberColumn):
        return replace(column, name=name, values=np.where(rows, column.values, np.nan))
    return replace(column, name=name, codes=np.where(rows, column.codes, -1))


def take_rows(column: Column, rows: Ints) -> Column:
    """Return some rows of a column."""
    if isinstance(column, NumberColumn):
        return replace(column, values=column.values[rows])
    moved = None if column.moved is None else column.moved[rows]
    return replace(column, codes=column.codes[rows], moved=moved)


def looks_coded(values: Floats, k: int) -> bool:
    """Tell whether whole numbers look like codes, between which there is nothing.

    Nearly all people hold a value that ``k`` people hold, even leaving aside the commonest value
    (many columns are mostly 0), and most numbers in between do not occur: industry codes, not
    ages.
    """
    present = values[np.isfinite(values)]
    if not len(present) or (present != np.round(present)).any():
        return False
    distinct, counts = np.unique(present, return_counts=True)
    common = counts >= k
    most = counts.max()
    if common.sum() < 3 or counts[common].sum() - most < 0.9 * (len(present) - most):
        return False
    held = distinct[common]
    return bool(len(held) < 0.5 * (held[-1] - held[0] + 1))
