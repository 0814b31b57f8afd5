"""Few values in an order as dimensions: answers from 1 to 5, stages, deciles, false and true.

Values are compared by how many steps lie between them, but never averaged: each group gives out
the values that its records had.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl

from tulle._columns import CategoryColumn, NumberColumn
from tulle._types import Floats, Ints
from tulle.table._codecs import (
    Affine,
    Problem,
    never_missing,
    one_scale,
    places_in,
    refuse,
    refuse_other_type,
    values_at,
    wrong_type,
)
from tulle.table._drawing import Grouped, choose_states
from tulle.table._precision import decimals_of
from tulle.table._rare import Crowd
from tulle.table._series import filled, is_missing
from tulle.table._states import STATE, plain_text
from tulle.table._words import places_on_scale
from tulle.table.schema import Column, Kind

_UNKNOWN = -1


@dataclass
class OrderedCodec:
    """One column of ordered values, or of booleans, which are two.

    Dimensions: for each value but the first, whether a record has it or a later one; then an
    indicator for each special value and one for missing, where these occurred. Records without a
    value are where the mean of the others is. Values of too few people become the nearest one.
    """

    name: str
    dtype: Any
    domain: pl.Series  # in their order
    special: pl.Series
    missing: bool
    fill: Floats  # the share of records with each value or a later one, but the first
    observed: int
    weight: float = 1.0
    scales: Floats = field(default_factory=lambda: np.ones(1))
    kind: Kind = Kind.ORDERED
    too_few: tuple[int, int] = (0, 0)  # values that too few people hold, and their records
    commonest: int = 0
    keep_rare: bool = False

    @classmethod
    def fit(cls, series: pl.Series, column: Column, *, crowd: Crowd | None = None) -> OrderedCodec:
        """Learn the values in their order, and the scale; ``crowd`` shares every value."""
        words = {plain_text(value) for value in column.special}
        values = series.drop_nulls().unique().alias(series.name)
        if series.dtype == pl.Boolean:  # both are known, whether they occur or not
            values = pl.Series(series.name, [False, True])
        is_special = pl.Series([plain_text(v) in words for v in values.to_list()], dtype=pl.Boolean)
        domain, special = _sorted(values.filter(~is_special)), _sorted(values.filter(is_special))
        codec = cls(
            series.name, series.dtype, domain, special, series.null_count() > 0, np.zeros(0), 0
        )
        codec.weight, codec.keep_rare = column.weight, column.keep_rare
        codec.kind = Kind.BOOLEAN if series.dtype == pl.Boolean else Kind.ORDERED
        if crowd is not None and not column.keep_rare:
            codec._leave_rare_out(series, crowd)
        codes = codec._codes(series)[0]
        steps = len(codec.domain)
        codec.observed = int((codes < steps).sum())
        counts = np.bincount(codes[codes < steps], minlength=max(steps, 1))
        codec.fill = (counts[::-1].cumsum()[::-1] / max(codec.observed, 1))[1:]
        block = np.empty((len(series), codec.width))
        codec._fill_in(codes, block)
        codec.rescale(block.var(axis=0) if len(series) else np.zeros(codec.width))
        return codec

    def _leave_rare_out(self, series: pl.Series, crowd: Crowd) -> None:
        enough = crowd.enough()
        codes, _ = self._codes(series)
        size = len(self.domain) + len(self.special) + 1
        held = crowd.held(codes, size)
        few = (held < enough) & (np.bincount(codes, minlength=size) > 0)
        rows = int(np.isin(codes, np.flatnonzero(few[:-1])).sum())
        self.too_few = (int(few[:-1].sum()), rows)
        steps = len(self.domain)
        kept = ~few[:steps]
        self.domain = self.domain.filter(pl.Series(kept))
        self.commonest = int(np.argmax(held[:steps][kept])) if kept.any() else 0
        self.special = self.special.filter(pl.Series(~few[steps:-1]))
        if few[-1] or not self.missing:
            self.missing = not len(self.domain)
            self.too_few = (self.too_few[0], self.too_few[1] + int((codes == size - 1).sum()))

    @property
    def width(self) -> int:
        return max(1, max(len(self.domain) - 1, 0) + len(self.special) + self.missing)

    @property
    def feature_names(self) -> list[str]:
        names = [f"{self.name}>={value}" for value in self.domain.to_list()[1:]]
        if self.kind is Kind.BOOLEAN:
            names = [self.name] * len(names)
        names += [f"{self.name}={value}" for value in self.special.to_list()]
        return [*names, *([f"{self.name}=(missing)"] if self.missing else [])] or [self.name]

    @property
    def constant(self) -> bool:
        alone = bool(np.isin(self.fill, (0.0, 1.0)).all())  # nobody has any of the others
        return self.observed > 0 and alone and not self.missing and not len(self.special)

    def problems(self, series: pl.Series) -> list[Problem]:
        """Return the rows that are missing or hold a value where that did not occur before."""
        return self._codes(series)[1]

    def encode(self, series: pl.Series, out: Floats) -> None:
        codes, problems = self._codes(series)
        refuse(problems)
        self._fill_in(codes, out)

    def _fill_in(self, codes: Ints, out: Floats) -> None:
        out[:] = 0.0
        steps = len(self.domain)
        rises = max(steps - 1, 0)
        absent = codes >= steps
        out[:, :rises] = codes[:, None] >= np.arange(1, rises + 1)
        out[absent, :rises] = self.fill
        for place in range(len(self.special) + self.missing):
            out[:, rises + place] = codes == steps + place

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        scores = self._shares(block)
        shares = [] if grouped is None else list(self._shares(grouped.means).T)
        states = choose_states(list(scores.T), shares, grouped)
        return self._values(states)

    def _shares(self, block: Floats) -> Floats:
        """Return how much of each state is in a block: values, special values, missing."""
        rises = max(len(self.domain) - 1, 0)
        others = block[:, rises : rises + len(self.special) + self.missing]
        absent = others.sum(axis=1, keepdims=True)
        if not len(self.domain):
            return others if others.shape[1] else np.ones((len(block), 1))
        later = block[:, :rises] - absent * self.fill
        edges = np.hstack([1 - absent, later, np.zeros((len(block), 1))])
        return np.hstack([edges[:, :-1] - edges[:, 1:], others])

    def _values(self, states: Ints) -> pl.Series:
        values = pl.concat([self.domain, self.special])
        return values_at(values, np.where(states >= len(values), -1, states), self.name)

    def as_known(self, series: pl.Series) -> NumberColumn | CategoryColumn:
        """Return the column as the synthesis of shapes takes it.

        Numbers of which none may be invented; words without a scale, and rare values that are
        kept, as categories.
        """
        codes, problems = self._codes(series)
        refuse(problems)
        size, numbers = len(self.domain) + len(self.special), self._numbers()
        if numbers is None:
            coded = np.where(codes == size, -1, codes)
            return CategoryColumn(self.name, coded, size, keep_rare=self.keep_rare)
        states = STATE * (1.0 + np.arange(len(self.special)))
        values = np.concatenate([numbers, states, [np.nan]])[codes]
        decimals = decimals_of(numbers, pl.Float64)
        return NumberColumn(self.name, values, decimals, tuple(states.tolist()), coded=True)

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of known values from what :meth:`as_known` gives, or the nearest."""
        steps, numbers = len(self.domain), self._numbers()
        size = steps + len(self.special)
        if numbers is None:
            return self._values(np.where(np.asarray(cells) < 0, size, cells).astype(np.int64))
        values = np.asarray(cells, dtype=np.float64)
        codes = np.full(len(values), size, dtype=np.int64)
        special, known = values <= STATE, (values > STATE) & (steps > 0)
        codes[special] = steps + np.rint(values[special] / STATE - 1).astype(np.int64)
        codes[known] = _nearest(numbers, values[known])
        return self._values(codes)

    def _numbers(self) -> Floats | None:
        """Return the values as numbers; None if they have no scale, or are kept however rare."""
        if self.keep_rare or self.dtype in (pl.Enum, pl.Categorical, pl.Boolean):
            return None
        if self.dtype == pl.String:
            return _on_a_line(self.domain)
        return np.asarray(self.domain.cast(pl.Float64).to_numpy(), dtype=np.float64)

    def _codes(self, series: pl.Series) -> tuple[Ints, list[Problem]]:
        """Return the place of each value among values and special ones, and what is wrong."""
        absent = is_missing(series)
        values = pl.concat([self.domain, self.special])
        size = len(values)
        if self.dtype == pl.Boolean and series.dtype not in (pl.Boolean, pl.Null):
            return np.zeros(len(series), np.int64), [wrong_type(self, series)]
        try:
            found = places_in(values, series)
        except pl.exceptions.PolarsError:  # types of which nothing converts to the known one
            return np.zeros(len(series), np.int64), [wrong_type(self, series)]
        codes = np.array(filled(found, _UNKNOWN), dtype=np.int64)
        problems = []
        unknown = (codes == _UNKNOWN) & ~absent
        if unknown.any() and self.too_few[0]:
            rare = series.filter(pl.Series(unknown)).cast(self.dtype, strict=False)
            codes[unknown] = self._nearest(rare)
        elif unknown.any():
            reason = f"column '{self.name}' holds a value that did not occur in the initial data"
            remedy = "fit on data with all values, or map it to a known one"
            problems.append(Problem(unknown, reason, remedy))
        if absent.any() and not self.missing and not self.too_few[1]:
            problems.append(never_missing(self, absent))
        codes[absent] = size if self.missing else self.commonest
        return np.maximum(codes, 0), problems

    def _nearest(self, values: pl.Series) -> Ints:
        """Return the place of the known value nearest to each; missing if none is known."""
        if not len(self.domain):
            return np.full(len(values), len(self.special), dtype=np.int64)
        return _nearest(*_keys(self.domain, values))

    def rescale(self, variances: Floats) -> None:
        self.scales = one_scale(float(variances.sum()), self.weight, self.width)

    def merge(self, other: OrderedCodec) -> tuple[Self, Affine, Affine]:
        refuse_other_type(self.name, [self.dtype, other.dtype])
        special = pl.concat([self.special, other.special]).unique(maintain_order=True)
        domain = pl.concat([self.domain, other.domain]).unique().alias(self.name)
        joined = replace(
            self,
            domain=_sorted(domain.filter(~domain.is_in(special.implode()))),
            special=special,
            missing=self.missing or other.missing,
            observed=self.observed + other.observed,
            too_few=(self.too_few[0] + other.too_few[0], self.too_few[1] + other.too_few[1]),
        )
        total = max(joined.observed, 1)
        later = [codec._later(joined.domain) * codec.observed for codec in (self, other)]
        joined.fill = ((later[0] + later[1]) / total)[1:]
        joined.scales = np.full(joined.width, self.scales[0])
        return joined, self._way_into(joined), other._way_into(joined)

    def _later(self, domain: pl.Series) -> Floats:
        """Return the share of records with each value of another domain, or a later one."""
        shares = np.r_[1.0, self.fill, 0.0] if len(self.domain) else np.zeros(1)
        return np.array([shares[place] for place in self._begins(domain)])

    def _begins(self, domain: pl.Series) -> list[int]:
        """Return how many of the values come before each value of a larger domain."""
        order = {value: place for place, value in enumerate(domain.to_list())}
        own = [order[value] for value in self.domain.to_list()]
        return [int(np.searchsorted(own, place)) for place in range(len(domain))]

    def _way_into(self, joined: OrderedCodec) -> Affine:
        linear, shift = np.zeros((self.width, joined.width)), np.zeros(joined.width)
        rises, steps = max(len(self.domain) - 1, 0), len(self.domain)
        others = range(rises, rises + len(self.special) + self.missing)
        for place, begin in enumerate(self._begins(joined.domain)[1:]):
            base = 0.0
            if begin == 0 and steps:
                shift[place], base = 1.0, 1.0
            elif begin < steps:
                linear[begin - 1, place], base = 1.0, self.fill[begin - 1]
            for row in others:  # a record without a value shows the mean of the whole
                linear[row, place] = joined.fill[place] - base
        first = max(len(joined.domain) - 1, 0)
        names = joined.special.to_list()
        for row, value in zip(others, self.special.to_list()):
            linear[row, first + names.index(value)] = 1.0
        if self.missing:
            linear[others[-1], -1] = 1.0
        return Affine(linear, shift)


