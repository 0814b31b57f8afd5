"""One column, looked at: read as numbers, dates or text, and counted.

Text is read in all the ways people write numbers and dates. What is left over is a code if enough
people share it or if it is a word for "missing"; else it is counted and never shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._people import surely_enough
from tulle._types import Floats
from tulle.table._date_format import read_dates, read_whole_dates
from tulle.table._number_format import NumberFormat, read_numbers
from tulle.table._words import topics_of, vocabulary

FEW = 20  # different values that a class or a code may have

_EXACT = 2**53
_STRAY = 0.05  # of the numbers: texts among them that may be slips
_DATES = 0.8  # of the texts that have to be dates
_NAMED_DATES = 0.5  # ... if the name says date
_CODES = 6  # different texts among numbers that may be codes
_MANY = 20  # different values from which it is counted how many people hold each
_EXPONENT = r"^-?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"


@dataclass(frozen=True)
class NumberCode:
    """A number that is probably a code."""

    value: float
    rows: int
    reason: str


@dataclass(frozen=True)
class Look:
    """What a column holds.

    Parameters
    ----------
    texts : the values that are not missing, if they are text
    numbers : the same length as the column, null where there is no number; codes are numbers here
    times : dates or points in time, null where there is none
    absent : records without a value (missing, or a word for it)
    words : texts for missing values that occur among numbers or dates
    codes : other texts among numbers that at least k people share
    unread : texts among numbers or dates that were not understood
    number_codes : numbers that are probably codes
    rare_values, rare_rows : values that a release may not show for the few people who hold them,
        if there are many values
    """

    name: str
    topics: dict[str, str]
    records: int
    absent: int
    distinct: int
    texts: pl.Series | None = None
    numbers: pl.Series | None = None
    times: pl.Series | None = None
    boolean: bool = False
    opaque: bool = False
    number_format: NumberFormat | None = None
    other_forms: int = 0
    date_formats: tuple[str, ...] = ()
    ambiguous: int = 0
    words: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    unread: int = 0
    number_codes: tuple[NumberCode, ...] = field(default=())
    k: int = 1
    rare_values: int = 0
    rare_rows: int = 0

    @property
    def present(self) -> int:
        return self.records - self.absent

    @property
    def special(self) -> tuple[str | float, ...]:
        """What stands for missing among numbers, answers or dates."""
        numbers = (code.value for code in self.number_codes)
        return (*self.words, *(int(value) if value.is_integer() else value for value in numbers))

    @property
    def number_form(self) -> str:
        """How numbers are written, unless any program would write them so."""
        form = self.number_format
        return "" if form is None or form.plain else form.example

    @property
    def date_form(self) -> str:
        """How most dates are written; empty if they are not text."""
        return self.date_formats[0] if self.date_formats else ""

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole and exact."""
        if self.numbers is None:
            return False
        if self.numbers.dtype.is_integer():
            return True
        values = self.numbers.drop_nulls()
        return bool((values == values.round()).all() and (values.abs() < _EXACT).all())

    def quantity(self) -> pl.Series:
        """Return the numbers without missing values and codes."""
        assert self.numbers is not None
        values = self.numbers.drop_nulls()
        special = [code.value for code in self.number_codes]
        return values.filter(~values.cast(pl.Float64).is_in(special)) if special else values


def look_at(series: pl.Series, k: int, people: pl.Series | None = None) -> Look:
    """Read a column and count what it holds."""
    look = _read_column(series, k, people)
    discrete = (look.times is None and look.numbers is None) or look.whole
    if look.opaque or not discrete or look.distinct <= _MANY:
        return look
    values = series.fill_nan(None) if series.dtype.is_float() else series
    rare = held_by(values, people).filter(pl.col("people") < surely_enough(k))
    return replace(look, k=k, rare_values=len(rare), rare_rows=int(rare["rows"].sum()))


def _read_column(series: pl.Series, k: int, people: pl.Series | None) -> Look:
    name, topics, dtype = series.name, topics_of(series.name), series.dtype
    records = len(series)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        return Look(name, topics, records, series.null_count(), 0, opaque=True)
    if dtype.is_float():
        series = series.fill_nan(None)
    absent = series.null_count()
    distinct = series.drop_nulls().n_unique()
    if dtype == pl.Boolean or dtype == pl.Null:
        return Look(name, topics, records, absent, distinct, boolean=dtype == pl.Boolean)
    if dtype.is_temporal():
        return Look(name, topics, records, absent, distinct, times=series)
    if dtype.is_integer() and _is_beyond(series):
        return _look_at_text(series.cast(pl.String), topics, k, people)  # as long accounts are
    if dtype.is_decimal():
        series = series.cast(pl.Float64)
    if dtype.is_numeric():
        return _look_at_numbers(Look(name, topics, records, absent, distinct, numbers=series), k)
    texts = series.cast(pl.String).str.strip_chars()
    texts = texts.to_frame("t").select(pl.when(pl.col("t") != "").then("t")).to_series()
    return _look_at_text(texts.alias(name), topics, k, people)


