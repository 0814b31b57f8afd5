"""The types of fields: how they are told from initial values, and how columns are read.

Reasons to refuse a record name the column and what was expected, never what was found.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.tables.number_facts import EXACT
from tulle.tables.schema import Kind
from tulle.tables.text_types import ALL, TEMPORAL, WITH_COMMA, ColumnGuess, TextType, clean, named

PLAIN: dict[str, pl.DataType] = {
    "integer": pl.Int64(),
    "decimal": pl.Float64(),
    "boolean": pl.Boolean(),
}
_PYTHON: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "decimal": (int, float),
    "boolean": (bool,),
    "text": (str, int, float, bool),
}
Reasons = dict[int, str]  # by the place of the record


@dataclass(frozen=True)
class FieldType:
    """The type of one column: a plain one, text, or a date or time written in some form."""

    name: str  # "integer", "decimal", "decimal comma", "boolean", "text", or of a date or time
    form: int = -1  # of a date or time: its place in ALL

    @property
    def known(self) -> bool:
        """Whether this version of Tulle has the type (it may come from a saved state)."""
        if self.form < 0:
            return self.name in _PYTHON or self.name == WITH_COMMA.name
        return self.form < len(ALL) and ALL[self.form].name == self.name

    def read(self, values: pl.Series, reasons: Reasons) -> pl.Series:
        """Typed values of a column of texts; a text that is not of this type gets a reason."""
        if self.name == "text":
            return values
        found = ALL[self.form] if self.form >= 0 else _plain_type(self.name)
        column = named(values.name)
        if self.name != "boolean":  # whose reader takes every text for a truth value
            typed = values.to_frame().select(found.read(column)).to_series()
            if typed.null_count() == values.null_count():
                return typed
        column = clean(column)
        read = found.read(column)
        if self.name == "boolean":
            read = pl.when(column.str.to_lowercase().is_in(["true", "false"])).then(read)
        columns = values.to_frame().select(read.alias("typed"), column.alias("texts"))
        typed, texts = columns.get_columns()
        for place in (typed.is_null() & texts.is_not_null()).arg_true():
            reasons.setdefault(place, f"column '{values.name}' is no {self.name}")
        return typed.alias(values.name)

    def check(self, name: str, values: list[Any], reasons: Reasons) -> pl.Series:
        """A column of values of JSON, which must have this type; dates and times stay texts."""
        if self.name not in _PYTHON:
            words = _only(name, (str,), "a text", values, reasons)
            return pl.Series(name, words, dtype=pl.String)
        values = _only(name, _PYTHON[self.name], self.name, values, reasons)
        if self.name == "text":
            words = [v if v is None or type(v) is str else json.dumps(v) for v in values]
            return pl.Series(name, words, dtype=pl.String)
        largest = EXACT if self.name == "integer" else sys.float_info.max
        for place, value in enumerate(values):
            if value is not None and not abs(value) <= largest:
                reasons.setdefault(place, f"column '{name}' is too large a number")
                values[place] = None
        return pl.Series(name, values, dtype=PLAIN[self.name])


def declared_type(kind: Kind | None, guessed: FieldType, values: list[Any]) -> FieldType:
    """The type that a policy asks for; dates and decimals come in many forms: as guessed."""
    if kind is None or kind is Kind.DATETIME:
        return guessed
    if kind in (Kind.CATEGORY, Kind.TEXT):
        words = all(value is None or isinstance(value, str) for value in values)
        return FieldType("text") if words else guessed
    if kind is Kind.DECIMAL and guessed.name == WITH_COMMA.name:
        return guessed
    return FieldType(kind.value)


def type_of_texts(name: str, values: list[str | None], separator: str) -> FieldType:
    """The type of a column of CSV."""
    return _guessed(ColumnGuess((*ALL, WITH_COMMA) if separator == ";" else ALL), name, values)


def type_of_json(name: str, values: list[Any]) -> FieldType:
    """The type of a column of JSON: numbers that are written as texts stay texts."""
    kinds = {type(value) for value in values if value is not None}
    for word in ("boolean", "integer", "decimal"):
        if kinds and kinds <= set(_PYTHON[word]):
            return FieldType(word)
    if kinds - {str, int, float, bool}:
        raise DataError(f"column '{name}' holds lists or objects: flatten it first")
    if kinds != {str}:
        return FieldType("text")
    return _guessed(ColumnGuess(TEMPORAL), name, values)


def _guessed(guess: ColumnGuess, name: str, values: list[str | None]) -> FieldType:
    guess.update(pl.Series(name, values, dtype=pl.String))
    found = guess.result
    if found is None:
        return FieldType("text")
    plain = found.name in PLAIN or found is WITH_COMMA
    return FieldType(found.name, -1 if plain else ALL.index(found))


def _plain_type(name: str) -> TextType:
    return next(found for found in (*ALL, WITH_COMMA) if found.name == name)


def _only(
    name: str, allowed: tuple[type, ...], word: str, values: list[Any], reasons: Reasons
) -> list[Any]:
    """The values of the allowed types; the others become None and get a reason."""
    fine = {type(None), *allowed}
    kept = list(values)
    if {type(value) for value in values} <= fine:
        return kept
    for place, value in enumerate(values):
        if type(value) not in fine:
            reasons.setdefault(place, f"column '{name}' is no {word}")
            kept[place] = None
    return kept
