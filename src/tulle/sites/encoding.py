"""One column to codes and back. What is coded is decoded again before anything leaves."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError, PrivacyError
from tulle.sites import grading
from tulle.sites.columns import PARTS, WHOLE, Aliased, Graded, Joint, ValueType
from tulle.sites.numbers import Floats, from_numbers, numbers_of
from tulle.sites.texts import from_text, present, texts_of
from tulle.sites.vocabulary import OTHER, Vocabulary

# -- numbers and dates ------------------------------------------------------------------------


def encode_graded(series: pl.Series, column: Graded, outside: str) -> pl.Series:
    """Codes of a column of numbers or dates; missing stays missing."""
    numbers = numbers_of(series, column)
    beyond = int(np.count_nonzero((numbers < column.low) | (numbers > column.high)))
    if beyond and outside == "error":
        raise DataError(
            f"column '{column.name}': {beyond} values lie outside the agreed range. Correct them, "
            "agree on a wider range, or clamp them (outside='clamp', --clamp)"
        )
    numbers = np.clip(numbers, column.low, column.high)
    codes = grading.grade(numbers, column.scale)
    _check_codes(numbers, codes, column)
    coded = pl.Series(column.name, codes)
    return coded.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.Float64))


def decode_graded(series: pl.Series, column: Graded, dtype: Any) -> pl.Series:
    """The numbers or dates of a column of codes."""
    if not (series.dtype.is_numeric() or series.dtype == pl.Null):
        raise DataError(
            f"column '{column.name}' holds {series.dtype.base_type()}, not codes of the agreement"
        )
    if series.dtype == pl.Float32 and column.type in WHOLE and not column.in_single_precision:
        raise DataError(
            f"column '{column.name}': the miner rounded its codes to single precision, which does "
            "not tell its values apart: ask for double precision"
        )
    codes = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    strange = int(np.count_nonzero(~grading.is_code(codes, column.scale)))
    numbers = grading.ungrade(codes, column.scale)
    if column.type in WHOLE:
        rounded = np.round(numbers)
        off = np.abs(rounded - numbers)
        # miners print and store fewer digits; a mean of codes is further off than that
        room = max(1e-2, column.tolerance)
        strange += int(np.count_nonzero(off[~np.isnan(off)] > room))
        numbers = rounded
    if strange:
        raise DataError(
            f"column '{column.name}': {strange} numbers are no codes of this agreement. Means of "
            "codes are decoded by decode_centers (--kind centers)"
        )
    return from_numbers(numbers, series.is_null(), column, dtype)


def _check_codes(numbers: Floats, codes: Floats, column: Graded) -> None:
    """Fails closed: every code must lead back to its number."""
    back = grading.ungrade(codes, column.scale)
    room = 0.499 if column.type in WHOLE else 2 * column.tolerance
    lost = int(np.count_nonzero(np.abs(back - numbers) > room))
    if lost:
        raise PrivacyError(f"column '{column.name}': {lost} values have no exact code")


# -- aliases ---------------------------------------------------------------------------------


def encode_keyed(series: pl.Series, column: Aliased, words: Vocabulary) -> pl.Series:
    """Keyed aliases, hashed once for each distinct value."""
    distinct, index = _indexed(present(series))
    aliases = words.aliases(column.name, texts_of(distinct, column.type))
    return pl.Series(aliases, dtype=pl.String).gather(index)


def encode_listed(series: pl.Series, column: Aliased, words: Vocabulary) -> pl.Series:
    """Aliases of a negotiated table."""
    distinct, index = _indexed(present(series))
    known = dict(zip(*words.table(column.name).select("text", "alias").get_columns()))
    texts = texts_of(distinct, column.type)
    listed = set(column.categories or ())
    unlisted = [text for text in texts if text not in listed]
    if unlisted and not column.other:
        # The one message that shows values: the site must take them up with the others.
        shown = ", ".join(repr(text) for text in sorted(unlisted)[:3])
        more = f" and {len(unlisted) - 3} more" if len(unlisted) > 3 else ""
        raise DataError(
            f"column '{column.name}': the agreed table has no alias for {shown}{more}. Agree on a "
            "table with them, on an 'other' alias, or on keyed aliases"
        )
    aliases = [known[text if text in listed else OTHER] for text in texts]
    return pl.Series(aliases, dtype=pl.String).gather(index)


def encode_split(
    series: pl.Series, column: Aliased, words: Vocabulary, rng: np.random.Generator
) -> pl.Series:
    """Several aliases for each frequent value, one of them drawn for each row.

    Rows do not take turns: aliases that are equally common would be known to be of one value.
    """
    distinct, index = _indexed(present(series))
    texts = texts_of(distinct, column.type)
    place = index.fill_null(0).to_numpy()
    counts = np.bincount(place[index.is_not_null().to_numpy()], minlength=max(len(texts), 1))
    shares = counts / max(1, counts.sum())
    parts = np.clip(np.ceil(shares / (column.split or 1.0)), 1, PARTS).astype(np.int64)
    table = [words.aliases(column.name, texts, part) for part in range(int(parts.max()))]
    drawn = np.floor(rng.random(len(place)) * parts[place]).astype(np.int64)
    flat = pl.Series([alias for part in table for alias in part], dtype=pl.String)
    row = pl.Series(drawn * len(texts) + place).cast(pl.UInt32)
    return flat.gather(row.zip_with(index.is_not_null(), pl.Series([None], dtype=pl.UInt32)))


def encode_joint(frame: pl.DataFrame, column: Joint, words: Vocabulary) -> pl.Series:
    """One alias for a pair of values; missing only where both are."""
    _, index = _pairs(frame, column)
    texts = distinct_texts(frame, column)
    return pl.Series(words.aliases(column.name, texts), dtype=pl.String).gather(index)


def distinct_texts(frame: pl.DataFrame, column: Aliased | Joint) -> list[str]:
    """The distinct values of an aliased column, as text."""
    if isinstance(column, Aliased):
        return texts_of(_indexed(present(frame[column.name]))[0], column.type)
    pairs, _ = _pairs(frame, column)
    sides = [_texts_or_none(pairs[name], type) for name, type in zip(column.pair, column.types)]
    return [json.dumps(pair, ensure_ascii=False) for pair in zip(*sides)]


def decode_aliased(
    series: pl.Series, column: Aliased, words: Vocabulary, dtype: Any
) -> tuple[pl.Series, int]:
    """The values of a column of aliases, and how many cells hold an alias nobody here knows."""
    texts, unknown, index = _texts_of_aliases(series, words.table(column.name))
    unread = int(unknown.gather(index.drop_nulls()).sum())
    values = texts if unread else from_text(texts, column.type, dtype)
    return values.gather(index).alias(column.name), unread


def decode_foreign(
    series: pl.Series, words: Vocabulary, pattern: re.Pattern[str] | None
) -> tuple[pl.Series, int]:
    """A column of text that the miner added: its aliases are decoded, other text is kept."""
    texts, unknown, index = _texts_of_aliases(series, words.everything())
    if pattern is None:
        return series, 0
    looks = [pattern.fullmatch(text) is not None for text in texts]
    unread = int((unknown & pl.Series(looks, dtype=pl.Boolean)).gather(index.drop_nulls()).sum())
    return texts.gather(index).alias(series.name), unread


def decode_joint(
    series: pl.Series, column: Joint, words: Vocabulary, dtypes: list[Any]
) -> tuple[list[pl.Series], int]:
    """The two columns of a column of joint aliases; an unknown alias appears in both."""
    texts, unknown, index = _texts_of_aliases(series, words.table(column.name))
    count = int(unknown.gather(index.drop_nulls()).sum())
    pairs = [(text, text) if strange else json.loads(text) for text, strange in zip(texts, unknown)]
    decoded = []
    for side, name in enumerate(column.pair):
        values = pl.Series(name, [pair[side] for pair in pairs], dtype=pl.String)
        if not count:
            values = from_text(values, column.types[side], dtypes[side])
        decoded.append(values.gather(index).alias(name))
    return decoded, count


def _indexed(series: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The distinct values, and for each row the place of its value (null if missing)."""
    distinct = series.drop_nulls().unique()
    if isinstance(distinct.dtype, pl.Categorical | pl.Enum):
        series, distinct = series.cast(pl.String), distinct.cast(pl.String)
    places = pl.Series(np.arange(len(distinct), dtype=np.uint32))
    if distinct.is_empty():
        return distinct, pl.Series([None] * len(series), dtype=pl.UInt32)
    return distinct, series.replace_strict(distinct, places, default=None, return_dtype=pl.UInt32)


