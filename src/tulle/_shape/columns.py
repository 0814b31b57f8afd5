"""Columns as the synthesis takes them and gives them back: numbers, or codes of categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from tulle._people import distinct_people, people_among
from tulle._types import Flags, Floats, Integers, Ints


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


class Owners(NamedTuple):
    """Whose the rows of a table are, while a model is fitted."""

    # 1 over the rows of the person, so that sums never exceed the number of people; 0 for a row
    # from which nothing may be learnt directly
    weights: Floats
    people: Ints | None = None  # the person of each row, if people have several

    @classmethod
    def of(cls, people: Ints | None, n: int, counted: Flags | None = None) -> Self:
        weights = weigh_people(people, n)
        return cls(weights if counted is None else np.where(counted, weights, 0.0), people)

    @property
    def counted(self) -> Flags:
        return self.weights > 0

    def take(self, rows: Flags | Ints | slice) -> Owners:
        return Owners(self.weights[rows], None if self.people is None else self.people[rows])

    def holders(self, keys: Integers, size: int) -> Ints:
        """Return how many different people hold each key; negative keys and rows that do not
        count are nobody's.
        """
        return distinct_people(np.where(self.counted, keys, -1), self.people, size)

    def n_people(self) -> int:
        return people_among(self.counted, self.people)

    def numbered(self) -> Ints:
        """Return the person of each row, -1 where it does not count."""
        people = np.arange(len(self.weights)) if self.people is None else self.people
        return np.where(self.counted, people, -1)

    def turns(self, rng: np.random.Generator) -> Floats:
        """Return a number in [0, 1) for each row, one for all rows of a person."""
        if self.people is None:
            return rng.random(len(self.weights))
        return rng.random(int(self.people.max(initial=0)) + 1)[self.people]


def weigh_people(people: Ints | None, n: int) -> Floats:
    """Return what each row counts: 1 over the rows of its person.

    The sum over any rows is at most the number of different people among them.
    """
    if people is None:
        return np.ones(n)
    _, person, rows = np.unique(people, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / rows[person])


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
