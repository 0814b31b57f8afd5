"""The steps that complete a drawn table: columns computed, looked up, or made missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tulle._columns import Column, cells_of
from tulle._people import distinct_people
from tulle._relations.language import Call, Node, columns_of
from tulle._relations.values import Values, quantity, truth
from tulle._shape.dependencies import Dependency
from tulle._types import Flags, Floats, Ints
from tulle.table._codecs import Codec
from tulle.table._numbers import NumberCodec
from tulle.table._series import with_nulls

_EXACT = 1e-9  # relative: what rounding forgives, ...
_MOST_SLACK = 1e-2  # ... but never more than so much of a unit


@dataclass(frozen=True)
class Computed:
    """A column that follows from others by arithmetic, with a distance that is drawn if need be.

    ``own`` holds the column's values where the formula has none, ``gone`` says where it is missing
    though the formula has a value.
    """

    target: str
    formula: Node
    unit: float | None
    clock: NumberCodec | None  # of times, of which formulas give days
    rounding: str = "nearest"  # or "down", "up"
    distance: str | None = None  # drawn, in units; or, where it is ``even``, in cells of the clock
    sign: int = 1  # of the distance
    least: float | None = None  # the smallest distance, in units
    even: bool = False
    lowest: float | None = None  # of the column, where the distance is taken away
    own: str | None = None
    gone: str | None = None
    whole: bool = False  # whether the column has a value of its own wherever the formula has none
    states: tuple[float, ...] = ()  # values of ``own`` that are words, which need no formula
    written: Any = None  # the type of a column of which the model draws codes, not numbers

    @property
    def sources(self) -> list[str]:
        """The columns that must be there before."""
        return list(dict.fromkeys(columns_of(self.formula)))

    def make(self, values: Values, drawn: dict[str, Any], rng: np.random.Generator) -> Floats:
        """Return the column as the model would draw it."""
        found = snap(quantity(self.formula, values), self.unit, self.rounding)
        away: Floats | float = 0.0
        if self.distance is not None:
            away = np.asarray(drawn[self.distance], dtype=np.float64)
            away = self.sign * (away if self.least is None else np.maximum(away, self.least))
        if not self.even:
            whole, found, away = found, found + away * (self.unit or 1.0), 0.0
            if self.lowest is not None:  # a distance must not lead below what there is
                low = found < self.lowest
                reach = np.maximum(whole[low] - self.lowest, 0.0)
                found[low] = whole[low] - reach * rng.random(int(low.sum()))
            if self.distance is not None and self.clock is not None:
                found = self.clock.awake(whole, found, rng)
        cells = found + away if self.clock is None else self.clock.cells_of_days(found, away)
        if self.unit is not None and self.clock is None:
            cells = np.round(cells / self.unit) * self.unit
            cells = np.round(cells, max(0, int(np.ceil(-np.log10(self.unit)))))
        if self.gone is not None:
            cells = np.where(np.asarray(drawn[self.gone]) == 1, np.nan, cells)
        if self.own is not None and self.whole:
            drawn[self.own] = _filled(drawn[self.own], np.isnan(found), rng)
        if self.own is not None and self.written is None:
            own = np.asarray(drawn[self.own], dtype=np.float64)
            alone = np.isnan(found) | np.isin(own, self.states)
            cells = np.where(alone & ~np.isnan(own), own, cells)
        return cells

    def restore(self, cells: Any, drawn: dict[str, Any], codec: Codec) -> pl.Series:
        """Return the column from what :meth:`make` gives: any number, in its own type."""
        if self.written is None:
            return codec.restore(cells)
        found = with_nulls(pl.Series(np.nan_to_num(cells)), np.isnan(cells)).cast(self.written)
        if self.own is not None:
            found = found.zip_with(found.is_not_null(), codec.restore(drawn[self.own]))
        return found.alias(self.target)


@dataclass(frozen=True)
class Chosen:
    """A column of a set of which one is 1: which of them is drawn."""

    target: str
    which: str  # drawn: the place in the set, or one beyond where none is 1
    place: int
    cells: tuple[float, float]  # of the column where it is 0, and where it is 1
    coded: bool  # whether these are codes of categories

    @property
    def sources(self) -> list[str]:
        """The columns that must be there before: none."""
        return []

    def make(
        self, values: Values, drawn: dict[str, Any], rng: np.random.Generator
    ) -> Floats | Ints:
        which = np.asarray(drawn[self.which])
        cells = np.where(which == self.place, self.cells[1], self.cells[0])
        cells = np.where(which < 0, -1.0 if self.coded else np.nan, cells)
        return cells.astype(np.int64) if self.coded else cells


@dataclass(frozen=True)
class Mapped:
    """A column that is looked up: by one other, or by the longest known beginning of several."""

    target: str
    by: tuple[str, ...]
    first: Dependency
    longer: tuple[dict[tuple[float, ...], float], ...] = ()  # by two columns, by three, ...
    own: str | None = None  # where one of the others is missing; else it is missing there too
    whole: bool = False  # whether it never is, then
    gone: str | None = None  # where it is missing though they are there

    @property
    def sources(self) -> list[str]:
        return list(self.by)

    def make(
        self, values: Values, drawn: dict[str, Any], rng: np.random.Generator
    ) -> Floats | Ints:
        found: Any = self.first.restore(drawn[self.by[0]], rng)
        for count, entries in enumerate(self.longer, start=2):
            keys, place = combinations([drawn[name] for name in self.by[:count]])
            answers = np.array([entries.get(key, np.nan) for key in keys])[place]
            known = np.isin(place, [i for i, key in enumerate(keys) if key in entries])
            found = np.where(known, answers, found).astype(found.dtype)
        missing = -1 if np.issubdtype(found.dtype, np.integer) else np.nan
        if self.gone is not None:
            found = np.where(np.asarray(drawn[self.gone]) == 1, missing, found)
        alone = np.logical_or.reduce([_as_keys(drawn[name]) == np.inf for name in self.by])
        own = missing if self.own is None else drawn[self.own]
        if self.own is not None and self.whole:
            own = _filled(own, alone, rng)
        return np.asarray(np.where(alone, own, found))


@dataclass(frozen=True)
class Blanked:
    """A column that is missing under a condition."""

    target: str
    condition: Call

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(columns_of(self.condition)))

    def rows(self, values: Values) -> Flags:
        return truth(self.condition, values)[0]


def _filled(own: Any, needed: Flags, rng: np.random.Generator) -> Any:
    """Give rows that need a value of their own, and drew none, that of another row."""
    own = np.asarray(own)
    there = own >= 0 if np.issubdtype(own.dtype, np.integer) else ~np.isnan(own)
    gaps = needed & ~there
    if not gaps.any() or not there.any():
        return own
    found = own.copy()
    found[gaps] = rng.choice(own[there], int(gaps.sum()))
    return found


Made = Computed | Mapped | Chosen
Step = Made | Blanked


def snap(values: Floats, unit: float | None, rounding: str) -> Floats:
    """Return values in whole units: the nearest, or down or up to one."""
    if unit is None:
        return values
    counts = values / unit
    slack = np.minimum(_EXACT * np.maximum(np.abs(counts), 1.0), _MOST_SLACK)
    if rounding == "down":
        return np.floor(counts + slack) * unit
    if rounding == "up":
        return np.ceil(counts - slack) * unit
    return np.round(counts + np.sign(counts) * slack) * unit


def combinations(columns: Sequence[Any]) -> tuple[list[tuple[float, ...]], Ints]:
    """Return the different combinations of values, missing as infinity, and which each row has."""
    stacked = np.stack([_as_keys(cells) for cells in columns], axis=1)
    keys, place = np.unique(stacked, axis=0, return_inverse=True)
    return [tuple(key) for key in keys.tolist()], place.reshape(-1)


def _as_keys(cells: Any) -> Floats:
    array = np.asarray(cells)
    keys = array.astype(np.float64)
    absent = array < 0 if np.issubdtype(array.dtype, np.integer) else np.isnan(keys)
    return np.where(absent, np.inf, keys)


def fit_longer(
    sources: Sequence[Column], target: Column, k: int, people: Ints | None
) -> tuple[dict[tuple[float, ...], float], ...]:
    """Map combinations of two columns, of three, ... that share one value among ``k`` people."""
    maps = []
    answers = np.asarray(cells_of(target), dtype=np.float64)
    values, codes = np.unique(answers, return_inverse=True)
    for count in range(2, len(sources) + 1):
        keys, place = combinations([cells_of(source) for source in sources[:count]])
        pairs, row = np.unique(place * len(values) + codes.reshape(-1), return_inverse=True)
        held = distinct_people(row.reshape(-1), people, len(pairs))
        entries: dict[tuple[float, ...], float] = {}
        for pair in np.argsort(held, kind="stable").tolist():  # the commonest last, and it stays
            if held[pair] >= k:
                key, answer = divmod(int(pairs[pair]), len(values))
                entries[keys[key]] = float(values[answer])
        maps.append(entries)
    return tuple(maps)
