"""Lines to typed records; what does not fit is refused line by line, with a reason.

The initial lines settle the columns and their types; every later line must fit them. Reasons name
the column and what was expected, never what was found.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.tables.schema import Column, Kind
from tulle.tables.text_types import ALL, TEMPORAL, ColumnGuess, TextType, clean
from tulle.workflows.stream.lines import Line

_PLAIN: dict[str, pl.DataType] = {
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
_EXACT = 2**53
Row = dict[str, Any]


@dataclass(frozen=True)
class FieldType:
    """The type of one column: a plain one, text, or a date or time written in some form."""

    name: str  # "integer", "decimal", "boolean", "text", or that of a date or time
    form: int = -1  # of a date or time: its place in ALL

    def read(self, values: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Typed values, and which of the given texts are not of this type."""
        if self.name == "text":
            return values, pl.repeat(False, len(values), eager=True)
        column = clean(pl.col(values.name))
        found = ALL[self.form] if self.form >= 0 else _plain_type(self.name)
        read = found.read(column)
        if self.name == "boolean":
            read = pl.when(column.str.to_lowercase().is_in(["true", "false"])).then(read)
        columns = values.to_frame().select(read.alias("typed"), column.alias("texts"))
        typed, texts = columns.get_columns()
        return typed.alias(values.name), typed.is_null() & texts.is_not_null()


class RecordReader:
    """Reads lines of CSV or NDJSON once :meth:`learn` has seen the initial ones."""

    def __init__(self, kind: str, header: bytes | None) -> None:
        self.kind = kind
        self.separator = ","
        self.names: list[str] = []
        self.types: dict[str, FieldType] = {}
        if kind == "csv":
            if header is None:
                raise DataError("there is no header line: CSV begins with the names of columns")
            self._read_header(header)

    def to_json(self) -> dict[str, Any]:
        """What :meth:`restore` needs."""
        return {"kind": self.kind, "types": {n: [t.name, t.form] for n, t in self.types.items()}}

    def restore(self, entries: dict[str, Any]) -> None:
        """Goes on with the types that were learnt before."""
        types = {name: FieldType(word, form) for name, (word, form) in entries["types"].items()}
        for kind in types.values():
            if kind.form >= len(ALL) or (kind.form >= 0 and ALL[kind.form].name != kind.name):
                raise DataError("the state was made by another version: its types are unknown")
        if self.kind != entries["kind"] or (self.names and self.names != list(types)):
            raise DataError("the source has another format or other columns than the state")
        self.types = types
        self.names = list(types)

    # -- one line at a time --------------------------------------------------------------------

    def parse(self, line: Line) -> tuple[Row | None, str]:
        """The raw values of a line by column, or None and the reason."""
        if line.text is None:
            return None, "longer than 1 MiB"
        try:
            text = line.text.decode("utf-8")
        except UnicodeDecodeError:
            return None, "not UTF-8"
        return self._parse_csv(text) if self.kind == "csv" else _parse_json(text)

    def _parse_csv(self, text: str) -> tuple[Row | None, str]:
        if '"' in text:
            try:
                fields = next(csv.reader([text], delimiter=self.separator, strict=True), [])
            except csv.Error:
                return None, "quotes do not match"
        else:
            fields = text.split(self.separator)
        if len(fields) != len(self.names):
            return None, f"{len(fields)} fields instead of {len(self.names)}"
        return {name: field or None for name, field in zip(self.names, fields)}, ""

    def _read_header(self, header: bytes) -> None:
        text = header.decode("utf-8-sig", errors="replace")
        unquoted = "".join(text.split('"')[::2])
        self.separator = max(",;\t|", key=unquoted.count)
        self.names = next(csv.reader([text], delimiter=self.separator), [])
        if len(set(self.names)) < len(self.names) or not all(map(str.strip, self.names)):
            raise DataError("the header has an empty or doubled column name: rename it")

    # -- types ---------------------------------------------------------------------------------

    def learn(self, rows: list[Row], columns: Sequence[Column]) -> None:
        """Settles columns and types, from what a policy says or else from the initial rows."""
        if self.kind != "csv":
            self.names = list(dict.fromkeys(name for row in rows for name in row))
        declared = {column.name: column.kind for column in columns}
        for name in self.names:
            values = [row.get(name) for row in rows]
            self.types[name] = _declared(declared.get(name), values) or self._guess(name, values)

    def _guess(self, name: str, values: list[Any]) -> FieldType:
        if self.kind != "csv":
            kinds = {type(value) for value in values if value is not None}
            for word in ("boolean", "integer", "decimal"):
                if kinds and kinds <= set(_PYTHON[word]):
                    return FieldType(word)
            if kinds - {str, int, float, bool}:
                raise DataError(f"column '{name}' holds lists or objects: flatten it first")
            if kinds != {str}:
                return FieldType("text")
        guess = ColumnGuess(ALL if self.kind == "csv" else TEMPORAL)
        guess.update(pl.Series(name, values, dtype=pl.String))
        return _field_type(guess.result)

    # -- many rows -----------------------------------------------------------------------------

    def frame(self, rows: list[Row]) -> tuple[pl.DataFrame, list[str]]:
        """The typed records, and for each row the reason to refuse it ("" if there is none)."""
        reasons = [""] * len(rows)
        typed: list[pl.Series] = []
        for name, kind in self.types.items():
            values = [row.get(name) for row in rows]
            if self.kind == "csv" or kind.name not in _PYTHON:
                series = self._texts(name, kind, values, reasons)
            else:
                series = _checked(name, kind, values, reasons)
            typed.append(series)
        good = pl.Series([not reason for reason in reasons], dtype=pl.Boolean)
        return pl.DataFrame(typed).filter(good), reasons

    def _texts(
        self, name: str, kind: FieldType, values: list[Any], reasons: list[str]
    ) -> pl.Series:
        if self.kind != "csv":
            values = _only(name, (str,), "a text", values, reasons)
        typed, wrong = kind.read(pl.Series(name, values, dtype=pl.String))
        for place in wrong.arg_true():
            reasons[place] = reasons[place] or f"column '{name}' is no {kind.name}"
        return typed


