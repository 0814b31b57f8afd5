"""NDJSON (JSON lines): one object a line, for whole files and for streams.

Objects inside of it are flattened: ``{"home": {"city": ...}}`` is a column ``home.city``.

JSON has numbers, booleans and text, so text stays text even if it looks like a number; it has no
dates, so text becomes a date or time if every value of the column is one.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.io._formats import Format, readable_as
from tulle.io._text import (
    Reasons,
    TypedRecords,
    record_blocks,
    repeated_blocks,
    stamp_of,
    typed_records,
)
from tulle.io._text_types import ALL, TEMPORAL, ColumnGuess, TextType
from tulle.table._series import is_missing

_EXACT = 2**53
_TYPES: dict[type, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    type(None): pl.Null(),
}
_PLAIN = {found.dtype: found for found in ALL[:3]}
_PYTHON: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "decimal": (int, float),
    "boolean": (bool,),
    "text": (str, int, float, bool),
}
Row = dict[str, Any]


# The types of keys, judged by all values.


class JsonGuess:
    """The type of each key so far, in JSON and as text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.long: set[str] = set()  # keys of whole numbers beyond 2**53
        self.raw: dict[str, pl.DataType] = {}
        self.guesses: dict[str, ColumnGuess] = {}

    def update(self, block: bytes, line: int = 1) -> None:
        """Take lines into account; those that are not records are refused, if that is noticed."""
        if self._conforms(block):
            return
        try:
            frame = pl.read_ndjson(block, infer_schema_length=None)
        except pl.exceptions.PolarsError:
            block = _flat_lines(block)
            frame = pl.read_ndjson(block, schema=self._diagnosed(block, line))
        if any(isinstance(dtype, pl.Struct) for dtype in frame.dtypes):
            self.update(_flat_lines(block), line)
            return
        for name, dtype in frame.schema.items():
            before = self.raw.get(name, pl.Null())
            now = self.raw[name] = self._wider(name, before, dtype)
            guess = self.guesses.setdefault(name, ColumnGuess(TEMPORAL))
            if now == pl.String() and not {before, dtype} <= {pl.Null(), pl.String()}:
                guess.candidates = ()  # a mixture of types is text and nothing else
            elif dtype == pl.String():
                guess.update(frame[name])
            elif dtype.is_numeric() and _has_long(frame[name], block):
                self.long.add(name)
                guess.candidates = ()

    @property
    def types(self) -> dict[str, TextType | None]:
        """The types of the columns; long numbers are not decimals, which lose digits."""
        types: dict[str, TextType | None] = {}
        for name, dtype in self.raw.items():
            if not name.strip():
                raise DataError(f"{self.source}: the records have an empty key: give it a name")
            if dtype == pl.Null() and any(other.startswith(f"{name}.") for other in self.raw):
                continue  # an object that is null in some lines
            long = dtype == pl.Float64() and name in self.long
            types[name] = None if long else _PLAIN.get(dtype, self.guesses[name].result)
        return types

    def _conforms(self, block: bytes) -> bool:
        """Tell whether lines have the types so far: faster than to find their types."""
        if not self.raw or pl.Null() in self.raw.values():
            return False
        form = _usual_form(self.types, integer=_EXACT_INTEGER)
        if not _matches(form, block.strip(b"\n").split(b"\n")).all():
            return False
        texts = {
            n: d for n, d in self.raw.items() if d == pl.String() and self.guesses[n].candidates
        }
        if texts:
            for series in pl.read_ndjson(block, schema=texts):
                self.guesses[series.name].update(series)
        return True

    def _wider(self, name: str, a: pl.DataType, b: pl.DataType) -> pl.DataType:
        """Return the narrowest type that holds both."""
        if b.is_nested():
            raise DataError(
                f"{self.source}: the column '{name}' holds lists: give each entry a key or a line "
                "of its own"
            )
        if b == pl.Int128() or b == pl.UInt64():
            b = pl.String()  # more digits than a number keeps: an identifier
        if a == b or b == pl.Null():
            return a
        if a == pl.Null():
            return b
        return pl.Float64() if a.is_numeric() and b.is_numeric() else pl.String()

    def _diagnosed(self, block: bytes, line: int) -> dict[str, pl.DataType]:
        """Return the types of a block that the fast reader refused, or name the line at fault."""
        schema: dict[str, pl.DataType] = {}
        for number, text in enumerate(block.split(b"\n"), line):
            row, reason = parse_json(text)
            if reason:
                raise DataError(f"{self.source}: line {number}: {reason}")
            for name, value in (row or {}).items():
                dtype = _TYPES.get(type(value), pl.List(pl.Null()))
                if isinstance(value, int) and not -(2**63) <= value < 2**63:
                    dtype = pl.String()
                schema[name] = self._wider(name, schema.get(name, pl.Null()), dtype)
        return schema