def _nearest(known: Floats, asked: Floats) -> Ints:
    """Return the place of the nearest of some ascending numbers."""
    after = np.clip(np.searchsorted(known, asked), 0, len(known) - 1)
    before = np.maximum(after - 1, 0)
    lower = np.abs(asked - known[before]) <= np.abs(known[after] - asked)
    return np.where(lower, before, after)


def _on_a_line(texts: pl.Series) -> Floats | None:
    """Return texts as numbers, or as places on a scale that people know; None for others."""
    numbers = texts.cast(pl.Float64, strict=False)
    if not numbers.null_count():
        return np.asarray(numbers.to_numpy(), dtype=np.float64)
    places = None if texts.null_count() else places_on_scale(texts.to_list())
    return None if places is None or len(set(places)) < len(places) else np.array(places)


def _sorted(values: pl.Series) -> pl.Series:
    """Return values in their order: numbers by size, words by their scale, an Enum by its own."""
    if values.dtype == pl.String:
        line = _on_a_line(values)
        if line is not None:
            return values.gather(pl.Series(line).arg_sort())
    if values.dtype == pl.Categorical:
        return values.cast(pl.String).sort().cast(values.dtype)
    return values.sort()


def _keys(known: pl.Series, asked: pl.Series) -> tuple[Floats, Floats]:
    """Return where known and other values lie on one line."""
    both: list[pl.Series] = [known, asked]
    if known.dtype in (pl.String, pl.Categorical):
        texts = [part.cast(pl.String) for part in both]
        every = pl.concat(texts).unique().sort()
        line = _on_a_line(every)
        places = dict(zip(every.to_list(), range(len(every)) if line is None else line.tolist()))
        numbers = [pl.Series([places[value] for value in part.to_list()]) for part in texts]
    else:
        numbers = [part.to_physical().cast(pl.Float64) for part in both]
    first, second = (np.asarray(part.to_numpy(), dtype=np.float64) for part in numbers)
    return first, second
