"""CSV, read whole or not at all.

Two passes, both block by block: the first settles the layout (separator, names, width of every
record, encoding) and the type of each column over the whole file; the second gives typed frames.
Records with too many or too few fields are an error with their count and the first line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.tables.blocks import NEWLINE, RETURN, outside_quotes, record_blocks
from tulle.tables.formats import Format, readable_as
from tulle.tables.text_types import ALL, WITH_COMMA, ColumnGuess

_SEPARATORS = ",;\t|"


@dataclass(frozen=True)
class CsvPlan:
    """What the first pass found."""

    path: Path
    separator: str
    guesses: dict[str, ColumnGuess]

    @property
    def schema(self) -> pl.Schema:
        found = {name: guess.result for name, guess in self.guesses.items()}
        return pl.Schema({n: pl.String() if t is None else t.dtype for n, t in found.items()})


def plan_csv(path: Path) -> CsvPlan:
    """The first pass."""
    with readable_as(path, Format.CSV):
        blocks = record_blocks(path, quoted=True)
        separator, names, body = _head(path, blocks)
        candidates = (*ALL, WITH_COMMA) if separator == ";" else ALL
        plan = CsvPlan(path, separator, {name: ColumnGuess(candidates) for name in names})
        types: dict[str, pl.DataType] = {name: pl.String() for name in names}
        for block in _checked(path, _chain(body, blocks), separator, len(names)):
            texts = _parsed(block, separator, types)
            for name, guess in plan.guesses.items():
                guess.update(texts[name])
    return plan


def csv_frames(plan: CsvPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """The second pass: typed frames of the named columns, at least one."""
    with readable_as(plan.path, Format.CSV):
        blocks = record_blocks(plan.path, quoted=True)
        separator, header, body = _head(plan.path, blocks)
        if header != list(plan.guesses) or separator != plan.separator:
            raise DataError(f"{plan.path}: the file changed while it was read")
        expressions = [plan.guesses[name].expression(name) for name in names]
        yield pl.DataFrame(schema={name: plan.schema[name] for name in names})
        types = {name: guess.parsed_as for name, guess in plan.guesses.items()}
        for block in _checked(plan.path, _chain(body, blocks), separator, len(header)):
            yield _parsed(block, separator, types).select(expressions)


def _parsed(block: bytes, separator: str, types: dict[str, pl.DataType]) -> pl.DataFrame:
    return pl.read_csv(block, has_header=False, schema=types, separator=separator)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _head(path: Path, blocks: Iterator[bytes]) -> tuple[str, list[str], bytes]:
    """Separator, column names, and what follows the header in the first block."""
    first = next(blocks, b"")
    if not first.strip():
        raise DataError(f"{path}: the file is empty: a table needs a header line")
    codes = np.frombuffer(first, np.uint8)
    end = int(np.flatnonzero(outside_quotes(codes, codes == NEWLINE))[0]) + 1
    header = first[:end].decode().rstrip("\r\n")
    unquoted = "".join(header.split('"')[::2])
    if "\r" in unquoted:
        raise DataError(f"{path}: the lines end with a lone CR: save the file with LF line ends")
    separator = max(_SEPARATORS, key=unquoted.count)
    names = next(csv.reader([header], delimiter=separator), [""])
    return separator, _named(path, names), first[end:]


def _named(path: Path, names: list[str]) -> list[str]:
    """Column names: the unnamed (an index that pandas wrote) get one, doubled ones are refused."""
    named = [name if name.strip() else f"column_{i}" for i, name in enumerate(names, 1)]
    refuse_doubled(str(path), named)
    return named


def refuse_doubled(source: str, names: list[str]) -> None:
    """A column name that occurs twice cannot be given one role."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        shown = ", ".join(f"'{name}'" for name in doubled[:5])
        raise DataError(f"{source}: the column name {shown} occurs twice: rename one of them")


def _checked(path: Path, blocks: Iterator[bytes], separator: str, width: int) -> Iterator[bytes]:
    """The blocks, after every record was found to have as many fields as the header."""
    line, wrong, first = 2, 0, 0
    for block in blocks:
        layout = _Layout(block, separator, width)
        if layout.wrong:
            first = first or line + layout.first_wrong
            wrong += layout.wrong
        elif not wrong and layout.block:
            yield layout.block
        line += block.count(b"\n")
    if wrong:
        records = "1 record does" if wrong == 1 else f"{wrong} records do"
        raise DataError(
            f"{path}: {records} not have {width} fields as the header does; the first is on "
            f"line {first}. A separator inside a field needs quotes around the field"
        )


class _Layout:
    """Where the records of a block end, and how many have the wrong number of fields."""

    def __init__(self, block: bytes, separator: str, width: int) -> None:
        codes = np.frombuffer(block, np.uint8)
        marks = outside_quotes(codes, (codes == ord(separator)) | (codes == NEWLINE))
        ends = codes[marks] == NEWLINE
        self.block, self.wrong, self.first_wrong = block, 0, 0
        regular = ends.size % width == 0 and bool(ends[width - 1 :: width].all())
        if not (regular and np.count_nonzero(ends) * width == ends.size):
            self._look_closer(codes, np.flatnonzero(marks), ends, width)

    def _look_closer(
        self, codes: np.ndarray, marks: np.ndarray, ends: np.ndarray, width: int
    ) -> None:
        """Counts the fields of each record; blank lines are no records and are taken out."""
        fields = np.diff(np.flatnonzero(ends), prepend=-1)
        stops = marks[ends]
        lengths = np.diff(stops, prepend=-1) - 1
        bare = (lengths == 1) & (codes[stops - 1] == RETURN)
        blank = (fields == 1) & ((lengths == 0) | bare)
        wrong = (fields != width) & ~blank
        self.wrong = int(np.count_nonzero(wrong))
        if self.wrong:
            begin = int(stops[wrong][0] - lengths[wrong][0])
            self.first_wrong = int(np.count_nonzero(codes[:begin] == NEWLINE))
        keep = np.ones(codes.size, bool)
        keep[stops[blank]] = False
        keep[stops[bare & blank] - 1] = False
        self.block = codes[keep].tobytes()
