"""The values of a table as rules see them, and where a rule is broken.

Numbers are floats, points in time and durations days, text words. A rule says nothing of a record
that lacks a value it needs: only ``is missing`` asks for that. Values that were merged with others
in a release count as missing, since what they were is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from tulle._columns import Column, cells_of
from tulle._relations.language import (
    COMPARISONS,
    SETS,
    Call,
    ColumnRule,
    Name,
    Node,
    Number,
    Word,
    columns_of,
    is_condition,
)
from tulle._types import Flags, Floats
from tulle.errors import ParameterError
from tulle.table._codecs import Codec
from tulle.table._numbers import NumberCodec
from tulle.table._precision import decimals_of, tick_sizes
from tulle.table._series import filled, frame_of, is_missing
from tulle.table._states import Writing

_EXACT = 1e-12  # relative: what floating point arithmetic may be off by
_CLOSE = 1e-7  # relative: of numbers without a precision of their own
_DIGITS = 6e-7  # relative: of numbers with seven digits, whatever their decimals
_FINE = 1e-4  # the unit of columns with so many decimals that digits may be meant
_FUNCTIONS = {"log": np.log, "log10": np.log10, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs}
_DAY = 86_400


@dataclass
class Values:
    """The columns of a table, read when they are needed."""

    frame: pl.DataFrame
    units: Mapping[str, float | None]  # the precision of columns of numbers and times
    merged: Mapping[str, str] = field(default_factory=dict)  # the word for merged values
    known: Mapping[Call, pl.DataFrame] = field(default_factory=dict)  # combinations there are
    writings: Mapping[str, Writing] = field(default_factory=dict)  # of numbers and dates as text
    _typed: dict[str, pl.Series] = field(init=False, default_factory=dict)
    _numbers: dict[str, Floats] = field(init=False, default_factory=dict)
    _absent: dict[str, Flags] = field(init=False, default_factory=dict)

    def typed(self, name: str) -> pl.Series:
        """Return a column of numbers or dates in their type, null where it holds a code."""
        if name not in self.writings:
            return self.frame[name]
        if name not in self._typed:
            self._typed[name] = self.writings[name].split(self.frame[name])[0]
        return self._typed[name]

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, NaN where it has none."""
        if name not in self._numbers:
            self._numbers[name] = numbers_of(self.typed(name))
        return self._numbers[name]

    def words(self, name: str) -> pl.Series:
        """Return a column as text, null where it is missing or merged with others."""
        series = self.frame[name].cast(pl.String)
        if name in self.merged:
            series = series.set(series.eq_missing(self.merged[name]), None)
        return series

    def keys(self, name: str) -> pl.Series:
        """Return a column as values to look up: words, or numbers however they are written."""
        if self.is_words(Name(name)):
            return self.words(name)
        return pl.Series(self.numbers(name)).fill_nan(None)

    def absent(self, name: str) -> Flags:
        """Return where a column is missing, or holds a code that stands for no value."""
        if name not in self._absent:
            series = self.typed(name)
            gone = is_missing(series)
            if series.dtype.is_float():
                gone = gone | np.isnan(filled(series, 0.0))
            self._absent[name] = gone
        return self._absent[name]

    def is_words(self, node: Node) -> bool:
        """Tell whether an expression is text: quoted, or a column of categories."""
        if isinstance(node, Name):
            text = is_text(self.frame.schema[node.column])
            return text and node.column not in self.writings
        return isinstance(node, Word)


def is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def writings_of(codecs: Mapping[str, Codec]) -> dict[str, Writing]:
    """Return how the columns are written that hold numbers or dates in another form."""
    return {
        name: codec.writing
        for name, codec in codecs.items()
        if isinstance(codec, NumberCodec) and codec.writing is not None
    }


def as_released(
    frame: pl.DataFrame, codecs: Mapping[str, Codec], columns: Mapping[str, Column]
) -> pl.DataFrame:
    """Return the released columns of a table in the words of a release: rare ones are merged.

    Numbers stay what they are, though rare ones may be merged too: what they add up to shows only
    in the table itself.
    """
    series = [
        codec.restore(cells_of(columns[name])).alias(name)
        if is_text(frame.schema[name]) and not isinstance(codec, NumberCodec)
        else frame[name]
        for name, codec in codecs.items()
    ]
    return frame_of(series)


def numbers_of(series: pl.Series) -> Floats:
    """Return a column as floats: times as days, NaN for what is not a number."""
    dtype = series.dtype
    if is_text(dtype):
        series = series.cast(pl.String).cast(pl.Float64, strict=False)
    elif dtype.is_temporal():
        series = series.to_physical().cast(pl.Int64) / tick_sizes(dtype)[0]
    return np.asarray(filled(series.cast(pl.Float64), np.nan), dtype=np.float64)


