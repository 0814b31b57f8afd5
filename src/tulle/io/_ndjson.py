"""NDJSON (JSON lines): one flat object a line, the types judged over the whole file.

JSON has numbers, truth values and text, so text stays text even if it looks like a number; it has
no dates, so text becomes a date or time if every value of the column is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.io._formats import Format, readable_as
from tulle.io._text import record_blocks, repeated_blocks, stamp_of
from tulle.io._text_types import TEMPORAL, ColumnGuess

_EXACT = 2**53
_TYPES: dict[type, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    type(None): pl.Null(),
}


@dataclass(frozen=True)
class NdjsonPlan:
    """What the first pass found: the type of each key in JSON, and as text."""

    path: Path
    stamp: tuple[int, int]  # size and time of the file
    long: set[str] = field(default_factory=set)  # keys of whole numbers beyond 2**53
    types: dict[str, pl.DataType] = field(default_factory=dict)
    guesses: dict[str, ColumnGuess] = field(default_factory=dict)

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({name: self._type(name) for name in self.types})

    def _type(self, name: str) -> pl.DataType:
        found = self.guesses[name].result if self.types[name] == pl.String() else None
        return self.types[name] if found is None else found.dtype

    def expression(self, name: str) -> pl.Expr:
        text = self.types[name] == pl.String()
        return self.guesses[name].expression(name) if text else pl.col(name)


def plan_ndjson(path: Path) -> NdjsonPlan:
    """The first pass."""
    plan, line = NdjsonPlan(path, stamp_of(path)), 1
    with readable_as(path, Format.NDJSON):
        for block in record_blocks(path, quoted=False):
            if block.strip():
                _learn(plan, block, line)
            line += block.count(b"\n")
    if not plan.types:
        raise DataError(f"{path}: the file is empty: there is no record in it")
    for name, dtype in plan.types.items():
        if dtype == pl.Null() or (dtype == pl.Float64() and name in plan.long):
            plan.types[name] = pl.String()  # as decimals, long numbers would lose their last digits
    return plan


def ndjson_frames(plan: NdjsonPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """The second pass: typed frames of the named columns, at least one."""
    with readable_as(plan.path, Format.NDJSON):
        yield pl.DataFrame(schema={name: plan.schema[name] for name in names})
        types = {name: plan.types[name] for name in names}
        expressions = [plan.expression(name) for name in names]
        for block in repeated_blocks(plan.path, plan.stamp, quoted=False):
            if block.strip():
                yield pl.read_ndjson(block, schema=types).select(expressions)


def _learn(plan: NdjsonPlan, block: bytes, line: int) -> None:
    try:
        frame = pl.read_ndjson(block, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        frame = pl.read_ndjson(block, schema=_diagnosed(plan.path, block, line))
    for name, dtype in frame.schema.items():
        before = plan.types.get(name, pl.Null())
        now = plan.types[name] = _wider(plan.path, name, before, dtype)
        guess = plan.guesses.setdefault(name, ColumnGuess(TEMPORAL))
        if now == pl.String() and not {before, dtype} <= {pl.Null(), pl.String()}:
            guess.candidates = ()  # a mixture of types is text and nothing else
        elif dtype == pl.String():
            guess.update(frame[name])
        elif dtype.is_numeric() and _has_long(frame[name], block):
            plan.long.add(name)
            guess.candidates = ()


def _has_long(numbers: pl.Series, block: bytes) -> bool:
    """Whether there are whole numbers that are not exact as decimals."""
    bounds = (numbers.min() or 0, numbers.max() or 0)
    if all(-_EXACT < bound < _EXACT for bound in bounds):  # type: ignore[operator]
        return False
    key = re.escape(json.dumps(numbers.name, ensure_ascii=False).encode())
    return re.search(key + rb"\s*:\s*-?[0-9]{16,}\s*[,}]", block) is not None


def _wider(path: Path, name: str, a: pl.DataType, b: pl.DataType) -> pl.DataType:
    """The narrowest type that holds both."""
    if b.is_nested():
        raise DataError(f"{path}: the column '{name}' holds lists or objects: flatten it first")
    if b == pl.Int128() or b == pl.UInt64():
        b = pl.String()  # more digits than a number keeps: an identifier
    if a == b or b == pl.Null():
        return a
    if a == pl.Null():
        return b
    return pl.Float64() if a.is_numeric() and b.is_numeric() else pl.String()


def _diagnosed(path: Path, block: bytes, line: int) -> dict[str, pl.DataType]:
    """The types of a block that the fast reader refused, or an error with the line at fault."""
    schema: dict[str, pl.DataType] = {}
    for number, text in enumerate(block.split(b"\n"), line):
        if not text.strip():
            continue
        for name, value in _record(path, text, number).items():
            dtype = _TYPES.get(type(value), pl.List(pl.Null()))
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                dtype = pl.String()
            schema[name] = _wider(path, name, schema.get(name, pl.Null()), dtype)
    return schema


def _record(path: Path, text: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: line {number} is not valid JSON") from None
    if not isinstance(record, dict):
        raise DataError(f"{path}: line {number} is not a JSON object with a key for each column")
    return record


def _not_json(constant: str) -> None:
    raise ValueError  # NaN and Infinity, which Python writes, are not JSON
