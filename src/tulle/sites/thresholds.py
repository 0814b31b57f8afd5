"""Codes inside mined results: thresholds, intervals and values, back in the original scale.

A threshold t between codes is a place between numbers. Inside a group it decodes to one number.
Between two groups it decodes to the limit between them, and because a limit belongs to the group
above it, ``code <= t`` then means ``x < limit``: the comparison becomes strict.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np

from tulle.sites import dates
from tulle.sites.columns import Graded, ValueType
from tulle.sites.grading import cut, ungrade

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf)"
_INTERVAL = re.compile(rf"([\[(])\s*({NUMBER})\s*[,;]\s*({NUMBER})\s*([\])])")
_STRICT = {"<=": "<", ">": ">=", "≤": "<", "&le;": "<"}


def decode_comparison(
    column: Graded, operator: str, code: str, decimals: int | None = None
) -> tuple[str, str]:
    """Operator and number of ``column operator code`` in the original scale."""
    value = float(code)
    if math.isinf(value):
        return operator, code
    if operator in ("=", "=="):
        return operator, decode_value(column, code, decimals)
    number, strict = cut(value, column.scale)
    if strict and operator in _STRICT:
        operator = _STRICT[operator]
    return operator, _shown(column, number, operator, _digits(column, code), decimals)


def decode_value(column: Graded, code: str, decimals: int | None = None) -> str:
    """The value that a code stands for."""
    number, _ = cut(float(code), column.scale)
    if column.type in (ValueType.INTEGER, ValueType.DATE) and decimals is None:
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
    if isinstance(intervals, tuple) and len(intervals) == 2:
        ends = ungrade(np.array(intervals, dtype=np.float64), column.scale)
        return tuple(
            float(given) if math.isinf(given) else float(end) for given, end in zip(intervals, ends)
        )
    return [decode_intervals(interval, column) for interval in intervals]


def _interval_text(column: Graded, match: re.Match[str]) -> str:
    left, low, high, right = match.groups()
    return decode_interval(column, left, low, high, right)


def _pandas_interval(interval: Any, column: Graded) -> Any:
    left = "[" if interval.closed in ("left", "both") else "("
    right = "]" if interval.closed in ("right", "both") else ")"
    ends = (repr(float(interval.left)), repr(float(interval.right)))
    text = decode_interval(column, left, *ends, right)
    closed = {"[)": "left", "(]": "right", "[]": "both", "()": "neither"}[text[0] + text[-1]]
    low, high = decode_intervals((interval.left, interval.right), column)
    return type(interval)(low, high, closed=closed)


def _digits(column: Graded, code: str) -> int:
    """How many decimals of the number the decimals of its code can tell."""
    mantissa, _, exponent = code.lower().partition("e")
    shown = len(mantissa.partition(".")[2]) - int(exponent or 0)
    width = float(np.diff(column.scale.limits).max())
    return min(8, max(0, math.ceil(shown - math.log10(width)) + 1))


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
