"""The column that names the person whom several rows belong to.

A patient with twelve visits is one person. Such a column has values that repeat; its name says
so, or rows with the same value agree in what does not change about a person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tulle.guessing._whole_numbers import WholeNumbers
from tulle.table._words import topics_of

_FEWEST = 5  # different people
_ROWS = 50  # rows that one person may have on average, if the name does not say person
_AGREE = 0.99  # of pairs of rows of one person that agree in what does not change
_CHANCE = 0.6  # of pairs of any rows that agree, at most, for agreement to say anything
_PAIRS = 20
_SAMPLE = 20_000


@dataclass(frozen=True)
class PersonColumn:
    """A column that is proposed for the role of the person."""

    name: str
    reason: str
    sure: bool


def find_person(frame: pl.DataFrame) -> PersonColumn | None:
    """Propose the column that names people with several rows, if there is one.

    Examples
    --------
    >>> visits = pl.DataFrame({"patient_id": [1, 1, 2, 3, 3, 4, 5, 6], "age": range(8)})
    >>> find_person(visits).name
    'patient_id'
    """
    named = [(rank, -i, s) for i, s in enumerate(frame) if (rank := _rank(s)) > 0]
    if named:
        rank, _, series = max(named, key=lambda one: one[:2])
        return PersonColumn(series.name, _reason(series), sure=True)
    for series in frame:
        if _may_be_unnamed(series):
            agreeing = _agreeing(frame, series)
            if len(agreeing) >= 2:
                shown = " and ".join(f"'{name}'" for name in agreeing[:2])
                why = f"rows with the same value always agree in {shown}"
                return PersonColumn(series.name, why, sure=False)
    return None


def _rank(series: pl.Series) -> float:
    """Return how clearly a column names people with several rows; 0 if it does not."""
    if not _can_name(series):
        return 0.0
    topics = topics_of(series.name).keys()
    present = series.drop_nulls()
    different = present.n_unique()
    if different < _FEWEST or different == len(present):
        return 0.0
    few_rows = len(present) <= _ROWS * different and different > 20
    if {"official_number", "contact"} & topics:
        return 2.5 if few_rows and "official_number" in topics else 0.0
    if "number" in topics and "count" not in _only(series.name):
        kind = 4.0 if "person" in topics else 3.0 if "household" in topics else 0.0
        if kind:
            return kind
        several = few_rows and (len(present) <= 10 * different or _are_balanced(present, different))
        return 2.0 if several and not topics & {"place", "code", "work", "date"} else 0.0
    if topics & {"person"} and not topics & {"count", "age", "sex", "measure", "money", "work"}:
        several = few_rows or _are_balanced(present, different)
        return 1.5 if several and _looks_like_codes(present) else 0.0
    return 0.0


def _are_balanced(present: pl.Series, different: int) -> bool:
    """Return whether ten or more values have about as many rows each, as people in a trial do."""
    most = present.alias("v").value_counts(name="n")["n"].max()
    return different >= 10 and int(most) <= 3 * len(present) / different  # type: ignore[arg-type]


def _only(name: str) -> set[str]:
    """Return the topics without those that the word for "number" alone brings about."""
    found = topics_of(name)
    if found.get("count") in ("number", "num", "no", "numero", "n"):
        return set(found) - {"count"}
    return set(found)


def _can_name(series: pl.Series) -> bool:
    return series.dtype.is_integer() or series.dtype in (pl.String, pl.Categorical, pl.Enum)


def _looks_like_codes(present: pl.Series) -> bool:
    """Return whether values are short texts with digits, or whole numbers that were given."""
    if present.dtype.is_integer():
        return not WholeNumbers.of(present.to_numpy()).measured
    text = present.cast(pl.String).head(2000)
    return bool((text.str.contains("[0-9]") & ~text.str.contains(" ")).mean() > 0.9)  # type: ignore[operator]


def _reason(series: pl.Series) -> str:
    present = series.drop_nulls()
    different, rows = present.n_unique(), len(present)
    return f"names the person of several rows: {different:,} different values in {rows:,} rows"


# -- columns whose names say nothing -------------------------------------------------------------


def _may_be_unnamed(series: pl.Series) -> bool:
    """Return whether values repeat as people with several rows do: often, and all about equally."""
    if not _can_name(series):
        return False
    known = topics_of(series.name).keys() - {"record"}
    if known:
        return False
    present = series.drop_nulls()
    different = present.n_unique() if len(present) else 0
    if different <= 50 or not 1.3 <= len(present) / different <= _ROWS:
        return False
    if not _looks_like_codes(present):
        return False
    counts = present.alias("v").value_counts(name="n")["n"]
    return bool(counts.max() <= 10 * len(present) / different)  # type: ignore[operator]


def _agreeing(frame: pl.DataFrame, series: pl.Series) -> list[str]:
    """Return the columns in which rows with the same value agree, and other rows do not."""
    order = pl.DataFrame({"id": series}).with_row_index("at").drop_nulls("id").sort("id", "at")
    order = order.head(_SAMPLE)
    same = (order["id"] == order["id"].shift(-1)).fill_null(False).to_numpy()
    if same.sum() < _PAIRS:
        return []
    rows = order["at"].to_numpy()
    first, second = rows[same.nonzero()[0]], rows[same.nonzero()[0] + 1]
    found = []
    for other in frame:
        if other.name == series.name or other.dtype.is_nested() or other.dtype.is_float():
            continue
        codes = other.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        shares = np.bincount(codes) / len(codes)
        if (shares**2).sum() <= _CHANCE and (codes[first] == codes[second]).mean() >= _AGREE:
            found.append(other.name)
    return found