def unit_of(series: pl.Series) -> float | None:
    """Return the precision of a column of numbers or times; None for floats as they come."""
    dtype = series.dtype
    if dtype.is_integer() or dtype == pl.Boolean or dtype == pl.Date:
        return 1.0
    if dtype.is_temporal():
        ticks = series.drop_nulls().to_physical().cast(pl.Int64).to_numpy()
        sizes = tick_sizes(dtype)
        fits = (size for size in sizes if not (ticks % size).any())
        return next(fits, 1) / sizes[0]
    values = numbers_of(series)
    decimals = decimals_of(values[np.isfinite(values)], pl.Float64)
    return None if decimals is None else 10.0**-decimals


# -- quantities ----------------------------------------------------------------------------------


def quantity(node: Node, values: Values) -> Floats:
    """Return the numbers that an expression gives, NaN where it needs a missing value."""
    if isinstance(node, Number):
        return np.full(values.frame.height, node.value)
    if isinstance(node, Name):
        return values.numbers(node.column)
    if isinstance(node, Word):
        return np.full(values.frame.height, _day_of(node.text))
    if is_condition(node):
        yes, no = truth(node, values)
        return np.where(yes, 1.0, np.where(no, 0.0, np.nan))
    parts = [quantity(part, values) for part in node.args]
    with np.errstate(all="ignore"):
        found = _computed(node.op, parts)
        return np.where(np.isfinite(found), found, np.nan)


def _computed(op: str, parts: list[Floats]) -> Floats:
    first, last = parts[0], parts[-1]
    if op == "+":
        return first + last
    if op == "-":
        return first - last
    if op == "*":
        return first * last
    if op == "/":
        return first / last
    if op == "**":
        return np.asarray(first**last)
    if op == "neg":
        return -first
    if op in _FUNCTIONS:
        return np.asarray(_FUNCTIONS[op](first))
    if op == "floor":
        return np.floor(first + _EXACT * np.abs(first))
    if op == "round":
        return np.round(first)
    if op == "min":
        return reduce(np.minimum, parts)
    if op == "max":
        return reduce(np.maximum, parts)
    if op == "days":
        return last - first
    return _calendar(op, first, last)


def _calendar(op: str, first: Floats, last: Floats) -> Floats:
    """Return the year of a date, or the whole years between two."""
    if op == "year":
        return _parts_of(first)[0]
    (year, day), (later, day_later) = _parts_of(first), _parts_of(last)
    return later - year - (day_later < day)


def _parts_of(days: Floats) -> tuple[Floats, Floats]:
    """Return the year of days since 1970, and a number that rises within it."""
    present = np.isfinite(days)
    whole = np.where(present, np.floor(days), 0).astype("datetime64[D]")
    months = whole.astype("datetime64[M]")
    years = whole.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12
    day = (whole - months.astype("datetime64[D]")).astype(np.int64)
    within = np.where(present, month * 31 + day, np.nan)
    return np.where(present, years.astype(np.float64), np.nan), within


def _day_of(text: str) -> float:
    """Return the days since 1970 of a date, or a number that is written as text."""
    number = _as_number(text)
    if number is None:
        raise ParameterError(
            f"'{text}' in a rule is compared with a number or a date, but is neither: dates are "
            'written "2020-12-31"',
            parameter="rules",
        )
    return number


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() / _DAY


# -- conditions ----------------------------------------------------------------------------------

Truth = tuple[Flags, Flags]  # where a condition is true, and where it is false


def broken(rule: ColumnRule, values: Values) -> Flags:
    wrong = np.zeros(values.frame.height, dtype=bool)
    for part in rule.parts:
        wrong |= part_broken(part, values)
    return wrong


def part_broken(part: Call, values: Values) -> Flags:
    return truth(part, values)[1]


def truth(node: Node, values: Values) -> Truth:
    """Return where a condition is true and where it is false; neither where values are missing."""
    if not isinstance(node, Call):
        raise TypeError("a condition is a call")
    if node.op in COMPARISONS:
        return _compared(node, values)
    if node.op == "missing":
        gone = values.absent(_column(node))
        return gone, ~gone
    if node.op == "in":
        options = [Call("=", (node.args[0], option)) for option in node.args[1:]]
        return _any([truth(option, values) for option in options])
    if node.op == "->":
        return _follows(node, values)
    if node.op == "known":
        return _is_known(node, values)
    if node.op in SETS:
        total = sum((quantity(part, values) == 1).astype(np.int64) for part in node.args)
        there = ~np.logical_or.reduce([values.absent(name) for name in columns_of(node)])
        yes = total == 1 if node.op == "one_of" else total <= 1
        return yes & there, ~yes & there
    parts = [truth(part, values) for part in node.args]
    if node.op == "not":
        return parts[0][1], parts[0][0]
    if node.op == "or":
        return _any(parts)
    if node.op == "and":
        true, false = _any([(no, yes) for yes, no in parts])
        return false, true
    (said_true, said_false), (given_true, given_false) = parts
    return said_true | given_false, said_false & given_true


def _any(parts: list[Truth]) -> Truth:
    true = np.logical_or.reduce([yes for yes, _ in parts])
    return true, np.logical_and.reduce([no for _, no in parts])


