"""What a column of numbers tells about itself: mean, spread, precision, unit of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError
from tulle.tables.quotas import Floats

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
