"""Categories and booleans as dimensions: an indicator for each state, in a bounded width."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._shape.cells import merge_rare
from tulle._shape.columns import CategoryColumn, NumberColumn, looks_coded
from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.table._codecs import (
    Affine,
    Problem,
    fields_from_json,
    fields_to_json,
    never_missing,
    refuse,
    refuse_other_type,
    wrong_type,
)
from tulle.table._drawing import Grouped, among_present, choose_states
from tulle.table._frames import filled, free_name, is_missing, with_nulls
from tulle.table.schema import Kind


@dataclass
class CategoryCodec:
    """One column of categories.

    Dimensions: an indicator for each of the commonest categories; if there are more than
    ``max_width``, one code for all others (0.5 to 1.5, commoner ones first; 0 for records of the
    first kind); an indicator for missing where that occurred. The domain is kept, in order of
    frequency: it is part of the schema and of the release.
    """

    name: str
    dtype: Any
    domain: pl.Series
    counts: Ints
    top: int  # categories with an indicator of their own
    missing: bool
    scales: Floats = field(default_factory=lambda: np.ones(1))
    weight: float = 1.0
    kind: Kind = Kind.CATEGORY
    shown: pl.Series = field(default_factory=lambda: pl.Series([]))  # what a release may hold
    words: tuple[int, list[str]] | None = None  # of text that is numbers: decimals, other words

    @classmethod
    def fit(cls, series: pl.Series, *, weight: float, max_width: int) -> CategoryCodec:
        """Learn the domain, in order of frequency, and the scale."""
        present = series.drop_nulls().alias("value")
        table = present.value_counts().sort("count", "value", descending=[True, False])
        domain = table["value"].alias(series.name)
        counts = table["count"].cast(pl.Int64).to_numpy()
        top = len(domain) if len(domain) <= max_width else max_width - 1
        missing = bool(series.null_count())
        codec = cls(series.name, series.dtype, domain, counts, top, missing, weight=weight)
        codec.words = _words_among_numbers(series)
        codec._fit_scales(len(series))
        return codec

    @property
    def tail(self) -> int:
        """Return the number of categories that share one code."""
        return len(self.domain) - self.top

    @property
    def width(self) -> int:
        return max(1, self.top + (self.tail > 0) + self.missing)

    @property
    def feature_names(self) -> list[str]:
        words = [f"{self.name}={value}" for value in self.domain.head(self.top).to_list()]
        if self.tail:
            words.append(f"{self.name}=(others)")
        if self.missing:
            words.append(f"{self.name}=(missing)")
        return words or [self.name]

    @property
    def observed(self) -> int:
        return int(self.counts.sum())

    @property
    def constant(self) -> bool:
        return len(self.domain) == 1 and not self.missing

    def problems(self, series: pl.Series) -> list[Problem]:
        """Return the rows that are missing or hold a category where that did not occur before."""
        return self._read(series)[2]

    def encode(self, series: pl.Series, out: Floats) -> None:
        """Write the dimensions of a column into ``out``, (n, width)."""
        codes, absent, problems = self._read(series)
        refuse(problems)
        out[:] = 0.0
        first = codes < self.top
        ours = np.flatnonzero(first & ~absent)
        out[ours, codes[ours]] = 1.0
        if self.tail:
            others = np.flatnonzero(~first & ~absent)
            out[others, self.top] = 0.5 + (codes[others] - self.top + 0.5) / self.tail
        if self.missing:
            out[absent, -1] = 1.0

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        """Return a column from its dimensions; every value is in the domain."""
        if not len(self.domain):
            return pl.Series(self.name, [None] * len(block), dtype=self.dtype)
        indicators = [block[:, place] for place in range(self.top)]
        gone = [block[:, -1]] if self.missing else []
        means = grouped.means if grouped is not None else None
        shares = [means[:, place] for place in range(self.top)] if means is not None else []
        away = [means[:, -1]] if means is not None and self.missing else []
        ranks = np.zeros(len(block), dtype=np.int64)
        if self.tail:
            elsewhere = _total([*indicators, *gone], len(block))
            indicators.append(1 - elsewhere)
            ranks = self._ranks(block[:, self.top], elsewhere, grouped)
            if means is not None:
                shares.append(1 - _total([*shares, *away], len(means)))
        states = choose_states([*indicators, *gone], [*shares, *away], grouped)
        picked = np.where(states == self.top, self.top + ranks, states) if self.tail else states
        return self._typed(picked, states == len(indicators) if self.missing else None)

    def plain(
        self, series: pl.Series, k: int, rng: np.random.Generator, weights: Floats
    ) -> CategoryColumn | NumberColumn:
        """Return the column as the synthesis of shapes takes it, and learn what it may show.

        Codes, -1 where missing. Values that fewer than about ``k`` records hold are merged into
        one named rest; where the type has no room for a new word they are missing. Text that is
        numbers but for a few words (``N``) is numbers, and each word a state of its own.
        """
        codes, absent, problems = self._read(series)
        refuse(problems)
        if self.words is not None:
            return _coded_numbers(series, *self.words, k)
        codes = np.where(absent, -1, codes)
        codes, kept, other = merge_rare(codes, len(self.domain), k, weights, rng)
        self.shown = self.domain.gather(kept)
        if other is None:
            return CategoryColumn(self.name, codes, len(kept))
        if self.dtype not in (pl.String, pl.Categorical):
            return CategoryColumn(self.name, np.where(codes == other, -1, codes), len(kept))
        rest = pl.Series([free_name("other", self.domain.to_list())]).cast(self.dtype)
        self.shown = pl.concat([self.shown, rest.alias(self.name)])
        return CategoryColumn(self.name, codes, len(self.shown), other)

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of values that may be shown from codes, -1 where missing."""
        if self.words is not None:
            return _as_texts(self.name, cells, *self.words)
        if not len(self.shown):
            return pl.Series(self.name, [None] * len(cells), dtype=self.dtype)
        places = with_nulls(pl.Series(np.maximum(cells, 0)), np.asarray(cells) < 0)
        return self.shown.gather(places).alias(self.name)

    def rare(self, k: int) -> int:
        """Return how many categories are held by fewer than ``k`` records."""
        return int((self.counts < k).sum())

    def _read(self, series: pl.Series) -> tuple[Ints, NDArray[np.bool_], list[Problem]]:
        """Return the place of each value in the domain, which ones are missing, and what is
        wrong.
        """
        absent = is_missing(series)
        try:
            codes = self._places(series)
        except pl.exceptions.PolarsError:  # types of which nothing converts to the known one
            return np.zeros(len(series), np.int64), absent, [wrong_type(self, series)]
        problems = []
        unknown = is_missing(codes) & ~absent
        if unknown.any():
            problems.append(
                Problem(
                    unknown,
                    f"column '{self.name}' holds a category that did not occur in the initial data",
                    "fit on data with all categories, or map it to a known one",
                )
            )
        if absent.any() and not self.missing:
            problems.append(never_missing(self, absent))
        return filled(codes, 0), absent, problems

    def _places(self, series: pl.Series) -> pl.Series:
        """Return the place of each value in the domain; null where it is not in it."""
        if not len(self.domain):
            return pl.Series([None] * len(series), dtype=pl.Int64)
        if series.dtype != self.dtype:
            series = series.cast(self.dtype, strict=False)
        places = pl.Series(np.arange(len(self.domain)))
        return series.replace_strict(self.domain, places, default=None, return_dtype=pl.Int64)

    def _ranks(self, code: Floats, elsewhere: Floats, grouped: Grouped | None) -> Ints:
        """Return the place among the rarer categories that a code stands for."""
        if grouped is not None:
            own = np.delete(grouped.means, self.top, axis=1)
            code = among_present(
                code, elsewhere, grouped.means[:, self.top], own.sum(axis=1), 0.0, grouped.groups
            )
        ranks = np.rint((code - 0.5) * self.tail - 0.5)
        return np.clip(ranks, 0, self.tail - 1).astype(np.int64)

    def rescale(self, variances: Floats) -> None:
        """Take the scale from the variances of the dimensions."""
        self.scales = _one_scale(float(variances.sum()), self.weight, self.width)

    def _fit_scales(self, rows: int) -> None:
        rows = max(rows, 1)
        rates = self.counts[: self.top] / rows
        variance = float((rates * (1 - rates)).sum())
        if self.tail:
            codes = 0.5 + (np.arange(self.tail) + 0.5) / self.tail
            held = self.counts[self.top :] / rows
            variance += float(held @ codes**2 - (held @ codes) ** 2)
        if self.missing:
            rate = 1 - self.counts.sum() / rows
            variance += rate * (1 - rate)
        self.scales = _one_scale(variance, self.weight, self.width)

    def _typed(self, picked: Ints, absent: NDArray[np.bool_] | None) -> pl.Series:
        places = pl.Series(np.minimum(picked, len(self.domain) - 1))
        if absent is not None:
            places = with_nulls(places, absent)
        return self.domain.gather(places).alias(self.name)

    def merge(self, other: CategoryCodec) -> tuple[Self, Affine, Affine]:
        """Return the code of both domains, and the way of each part into it."""
        known = [codec for codec in (self, other) if len(codec.domain)] or [self]
        refuse_other_type(self.name, [codec.dtype for codec in known])
        alike = self.domain.equals(other.domain)
        if not alike and (self.tail or other.tail):
            raise DataError(
                f"column '{self.name}' has so many categories that some share a code, and not the "
                "same ones in the two tables: fit both parts with fewer categories"
            )
        domain = known[0].domain
        if not alike and len(known) == 2:
            new = other.domain.filter(~other.domain.is_in(domain.implode()))
            domain = pl.concat([domain, new])
        joined = replace(
            self,
            dtype=known[0].dtype,
            domain=domain,
            top=self.top if alike else len(domain),
            missing=self.missing or other.missing,
            counts=self._counts_in(domain) + other._counts_in(domain),
        )
        joined.scales = np.full(joined.width, self.scales[0])
        return joined, self._way_into(joined), other._way_into(joined)

    def _places_in(self, domain: pl.Series) -> list[int]:
        where = {value: place for place, value in enumerate(domain.to_list())}
        return [where[value] for value in self.domain.to_list()]

    def _counts_in(self, domain: pl.Series) -> Ints:
        counts = np.zeros(len(domain), dtype=np.int64)
        counts[self._places_in(domain)] = self.counts
        return counts

    def _way_into(self, joined: CategoryCodec) -> Affine:
        linear = np.zeros((self.width, joined.width))
        for place, target in enumerate(self._places_in(joined.domain)[: self.top]):
            linear[place, target] = 1.0
        if self.tail:
            linear[self.top, joined.top] = 1.0
        if self.missing:
            linear[-1, -1] = 1.0
        return Affine(linear, np.zeros(joined.width))

    def to_json(self) -> dict[str, Any]:
        """Return everything that encoding and decoding need, as plain JSON values."""
        return fields_to_json(self)

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Self:
        """Return the code that :meth:`to_json` wrote."""
        return cls(**fields_from_json(entries))


