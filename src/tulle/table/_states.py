"""Numbers and dates as people write them: the values, and a state for everything else in a column.

A column may hold codes (``N``, ``9999``, ``k.A.``), each a state of its own next to the values, and
its numbers or dates may be written as text (``1.360,00 €``, ``03.11.1961``). Codes are taken out
before anything is averaged, and everything is put back as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._types import Floats
from tulle.errors import DataError
from tulle.table._date_format import EPOCHS, parse_dates, read_dates, sort_of, write_dates
from tulle.table._number_format import NumberFormat, read_numbers
from tulle.table.schema import Column, Kind

# the states of a record; special values count on from FIRST
PRESENT, NULL, NAN, UNREAD, FIRST = 0, 1, 2, 3, 4
STATE = -1e300  # times a state: where it lies among numbers in a synthesis, beyond all of them
_EXPONENT = r"^-?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"
_TEXTS = (pl.String, pl.Categorical)
_SET = 10  # whole numbers that a column may consist of, each of them a state
_STRAYS = 0.01  # of the people: they may hold other numbers all the same
_STANDS_OUT = 3.0  # times the people of a usual number: a heap, ...
_COMMON = 0.05  # ... if it is of so many of all people,
_SOME = 5  # and so many people are left besides those on heaps
_SLACK = 1e-9  # people are sums of fractions

States = NDArray[np.int8]


@dataclass(frozen=True)
class Writing:
    """How a column is written: its forms and its special values."""

    dtype: Any  # of the column
    inner: Any  # of its values
    special: tuple[str | float, ...] = ()
    texts: tuple[str, ...] = ()  # what is written for each special value
    forms: tuple[str, ...] = ()  # of numbers or dates that are text; they are written in the first
    years: tuple[int, int] = (0, 0)

    def split(self, series: pl.Series) -> tuple[pl.Series, States]:
        """Return the values, null in every other state, and the state of each record."""
        if self.forms:
            return self._split_texts(series)
        states = np.zeros(len(series), dtype=np.int8)
        for place, value in enumerate(self.special, start=FIRST):
            rows = _equal(series, value)
            if rows is not None:
                states[rows.fill_null(False).to_numpy()] = place
        return _where(states == PRESENT, series), self._with_nulls(series, states)

    def _split_texts(self, series: pl.Series) -> tuple[pl.Series, States]:
        if series.dtype.is_numeric() and self.inner.is_numeric():
            series = number_format(self.forms[0]).format(series)  # of a batch without words
        texts = _stripped(series)
        states = self._with_nulls(texts, np.zeros(len(series), dtype=np.int8))
        for place, value in enumerate(self.special, start=FIRST):
            if isinstance(value, str):
                states[(texts == value).fill_null(False).to_numpy()] = place
        values = self._read(_where(states == PRESENT, texts))
        states[(states == PRESENT) & values.is_null().to_numpy()] = UNREAD
        for place, value in enumerate(self.special, start=FIRST):
            rows = _equal(values, value)
            if rows is not None:
                states[rows.fill_null(False).to_numpy()] = place
        return _where(states == PRESENT, values).cast(self.inner), states

    def join(self, values: pl.Series, states: States) -> pl.Series:
        """Return a column as it was written; what was not understood is missing."""
        if not self.forms:
            for place, value in enumerate(self.special, start=FIRST):
                rows = states == place
                if rows.any():
                    values = values.zip_with(pl.Series(~rows), _as_cell(value, values.dtype))
            return values
        texts = self._written(_where(states == PRESENT, values))
        for place, text in enumerate(self.texts, start=FIRST):
            texts = texts.zip_with(pl.Series(states != place), pl.Series([text]))
        return texts.cast(self.dtype).alias(values.name)

    def _with_nulls(self, series: pl.Series, states: States) -> States:
        if series.null_count():
            states[series.is_null().to_numpy()] = NULL
        return states

    def _read(self, texts: pl.Series) -> pl.Series:
        if self.inner.is_temporal():
            return parse_dates(texts, self.forms, self.years).alias(texts.name)
        read = [number_format(form).parse(texts) for form in self.forms]
        powers = texts.to_frame("t").select(pl.when(pl.col("t").str.contains(_EXPONENT)).then("t"))
        return _first([*read, powers.to_series().cast(pl.Float64, strict=False)])

    def _written(self, values: pl.Series) -> pl.Series:
        if self.inner.is_temporal():
            return write_dates(values, self.forms[0])
        return number_format(self.forms[0]).format(values)


@lru_cache
def number_format(example: str) -> NumberFormat:
    return NumberFormat.from_example(example)


def writing_of(series: pl.Series, column: Column) -> Writing | None:
    """Find how a column is written; None if its values are typed and none of them is special."""
    dtype = series.dtype
    is_text = dtype in _TEXTS or (column.kind is Kind.DATETIME and dtype.is_integer())
    special = _distinct(column.special)
    if not is_text:
        return Writing(dtype, dtype, special) if special else None
    texts = _stripped(series)
    words = [value for value in special if isinstance(value, str)]
    rest = _where((~texts.is_in(words)).fill_null(False).to_numpy(), texts) if words else texts
    find = _date_forms if column.kind is Kind.DATETIME else _number_forms
    inner, forms, years = find(rest, column, special)
    written = Writing(dtype, inner, special, tuple(map(plain_text, special)), forms, years)
    _, states = written.split(series)
    unread, present = int((states == UNREAD).sum()), int((states != NULL).sum())
    if 2 * unread > present:
        raise DataError(
            f"column '{column.name}' is declared {column.kind}, but {unread} of {present} values "
            "cannot be read that way: correct the kind or the format in the policy"
        )
    return Writing(dtype, inner, special, _special_texts(texts, states, written), forms, years)


def _number_forms(
    texts: pl.Series, column: Column, special: Sequence[str | float]
) -> tuple[Any, tuple[str, ...], tuple[int, int]]:
    reading = read_numbers(texts)
    found = [] if reading is None else [form.example for form, _ in reading.formats]
    if column.format:
        found = [_checked(column, number_format), *found]
    forms = tuple(dict.fromkeys(found)) or ("1234567.8*",)
    values, _ = Writing(texts.dtype, pl.Float64(), tuple(special), (), forms).split(texts)
    present = values.drop_nulls()
    whole = bool((present == present.round()).all()) and column.kind is not Kind.DECIMAL
    return (pl.Int64() if whole else pl.Float64()), forms, (0, 0)


def _date_forms(
    texts: pl.Series, column: Column, special: Sequence[str | float]
) -> tuple[Any, tuple[str, ...], tuple[int, int]]:
    given = (column.format,) if column.format else ()
    reading = None if given and given[0] in EPOCHS else read_dates(texts)
    found = [] if reading is None else [form for form, _ in reading.formats]
    years = (1930, 2029) if reading is None else reading.years
    forms = tuple(dict.fromkeys([*given, *found])) or ("%Y-%m-%d",)
    return sort_of(forms), forms, years


def _checked(column: Column, read: Callable[[str], Any]) -> str:
    try:
        read(column.format)
    except ValueError:
        raise DataError(
            f"the format of column '{column.name}' must be a number as it is written, such as "
            '"1.234.567,89 €"'
        ) from None
    return column.format


def _special_texts(texts: pl.Series, states: States, written: Writing) -> tuple[str, ...]:
    """Return how special values are written: numbers among texts as most of them are."""
    found = []
    for place, value in enumerate(written.special, start=FIRST):
        rows = texts.filter(pl.Series(states == place)) if not isinstance(value, str) else texts[:0]
        found.append(plain_text(value) if rows.is_empty() else str(rows.mode().sort()[0]))
    return tuple(found)


def _distinct(special: Sequence[str | float]) -> tuple[str | float, ...]:
    """Return special values, each once: ``9999`` and ``"9999"`` are one."""
    by_text = {plain_text(value): value for value in special}
    return tuple(by_text.values())


def plain_text(value: Any) -> str:
    """Return a value as text, a whole number without a decimal point."""
    if isinstance(value, str):
        return value.strip()
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def _equal(values: pl.Series, value: str | float) -> pl.Series | None:
    """Return which typed values are a special one; None if none can be."""
    if values.dtype.is_temporal():
        cell = _as_cell(value, values.dtype)
        return None if cell.null_count() else values == cell[0]
    try:
        return values.cast(pl.Float64) == float(value)
    except ValueError:
        return None


def _as_cell(value: str | float, dtype: Any) -> pl.Series:
    """Return a special value in the type of its column; null if it is not of that type."""
    text = pl.Series([plain_text(value)])
    if not dtype.is_temporal():
        return text.cast(dtype, strict=False)
    if dtype not in (pl.Date, pl.Datetime):
        return pl.Series([None], dtype=dtype)
    return text.str.to_datetime("%Y-%m-%d", strict=False).cast(dtype)


def _stripped(series: pl.Series) -> pl.Series:
    texts = series.cast(pl.String).str.strip_chars()
    return texts.to_frame("t").select(pl.when(pl.col("t") != "").then("t")).to_series()


def _where(condition: NDArray[np.bool_], values: pl.Series) -> pl.Series:
    """Return the values where a condition holds, null elsewhere."""
    if condition.all():
        return values
    return values.zip_with(pl.Series(condition), pl.Series([None], dtype=values.dtype))


def _first(read: Sequence[pl.Series]) -> pl.Series:
    found = read[0]
    for other in read[1:]:
        found = found.zip_with(found.is_not_null(), other)
    return found


def whole_set(values: Floats, people: Floats, enough: float) -> list[float]:
    """Return the numbers of a column of few whole ones, except the commonest; none of others.

    Each is held by enough people. The commonest one stays a number, so that new ones have a place.
    """
    distinct, place = np.unique(values, return_inverse=True)
    held = np.bincount(place, weights=people, minlength=len(distinct))
    common = held >= enough
    few = 2 < common.sum() <= _SET and bool((distinct == np.rint(distinct)).all())
    if not few or held[~common].sum() > _STRAYS * held.sum():
        return []
    common[held.argmax()] = False
    return [float(number) for number in distinct[common]]


def find_heaps(values: Floats, people: Floats, enough: float, most: int) -> list[float]:
    """Return up to ``most`` values that enough people hold, and far more than hold the others.

    Such as no gains, or 40 hours. None where fewer than two other values would be left.
    """
    distinct, place = np.unique(values, return_inverse=True)
    held: Floats = np.bincount(place, weights=people, minlength=len(distinct)).astype(float)
    total = float(held.sum())
    usual = (total - held) / max(len(distinct) - 1, 1)
    heaps = held >= max(enough - _SLACK, _COMMON * total)
    heaps &= held > _STANDS_OUT * usual
    chosen = np.flatnonzero(heaps)
    chosen = chosen[np.argsort(-held[chosen], kind="stable")][:most]
    rest = len(distinct) - len(chosen) >= 2 and total - held[chosen].sum() >= _SOME
    return sorted(distinct[chosen].tolist()) if rest else []