def _has_long(numbers: pl.Series, block: bytes) -> bool:
    """Tell whether there are whole numbers that are not exact as decimals."""
    bounds = (numbers.min() or 0, numbers.max() or 0)
    if all(-_EXACT < bound < _EXACT for bound in bounds):  # type: ignore[operator]
        return False
    key = re.escape(json.dumps(numbers.name, ensure_ascii=False).encode())
    return re.search(key + rb"\s*:\s*-?[0-9]{16,}\s*[,}]", block) is not None


# One line.


def parse_json(text: bytes) -> tuple[Row | None, str]:
    """Return the values of a line by key, or None and the reason (none for a blank line)."""
    if not text.strip(b" \t\r"):
        return None, ""
    try:
        decoded = text.decode()
        row = json.loads(decoded, parse_constant=_refuse, object_pairs_hook=_keys_once)
        if "\\u" in decoded:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
        if isinstance(row, dict) and dict in map(type, row.values()):
            row = _keys_once(list(_flattened(row)))
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except UnicodeEncodeError:
        return None, "an unpaired surrogate in a text"
    except _KeyTwice:
        return None, "a key occurs twice"
    except (ValueError, RecursionError):
        return None, "not valid JSON"
    if not isinstance(row, dict) or not row:
        return None, "not a JSON object with a key for each column"
    if any(type(value) is float and math.isinf(value) for value in row.values()):
        return None, "too large a number"
    return row, ""