# Text that is numbers but for a few words, such as N for "not applicable".

_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_MOST_WORDS = 6
_LEAST_NUMBERS = 50  # different ones: fewer are categories, whatever they look like
_STATE = -1e18  # where the words lie among the numbers: beyond all of them


def _words_among_numbers(series: pl.Series) -> tuple[int, list[str]] | None:
    """Return the decimals and the words of a column of numbers with words; None if it is not."""
    if series.dtype != pl.String:
        return None
    present = series.drop_nulls()
    is_number = present.str.contains(_NUMBER)
    numbers, words = present.filter(is_number), present.filter(~is_number).unique().sort()
    if not 0 < len(words) <= _MOST_WORDS or numbers.n_unique() < _LEAST_NUMBERS:
        return None
    decimals = numbers.str.extract(r"\.([0-9]+)$").fill_null("").str.len_chars().unique()
    return (int(decimals[0]), words.to_list()) if len(decimals) == 1 else None


def _coded_numbers(series: pl.Series, decimals: int, words: list[str], k: int) -> NumberColumn:
    """Return the numbers, with each word as a state far from all of them."""
    values = filled(series.cast(pl.Float64, strict=False), np.nan).astype(np.float64)
    coded = decimals == 0 and looks_coded(values[np.isfinite(values)], k)
    for place, word in enumerate(words, start=1):
        values[filled(series == word, False)] = _STATE * place
    states = tuple(_STATE * place for place in range(1, len(words) + 1))
    return NumberColumn(series.name, values, decimals, states, coded)


