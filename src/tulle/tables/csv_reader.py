"""CSV, read whole or not at all.

Two passes, both block by block: the first settles the layout (separator, names, width of every
record, encoding) and the type of each column over the whole file; the second gives typed frames.
Records with too many or too few fields are an error with their count and the first line.

The first pass parses a column as numbers as long as it has been one, and looks at its text again
where a number would not be written as it is. If the table is wanted whole, the frames of the first
pass are held, and there is a second only if numbers turned out to be text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.tables.blocks import NEWLINE, outside_quotes, record_blocks, repeated_blocks, stamp_of
from tulle.tables.csv_layout import Layout
from tulle.tables.formats import Format, readable_as
from tulle.tables.headers import refuse_doubled, refuse_record
from tulle.tables.text_types import ALL, WITH_COMMA, ColumnGuess

_SEPARATORS = ",;\t|"
_SAMPLE = 1 << 16  # bytes of records that are looked at for a separator
_SOME = 1000  # records that are compared with the header
_TEXT = pl.String()


@dataclass
class CsvPlan:
    """What the first pass found."""

    path: Path
    separator: str
    guesses: dict[str, ColumnGuess]
    stamp: tuple[int, int]  # size and time of the file
    regular: bool = True  # whether every line is a record
    held: list[pl.DataFrame] = field(default_factory=list)

    @property
    def schema(self) -> pl.Schema:
        found = {name: guess.result for name, guess in self.guesses.items()}
        return pl.Schema({n: _TEXT if t is None else t.dtype for n, t in found.items()})


def plan_csv(path: Path, *, hold: bool = False) -> CsvPlan:
    """The first pass; with ``hold`` the second finds the parsed frames in the plan."""
    with readable_as(path, Format.CSV):
        stamp, blocks = stamp_of(path), record_blocks(path, quoted=True)
        separator, header, body = _head(path, blocks)
        names = _named(path, header)
        candidates = (*ALL, WITH_COMMA) if separator == ";" else ALL
        plan = CsvPlan(path, separator, {name: ColumnGuess(candidates) for name in names}, stamp)
        first: pl.DataFrame | None = None
        for layout in _checked(path, _chain(body, blocks), separator, len(names)):
            frame = _judged(layout, plan)
            plan.regular = plan.regular and layout.regular
            first = frame.head(_SOME) if first is None else first
            if hold:
                plan.held.append(frame)
        _refuse_title(path, header, list(plan.guesses.values()))
        if first is not None:
            refuse_record(str(path), _typed(first, plan.schema, plan))
    return plan


def csv_frames(plan: CsvPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """The second pass: typed frames of the named columns, at least one; held frames are let go."""
    whole = plan.schema
    schema = pl.Schema({name: whole[name] for name in names})
    yield schema.to_frame()
    if plan.held and all(_convertible(frame, schema) for frame in plan.held):
        while plan.held:
            yield _typed(plan.held.pop(0), schema, plan)
        return
    plan.held.clear()
    types = {name: plan.guesses[name].parsed_as for name in names}
    with readable_as(plan.path, Format.CSV):
        for block in _same_blocks(plan):
            yield _typed(_parsed(block, plan, types), schema, plan)


def _judged(layout: Layout, plan: CsvPlan) -> pl.DataFrame:
    """Takes a block into account; a column is parsed as what it has been, else as text."""
    types = {name: guess.parsed_as for name, guess in plan.guesses.items()}
    if any(dtype != _TEXT for dtype in types.values()):
        odd = layout.columns_of_odd_numbers()
        types = {n: _TEXT if i in odd else t for i, (n, t) in enumerate(types.items())}
    try:
        frame = _parsed(layout.block, plan, types)
    except pl.exceptions.ComputeError:  # some column is not what it was
        frame = _parsed(layout.block, plan, dict.fromkeys(types, _TEXT))
    numbers = [series for series in frame if series.dtype != _TEXT]
    doubtful = [s.name for s in numbers if not plan.guesses[s.name].accept(s)]
    if doubtful:
        texts = _parsed(layout.block, plan, dict.fromkeys(doubtful, _TEXT))
        frame = frame.with_columns(texts)
    for series in frame:
        if series.dtype == _TEXT:
            plan.guesses[series.name].update(series)
    return frame


def _parsed(block: bytes, plan: CsvPlan, types: dict[str, pl.DataType]) -> pl.DataFrame:
    """The columns named in ``types``, as such; in the order of the file."""
    schema = {name: types.get(name, _TEXT) for name in plan.guesses}
    wanted = None if len(types) == len(schema) else [i for i, n in enumerate(schema) if n in types]
    return pl.read_csv(
        block, has_header=False, schema=schema, separator=plan.separator, columns=wanted
    )


def _convertible(frame: pl.DataFrame, schema: pl.Schema) -> bool:
    """Whether no column was parsed as numbers that turned out to be text."""
    parsed = frame.schema
    return all(parsed[name] == _TEXT or dtype.is_numeric() for name, dtype in schema.items())


def _typed(frame: pl.DataFrame, schema: pl.Schema, plan: CsvPlan) -> pl.DataFrame:
    """The columns in their final types, from text or from the numbers they were parsed as."""
    parsed = frame.schema
    return frame.select(
        plan.guesses[name].expression(name) if parsed[name] == _TEXT else pl.col(name).cast(dtype)
        for name, dtype in schema.items()
    )


def _same_blocks(plan: CsvPlan) -> Iterator[bytes]:
    """The blocks of the first pass; they need not be checked again if the file is the same."""
    blocks = repeated_blocks(plan.path, plan.stamp, quoted=True)
    separator, header, body = _head(plan.path, blocks)
    rest = _chain(body, blocks)
    if plan.regular:
        yield from rest
    else:
        for layout in _checked(plan.path, rest, separator, len(header)):
            yield layout.block


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _head(path: Path, blocks: Iterator[bytes]) -> tuple[str, list[str], bytes]:
    """Separator, fields of the header, and what follows it in the first block."""
    first = next(blocks, b"")
    if not first.strip():
        raise DataError(f"{path}: the file is empty: a table needs a header line")
    codes = np.frombuffer(first, np.uint8)
    end = int(np.flatnonzero(outside_quotes(codes, codes == NEWLINE))[0]) + 1
    header = first[:end].decode().rstrip("\r\n")
    unquoted = "".join(header.split('"')[::2])
    if "\r" in unquoted:
        raise DataError(f"{path}: the lines end with a lone CR: save the file with LF line ends")
    separator = _separator(unquoted, first[end : end + _SAMPLE])
    names = next(csv.reader([header], delimiter=separator), [""])
    return separator, names, first[end:]


def _separator(header: str, records: bytes) -> str:
    """The most frequent one of the header; one that no record has is part of a name."""
    codes = np.frombuffer(records, np.uint8)
    for separator in sorted(_SEPARATORS, key=header.count, reverse=True):
        used = outside_quotes(codes, codes == ord(separator)).any()
        if separator in header and (used or not records):
            return separator
    return ","


def _named(path: Path, names: list[str]) -> list[str]:
    """Column names: the unnamed (an index that pandas wrote) get one, doubled ones are refused."""
    named = [name if name.strip() else f"column_{i}" for i, name in enumerate(names, 1)]
    refuse_doubled(str(path), named)
    return named


def _refuse_title(path: Path, header: list[str], guesses: list[ColumnGuess]) -> None:
    """One column without a name may be an index that pandas wrote; more are below a title."""
    filled = [
        number
        for number, (name, guess) in enumerate(zip(header, guesses, strict=True), 1)
        if not name.strip() and guess.has_values
    ]
    if len(filled) > 1:
        raise DataError(
            f"{path}: {len(filled)} columns, the first of them column {filled[0]}, have values and "
            "no name: a table begins with one line of names, without a title above it"
        )


def _checked(path: Path, blocks: Iterator[bytes], separator: str, width: int) -> Iterator[Layout]:
    """The blocks, after every record was found to have as many fields as the header."""
    line, wrong, first = 2, 0, 0
    for block in blocks:
        layout = Layout(block, separator, width)
        if layout.wrong:
            first = first or line + layout.first_wrong
            wrong += layout.wrong
        elif not wrong and layout.block:
            yield layout
        line += block.count(b"\n")
    if wrong:
        records = "1 record does" if wrong == 1 else f"{wrong} records do"
        raise DataError(
            f"{path}: {records} not have {width} fields as the header does; the first is on "
            f"line {first}. A separator inside a field needs quotes around the field"
        )
