"""Dates, time stamps and times of day as numbers: days and microseconds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tulle.errors import ParameterError
from tulle.sites.columns import ValueType

_EPOCH = dt.date(1970, 1, 1)
_START = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_HELD = {
    ValueType.DATE: ((dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days),
    ValueType.TIMESTAMP: (
        (dt.datetime.min - _START) // _MICROSECOND,
        (dt.datetime.max - _START) // _MICROSECOND,
    ),
    ValueType.TIME: (0, 24 * 60 * 60 * 1_000_000 - 1),
}


def type_of_end(value: Any) -> ValueType:
    """What kind of moment the end of a public range is.

    >>> type_of_end("2020-03-01"), type_of_end("2020-03-01 12:00"), type_of_end("08:30")
    (<ValueType.DATE: 'date'>, <ValueType.TIMESTAMP: 'timestamp'>, <ValueType.TIME: 'time'>)
    """
    moment = _moment(value)
    if isinstance(moment, dt.datetime):
        return ValueType.TIMESTAMP
    return ValueType.DATE if isinstance(moment, dt.date) else ValueType.TIME


def type_of_ends(column: str, ends: Sequence[Any]) -> ValueType:
    """The type that holds all ends: dates beside time stamps are midnights.

    >>> type_of_ends("seen", ["2020-03-01", "2020-04-01 12:00"])
    <ValueType.TIMESTAMP: 'timestamp'>
    """
    types = {type_of_end(end) for end in ends}
    if len(types) > 1 and ValueType.TIME in types:
        raise ParameterError(f"column '{column}': its range mixes times of day and dates")
    return ValueType.TIMESTAMP if len(types) > 1 else types.pop()


def as_number(value: Any, type: ValueType) -> int:
    """Days since 1970 of a date, microseconds since 1970 (UTC) or midnight of a time.

    >>> as_number("1970-01-03", ValueType.DATE), as_number("00:01", ValueType.TIME)
    (2, 60000000)
    """
    moment = _moment(value)
    if isinstance(moment, dt.time):
        return (dt.datetime.combine(_EPOCH, moment) - _START) // _MICROSECOND
    if type is ValueType.DATE:
        return (_date(moment) - _EPOCH).days
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - _START) // _MICROSECOND


def as_moment(number: float, type: ValueType) -> dt.date | dt.datetime | dt.time:
    """The way back; a date of a number with a fraction is the day it falls in.

    >>> as_moment(2.5, ValueType.DATE), as_moment(60000000, ValueType.TIME)
    (datetime.date(1970, 1, 3), datetime.time(0, 1))
    """
    lowest, highest = _HELD[type]
    number = min(max(number, lowest), highest)  # secret margins reach beyond the calendar
    if type is ValueType.DATE:
        return _EPOCH + dt.timedelta(days=number // 1)
    moment = _START + dt.timedelta(microseconds=number)
    return moment.time() if type is ValueType.TIME else moment


def _moment(value: Any) -> dt.date | dt.datetime | dt.time:
    if isinstance(value, dt.date | dt.time):  # a datetime is a date
        return value
    text = str(value).strip()
    for kind in (dt.date, dt.datetime, dt.time):
        if kind is dt.time and ":" not in text:
            continue  # 2020 is a year, and not twenty past eight
        with suppress(ValueError):
            return kind.fromisoformat(text)
    raise ParameterError(f"{text!r} is not a date such as 2020-03-01 or 2020-03-01T12:00")


def _date(moment: dt.date | dt.datetime) -> dt.date:
    return moment.date() if isinstance(moment, dt.datetime) else moment