def _pairs(frame: pl.DataFrame, column: Joint) -> tuple[pl.DataFrame, pl.Series]:
    """The distinct pairs, and for each row the place of its pair (null if both are missing)."""
    pair = pl.DataFrame([present(frame[name]) for name in column.pair])
    present_rows = ~pl.all_horizontal(pl.all().is_null())
    distinct = pair.filter(present_rows).unique(maintain_order=True).with_row_index("__place")
    placed = pair.join(
        distinct, on=list(column.pair), how="left", nulls_equal=True, maintain_order="left"
    )
    return distinct, placed["__place"]


def _texts_of_aliases(
    series: pl.Series, known: pl.DataFrame
) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Distinct texts, which of them are aliases still, and the place of each row's text."""
    distinct, index = _indexed(series.cast(pl.String))
    texts = distinct.replace_strict(
        known["alias"], known["text"], default=None, return_dtype=pl.String
    )
    unknown = texts.is_null()
    return texts.fill_null(distinct), unknown, index


def _texts_or_none(values: pl.Series, type: ValueType) -> list[str | None]:
    found: list[str | None] = [None] * len(values)
    rows: NDArray[np.int64] = np.flatnonzero(values.is_not_null().to_numpy())
    for row, text in zip(rows, texts_of(values.drop_nulls(), type)):
        found[row] = text
    return found
