"""One column, looked at: read as numbers, dates or text, and counted.

Text is read in all the ways people write numbers and dates. What is left over is a code if enough
people share it or if it is a word for "missing"; else it is counted and never shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tulle.table._codes import NumberCode, find_codes
from tulle.table._date_format import read_dates, read_whole_dates
from tulle.table._number_format import NumberFormat, read_numbers
from tulle.table._words import topics_of, vocabulary

_EXACT = 2**53
_STRAY = 0.05  # of the numbers: texts among them that may be slips
_DATES = 0.8  # of the texts that have to be dates
_NAMED_DATES = 0.5  # ... if the name says date
_CODES = 6  # different texts among numbers that may be codes
_MANY = 20  # different values from which it is counted how many people hold each
_EXPONENT = r"^-?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"
_CLOCK = "^[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?$"


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
    rare_values, rare_rows : values that fewer than k people hold, if there are many values
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
    def whole(self) -> bool:
        """Return whether all numbers are whole and exact."""
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
    rare = held_by(values, people).filter(pl.col("people") < k)
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
    if real.drop_nulls().str.contains(_CLOCK).all():
        clock = real.str.strptime(pl.Time, "%H:%M:%S", strict=False)
        short = real.str.strptime(pl.Time, "%H:%M", strict=False)
        times = clock.zip_with(clock.is_not_null(), short)
        forms: tuple[str, ...] = ("%H:%M:%S",) if clock.null_count() < len(clock) else ("%H:%M",)
        ambiguous = 0
    else:
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
        days = read_whole_dates(look.numbers.cast(pl.Int64))
        if days is not None and look.distinct > 1:
            return replace(look, numbers=None, times=days, date_formats=("%Y%m%d",))
    counts = bool(look.topics.keys() & {"count"})
    return replace(look, number_codes=tuple(find_codes(look.numbers, k, is_count=counts)))
