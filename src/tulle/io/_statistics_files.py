"""Files of SPSS, Stata and SAS, through pyreadstat: tables with labels and codes for no answer.

Values stay the codes that they are. What the file says of them (:class:`FileLabels`) goes into a
file of the same kind again: labels of columns and of values, which values stand for "no answer",
and how numbers are shown. Stata and SAS have missing values with a letter, ``.a`` to ``.z``: these
are read as whole numbers from -1,000,000,001 down. SAS transport files have no labels of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from tulle.errors import DataError
from tulle.io._formats import Format, extra_library, readable_as
from tulle.table._precision import EXACT

_LETTERS = -1_000_000_000  # .a is one less, .b two less
_MOST_CODES = 50  # of a column that stand for no answer
_LONGEST = {Format.SPSS: 64, Format.STATA: 32, Format.SAS: 32}  # characters of a name


@dataclass(frozen=True)
class ColumnLabels:
    label: str = ""
    values: Mapping[Any, str] = field(default_factory=dict)
    missing: tuple[tuple[Any, Any], ...] = ()  # ranges of values that stand for no answer
    format: str = ""

    def is_missing(self, value: Any) -> bool:
        return any(type(value) is type(low) and low <= value <= high for low, high in self.missing)

    def codes(self, series: pl.Series) -> tuple[Any, ...]:
        found = [v for v in series.drop_nulls().unique().sort() if self.is_missing(_alike(v))]
        return tuple(found[:_MOST_CODES])


@dataclass(frozen=True)
class FileLabels:
    """What a file says of its columns, in place of how CSV is written."""

    columns: Mapping[str, ColumnLabels]


def shown_in(written: Any, release: pl.DataFrame) -> Any:
    """Return only the labels of what a release has; how CSV is written stays as it is."""
    if not isinstance(written, FileLabels):
        return written
    shown = {}
    for name, own in written.columns.items():
        if name in release.columns:
            there = {_alike(value) for value in release[name].unique()}
            values = {value: text for value, text in own.values.items() if value in there}
            shown[name] = replace(own, values=values)
    return FileLabels(shown)


def read_statistics(path: Path, kind: Format) -> tuple[pl.DataFrame, FileLabels]:
    library = extra_library("pyreadstat", "stats", "SPSS, Stata and SAS")
    reader = {".dta": "read_dta", ".xpt": "read_xport", ".sas7bdat": "read_sas7bdat"}
    read = getattr(library, reader.get(path.suffix.lower(), "read_sav"))
    # of SAS transport files, letters are not told apart
    more = {} if path.suffix.lower() == ".xpt" else {"user_missing": True}
    with readable_as(path, kind):
        frame, meta = read(str(path), output_format="polars", **more)
        single = {name for name, type in meta.readstat_variable_types.items() if type == "float"}
        labels = {name: _labels_of(name, meta) for name in frame.columns}
        tidy = [_tidy(series, single=series.name in single) for series in frame]
    return pl.DataFrame(tidy), FileLabels(labels)


def put_statistics(frame: pl.DataFrame, file: BinaryIO, kind: Format, labels: Any) -> None:
    """Write a table into an open file, with the labels of its source if it has any."""
    known = labels.columns if isinstance(labels, FileLabels) else {}
    own = {name: known[name] for name in frame.columns if name in known}
    for name in frame.columns:
        if len(name) > _LONGEST[kind] or not name.isidentifier():
            raise DataError(
                f"the column name '{name}' is not one that {kind} takes: at most {_LONGEST[kind]} "
                "letters, digits and _; rename it, or write Parquet or CSV"
            )
    frame = frame.with_columns(_storable(series) for series in frame)
    texts = [own[name].label or None if name in own else None for name in frame.columns]
    target = f"/dev/fd/{file.fileno()}"  # the file has no name yet
    library = extra_library("pyreadstat", "stats", "SPSS, Stata and SAS")
    try:
        if kind is Format.STATA:
            told = {series.name: letters for series in frame if (letters := _letters(series))}
            library.write_dta(
                _with_letters(frame, told), target, version=15, column_labels=texts,
                variable_value_labels=_of_stata(own), missing_user_values=told,
            )  # fmt: skip
        elif kind is Format.SPSS:
            told = _of_spss(own)
            library.write_sav(_without_letters(frame), target, column_labels=texts, **told)
        else:
            library.write_xport(_without_letters(frame), target, column_labels=texts)
    except library.PyreadstatError as error:  # its words quote values
        raise DataError(f"the table cannot be written as {kind} ({type(error).__name__})") from None


def _of_spss(own: Mapping[str, ColumnLabels]) -> dict[str, Any]:
    """Return what SPSS can say of columns: it has no letters."""
    values = {
        name: {v: text for v, text in one.values.items() if _lettered(v) is v}
        for name, one in own.items()
    }
    ranges = {
        name: [low if low == high else {"lo": low, "hi": high} for low, high in one.missing]
        for name, one in own.items()
        if not any(_lettered(low) is not low for low, _ in one.missing)
    }
    return {
        "variable_value_labels": {name: found for name, found in values.items() if found},
        "missing_ranges": {name: found for name, found in ranges.items() if found},
        "variable_format": {n: one.format for n, one in own.items() if one.format[:1] == "F"},
    }


def _of_stata(own: Mapping[str, ColumnLabels]) -> dict[str, dict[Any, str]]:
    """Return the labels that Stata can have: of whole numbers and letters."""
    return {
        name: {int(v) if v is _lettered(v) else _lettered(v): text for v, text in found.items()}
        for name, one in own.items()
        if (found := {v: t for v, t in one.values.items() if isinstance(v, float) and v == int(v)})
    }


def _labels_of(name: str, meta: Any) -> ColumnLabels:
    ranges = [(one["lo"], one["hi"]) for one in meta.missing_ranges.get(name, ())]
    letters = [_number(one) for one in meta.missing_user_values.get(name, ())]
    texts = meta.readstat_variable_types.get(name) == "string"  # whose letters are values
    values = {
        _alike(value if texts else _number(value)): text
        for value, text in meta.variable_value_labels.get(name, {}).items()
    }
    return ColumnLabels(
        meta.column_names_to_labels.get(name) or "",
        values,
        tuple((_alike(low), _alike(high)) for low, high in (*ranges, *zip(letters, letters))),
        meta.original_variable_types.get(name) or "",
    )


def _tidy(series: pl.Series, *, single: bool) -> pl.Series:
    """Return a column in the type that its values have; files know floats, mostly."""
    if series.dtype == pl.Object:  # numbers and letters
        numbers = [None if value is None else _number(value) for value in series]
        series = pl.Series(series.name, numbers, dtype=pl.Float64, strict=False)
    if series.dtype == pl.String:
        return series.replace("", None)  # these files have no other missing text
    if not series.dtype.is_float():
        return series
    series = series.fill_nan(None)
    if ((series == series.round(0)) & (series.abs() < EXACT)).all():
        return series.cast(pl.Int64)
    return series.cast(pl.Float32) if single else series


def _storable(series: pl.Series) -> pl.Series:
    """Return a column in a type that the writers know; a short decimal stays short."""
    if series.dtype == pl.Float32:
        return series.cast(pl.String).cast(pl.Float64)
    if series.dtype in (pl.Boolean, pl.Decimal) or series.dtype.is_unsigned_integer():
        return series.cast(pl.Float64)
    if series.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return series.cast(pl.String)
    return series


def _number(value: Any) -> Any:
    """Return the number that stands for a letter; other values as they are."""
    if isinstance(value, str) and len(value) == 1 and value.isalpha():
        return float(_LETTERS - (ord(value.lower()) - 96))
    return value


def _lettered(value: Any) -> Any:
    """Return the letter that a number stands for; other values as they are."""
    place = _LETTERS - value if isinstance(value, float) else 0
    return chr(96 + int(place)) if 1 <= place <= 26 and place == int(place) else value


def _alike(value: Any) -> Any:
    """Return a value in which 5 and 5.0 are the same."""
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else value


def _letters(series: pl.Series) -> list[str]:
    if not series.dtype.is_numeric():
        return []
    found = {_lettered(_alike(value)) for value in series.drop_nulls().unique()}
    return sorted(value for value in found if isinstance(value, str))


def _with_letters(frame: pl.DataFrame, told: Mapping[str, list[str]]) -> pl.DataFrame:
    """Return the table as the writer takes it: letters stand among numbers."""
    series = [
        pl.Series(one.name, [_lettered(_alike(v)) for v in one], dtype=pl.Object)
        if one.name in told
        else one
        for one in frame
    ]
    return pl.DataFrame(series)


def _without_letters(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with nothing in place of a letter, which the format does not have."""
    return frame.with_columns(
        pl.when(~pl.col(one.name).is_between(_LETTERS - 26, _LETTERS - 1)).then(pl.col(one.name))
        for one in frame
        if _letters(one)
    )
