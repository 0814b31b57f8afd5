"""Lines to typed records; what does not fit is refused line by line, with a reason.

The initial lines settle the columns and their types; every later line must fit them. Lines of the
usual form are parsed together, all others one by one: the records are the same.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.moments import Ints
from tulle.tables.frames import refuse_patterns
from tulle.tables.schema import Column
from tulle.workflows.stream.fields import (
    PLAIN,
    FieldType,
    Reasons,
    declared_type,
    type_of_json,
    type_of_texts,
)
from tulle.workflows.stream.forms import csv_form, json_form
from tulle.workflows.stream.headers import read_header
from tulle.workflows.stream.quotes import OpenQuotes, quoted_fields

Row = dict[str, Any]
Texts = Sequence[bytes | None]


class Records(NamedTuple):
    """Typed records, which of the lines each was, and why other lines were refused."""

    frame: pl.DataFrame
    places: Ints
    refused: Reasons
    surplus: int = 0  # lines with keys that are no columns

    def __repr__(self) -> str:
        """Counts: a traceback must not show records."""
        return f"<{self.frame.height} records, {len(self.refused)} lines refused>"

    def with_others(self, other: Records) -> Records:
        """Both, in the order of the lines."""
        places = np.concatenate([self.places, other.places])
        order = np.argsort(places)
        frame = pl.concat([self.frame, other.frame])[order]
        refused, surplus = self.refused | other.refused, self.surplus + other.surplus
        return Records(frame, places[order], refused, surplus)


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
            self.names, self.separator = read_header(header)
        self.quotes = OpenQuotes(self.separator)

    def to_json(self) -> dict[str, Any]:
        """What :meth:`restore` needs."""
        types = {name: [kind.name, kind.form] for name, kind in self.types.items()}
        quotes = [self.quotes.length, self.quotes.origin]
        return {"kind": self.kind, "types": types, "open_quotes": quotes}

    def restore(self, entries: dict[str, Any]) -> None:
        """Goes on with the types that were learnt before."""
        types = {name: FieldType(word, form) for name, (word, form) in entries["types"].items()}
        if not all(kind.known for kind in types.values()):
            raise DataError("the state was made by another version: its types are unknown")
        if self.kind != entries["kind"] or (self.names and self.names != list(types)):
            raise DataError("the source has another format or other columns than the state")
        self._settle(types)
        self.quotes = OpenQuotes(self.separator, *entries.get("open_quotes", ()))

    def learn(self, rows: list[Row], columns: Sequence[Column]) -> None:
        """Settles columns and types, from what a policy says or else from the initial rows."""
        if self.kind != "csv":
            self.names = list(dict.fromkeys(name for row in rows for name in row))
            if not all(map(str.strip, self.names)):
                raise DataError("the records have an empty key: name it")
        declared = {column.name: column.kind for column in columns}
        types = {}
        for name in self.names:
            values = [row.get(name) for row in rows]
            if self.kind == "csv":
                guessed = type_of_texts(name, values, self.separator)
            else:
                guessed = type_of_json(name, values)
            types[name] = declared_type(declared.get(name), guessed, values)
        self._settle(types)

    def _settle(self, types: dict[str, FieldType]) -> None:
        refuse_patterns(types)
        self.types, self.names = types, list(types)
        if self.kind == "csv":
            self.form = csv_form(self.separator, len(types))
            self.raw: dict[str, pl.DataType] = dict.fromkeys(types, pl.String())
        else:
            self.form = json_form(types)
            self.raw = {name: PLAIN.get(kind.name, pl.String()) for name, kind in types.items()}

    # -- many lines ----------------------------------------------------------------------------

    def records(self, texts: Texts, origins: Sequence[str] = ()) -> Records:
        """The records of the next lines; blank ones are neither records nor refused.

        ``origins`` are their files; without, all are of the same.
        """
        usual = self._usual(texts)
        odd = np.flatnonzero(~usual).tolist()
        if self.quotes.length or self._any_opens(texts, odd):
            return self.one_by_one(texts, range(len(texts)), origins)  # some may be inside a text
        together = self._together(texts, np.flatnonzero(usual))
        if together is None:
            return self.one_by_one(texts, range(len(texts)), origins)
        if usual.all():
            return together
        return together.with_others(self.one_by_one(texts, odd, origins))

    def records_apart(self, texts: Texts) -> Records:
        """The records of lines that do not come after those that were read last."""
        quotes, self.quotes = self.quotes, OpenQuotes(self.separator)
        found = self.records(texts)
        self.quotes = quotes
        return found

    def _any_opens(self, texts: Texts, places: Iterable[int]) -> bool:
        return self.kind == "csv" and any(self.quotes.would_open(texts[at]) for at in places)

    def one_by_one(
        self, texts: Texts, places: Iterable[int], origins: Sequence[str] = ()
    ) -> Records:
        """The records of some of the lines, each of which may be malformed."""
        rows: list[Row] = []
        kept: list[int] = []
        refused: Reasons = {}
        for place in places:
            row, reason = self.parse(texts[place], origins[place] if origins else "")
            if row is not None:
                rows.append(row)
                kept.append(place)
            elif reason:
                refused[place] = reason
        return self.typed(rows, kept, refused)

    def typed(self, rows: list[Row], places: list[int], refused: Reasons) -> Records:
        """Records from raw values."""
        reasons: Reasons = {}
        columns = []
        for name, kind in self.types.items():
            values = [row.get(name) for row in rows]
            if self.kind == "csv":
                columns.append(pl.Series(name, values, dtype=pl.String))
            else:
                columns.append(kind.check(name, values, reasons))
        raw = pl.DataFrame(columns)
        records = self._finished(raw, np.array(places, dtype=np.int64), refused, reasons)
        return records._replace(surplus=sum(not row.keys() <= self.types.keys() for row in rows))

    def _usual(self, texts: Texts) -> np.ndarray:
        """Which lines have the usual form."""
        try:
            lines = pl.Series(texts, dtype=pl.Binary).cast(pl.String)
        except pl.exceptions.ComputeError:  # not all of them are UTF-8
            lines = pl.Series([_decoded(text) for text in texts], dtype=pl.String)
        try:
            return lines.str.contains(self.form).fill_null(False).to_numpy()
        except pl.exceptions.ComputeError:  # too many columns for a regular expression
            return np.zeros(len(texts), dtype=bool)

    def _together(self, texts: Texts, places: Ints) -> Records | None:
        """The records of usual lines; None if the parser refuses them after all."""
        chosen = texts if len(places) == len(texts) else [texts[place] for place in places]
        block = b"\n".join(cast(Sequence[bytes], chosen))  # a missing text is not usual
        try:
            raw = self._parse_block(block) if len(places) else pl.DataFrame(schema=self.raw)
        except pl.exceptions.PolarsError:
            return None
        return self._finished(raw, places, {}, {}) if raw.height == len(places) else None

    def _parse_block(self, block: bytes) -> pl.DataFrame:
        if self.kind == "csv":
            return pl.read_csv(block, has_header=False, schema=self.raw, separator=self.separator)
        return pl.read_ndjson(io.BytesIO(block), schema=self.raw)

    def _finished(
        self, raw: pl.DataFrame, places: Ints, refused: Reasons, reasons: Reasons
    ) -> Records:
        """Typed columns from raw ones, without the records that have a reason."""
        texts = self.kind == "csv"
        frame = pl.DataFrame(
            [
                kind.read(raw[name], reasons) if texts or kind.form >= 0 else raw[name]
                for name, kind in self.types.items()
            ]
        )
        if not reasons:
            return Records(frame, places, refused)
        fine = np.ones(len(places), dtype=bool)
        fine[list(reasons)] = False
        refused = refused | {int(places[row]): reason for row, reason in reasons.items()}
        return Records(frame.filter(fine), places[fine], refused)

    # -- one line ------------------------------------------------------------------------------

    def parse(self, text: bytes | None, origin: str = "") -> tuple[Row | None, str]:
        """The raw values of a line by column, or None and the reason (none for a blank line).

        Lines come in order: quotes that one leaves open go on in the next one of its file.
        """
        if self.kind == "csv" and text != b"" and self.quotes.hold(text, origin):
            return None, "inside quotes that a line before has opened"
        if text is None:
            return None, "longer than 1 MiB"
        if not text:
            return None, ""
        decoded = _decoded(text)
        if decoded is None:
            return None, "not UTF-8"
        return self._parse_csv(decoded) if self.kind == "csv" else _parse_json(decoded)

    def _parse_csv(self, text: str) -> tuple[Row | None, str]:
        fields = quoted_fields(text, self.separator) if '"' in text else text.split(self.separator)
        if fields is None:
            return None, "quotes do not match"
        if len(fields) != len(self.names):
            return None, f"{len(fields)} fields instead of {len(self.names)}"
        return {name: field or None for name, field in zip(self.names, fields)}, ""


def _decoded(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _parse_json(text: str) -> tuple[Row | None, str]:
    try:
        row = json.loads(text, parse_constant=_refuse, object_pairs_hook=_keys_once)
        if "\\u" in text:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return None, "half a surrogate pair in a text"
    except _KeyTwice:
        return None, "a key comes twice"
    except (ValueError, RecursionError):
        return None, "not valid JSON"
    if not isinstance(row, dict) or not row:
        return None, "not a JSON object with a key for each column"
    return row, ""


class _KeyTwice(Exception):
    """Nobody knows which of its values is meant."""


def _keys_once(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise _KeyTwice
    return row


def _refuse(constant: str) -> None:
    raise ValueError  # NaN and Infinity, which Python writes, are not JSON
