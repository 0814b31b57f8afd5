"""Categories and truth values as dimensions: an indicator a state, in a bounded width."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.table._drawing import Grouped, among_present, choose_states
from tulle.table._frames import Cells, as_series, filled, is_missing
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
    as_array: bool
    scales: Floats = field(default_factory=lambda: np.ones(1))
    weight: float = 1.0
    kind: Kind = Kind.CATEGORY

    @classmethod
    def fit(cls, name: str, cells: Cells, *, weight: float, max_width: int) -> CategoryCodec:
        """Learns the domain, in order of frequency, and the scale."""
        series = as_series(name, cells).alias("value")
        table = series.drop_nulls().value_counts().sort("count", "value", descending=[True, False])
        domain = table["value"].alias(name)
        counts = table["count"].cast(pl.Int64).to_numpy()
        top = len(domain) if len(domain) <= max_width else max_width - 1
        missing = bool(series.null_count())
        codec = cls(name, series.dtype, domain, counts, top, missing, isinstance(cells, np.ndarray))
        codec.weight = weight
        codec._fit_scales(len(series))
        return codec

    @property
    def tail(self) -> int:
        """The number of categories that share one code."""
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

    def encode(self, cells: Cells, out: Floats) -> None:
        """Writes the dimensions of a column into ``out``, (n, width)."""
        codes, absent = self._codes(cells)
        out[:] = 0.0
        first = codes < self.top
        ours = np.flatnonzero(first & ~absent)
        out[ours, codes[ours]] = 1.0
        if self.tail:
            others = np.flatnonzero(~first & ~absent)
            out[others, self.top] = 0.5 + (codes[others] - self.top + 0.5) / self.tail
        if self.missing:
            out[absent, -1] = 1.0

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> Cells:
        """A column from its dimensions; every value is in the domain."""
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

    def rare(self, k: int) -> int:
        """How many categories are held by fewer than ``k`` records."""
        return int((self.counts < k).sum())

    def _codes(self, cells: Cells) -> tuple[Ints, Any]:
        series = as_series(self.name, cells)
        if series.dtype != self.dtype and self.dtype != pl.Null:
            series = series.cast(self.dtype, strict=False)
        places = pl.Series(np.arange(len(self.domain)))
        if len(self.domain):
            codes = series.replace_strict(self.domain, places, default=None, return_dtype=pl.Int64)
        else:
            codes = pl.Series([None] * len(series), dtype=pl.Int64)
        absent = is_missing(as_series(self.name, cells))
        unknown = int((is_missing(codes) & ~absent).sum())
        if unknown or (absent.any() and not self.missing):
            what = f"{unknown} values" if unknown else f"{int(absent.sum())} missing values"
            raise DataError(
                f"column '{self.name}' holds {what} that did not occur in the data that the "
                "encoder was fitted on: fit on all the data, or map them to known categories"
            )
        return filled(codes, 0), absent

    def _ranks(self, code: Floats, elsewhere: Floats, grouped: Grouped | None) -> Ints:
        """The place among the rarer categories that a code stands for."""
        if grouped is not None:
            own = np.delete(grouped.means, self.top, axis=1)
            code = among_present(
                code, elsewhere, grouped.means[:, self.top], own.sum(axis=1), 0.0, grouped.groups
            )
        ranks = np.rint((code - 0.5) * self.tail - 0.5)
        return np.clip(ranks, 0, self.tail - 1).astype(np.int64)

    def rescale(self, variances: Floats) -> None:
        """Takes the scale from the variances of the dimensions."""
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

    def _typed(self, picked: Ints, absent: Any) -> Cells:
        places = pl.Series(np.minimum(picked, len(self.domain) - 1))
        if absent is not None:
            places = places.zip_with(pl.Series(~absent), pl.Series([None], dtype=pl.Int64))
        series = self.domain.gather(places).alias(self.name)
        return series.to_numpy() if self.as_array else series


@dataclass
class BooleanCodec:
    """One column of truth values: 0 or 1, and an indicator for missing where that occurred."""

    name: str
    as_array: bool
    missing: bool
    observed: int
    weight: float = 1.0
    constant: bool = False
    scales: Floats = field(default_factory=lambda: np.ones(1))
    kind: Kind = Kind.BOOLEAN

    @classmethod
    def fit(cls, name: str, cells: Cells, *, weight: float) -> BooleanCodec:
        """Learns whether values are missing, and the scale."""
        series = as_series(name, cells)
        rows, null = max(len(series), 1), series.null_count()
        truth = series.cast(pl.Float64).fill_null(0.5).to_numpy()
        rate = null / rows
        variance = float(truth.var()) + rate * (1 - rate) if len(series) else 0.0
        codec = cls(name, isinstance(cells, np.ndarray), null > 0, len(series) - null, weight)
        codec.rescale(np.array([variance]))
        return codec

    @property
    def width(self) -> int:
        return 1 + self.missing

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name}=(missing)"][: self.width]

    def encode(self, cells: Cells, out: Floats) -> None:
        """Writes the dimensions of a column into ``out``, (n, width)."""
        series = as_series(self.name, cells)
        null = is_missing(series)
        if null.any() and not self.missing:
            raise DataError(
                f"column '{self.name}' is missing in {int(null.sum())} records, but was never "
                "missing in the data that the encoder was fitted on"
            )
        out[:, 0] = filled(series.cast(pl.Float64), 0.5)
        if self.missing:
            out[:, 1] = null

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> Cells:
        """A column from its dimensions."""
        gone = block[:, 1] if self.missing else np.zeros(len(block))
        true = block[:, 0] - 0.5 * gone  # a missing record counts as half true
        shares: list[Floats] = []
        if grouped is not None:
            away = grouped.means[:, 1] if self.missing else np.zeros(len(grouped.means))
            held = grouped.means[:, 0] - 0.5 * away
            shares = [1 - held - away, held, away]
        states = choose_states([1 - true - gone, true, gone], shares, grouped)
        if self.as_array:
            return states == 1
        series = pl.Series(self.name, states == 1)
        if not self.missing:
            return series
        return series.zip_with(pl.Series(states != 2), pl.Series([None], dtype=pl.Boolean))

    def rescale(self, variances: Floats) -> None:
        """Takes the scale from the variances of the dimensions."""
        variance = float(variances.sum())
        self.constant = self.observed > 0 and variance == 0
        self.scales = _one_scale(variance, self.weight, self.width)


def _one_scale(variance: float, weight: float, width: int) -> Floats:
    """One scale for all dimensions, so that their variances add up to ``weight ** 2``."""
    return np.full(width, np.sqrt(variance) / weight if variance > 0 else 1.0)


def _total(parts: list[Floats], length: int) -> Floats:
    total = np.zeros(length)
    for part in parts:
        total += part
    return total
