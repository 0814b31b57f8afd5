"""Lines to typed records; what does not fit is refused line by line, with a reason.

The initial lines settle the columns and their types; every later line must fit them. Lines of the
usual form are parsed together, all others one by one: the records are the same.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._types import Ints
from tulle.errors import DataError
from tulle.io._text_types import ALL, TEMPORAL, WITH_COMMA, ColumnGuess, TextType, clean, named
from tulle.stream.sources import LONGEST
from tulle.table._frames import refuse_patterns
from tulle.table._numbers import EXACT
from tulle.table.schema import Column, Kind

# The types of fields: how they are told from initial values, and how columns are read. Reasons to
# refuse a record name the column and what was expected, never what was found.

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


# What a usual line looks like, as a regular expression. Lines of this form are parsed together by
# polars, which is fast; all others are parsed one by one, which finds out what is wrong with
# them. A form may match fewer lines than the slow way reads, but none that it would refuse or
# read differently.

_BLANK = r"[ \t]*"
# up to 15 digits are exact; exponents of two digits are far from the largest number
_INTEGER = r"-?(?:0|[1-9][0-9]{0,14})"
_DECIMAL = _INTEGER + r"(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"
# escapes but those of surrogates, which come in pairs
_ESCAPE = r'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2})'
_TEXT = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'
_VALUES = {"integer": _INTEGER, "decimal": _DECIMAL, "boolean": "true|false"}


def csv_form(separator: str, width: int) -> str:
    """So many fields; quotes are around whole fields or nowhere."""
    mark = rf"\x{{{ord(separator):x}}}"
    # polars takes a byte order mark away, and an empty text in quotes for a text
    bare, quoted = rf'[^"{mark}\r\n\x{{feff}}]*', r'"(?:[^"\r\n]|"")+"'
    field = f"(?:{bare}|{quoted})"
    return f"^{field}(?:{mark}{field}){{{width - 1}}}$"


def json_form(types: Mapping[str, FieldType]) -> str:
    """An object with the known keys in the known order, each at most once, and fitting values.

    Commas are left to the parser: it refuses what is no JSON.
    """
    members = []
    for name, kind in types.items():
        keys = {json.dumps(name)[1:], json.dumps(name, ensure_ascii=False)[1:]}
        key = "|".join(map(pl.escape_regex, sorted(keys)))
        value = _VALUES.get(kind.name, _TEXT)
        members.append(rf'(?:(?:{key}){_BLANK}:{_BLANK}(?:{value}|null){_BLANK}(?:,{_BLANK}")?)?')
    return rf'^{_BLANK}\{{{_BLANK}"{"".join(members)}\}}{_BLANK}$'


# Quotes in lines of CSV: around whole fields, and what a line is that leaves one open. A record
# is one line here, so a text with a line break is refused, all of it: taken line by line, the
# rest of somebody's note would be a record if it only had the right number of fields.

_FARTHEST = 1 << 16  # bytes after which an open quote is a slip of the pen, and no long text
_IN_QUOTES = re.compile('"[^"]*"')


def quoted_fields(text: str, separator: str) -> list[str] | None:
    """The fields of a line; None unless every quote is around a whole field, or doubled in it."""
    if re.search(f'[^"{separator}]"', _IN_QUOTES.sub('"', text)):
        return None  # a quote in a bare field, which the parser would take for a character
    before = csv.field_size_limit(LONGEST)
    try:
        return next(csv.reader([text], delimiter=separator, strict=True), [])
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(before)


def leaves_open(text: str, separator: str) -> bool:
    """Whether a line ends inside a field in quotes."""
    return quoted_fields(text, separator) is None and (
        quoted_fields(text + '"', separator) is not None
    )


class OpenQuotes:
    """Follows lines, one after the other, for as long as quotes are open: to the file's end."""

    def __init__(self, separator: str, length: int = 0, origin: str = "") -> None:
        self.separator = separator
        self.length = length  # of the lines since a quote was opened; 0 if none is open
        self.origin = origin  # the file of the last line

    def would_open(self, text: bytes | None) -> bool:
        """Whether a line opens quotes, if none are open yet."""
        return text is not None and b'"' in text and leaves_open(_lenient(text), self.separator)

    def hold(self, text: bytes | None, origin: str) -> bool:
        """Whether a line is inside quotes of a line before; remembers what it leaves open."""
        length = self.length if origin == self.origin else 0
        self.length, self.origin = 0, origin
        if text is None:
            return False  # longer than quotes go, and refused for that
        if length and length + len(text) <= _FARTHEST:
            inside = '"' + _lenient(text)
            if leaves_open(inside, self.separator):
                self.length = length + len(text)
                return True
            if quoted_fields(inside, self.separator) is not None:
                return True  # they close here
        # no quotes are open, or what comes contradicts them: then the line stands for itself
        self.length = len(text) if self.would_open(text) else 0
        return False


def _lenient(text: bytes) -> str:
    """A quote is a quote, whatever else is no UTF-8."""
    return text.decode("utf-8", errors="replace")


# The header of CSV: names and separator, or why the first line is none.

_SEPARATORS = ",;\t|"


def read_header(header: bytes) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    text = _as_text(header)
    unquoted = "".join(text.split('"')[::2])
    separator = max(_SEPARATORS, key=unquoted.count)
    names = quoted_fields(text, separator) or []
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise DataError("the header has an empty or doubled column name: rename it")
    if not names:
        raise DataError("the quotes of the header do not match")
    if all(map(_is_number, names)):  # some may be names (years): judged once the types are known
        raise DataError(
            "the header has nothing but numbers, which looks like a record: put the names of the "
            "columns before it"
        )
    return names, separator


def _as_text(header: bytes) -> str:
    try:
        text = header.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError("the header is no text in UTF-8: unpack it first, or save it as UTF-8")
    if text.lstrip().startswith(("{", "[")):
        raise DataError("the header is JSON, and would be taken for names: say --format ndjson")
    if "\r" in text:
        raise DataError("the lines end with a lone CR: save the file with LF line ends")
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