def _is_beyond(series: pl.Series) -> bool:
    """Return whether whole numbers are too large to be exact as floating point."""
    bounds = [int(bound) for bound in (series.min(), series.max()) if bound is not None]  # type: ignore[arg-type]
    return any(abs(bound) >= _EXACT for bound in bounds)


def held_by(values: pl.Series, people: pl.Series | None) -> pl.DataFrame:
    """Count rows and people of each value, the most common first."""
    person = pl.Series(np.arange(len(values))) if people is None else people
    table = pl.DataFrame({"value": values, "person": person}).drop_nulls("value")
    counted = table.group_by("value").agg(
        pl.len().alias("rows"), pl.col("person").n_unique().alias("people")
    )
    return counted.sort("rows", "value", descending=[True, False])


# -- text -------------------------------------------------------------------------------------


def _look_at_text(
    texts: pl.Series, topics: dict[str, str], k: int, people: pl.Series | None
) -> Look:
    missing = texts.str.to_lowercase().is_in(list(vocabulary().missing)).fill_null(True)
    real = texts.to_frame("t").select(pl.when(~missing).then("t")).to_series().alias(texts.name)
    if real.null_count() < len(real):
        for read in (_as_boolean, _as_numbers, _as_times):
            look = read(texts, real, topics, k, people)
            if look is not None:
                return look
    absent = texts.null_count()
    present = texts.drop_nulls()
    return Look(texts.name, topics, len(texts), absent, present.n_unique(), texts=texts)


def _as_boolean(
    texts: pl.Series, real: pl.Series, topics: dict[str, str], k: int, people: pl.Series | None
) -> Look | None:
    if not real.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return None
    distinct = real.drop_nulls().n_unique()
    words = _words_in(texts, real)
    return Look(
        texts.name, topics, len(texts), real.null_count(), distinct, boolean=True, words=words
    )


def _as_numbers(
    texts: pl.Series, real: pl.Series, topics: dict[str, str], k: int, people: pl.Series | None
) -> Look | None:
    """Read a column as numbers with codes; None if too much of it is something else."""
    if real.str.contains(r"^[-+]?0[0-9]+$|^\+").any():
        return None  # leading zeros and pluses would be lost
    reading = read_numbers(real)
    if reading is None:
        return None
    powers = real.to_frame("t").select(pl.when(pl.col("t").str.contains(_EXPONENT)).then("t"))
    values = reading.values.zip_with(
        reading.values.is_not_null(), powers.to_series().cast(pl.Float64, strict=False)
    )
    if (values.abs() >= _EXACT).any():
        return None
    strange = real.is_not_null() & values.is_null()
    held = held_by(real.to_frame("t").select(pl.when(strange).then("t")).to_series(), people)
    shared = held.filter(pl.col("people") >= k)
    slips = int(held.filter(pl.col("people") < k)["rows"].sum())
    read, different = len(values) - values.null_count(), values.drop_nulls().n_unique()
    if slips > _STRAY * read or len(shared) > min(_CODES, different - 1):
        return None
    look = Look(
        texts.name,
        topics,
        len(texts),
        real.null_count(),
        different,
        texts=texts,
        numbers=values,
        number_format=reading.format,
        other_forms=reading.other_forms,
        words=_words_in(texts, real),
        codes=tuple(shared["value"].to_list()),
        unread=slips,
    )
    return _look_at_numbers(look, k)


def _as_times(
    texts: pl.Series, real: pl.Series, topics: dict[str, str], k: int, people: pl.Series | None
) -> Look | None:
    """Read a column as dates or times of day; what is neither is counted."""
    present = len(real) - real.null_count()
    least = _NAMED_DATES if topics.keys() & {"date", "birth"} else _DATES
    words = _words_in(texts, real)
    reading = read_dates(real)
    if reading is None:
        return None
    times, ambiguous = reading.values, reading.ambiguous
    forms = tuple(form for form, rows in reading.formats if rows >= k) or (reading.format,)
    read = len(times) - times.null_count()
    if read < least * present:
        return None
    absent, different = real.null_count(), times.drop_nulls().n_unique()
    return Look(
        texts.name, topics, len(texts), absent, different, texts=texts, times=times,
        date_formats=forms, ambiguous=ambiguous, words=words, unread=present - read,
    )  # fmt: skip


def _words_in(texts: pl.Series, real: pl.Series) -> tuple[str, ...]:
    """Return the words for missing values that occur; they are public, however few there are."""
    words = texts.filter(texts.is_not_null() & real.is_null()).alias("word")
    counted = words.value_counts(name="n").sort("n", "word", descending=[True, False])
    return tuple(counted["word"].to_list())


# -- numbers ----------------------------------------------------------------------------------


def _look_at_numbers(look: Look, k: int) -> Look:
    """Find days written as whole numbers, and numbers that are codes."""
    assert look.numbers is not None
    if look.whole and look.present:
        dated = bool(look.topics.keys() & {"date"})
        days = read_whole_dates(look.numbers.cast(pl.Int64), named=dated)
        if days is not None and look.distinct > 1:
            return replace(look, numbers=None, times=days[0], date_formats=(days[1],))
    counts = bool(look.topics.keys() & {"count"})
    return replace(look, number_codes=tuple(find_codes(look.numbers, k, is_count=counts)))