def _parse_json(text: str) -> tuple[Row | None, str]:
    try:
        row = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, "not valid JSON"
    if not isinstance(row, dict) or not row:
        return None, "not a JSON object with a key for each column"
    return row, ""


def _refuse(constant: str) -> None:
    raise ValueError  # NaN and Infinity, which Python writes, are not JSON


def _declared(kind: Kind | None, values: list[Any]) -> FieldType | None:
    """The type that a policy asks for; dates come in many forms and are looked at."""
    if kind is None or kind is Kind.DATETIME:
        return None
    if kind in (Kind.CATEGORY, Kind.TEXT):
        words = all(value is None or isinstance(value, str) for value in values)
        return FieldType("text") if words else None
    return FieldType(kind.value)


def _plain_type(name: str) -> TextType:
    return next(found for found in ALL if found.name == name)


def _field_type(found: TextType | None) -> FieldType:
    if found is None:
        return FieldType("text")
    return FieldType(found.name, -1 if found.name in _PLAIN else ALL.index(found))


def _checked(name: str, kind: FieldType, values: list[Any], reasons: list[str]) -> pl.Series:
    """Values of JSON that must have the type of their column."""
    values = _only(name, _PYTHON[kind.name], kind.name, values, reasons)
    if kind.name == "text":
        words = [v if v is None or type(v) is str else json.dumps(v) for v in values]
        return pl.Series(name, words, dtype=pl.String)
    largest = _EXACT if kind.name == "integer" else sys.float_info.max
    for place, value in enumerate(values):
        if value is not None and not abs(value) <= largest:
            reasons[place] = reasons[place] or f"column '{name}' is too large a number"
            values[place] = None
    return pl.Series(name, values, dtype=_PLAIN[kind.name])


def _only(
    name: str, allowed: tuple[type, ...], word: str, values: list[Any], reasons: list[str]
) -> list[Any]:
    """The values of the allowed types; the others become None and get a reason."""
    fine = {type(None), *allowed}
    kept = list(values)
    if {type(value) for value in values} <= fine:
        return kept
    for place, value in enumerate(values):
        if type(value) not in fine:
            reasons[place] = reasons[place] or f"column '{name}' is no {word}"
            kept[place] = None
    return kept
