"""Codes inside mined results: thresholds, intervals and values, back in the original scale.

A threshold t between codes is a place between numbers. Inside a group it decodes to one number.
Between two groups it decodes to the limit between them, and because a limit belongs to the group
above it, ``code <= t`` then means ``x < limit``: the comparison becomes strict.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tulle.errors import DataError
from tulle.sites import dates
from tulle.sites.columns import Graded, ValueType
from tulle.sites.grading import cut, ungrade
from tulle.sites.patterns import INTERVAL

_INTERVAL = re.compile(INTERVAL)
_DAY = 24 * 60 * 60 * 1_000_000  # microseconds
_STRICT = {"<=": "<", ">": ">=", "≤": "<", "&le;": "<"}


def decode_comparison(
    column: Graded, operator: str, code: str, decimals: int | None = None
) -> tuple[str, str]:
    """Operator and number of ``column operator code`` in the original scale."""
    value = float(code)
    if math.isinf(value):
        return operator, code
    if operator in ("=", "==", "!="):
        return operator, decode_value(column, code, decimals)
    number, strict = cut(value, column.scale)
    if strict and operator in _STRICT:
        operator = _STRICT[operator]
    return operator, _shown(column, number, operator, _digits(column, code), decimals)


def decode_value(column: Graded, code: str, decimals: int | None = None) -> str:
    """The value that a code stands for."""
    number, _ = cut(float(code), column.scale)
    if column.type is ValueType.DATE or (column.type is ValueType.INTEGER and decimals is None):
        number = float(round(number))
    return _shown(column, number, "=", _digits(column, code), decimals)


def decode_interval(
    column: Graded, left: str, low: str, high: str, right: str, decimals: int | None = None
) -> str:
    """An interval such as ``(2.0, 3.5]``; a side that falls between two groups changes its bracket.

    >>> from tulle.tables.schema import Role
    >>> age = Graded("age", ValueType.INTEGER, Role.QUASI, 0, 100, "given", 2, (0, 10, 100), (3, 7))
    >>> decode_interval(age, "(", "3.5", "5.0", "]"), decode_interval(age, "(", "5", "inf", ")")
    ('(5, 10)', '[10, inf)')
    """
    above, start = decode_comparison(column, ">=" if left == "[" else ">", low, decimals)
    below, end = decode_comparison(column, "<=" if right == "]" else "<", high, decimals)
    return f"{'[' if above == '>=' else '('}{start}, {end}{']' if below == '<=' else ')'}"


def decode_intervals(intervals: Any, column: Graded) -> Any:
    """Texts, pairs of numbers or pandas Intervals of codes, one or a list of them."""
    if isinstance(intervals, str):
        return _INTERVAL.sub(lambda match: _interval_text(column, match), intervals)
    if hasattr(intervals, "closed") and hasattr(intervals, "left"):
        if hasattr(intervals, "dtype"):  # an IntervalIndex
            return [decode_intervals(interval, column) for interval in intervals]
        return _pandas_interval(intervals, column)
    if isinstance(intervals, tuple) and len(intervals) == 2 and all(map(is_number, intervals)):
        return tuple(_end(column, float(code)) for code in intervals)
    if not isinstance(intervals, Iterable):
        raise DataError(
            "intervals are texts such as '(2.0, 3.5]', pairs of numbers or pandas Intervals. Got "
            f"{type(intervals).__name__}"
        )
    return [decode_intervals(interval, column) for interval in intervals]


def moment_of(column: Graded, number: float) -> dt.date | dt.datetime | dt.time:
    """The moment of a number between those that the column holds: a time stamp, or a time."""
    if column.type is ValueType.DATE:
        return dates.as_moment(number * _DAY, ValueType.TIMESTAMP)
    return dates.as_moment(number * column.tick, column.type)


def is_number(value: Any) -> bool:
    """Whether something is a number, and no truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _end(column: Graded, code: float) -> Any:
    if math.isinf(code) or math.isnan(code):
        return code
    number = float(ungrade(np.array([code]), column.scale)[0])
    if column.type in (ValueType.INTEGER, ValueType.DECIMAL):
        return number
    return moment_of(column, number)


def _interval_text(column: Graded, match: re.Match[str]) -> str:
    left, low, high, right = match.groups()
    return decode_interval(column, left, low, high, right)


def _pandas_interval(interval: Any, column: Graded) -> Any:
    left = "[" if interval.closed in ("left", "both") else "("
    right = "]" if interval.closed in ("right", "both") else ")"
    ends = (repr(float(interval.left)), repr(float(interval.right)))
    text = decode_interval(column, left, *ends, right)
    closed = {"[)": "left", "(]": "right", "[]": "both", "()": "neither"}[text[0] + text[-1]]
    low, high = (_pandas_end(column, end) for end in (interval.left, interval.right))
    return type(interval)(low, high, closed=closed)


def _pandas_end(column: Graded, code: float) -> Any:
    """Intervals of pandas are between numbers, time stamps or durations."""
    import pandas as pd

    if column.type in (ValueType.INTEGER, ValueType.DECIMAL):
        return _end(column, float(code))
    end = moment_of(column, float(ungrade(np.array([float(code)]), column.scale)[0]))
    return pd.Timedelta(end.isoformat()) if isinstance(end, dt.time) else pd.Timestamp(end)


def _digits(column: Graded, code: str) -> int:
    """How many decimals of the number the decimals of its code can tell."""
    mantissa, _, exponent = code.lower().partition("e")
    shown = len(mantissa.partition(".")[2]) - int(exponent or 0)
    width = float(np.diff(column.scale.limits).max())
    fine = max(0, math.ceil(-math.log10(width)))  # zeros that every number of a tiny range has
    return min(8 + fine, max(0, math.ceil(shown - math.log10(width)) + 1))


def _shown(column: Graded, number: float, operator: str, digits: int, decimals: int | None) -> str:
    if column.type is ValueType.DATE:
        # days are whole: x <= 3.5 means x <= 3, x < 3.5 means x < 4
        up = operator in ("<", ">=")
        day = math.ceil(number - 1e-6) if up else math.floor(number + 1e-6)
        return str(dates.as_moment(day, ValueType.DATE))
    if column.type in (ValueType.TIMESTAMP, ValueType.TIME):
        moment = dates.as_moment(number * column.tick, column.type)
        return moment.isoformat() if isinstance(moment, dt.time) else str(moment)
    if decimals is not None:
        return f"{number:.{decimals}f}"
    text = f"{number:.{digits}f}"
    return re.sub(r"\.?0+$", "", text) if "." in text else text
