"""A file read in the types of another table.

Text has no types: a column of post codes is read as whole numbers where by chance none begins
with a zero, and days of a small file may be months. Where two tables belong together, the first
says what the columns of the second are, as far as the values of the second allow it.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from tulle.tables.csv_reader import CsvPlan, csv_frames, plan_csv
from tulle.tables.formats import Format, Source, existing_file, format_of
from tulle.tables.ndjson_reader import NdjsonPlan, ndjson_frames, plan_ndjson
from tulle.tables.reading import read_table
from tulle.tables.text_types import ColumnGuess, TextType, clean, named

_WORDS = (pl.String, pl.Categorical, pl.Enum)
_DAYS = (pl.Date, pl.Datetime)
_WITHOUT_TYPES = (Format.CSV, Format.NDJSON)  # NDJSON has no dates


def read_like(
    source: Source, model: pl.DataFrame, origin: Source, columns: list[str] | None = None
) -> pl.DataFrame:
    """A whole table, its columns in the types of those of ``model``, which was read from
    ``origin``; columns whose values do not allow it keep the type they were read in.
    """
    table = read_table(source, columns)
    odd = [
        name
        for name in table.columns
        if name in model.columns and _differ(table.schema[name], model.schema[name])
    ]
    if not odd or format_of(source) not in _WITHOUT_TYPES:
        return table
    texts, forms = _texts(source, odd), _forms(origin)
    found = [_taken(texts[name], model.schema[name], forms.get(name)) for name in odd]
    return table.with_columns(series for series in found if series is not None)


def codes_as_text(
    tables: list[pl.DataFrame], sources: Iterable[Source], names: Iterable[str]
) -> list[pl.DataFrame]:
    """The tables, with the named columns as text where one of the tables has them as text.

    Only whole numbers from CSV are told as they were written; others stay what they are.
    """
    typed = any(format_of(source) is not Format.CSV for source in sources)
    mixed = [
        name
        for name in names
        if not typed and any(table.schema.get(name) == pl.String for table in tables)
    ]
    return [
        table.with_columns(
            table[name].cast(pl.String)
            for name in mixed
            if name in table.columns and table.schema[name].is_integer()
        )
        for table in tables
    ]


def _differ(a: pl.DataType, b: pl.DataType) -> bool:
    """Whether two types are of different sorts: numbers are one sort, so are days and moments."""
    alike = (a.is_numeric() and b.is_numeric()) or any(
        isinstance(a, sort) and isinstance(b, sort) for sort in (_WORDS, _DAYS)
    )
    return not alike and a.base_type() != b.base_type()


def _texts(source: Source, names: list[str]) -> pl.DataFrame:
    """Columns as they are written."""
    plan = _plan(source)
    for name in names:
        plan.guesses[name] = ColumnGuess(())
    if isinstance(plan, CsvPlan):
        return pl.concat(csv_frames(plan, names))
    return pl.concat(ndjson_frames(plan, names))


def _forms(origin: Source) -> dict[str, TextType | None]:
    """How the texts of the model were read."""
    if format_of(origin) not in _WITHOUT_TYPES:
        return {}
    return {name: guess.result for name, guess in _plan(origin).guesses.items()}


def _plan(source: Source) -> CsvPlan | NdjsonPlan:
    plan = plan_csv if format_of(source) is Format.CSV else plan_ndjson
    return plan(existing_file(source))


def _taken(texts: pl.Series, dtype: pl.DataType, form: TextType | None) -> pl.Series | None:
    """The texts in the type of the model; None if they do not allow it."""
    if isinstance(dtype, _WORDS):
        return texts
    if form is None or texts.dtype != pl.String:
        return None
    column = clean(named(texts.name))
    written = texts.to_frame().select(column).to_series().drop_nulls()
    if not form.fits(written.alias("")):
        return None
    return texts.to_frame().select(form.read(column)).to_series()