def _flattened(row: Row, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys and values; the keys of objects inside get the key of the object and a dot."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _flat_lines(block: bytes) -> bytes:
    """Return lines without objects inside of objects; those that are not records stay."""
    lines = []
    for text in block.split(b"\n"):
        row = parse_json(text)[0] if b"{" in text[1:] else None
        lines.append(text if row is None else json.dumps(row, ensure_ascii=False).encode())
    return b"\n".join(lines)


class _KeyTwice(Exception):
    """A repeated key: it is unclear which of its values is meant."""


def _keys_once(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise _KeyTwice
    return row


def _refuse(constant: str) -> None:
    raise ValueError  # NaN and Infinity, which Python writes, are not JSON


# What a usual line looks like, as a regular expression. Lines of this form are parsed together by
# polars, which is fast; all others are parsed one by one, which finds out what is wrong with
# them. A form may match fewer lines than the slow way reads, but none that it would refuse or
# read differently.

_BLANK = r"[ \t]*"
# up to 15 digits are exact, up to 18 fit 64 bits; exponents of two digits are far from the largest
_EXACT_INTEGER, _INTEGER = r"-?(?:0|[1-9][0-9]{0,14})", r"-?(?:0|[1-9][0-9]{0,17})"
_DECIMAL = _EXACT_INTEGER + r"(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"
# escapes but those of surrogates, which come in pairs
_ESCAPE = r'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2})'
_STRING = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'


def _usual_form(types: Mapping[str, TextType | None], integer: str = _INTEGER) -> str:
    """Return the pattern of an object with the known keys in the known order, each at most once,
    and fitting values.

    Commas are left to the parser: it refuses what is not JSON.
    """
    values = {"integer": integer, "decimal": _DECIMAL, "boolean": "true|false"}
    members = []
    for name, kind in types.items():
        keys = {json.dumps(name)[1:], json.dumps(name, ensure_ascii=False)[1:]}
        key = "|".join(map(pl.escape_regex, sorted(keys)))
        value = values.get("" if kind is None else kind.name, _STRING)
        members.append(rf'(?:(?:{key}){_BLANK}:{_BLANK}(?:{value}|null){_BLANK}(?:,{_BLANK}")?)?')
    return rf'^{_BLANK}\{{{_BLANK}"{"".join(members)}\}}{_BLANK}\r?$'


def _matches(form: str, texts: Sequence[bytes]) -> np.ndarray:
    try:
        lines = pl.Series(texts, dtype=pl.Binary).cast(pl.String)
        return lines.str.contains(form).to_numpy().copy()
    except pl.exceptions.ComputeError:  # not UTF-8, or too many keys for such an expression
        return np.zeros(len(texts), dtype=bool)


# Many lines, once the types are known.


class JsonReader:
    def __init__(self, types: dict[str, TextType | None]) -> None:
        self.types = types
        plain = {n: found is not None and found in ALL[:3] for n, found in types.items()}
        self.raw = {
            name: found.dtype if found and plain[name] else pl.String()
            for name, found in types.items()
        }
        self.form = _usual_form(types)

    def read(self, texts: Sequence[bytes]) -> TypedRecords:
        """Return the records of some lines; blank ones are neither records nor refused."""
        usual = _matches(self.form, texts)
        together = self._together(texts, usual) if usual.any() else pl.DataFrame(schema=self.raw)
        if together is None:
            usual[:] = False
            together = pl.DataFrame(schema=self.raw)
        absent = self._absent(together, texts, usual)
        if usual.all():
            whole = typed_records(together, self.types, np.arange(len(texts)), {}, {})
            return whole._replace(lacking=absent)
        rows: list[Row] = []
        alone: list[int] = []
        refused: Reasons = {}
        for place in np.flatnonzero(~usual).tolist():
            row, reason = parse_json(texts[place])
            if row is not None:
                rows.append(row)
                alone.append(place)
            elif reason:
                refused[place] = reason
        reasons: Reasons = {}
        checked = pl.DataFrame(
            [self._checked(n, [row.get(n) for row in rows], reasons) for n in self.types]
        )
        places = np.concatenate([np.flatnonzero(usual), np.array(alone, dtype=np.int64)])
        order = np.argsort(places)
        ranks = np.argsort(order)  # where each row goes
        reasons = {int(ranks[row + together.height]): why for row, why in reasons.items()}
        raw = pl.concat([together, checked])[order]
        found = typed_records(raw, self.types, places[order], refused, reasons)
        for name in self.types:
            absent[name] = absent.get(name, 0) + sum(name not in row for row in rows)
        return found._replace(
            surplus=sum(
                any(row[key] is not None for key in row.keys() - self.types.keys()) for row in rows
            ),
            lacking={name: count for name, count in absent.items() if count},
        )

    def _absent(
        self, together: pl.DataFrame, texts: Sequence[bytes], usual: np.ndarray
    ) -> dict[str, int]:
        """Count the usual lines that lack a key, by key: a null that is written is not one."""
        absent = {}
        for series in together:
            if series.null_count():
                rows = np.flatnonzero(usual)[is_missing(series)].tolist()
                keys = {json.dumps(series.name), json.dumps(series.name, ensure_ascii=False)}
                marks = [key.encode() for key in keys]
                lost = sum(not any(mark in texts[row] for mark in marks) for row in rows)
                if lost:
                    absent[series.name] = lost
        return absent

    def _together(self, texts: Sequence[bytes], usual: np.ndarray) -> pl.DataFrame | None:
        """Return the raw values of usual lines; None if the parser refuses them after all."""
        chosen = texts if usual.all() else [texts[at] for at in np.flatnonzero(usual).tolist()]
        try:
            raw = pl.read_ndjson(io.BytesIO(b"\n".join(chosen)), schema=self.raw)
        except pl.exceptions.PolarsError:
            return None
        return raw if raw.height == len(chosen) else None

    def _checked(self, name: str, values: list[Any], reasons: Reasons) -> pl.Series:
        """Return a column from lines of unusual form, whose values must have its JSON type."""
        kind = self.types[name]
        word = "text" if kind is None else kind.name
        allowed = {type(None), *_PYTHON.get(word, (str,))}
        for place, value in enumerate(values):
            if type(value) not in allowed:
                reasons.setdefault(place, f"column '{name}' is not of type {word}")
                values[place] = None
            elif _is_too_large(value, self.raw[name]):
                reasons.setdefault(place, f"column '{name}' holds a number that is too large")
                values[place] = None
        if kind is None:
            values = [v if v is None or type(v) is str else json.dumps(v) for v in values]
        return pl.Series(name, values, dtype=self.raw[name])


def _is_too_large(value: Any, dtype: pl.DataType) -> bool:
    """Tell whether a whole number does not fit, or would lose its last digits as a decimal."""
    if type(value) is not int or dtype == pl.String:
        return False
    return abs(value) > _EXACT if dtype == pl.Float64 else not -(2**63) <= value < 2**63


# Whole files.


class NdjsonPlan:
    """What the first pass found."""

    def __init__(self, path: Path, guess: JsonGuess | None = None) -> None:
        """Judge a file; a ``guess`` knows the other parts of its table so far."""
        self.path = path
        self.stamp = stamp_of(path)
        guess = guess or JsonGuess(str(path))
        line = 1
        with readable_as(path, Format.NDJSON):
            for block in record_blocks(path, quoted=False):
                if block.strip():
                    guess.update(block, line)
                line += block.count(b"\n")
        if not guess.raw:
            raise DataError(f"{path}: the file is empty: it holds no records")
        self.types = guess.types

    @property
    def schema(self) -> pl.Schema:
        types = self.types.items()
        return pl.Schema({n: pl.String() if found is None else found.dtype for n, found in types})


def ndjson_frames(plan: NdjsonPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """Make the second pass: yield typed frames of the named columns, at least one."""
    reader, line = JsonReader(plan.types), 1
    with readable_as(plan.path, Format.NDJSON):
        yield pl.DataFrame(schema={name: plan.schema[name] for name in names})
        for block in repeated_blocks(plan.path, plan.stamp, quoted=False):
            found = reader.read(block.split(b"\n")[:-1])
            if found.refused:
                first = min(found.refused)
                raise DataError(f"{plan.path}: line {line + first}: {found.refused[first]}")
            yield found.frame.select(names)
            line += block.count(b"\n")
