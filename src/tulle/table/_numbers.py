"""Numbers and points in time as dimensions: the value itself, and a state for missing ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._types import Floats
from tulle.errors import DataError, ParameterError
from tulle.table._drawing import (
    Grouped,
    among_present,
    choose_states,
    clip_keeping_means,
    mean_present,
    one_of_two,
    round_keeping_means,
)
from tulle.table._frames import Cells, filled, is_missing
from tulle.table.schema import Kind

# What a column of numbers tells about itself: mean, spread, precision, unit of time.

EXACT = 2**53  # whole numbers up to here are exact as floats
_DAY = 86_400


def tick_sizes(dtype: Any) -> list[int]:
    """Days, hours, minutes, seconds ... in the physical unit of a polars type, coarsest first."""
    if dtype == pl.Date:
        return [1]
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(dtype, "time_unit", None) or "ns"]
    whole = [_DAY * second, 3600 * second, 60 * second, second]
    return whole + [second // 10**digits for digits in (3, 6, 9) if second >= 10**digits]


def mean_of(values: Floats) -> float:
    """The mean, also of numbers whose sum would overflow."""
    largest = float(np.abs(values).max())
    mean = float(np.mean(values / largest) * largest) if largest > 1e290 else float(values.mean())
    return min(max(mean, float(values.min())), float(values.max()))


def spread_of(values: Floats) -> float:
    """The population standard deviation; 0 only where all values are alike."""
    if not len(values) or values.min() == values.max():
        return 0.0
    largest = float(np.abs(values).max())
    if 1e-140 < largest < 1e140:
        return float(values.std())
    return float((values / largest).std() * largest)


def decimals_of(values: Floats, dtype: Any) -> int | None:
    """The number of decimals that every value has at most, or None for floats as they come."""
    scale = getattr(dtype, "scale", None)
    if scale is not None:
        return int(scale)
    if not len(values):
        return None
    largest = float(np.abs(values).max())
    single = dtype in (np.dtype(np.float32), pl.Float32)
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


def only_two(present: Floats) -> tuple[float, float] | None:
    """The smallest and the largest value, if these two are all that there are."""
    low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
    if low >= high or not ((present == low) | (present == high)).all():
        return None
    return low, high


def present_of(block: Floats) -> Floats:
    """The values of the records that have one, from the dimensions of a column."""
    return block[block[:, 1:].sum(axis=1) == 0, 0] if block.shape[1] > 1 else block[:, 0]


def refuse_long_decimals(series: pl.Series) -> None:
    """Refuses decimals with more digits than floating point holds."""
    scale: int = series.dtype.scale  # type: ignore[attr-defined]
    extremes: list[Any] = [series.min() or 0, series.max() or 0]
    if max(map(abs, extremes)) * 10**scale > EXACT:
        raise DataError(
            f"column '{series.name}' holds decimals of more than 15 digits, which are not exact as "
            "floating point: round it, or declare it a category"
        )


def refuse_beyond(name: str, values: NDArray[Any]) -> None:
    """Refuses whole numbers that floating point does not hold exactly."""
    if len(values) and (values.max() > EXACT or values.min() < -EXACT):
        raise DataError(
            f"column '{name}' holds whole numbers beyond 2**53, which are not exact as floating "
            "point: declare it an identifier or a category, or subtract an offset"
        )


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
    dtype: Any  # numpy dtype, or polars data type
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
        name: str,
        kind: Kind,
        cells: Cells,
        *,
        weight: float,
        bounds: tuple[float, float] | None,
        find_decimals: bool,
    ) -> NumberCodec:
        """Learns range, precision and scale from a column."""
        codec = cls(name, kind, cells.dtype, weight, bounds)
        if kind is Kind.DATETIME:
            codec._fit_ticks(cells)
        values, states = codec._split(cells)
        present = values[states == _PRESENT]
        codec.extra = [state for state in (_NULL, _NAN) if (states == state).any()]
        codec.observed = len(present)
        if len(present):
            codec.low, codec.high = float(present.min()), float(present.max())
            codec.fill = mean_of(present)
        codec.pair = only_two(present) if bounds is None else None
        if kind is Kind.DECIMAL and find_decimals:
            codec.decimals = decimals_of(present, cells.dtype)
        codec._fit_bounds(present)
        codec._fit_scales(present, states)
        return codec

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

    def encode(self, cells: Cells, out: Floats) -> None:
        """Writes the dimensions of a column into ``out``, (n, width)."""
        values, states = self._split(cells)
        present = states == _PRESENT
        if len(self.extra) == 1:
            states[~present] = self.extra[0]  # null or NaN: one way of being missing is known
        self._refuse_outside(values[present])
        out[:, 0] = np.where(present, values, self.fill) if self.extra else values
        for place, state in enumerate(self.extra, start=1):
            out[:, place] = states == state
        unseen = int(len(states) - present.sum() - sum((states == s).sum() for s in self.extra))
        if unseen:
            raise DataError(
                f"column '{self.name}' is missing in {unseen} records, but was never missing in "
                "the data that the encoder was fitted on: fit on data with missing values"
            )

    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> Cells:
        """A column from its dimensions, in its own type, range and precision."""
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

    def confine(self, block: Floats) -> None:
        """Takes the observed range from these records alone, given by their dimensions."""
        self.observed = 0
        self.widen(block)
        self.pair = only_two(present_of(block)) if self.public is None else None

    def widen(self, block: Floats) -> None:
        """Lets the observed range grow by the values of more records."""
        present = present_of(block)
        if self.public is None and len(present):
            known = (self.low, self.high) if self.observed else (np.inf, -np.inf)
            self.low = min(known[0], float(present.min()))
            self.high = max(known[1], float(present.max()))
        if self.pair is not None and not np.isin(present, self.pair).all():
            self.pair = None
        self.observed += len(present)

    # -- from values to numbers ----------------------------------------------------------------

    def _split(self, cells: Cells) -> tuple[Floats, NDArray[np.int8]]:
        """Values as floats and the state of each record."""
        states = np.zeros(len(cells), dtype=np.int8)
        if isinstance(cells, pl.Series):
            states[is_missing(cells)] = _NULL
            if self.kind is Kind.DATETIME:
                return self._to_ticks(cells), states
            if cells.dtype.is_decimal():
                refuse_long_decimals(cells)
            cells = filled(cells if cells.dtype.is_integer() else cells.cast(pl.Float64), 0)
        if cells.dtype.kind in "iu":
            refuse_beyond(self.name, cells)
        values = np.asarray(cells, dtype=np.float64)
        if cells.dtype.kind == "f":
            self._mark_nan(values, states)
        return values, states

    def _mark_nan(self, values: Floats, states: NDArray[np.int8]) -> None:
        finite = np.isfinite(values)
        if finite.all():
            return
        infinite = int(np.isinf(values).sum())
        if infinite:
            raise DataError(
                f"column '{self.name}' holds {infinite} infinite values (infinity): make them "
                "missing, or bound them, before condensing"
            )
        states[~finite] = _NAN

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
        ticks = filled(series.to_physical().cast(pl.Int64), self.origin)
        whole = ticks // self.tick - self.origin // self.tick  # divided first: no overflow
        rest = ticks % self.tick - self.origin % self.tick
        return np.asarray(whole, dtype=np.float64) + rest / self.tick

    # -- learning ------------------------------------------------------------------------------

    def _fit_bounds(self, present: Floats) -> None:
        if self.public is not None and self.kind is Kind.DATETIME:
            raise ParameterError(
                f"column '{self.name}' holds points in time: bounds are for numbers only"
            )
        if self.public is not None:
            self._refuse_outside(present)
            self.low, self.high = map(float, self.public)

    def _refuse_outside(self, present: Floats) -> None:
        low, high = self.public or (-np.inf, np.inf)
        outside = int(((present < low) | (present > high)).sum())
        if outside:
            raise DataError(
                f"column '{self.name}' holds {outside} values outside its public bounds: widen "
                "the bounds or correct the data"
            )

    def _fit_scales(self, present: Floats, states: NDArray[np.int8]) -> None:
        rates = np.array([(states == state).mean() for state in self.extra])
        spread = spread_of(present) * np.sqrt(len(present) / max(len(states), 1))
        self._share_weight(spread, float((rates * (1 - rates)).sum()))

    def rescale(self, variances: Floats) -> None:
        """Takes the scales from the variances of the dimensions."""
        self._share_weight(float(np.sqrt(variances[0])), float(variances[1:].sum()))

    def _share_weight(self, spread: float, indicators: float) -> None:
        """Value and indicators share the weight: a missing value is one deviation away."""
        total = float(spread > 0) + indicators
        unit = np.sqrt(total) / self.weight if total > 0 else 1.0
        value = spread * unit if spread * unit > 0 else 1.0
        self.scales = np.array([value, *[unit] * len(self.extra)])

    # -- from numbers to values ----------------------------------------------------------------

    def _snapped(
        self, values: Floats, states: NDArray[Any] | None, grouped: Grouped | None, snap: bool
    ) -> Floats:
        """Within the range, which keeps the groups' means where it can, and of the precision."""
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
        """Values that may occur, of records that have one."""
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

    def _typed(self, values: Floats, states: NDArray[Any] | None) -> Cells:
        if isinstance(self.dtype, np.dtype):
            if states is not None:
                values = np.where(states == _NAN, np.nan, values)
            return values.astype(self.dtype)
        if self.kind is Kind.DATETIME:
            ticks = values.astype(np.int64) * self.tick + self.origin
            series = pl.Series(self.name, ticks)
        elif self.kind is Kind.INTEGER:
            series = pl.Series(self.name, values.astype(np.int64))
        else:
            if states is not None:
                values = np.where(states == _NAN, np.nan, values)
            series = pl.Series(self.name, values)
        if states is not None and _NULL in self.extra:
            series = series.zip_with(
                pl.Series(states != _NULL), pl.Series([None], dtype=series.dtype)
            )
        if self.kind is Kind.DATETIME and self.dtype == pl.Date:
            series = series.cast(pl.Int32)
        return series.cast(self.dtype)