def _as_texts(name: str, cells: Floats, decimals: int, words: list[str]) -> pl.Series:
    """Return numbers and states as they were written."""
    states = {_STATE * place: word for place, word in enumerate(words, start=1)}
    texts = [
        None if value != value else states.get(value) or f"{value:.{decimals}f}"
        for value in np.asarray(cells, dtype=np.float64).tolist()
    ]
    return pl.Series(name, texts, dtype=pl.String)


@dataclass
class BooleanCodec:
    """One column of booleans: 0 or 1, and an indicator for missing where that occurred."""

    name: str
    missing: bool
    observed: int
    weight: float = 1.0
    constant: bool = False
    scales: Floats = field(default_factory=lambda: np.ones(1))
    kind: Kind = Kind.BOOLEAN

    @classmethod
    def fit(cls, series: pl.Series, *, weight: float) -> BooleanCodec:
        """Learn whether values are missing, and the scale."""
        rows, null = max(len(series), 1), series.null_count()
        truth = series.cast(pl.Float64).fill_null(0.5).to_numpy()
        rate = null / rows
        variance = float(truth.var()) + rate * (1 - rate) if len(series) else 0.0
        codec = cls(series.name, null > 0, len(series) - null, weight)
        codec.rescale(np.array([variance]))
        return codec

    @property
    def width(self) -> int:
        return 1 + self.missing

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name}=(missing)"][: self.width]

    def problems(self, series: pl.Series) -> list[Problem]:
        """Return the rows that are not true or false, and missing ones where there were none."""
        if series.dtype not in (pl.Boolean, pl.Null):
            return [wrong_type(self, series)]
        if self.missing or not series.null_count():
            return []
        return [never_missing(self, is_missing(series))]

    def encode(self, series: pl.Series, out: Floats) -> None:
        """Write the dimensions of a column into ``out``, (n, width)."""
        refuse(self.problems(series))
        out[:, 0] = filled(series.cast(pl.Float64), 0.5)
        if self.missing:
            out[:, 1] = is_missing(series)

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        """Return a column from its dimensions."""
        gone = block[:, 1] if self.missing else np.zeros(len(block))
        true = block[:, 0] - 0.5 * gone  # a missing record counts as half true
        shares: list[Floats] = []
        if grouped is not None:
            away = grouped.means[:, 1] if self.missing else np.zeros(len(grouped.means))
            held = grouped.means[:, 0] - 0.5 * away
            shares = [1 - held - away, held, away]
        states = choose_states([1 - true - gone, true, gone], shares, grouped)
        return with_nulls(pl.Series(self.name, states == 1), states == 2)

    def plain(
        self, series: pl.Series, k: int, rng: np.random.Generator, weights: Floats
    ) -> CategoryColumn:
        """Return the column as the synthesis of shapes takes it: codes, -1 where missing."""
        refuse(self.problems(series))
        codes = filled(series.cast(pl.Int64), -1)
        return CategoryColumn(self.name, np.asarray(codes, dtype=np.int64), 2)

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of booleans from codes, -1 where missing."""
        return with_nulls(pl.Series(self.name, cells == 1), np.asarray(cells) < 0)

    def merge(self, other: BooleanCodec) -> tuple[Self, Affine, Affine]:
        """Return the code of both, and the way of each part into it."""
        joined = replace(
            self,
            missing=self.missing or other.missing,
            observed=self.observed + other.observed,
            constant=self.constant and other.constant,
        )
        joined.scales = np.full(joined.width, self.scales[0])
        ways = [
            Affine(np.eye(codec.width, joined.width), np.zeros(joined.width))
            for codec in (self, other)
        ]
        return joined, ways[0], ways[1]

    def to_json(self) -> dict[str, Any]:
        """Return everything that encoding and decoding need, as plain JSON values."""
        return fields_to_json(self)

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Self:
        """Return the code that :meth:`to_json` wrote."""
        return cls(**fields_from_json(entries))

    def rescale(self, variances: Floats) -> None:
        """Take the scale from the variances of the dimensions."""
        variance = float(variances.sum())
        self.constant = self.observed > 0 and variance == 0
        self.scales = _one_scale(variance, self.weight, self.width)


def _one_scale(variance: float, weight: float, width: int) -> Floats:
    """Return one scale for all dimensions, so that their variances add up to ``weight ** 2``."""
    return np.full(width, np.sqrt(variance) / weight if variance > 0 else 1.0)


def _total(parts: list[Floats], length: int) -> Floats:
    total = np.zeros(length)
    for part in parts:
        total += part
    return total