def _column(node: Call) -> str:
    name = node.args[0]
    return name.column if isinstance(name, Name) else ""


def _compared(node: Call, values: Values) -> Truth:
    left, right = node.args
    if node.op in ("=", "!=") and _are_words(left, right, values):
        return _same_words(node, values)
    first, second = quantity(left, values), quantity(right, values)
    known = ~(np.isnan(first) | np.isnan(second))
    with np.errstate(invalid="ignore"):
        away = first - second
        slack = _EXACT * np.maximum(np.maximum(np.abs(first), np.abs(second)), 1e-300)
        if node.op in ("=", "!="):
            yes = np.abs(away) <= _tolerance(node, values, slack)
        elif node.op in ("<", "<="):
            yes = away <= slack if node.op == "<=" else away < -slack
        else:
            yes = away >= -slack if node.op == ">=" else away > slack
    yes = yes != (node.op == "!=")
    return yes & known, ~yes & known


def _are_words(left: Node, right: Node, values: Values) -> bool:
    """Tell whether two sides are compared as text: a code among numbers is, and so is "true"."""
    sides = {type(left): left, type(right): right}
    word, name = sides.get(Word), sides.get(Name)
    if isinstance(word, Word) and isinstance(name, Name):
        boolean = values.frame.schema[name.column] == pl.Boolean
        if boolean or name.column in values.writings:
            return _as_number(word.text) is None
    return values.is_words(left) and values.is_words(right)


def _tolerance(node: Call, values: Values, slack: Floats) -> Floats:
    """Return how far the sides of ``=`` may be apart: less than a unit of the column it is of."""
    bare = [values.units.get(side.column) for side in node.args if isinstance(side, Name)]
    if not bare:
        bare = [values.units.get(name) for name in columns_of(node)]
    known = [unit for unit in bare if unit is not None]
    return closeness(max(known) if known and len(known) == len(bare) else None, slack / _EXACT)


def closeness(unit: float | None, size: Floats) -> Floats:
    """Return how far numbers of a size may be apart that are the same up to a precision."""
    if unit is None:
        return size * _CLOSE
    return np.maximum(size * (_DIGITS if unit < _FINE else _EXACT), unit * (1 - 1e-6))


def roundings(formed: Floats, value: Floats, unit: float | None) -> Iterator[Flags]:
    """Yield where a column may be a formula that was rounded to the nearest unit, down, or up."""
    slack = closeness(unit, np.abs(value))
    away = formed - value
    if unit is None or unit < _FINE:
        yield np.abs(away) <= slack
        return
    rest = 1e-6 * unit + _EXACT * np.abs(value)
    yield np.abs(away) <= unit / 2 + rest
    yield (away >= -rest) & (away <= slack)
    yield (away <= rest) & (away >= -slack)


def _same_words(node: Call, values: Values) -> Truth:
    sides: list[Any] = [  # a word is compared with a whole column
        side.text if isinstance(side, Word) else values.words(side.column)  # type: ignore[union-attr]
        for side in node.args
    ]
    same = sides[0] == sides[1]
    if isinstance(same, bool):
        same = pl.Series([same]).new_from_index(0, values.frame.height)
    known = ~is_missing(same)
    yes = filled(same, False) != (node.op == "!=")
    return yes & known, ~yes & known


def keys_of(node: Call, values: Values) -> pl.DataFrame:
    """Return the columns of a dependency or a combination: words, or the numbers of numbers."""
    named = enumerate(columns_of(node))
    return pl.DataFrame([values.keys(name).alias(f"c{place}") for place, name in named])


def usual_targets(counted: pl.DataFrame, counts: str) -> pl.DataFrame:
    """Return the commonest value of the last column with each combination of the others."""
    *sources, target = (name for name in counted.columns if name != counts)
    ordered = counted.sort([counts, target], descending=[True, False])
    return ordered.unique(sources, keep="first").drop(counts)


def _follows(node: Call, values: Values) -> Truth:
    """Return where the last column has the value that the table, or most records, have."""
    keys = keys_of(node, values)
    *sources, target = keys.columns
    usual = values.known.get(node)
    if usual is None:
        usual = usual_targets(keys.drop_nulls().group_by(keys.columns).len("\0n"), "\0n")
    joined = keys.join(usual.rename({target: "\0usual"}), sources, "left", maintain_order="left")
    yes = filled(joined[target].eq_missing(joined["\0usual"]), False)
    known = ~np.logical_or.reduce([is_missing(column) for column in keys])
    return yes & known, ~yes & known


def _is_known(node: Call, values: Values) -> Truth:
    """Return where a combination is one of those that the table had; all are before that."""
    keys = keys_of(node, values)
    complete = ~np.logical_or.reduce([is_missing(column) for column in keys])
    if node not in values.known:
        return complete, np.zeros(keys.height, dtype=bool)
    allowed = values.known[node].with_columns(pl.lit(True).alias("\0there"))
    joined = keys.join(allowed, keys.columns, "left", maintain_order="left")
    there = filled(joined["\0there"].fill_null(False), False)
    return there & complete, ~there & complete
