"""Records that a condenser refuses, found among many, each with its reason.

A condenser takes a batch as a whole or not at all. Whether a value is refused is for the code of
its column to say: rows are tried together, and only where that fails, fewer of them. Values that
cannot but be refused alike (missing, infinite, beyond a bound, a category never seen) are tried
once for all; whatever else is refused is found by halving, and blamed only after it was tried
alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._types import Ints
from tulle.condense._levels import check_levels, locate_levels
from tulle.errors import DataError
from tulle.stream._state import FARTHEST, check_reach
from tulle.stream.condenser import StreamCondenser
from tulle.table._categories import CategoryCodec
from tulle.table._codecs import Codec, matching
from tulle.table._frames import filled, is_missing
from tulle.table._numbers import EXACT

Reasons = dict[int, str]  # by the row of the record
Trial = Callable[[Ints], str]  # why these rows are refused together; empty if they are not
Marks = list[NDArray[np.bool_]]  # each of some rows that may be refused for one reason


def misfits(condenser: StreamCondenser, features: pl.DataFrame) -> Reasons:
    """The rows that ``partial_fit`` refuses, each with what it says of that row alone.

    The condenser has its groups, and the frame the columns of the initial records.
    """
    rows, reasons = np.arange(features.height), _without_level(condenser, features)
    for codec in condenser._encoder.features._codecs:
        column = features[codec.name].alias("")  # polars takes some names for patterns
        trial = _column_trial(column, codec)
        if trial(rows):
            found = _refused(trial, rows, _marks(column, codec))
            reasons = found | reasons  # a row keeps the reason that it got first
    left = np.setdiff1d(rows, list(reasons))
    return reasons | _too_far(condenser, features, left)


def _refused(trial: Trial, rows: Ints, marks: Marks) -> Reasons:
    """Those of the rows that are refused; ones with the same marks are refused alike."""
    reasons: Reasons = {}
    for alike in _alike(rows, marks):
        reason = trial(alike[:1])
        if reason:
            reasons |= dict.fromkeys(alike.tolist(), reason)
    return reasons | _halved(trial, np.setdiff1d(rows, list(reasons)))


def _alike(rows: Ints, marks: Marks) -> list[Ints]:
    """Rows with the same marks; rows without any may be anything and are left out."""
    key = np.zeros(len(rows), dtype=np.int64)
    for place, mark in enumerate(marks):
        key |= mark.astype(np.int64) << place
    return [rows[key == one] for one in np.unique(key) if one]


def _halved(trial: Trial, rows: Ints) -> Reasons:
    """Refused rows, found by halving: a few among many take a few tries each."""
    reason = trial(rows) if len(rows) else ""
    if not reason:
        return {}
    if len(rows) == 1:
        return {int(rows[0]): reason}
    half = len(rows) // 2
    return _halved(trial, rows[:half]) | _halved(trial, rows[half:])


def _column_trial(column: pl.Series, codec: Codec) -> Trial:
    def encode(rows: Ints) -> None:
        codec.encode(matching(codec, column[rows]), np.empty((len(rows), codec.width)))

    return _trial(encode, codec.name)


def _trial(check: Callable[[Ints], object], name: str) -> Trial:
    def trial(rows: Ints) -> str:
        try:
            check(rows)
        except DataError as error:
            return str(error)
        except pl.exceptions.PolarsError:  # whose words may hold values
            return f"column '{name}' does not convert to the type of the initial records"
        return ""

    return trial


def _marks(column: pl.Series, codec: Codec) -> Marks:
    """Why values may be refused, for all rows at once; only a guess, which is tried."""
    missing = is_missing(column)
    if isinstance(codec, CategoryCodec):
        return [missing, ~_is_known(column, codec) & ~missing]
    if not column.dtype.is_numeric():
        return [missing]
    values = filled(column if column.dtype.is_integer() else column.cast(pl.Float64), 0)
    numbers = values.astype(np.float64)  # as the code compares them with bounds
    low, high = getattr(codec, "public", None) or (-np.inf, np.inf)
    return [
        missing,
        np.isnan(numbers),
        np.isposinf(numbers),
        np.isneginf(numbers),
        values > EXACT,  # no absolute value: that of the smallest integer is negative
        values < -EXACT,
        numbers < low,
        numbers > high,
    ]


def _is_known(column: pl.Series, codec: CategoryCodec) -> NDArray[np.bool_]:
    """Which values are in the domain."""
    if not len(codec.domain):
        return np.zeros(len(column), dtype=bool)
    values = column.cast(codec.dtype, strict=False)
    return values.is_in(codec.domain.implode()).fill_null(False).to_numpy()


def _without_level(condenser: StreamCondenser, features: pl.DataFrame) -> Reasons:
    """Rows whose level, where a column of the policy holds it, is none."""
    levels, _ = locate_levels(features, None, condenser.columns)
    if levels is None:
        return {}
    trial = _trial(lambda rows: check_levels(levels[rows], len(rows)), levels.name)
    return _halved(trial, np.arange(features.height))


def _too_far(condenser: StreamCondenser, features: pl.DataFrame, rows: Ints) -> Reasons:
    """Those of the rows, none of which any column refuses, that lie too far away."""
    encoder = condenser._encoder.features
    try:
        matrix = encoder.encode(features[rows])
    except DataError:  # of all of them together only: nobody is to blame
        return {}
    with np.errstate(over="ignore"):
        standard = (matrix - condenser._location[: matrix.shape[1]]) / encoder.scales_
    trial = _trial(lambda places: check_reach(standard[places]), "")
    places = np.arange(len(rows))
    if not trial(places):
        return {}
    far = ~(np.abs(standard) < FARTHEST).all(axis=1)
    return {int(rows[place]): why for place, why in _refused(trial, places, [far]).items()}
