"""Numbers and points in time as dimensions: the value itself, and a state for missing ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._shape.columns import NumberColumn, looks_coded
from tulle._shape.quantiles import count_exceptions, draw_threshold
from tulle._types import Floats
from tulle.errors import DataError
from tulle.table._codecs import (
    Affine,
    Problem,
    family_of,
    fields_from_json,
    fields_to_json,
    never_missing,
    refuse,
    refuse_other_type,
    wrong_type,
)
from tulle.table._drawing import (
    Grouped,
    among_present,
    choose_states,
    clip_keeping_means,
    mean_present,
    one_of_two,
    round_keeping_means,
)
from tulle.table._frames import filled, is_missing, with_nulls
from tulle.table.schema import Column, Kind

# What a column of numbers tells about itself: mean, spread, precision, unit of time.

EXACT = 2**53  # whole numbers up to here are exact as floats
_DAY = 86_400


def tick_sizes(dtype: Any) -> list[int]:
    """Return days, hours, minutes, seconds ... in the physical unit of a polars type, coarsest
    first.
    """
    if dtype == pl.Date:
        return [1]
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(dtype, "time_unit", None) or "ns"]
    whole = [_DAY * second, 3600 * second, 60 * second, second]
    return whole + [second // 10**digits for digits in (3, 6, 9) if second >= 10**digits]


def mean_of(values: Floats) -> float:
    """Return the mean, also of numbers whose sum would overflow."""
    largest = float(np.abs(values).max())
    mean = float(np.mean(values / largest) * largest) if largest > 1e290 else float(values.mean())
    return min(max(mean, float(values.min())), float(values.max()))


def spread_of(values: Floats) -> float:
    """Return the population standard deviation; 0 only where all values are equal."""
    if not len(values) or values.min() == values.max():
        return 0.0
    largest = float(np.abs(values).max())
    if 1e-140 < largest < 1e140:
        return float(values.std())
    return float((values / largest).std() * largest)


def decimals_of(values: Floats, dtype: Any) -> int | None:
    """Return the number of decimals that no value exceeds, or None for floats as they come."""
    scale = getattr(dtype, "scale", None)
    if scale is not None:
        return int(scale)
    if not len(values):
        return None
    largest = float(np.abs(values).max())
    single = dtype == pl.Float32
    kept = values.astype(np.float32) if single else values
    for decimals in range(6 if single else 13):
        if largest * 10**decimals >= EXACT:
            return None
        # most columns of floats fail on their first few values: look at those first
        for part in (kept[:100], kept):
            rounded = np.round(part.astype(np.float64), decimals)
            if not (rounded.astype(part.dtype) == part).all():
                break
        else:
            return decimals
    return None


def common_decimals(values: Floats, people: Floats, few: float, dtype: Any) -> int | None:
    """Return the decimals that suffice for all values but those of fewer than ``few`` people.

    None for floats as they come. If it took all values, the one person with a finer number would
    show in every row of a release.
    """
    single = dtype == pl.Float32
    for decimals in range(6 if single else 13):
        rounded = np.round(values, decimals)
        same = (rounded.astype(np.float32) == values) if single else (rounded == values)
        if people[~same].sum() < few:
            return decimals_of(values[same], dtype)
    return decimals_of(values, dtype)


def only_two(present: Floats) -> tuple[float, float] | None:
    """Return the smallest and the largest value, if these two are all that there are."""
    low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
    if low >= high or not ((present == low) | (present == high)).all():
        return None
    return low, high


def present_of(block: Floats) -> Floats:
    """Return the values of the records that have one, from the dimensions of a column."""
    return block[block[:, 1:].sum(axis=1) == 0, 0] if block.shape[1] > 1 else block[:, 0]


_PRESENT, _NULL, _NAN = 0, 1, 2


@dataclass
class NumberCodec:
    """One column of numbers, dates, times or durations.

    Dimensions: the value, then an indicator for null and one for NaN where they occurred. The
    value of a missing record is the mean of the others. Points in time are whole ticks (the
    coarsest of day, hour, ..., nanosecond that fits them all) since the earliest one.
    """

    name: str
    kind: Kind
    dtype: Any
    weight: float = 1.0
    public: tuple[float, float] | None = None
    decimals: int | None = None
    low: float = 0.0
    high: float = 0.0
    fill: float = 0.0
    origin: int = 0
    tick: int = 1
    pair: tuple[float, float] | None = None  # the only two values there are, if it is two
    extra: list[int] = field(default_factory=list)  # of _NULL, _NAN: the states that occurred
    scales: Floats = field(default_factory=lambda: np.ones(1))
    observed: int = 0

    @classmethod
    def fit(
        cls,
        series: pl.Series,
        kind: Kind,
        *,
        weight: float,
        bounds: tuple[float, float] | None,
        find_decimals: bool,
    ) -> NumberCodec:
        """Learn range, precision and scale from a column."""
        codec = cls(series.name, kind, series.dtype, weight, bounds)
        if kind is Kind.DATETIME:
            codec._fit_ticks(series)
        values, states, problems = codec._read(series)
        refuse(problems)
        present = values[states == _PRESENT]
        codec.extra = [state for state in (_NULL, _NAN) if (states == state).any()]
        codec.observed = len(present)
        if len(present):
            codec.low, codec.high = float(present.min()), float(present.max())
            codec.fill = mean_of(present)
        codec.pair = only_two(present) if bounds is None else None
        if kind is Kind.DECIMAL and find_decimals:
            codec.decimals = decimals_of(present, series.dtype)
        if bounds is not None:
            codec.low, codec.high = map(float, bounds)
        codec._fit_scales(present, states)
        return codec

    @classmethod
    def unfit(cls, series: pl.Series, column: Column) -> list[Problem]:
        """Return the rows that no code of a column of numbers could take."""
        return cls(series.name, column.kind, series.dtype, public=column.bounds)._read(series)[2]

    @property
    def width(self) -> int:
        return 1 + len(self.extra)

    @property
    def feature_names(self) -> list[str]:
        words = {_NULL: "missing", _NAN: "not a number"}
        return [self.name, *(f"{self.name}=({words[state]})" for state in self.extra)]

    @property
    def constant(self) -> bool:
        return self.observed > 0 and not self.extra and self.low == self.high

    def problems(self, series: pl.Series) -> list[Problem]:
        """Return the rows that cannot be encoded, and missing ones where there were none."""
        _, states, problems = self._read(series)
        return problems + self._unseen(states)

    def encode(self, series: pl.Series, out: Floats) -> None:
        """Write the dimensions of a column into ``out``, (n, width)."""
        values, states, problems = self._read(series)
        refuse(problems or self._unseen(states))
        if not self.extra:
            out[:, 0] = values
            return
        present = states == _PRESENT
        if len(self.extra) == 1:
            states[~present] = self.extra[0]  # null or NaN: one way of being missing is known
        out[:, 0] = np.where(present, values, self.fill)
        for place, state in enumerate(self.extra, start=1):
            out[:, place] = states == state

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series:
        """Return a column from its dimensions, in its own type, range and precision."""
        values = block[:, 0]
        states = None
        if self.extra:
            absent = block[:, 1:].sum(axis=1)
            extras = [block[:, place] for place in range(1, self.width)]
            shares: list[Floats] = []
            if grouped is not None:
                missing = grouped.means[:, 1:]
                shares = [1 - missing.sum(axis=1), *missing.T]
                values = among_present(
                    values, absent, grouped.means[:, 0], 1 - shares[0], self.fill, grouped.groups
                )
            chosen = choose_states([1 - absent, *extras], shares, grouped)
            states = np.array([_PRESENT, *self.extra])[chosen]
        return self._typed(self._snapped(values, states, grouped, snap), states)

    def plain(
        self, series: pl.Series, k: int, rng: np.random.Generator, weights: Floats
    ) -> NumberColumn:
        """Return the column as the synthesis of shapes takes it: numbers, NaN where missing."""
        values, states, problems = self._read(series)
        refuse(problems)
        present = states == _PRESENT
        decimals: int | None = 0
        if self.kind is Kind.DECIMAL:  # of arrays too: a number drawn looks like those there were
            few = count_exceptions(draw_threshold(k, rng), float(weights.sum()))
            found = common_decimals(values[present], weights[present], few, series.dtype)
            decimals = self.decimals if found is None else found
        coded = self.kind is Kind.INTEGER and looks_coded(values[present], k)
        return NumberColumn(self.name, np.where(present, values, np.nan), decimals, coded=coded)

    def restore(self, cells: Any) -> pl.Series:
        """Return a column of the type of the fitted one from numbers, NaN where missing."""
        values = np.asarray(cells, dtype=np.float64)
        states = np.where(np.isnan(values), _NAN if self.extra == [_NAN] else _NULL, _PRESENT)
        low, high = self.public or (-np.inf, np.inf)
        return self._typed(np.clip(np.nan_to_num(values), low, high), states)

    def confine(self, block: Floats) -> None:
        """Take the observed range from these records alone, given by their dimensions."""
        self.observed = 0
        self.widen(block)
        self.pair = only_two(present_of(block)) if self.public is None else None

    def widen(self, block: Floats) -> None:
        """Let the observed range grow by the values of more records."""
        present = present_of(block)
        if self.public is None and len(present):
            known = (self.low, self.high) if self.observed else (np.inf, -np.inf)
            self.low = min(known[0], float(present.min()))
            self.high = max(known[1], float(present.max()))
        if self.pair is not None and not np.isin(present, self.pair).all():
            self.pair = None
        self.observed += len(present)

    # -- from values to numbers ----------------------------------------------------------------

    def _read(self, series: pl.Series) -> tuple[Floats, NDArray[np.int8], list[Problem]]:
        """Return values as floats, the state of each record, and which records are wrong and
        why.
        """
        states = np.zeros(len(series), dtype=np.int8)
        if series.null_count():
            states[is_missing(series)] = _NULL
        if not self._reads(series.dtype):
            return np.zeros(len(series)), states, [wrong_type(self, series)]
        if self.kind is Kind.DATETIME:
            return self._to_ticks(series), states, []
        if series.dtype.is_integer():
            exact = filled(series, 0)
            values = np.asarray(exact, dtype=np.float64)
            problems = self._inexact((exact > EXACT) | (exact < -EXACT), "a whole number beyond")
        else:
            values = filled(series.cast(pl.Float64), 0)
            problems = self._not_finite(values, states)
            if (scale := getattr(series.dtype, "scale", None)) is not None:
                long = np.abs(values) * 10.0**scale > EXACT
                problems = self._inexact(long, "more digits than")
        return values, states, problems + self._outside(values, states)

    def _reads(self, dtype: pl.DataType) -> bool:
        """Return whether values of this type are of the column's kind."""
        if dtype == pl.Null:
            return True
        if self.kind is not Kind.DATETIME:
            return family_of(dtype) == "number"
        return family_of(dtype) == family_of(self.dtype) and _zone(dtype) == _zone(self.dtype)

    def _not_finite(self, values: Floats, states: NDArray[np.int8]) -> list[Problem]:
        """Mark what is not a number, and find what is infinite."""
        finite = np.isfinite(values)
        if finite.all():
            return []
        infinite = np.isinf(values)
        states[~finite & ~infinite] = _NAN
        reason = f"column '{self.name}' is infinite"
        remedy = "make these values missing, or replace them with finite ones"
        return [Problem(infinite, reason, remedy)] if infinite.any() else []

    def _inexact(self, rows: NDArray[np.bool_], what: str) -> list[Problem]:
        if not rows.any():
            return []
        reason = f"column '{self.name}' holds {what} 2**53, which is not exact as floating point"
        remedy = "round it or subtract an offset, or declare it an identifier or a category"
        return [Problem(rows, reason, remedy)]

    def _outside(self, values: Floats, states: NDArray[np.int8]) -> list[Problem]:
        if self.public is None:
            return []
        low, high = self.public
        rows = ((values < low) | (values > high)) & (states == _PRESENT)
        reason = f"column '{self.name}' is outside its public bounds"
        return [Problem(rows, reason, "widen the bounds or correct the data")] if rows.any() else []

    def _unseen(self, states: NDArray[np.int8]) -> list[Problem]:
        """Find missing values where none was missing in fitting; one known way of being
        missing is enough.
        """
        rows = (states != _PRESENT) if not self.extra else np.zeros(0, dtype=bool)
        return [never_missing(self, rows)] if rows.any() else []

    def _fit_ticks(self, series: pl.Series) -> None:
        ticks = series.drop_nulls().to_physical().cast(pl.Int64).to_numpy()
        if not len(ticks):
            return
        self.origin = int(ticks.min())
        span = ticks.astype(np.uint64) - np.uint64(self.origin % 2**64)  # wraps, never overflows
        self.tick = next(
            size for size in tick_sizes(series.dtype) if not (span % np.uint64(size)).any()
        )
        if int(span.max()) // self.tick > EXACT:
            raise DataError(
                f"column '{self.name}' spans too long a time for its precision: round it to a "
                "coarser unit, such as milliseconds"
            )

    def _to_ticks(self, series: pl.Series) -> Floats:
        series = series if series.dtype == self.dtype else series.cast(self.dtype)
        ticks = filled(series.to_physical().cast(pl.Int64), self.origin)
        whole = ticks // self.tick - self.origin // self.tick  # divided first: no overflow
        rest = ticks % self.tick - self.origin % self.tick
        return np.asarray(whole, dtype=np.float64) + rest / self.tick

    # -- learning ------------------------------------------------------------------------------

    def _fit_scales(self, present: Floats, states: NDArray[np.int8]) -> None:
        rates = np.array([(states == state).mean() for state in self.extra])
        spread = spread_of(present) * np.sqrt(len(present) / max(len(states), 1))
        self._share_weight(spread, float((rates * (1 - rates)).sum()))

    def rescale(self, variances: Floats) -> None:
        """Take the scales from the variances of the dimensions."""
        self._share_weight(float(np.sqrt(variances[0])), float(variances[1:].sum()))

    def _share_weight(self, spread: float, indicators: float) -> None:
        """Share the weight between value and indicators: a missing value is one deviation away."""
        total = float(spread > 0) + indicators
        unit = np.sqrt(total) / self.weight if total > 0 else 1.0
        value = spread * unit if spread * unit > 0 else 1.0
        self.scales = np.array([value, *[unit] * len(self.extra)])

    # -- from numbers to values ----------------------------------------------------------------

    def _snapped(
        self, values: Floats, states: NDArray[Any] | None, grouped: Grouped | None, snap: bool
    ) -> Floats:
        """Snap values to the range, keeping the groups' means where it can, and to the
        precision.
        """
        if self.kind is Kind.DECIMAL and not snap:
            return values
        low, high = self.low, self.high
        if self.kind is not Kind.DECIMAL:
            low, high = np.ceil(low), np.floor(high)
        present = np.ones(len(values), dtype=bool) if states is None else states == _PRESENT
        means = np.zeros(0)
        if grouped is not None:
            away = grouped.means[:, 1:].sum(axis=1)
            means = mean_present(grouped.means[:, 0], away, self.fill)
            grouped = grouped.of_rows(present)
        snapped = values.copy()
        snapped[present] = self._rounded(values[present], means, grouped, low, high)
        return snapped

    def _rounded(
        self, values: Floats, means: Floats, grouped: Grouped | None, low: float, high: float
    ) -> Floats:
        """Return values that may occur, for records that have one."""
        if self.pair is not None:
            return one_of_two(values, means, grouped, *self.pair)
        if grouped is not None:
            values = clip_keeping_means(values, grouped.groups, means, low, high)
        if self.kind is Kind.INTEGER:
            values = round_keeping_means(values, grouped)
        elif self.kind is Kind.DATETIME:
            values = np.rint(values)
        elif self.decimals is not None:
            values = np.round(values, self.decimals)
        return np.clip(values, low, high)

    def _typed(self, values: Floats, states: NDArray[Any] | None) -> pl.Series:
        if self.kind is Kind.DATETIME:
            series = pl.Series(self.name, values.astype(np.int64) * self.tick + self.origin)
        elif self.kind is Kind.INTEGER:
            series = pl.Series(self.name, values.astype(np.int64))
        else:
            if states is not None:
                values = np.where(states == _NAN, np.nan, values)
            series = pl.Series(self.name, values)
        if states is not None:
            series = with_nulls(series, states == _NULL)
        if self.dtype == pl.Date:
            series = series.cast(pl.Int32)
        return series.cast(self._holding())

    def _holding(self) -> Any:
        """Return the type of the column, wider if later records do not fit it: a stream's begin."""
        if self.kind is not Kind.INTEGER:
            return self.dtype
        limits = np.iinfo(str(self.dtype).lower())
        return self.dtype if limits.min <= self.low and self.high <= limits.max else pl.Int64

    # -- two parts -----------------------------------------------------------------------------

    def merge(self, other: NumberCodec) -> tuple[Self, Affine, Affine]:
        """Return the code of both parts, and the way of each into it."""
        observed = [codec for codec in (self, other) if codec.observed] or [self]
        refuse_other_type(self.name, [codec.dtype for codec in observed])
        joined = replace(
            self,
            dtype=observed[0].dtype,
            extra=sorted({*self.extra, *other.extra}),
            observed=self.observed + other.observed,
            decimals=_coarsest(observed),
        )
        if self.kind is Kind.DATETIME:
            joined.origin = min(codec.origin for codec in observed)
            offsets = (codec.origin - joined.origin for codec in observed)
            joined.tick = gcd(*(codec.tick for codec in observed), *offsets)
        joined.fill = _moved(observed[0].fill, observed[0], joined)
        if self.public is None:
            joined.low = min(_moved(codec.low, codec, joined) for codec in observed)
            joined.high = max(_moved(codec.high, codec, joined) for codec in observed)
        pairs = {_moved_pair(codec, joined) for codec in observed}
        joined.pair = pairs.pop() if len(pairs) == 1 else None
        joined.scales = np.concatenate([self.scales[:1], np.ones(len(joined.extra))])
        return joined, self._way_into(joined), other._way_into(joined)

    def _way_into(self, joined: NumberCodec) -> Affine:
        linear = np.zeros((self.width, joined.width))
        shift = np.zeros(joined.width)
        linear[0, 0] = self.tick / joined.tick
        shift[0] = _moved(0.0, self, joined)
        for place, state in enumerate(self.extra, start=1):
            linear[place, 1 + joined.extra.index(state)] = 1.0
            # a missing record now shows the fill of the whole
            linear[place, 0] = joined.fill - _moved(self.fill, self, joined)
        return Affine(linear, shift)

    def to_json(self) -> dict[str, Any]:
        """Return everything that encoding and decoding need, as plain JSON values."""
        return fields_to_json(self)

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Self:
        """Return the code that :meth:`to_json` wrote."""
        return cls(**fields_from_json(entries))


def _zone(dtype: Any) -> str | None:
    return getattr(dtype, "time_zone", None)


def _coarsest(observed: list[NumberCodec]) -> int | None:
    """Return the decimals that hold the values of all parts."""
    decimals = [codec.decimals for codec in observed]
    return None if None in decimals else max(places for places in decimals if places is not None)


def _moved(value: float, codec: NumberCodec, joined: NumberCodec) -> float:
    """Return a value in the units of the whole: ticks since its start."""
    return value * (codec.tick / joined.tick) + (codec.origin - joined.origin) / joined.tick


def _moved_pair(codec: NumberCodec, joined: NumberCodec) -> tuple[float, float] | None:
    if codec.pair is None:
        return None
    low, high = codec.pair
    return _moved(low, codec, joined), _moved(high, codec, joined)