# Numbers that are codes: 9999 for "not measured", 9 after answers from 1 to 5, -1, 98 and 99. A
# code is found by its look (nines, or a negative among positive numbers) and by its distance from
# the other values; how often it occurs decides where the look is weak.

_FAMILY = 4  # codes that stand together: 96, 97, 98, 99
_TENTH, _THIRD = 0.1, 0.3


def find_codes(values: pl.Series, k: int, *, is_count: bool = False) -> list[NumberCode]:
    """Find the codes among numbers, each with its reason.

    ``is_count`` says that the column counts something: then a large value may be a large family.

    Examples
    --------
    >>> crp = pl.Series([3.5, 12.0, 88.1, 140.2, 9999.0, 9999.0] * 5)
    >>> [(code.value, code.reason) for code in find_codes(crp, 5)]
    [(9999.0, 'repeated nines far above all other values')]
    >>> answers = pl.Series([1, 2, 3, 4, 5, 9] * 10)
    >>> [code.value for code in find_codes(answers, 5)]
    [9.0]
    """
    table = values.cast(pl.Float64).fill_nan(None).drop_nulls().alias("v").value_counts(name="n")
    table = table.sort("v")
    different, counts = table["v"].to_numpy(), table["n"].to_numpy()
    return [
        *_low_codes(different, counts, k),
        *_high_codes(different, counts, k, is_count=is_count),
    ]


def _low_codes(different: Floats, counts: NDArray[np.uint32], k: int) -> list[NumberCode]:
    """Find a few negative whole numbers below values that are never negative.

    Codes count down from -1 or up from -9: where -2 and -6 stand without -1 and -5, they are
    differences.
    """
    negative = int((different < 0).sum())
    if not 1 <= negative <= _FAMILY or len(different) - negative < 2:
        return []
    middle = [value for value in different[:negative].tolist() if -7 < value < -1]
    if negative > 1 and any(value + 1 not in different for value in middle):
        return []
    found = []
    for value, rows in zip(different[:negative], counts[:negative], strict=True):
        look = float(value).is_integer() and (value >= -9 or _digits(-value) <= set("789"))
        if look and rows >= (k if value >= -9 else 2):
            reason = "a negative number where all others are positive"
            found.append(NumberCode(float(value), int(rows), reason))
    return found if len(found) == negative else []


def _high_codes(
    different: Floats, counts: NDArray[np.uint32], k: int, *, is_count: bool
) -> list[NumberCode]:
    """Find nines (and 7, 8 next to them) above a gap."""
    for size in range(min(_FAMILY, len(different) - 2), 0, -1):
        codes, rest = different[-size:], different[:-size]
        rows = counts[-size:]
        if not _is_family(codes) or not _is_apart(codes, rest):
            continue
        if _is_frequent(codes, rows, counts[:-size], k, is_count=is_count):
            far = "repeated nines far above all other values"
            reason = far if codes[-1] > 99 else "a nine after a gap: often 'no answer'"
            return [NumberCode(float(v), int(n), reason) for v, n in zip(codes, rows, strict=True)]
    return []


def _is_family(codes: Floats) -> bool:
    """Return whether numbers are 9, 99, 99.9, ... or 97, 98, 99 or 7, 8, 9 together."""
    last = _text(codes[-1]).replace(".", "")
    if not (set(last) == {"9"} or (set(last[:-1]) == {"9"} and last[-1] in "678")):
        return False
    if len(codes) == 1:
        return True
    same = all(len(_text(code)) == len(_text(codes[-1])) for code in codes)
    ends = all(_digits(code) <= set("6789") for code in codes)
    return bool(same and ends and np.all(codes == np.round(codes)))


def _is_apart(codes: Floats, rest: Floats) -> bool:
    """Return whether a gap lies between the codes and the rest, wide for their size."""
    gap, width = codes[0] - rest[-1], rest[-1] - rest[0]
    if codes[-1] < 10:  # 9 after 1 to 5: the rest are whole numbers without a gap
        steps = np.diff(rest)
        return bool(gap >= 2 and rest[0] >= 0 and len(rest) >= 2 and np.all(steps == 1))
    if codes[-1] < 100:
        return bool(gap >= max(2.0, _TENTH * width) and rest[0] >= 0)
    return bool(gap >= max(2.0, _THIRD * width))


def _is_frequent(
    codes: Floats, rows: NDArray[np.uint32], others: NDArray[np.uint32], k: int, *, is_count: bool
) -> bool:
    """Return whether codes occur as often as codes do: a single nine may be a value."""
    if codes[-1] > 999:
        return True
    if codes[-1] > 99:
        return bool(rows.sum() >= 2)
    tail = others[-3:].mean()
    falling = len(others) >= 4 and others[-1] <= others.max() / 10  # the tail of a quantity
    if is_count or falling or codes[-1] > 9:
        return bool(rows.sum() >= k and rows.sum() >= 2 * tail)
    return bool(rows.sum() >= k)


def _text(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def _digits(value: float) -> set[str]:
    return set(_text(value).replace(".", ""))
