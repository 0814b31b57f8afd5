"""Text files in blocks of whole records, as UTF-8, with bounded memory.

One pass over a text file of any size: unpacked (gzip), without the byte order mark, transcoded
if it is Windows-1252 (Latin-1), cut only where a record ends. A block is what a parser gets.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.io._formats import Format, readable_as
from tulle.io._text_types import ALL, WITH_COMMA, ColumnGuess
from tulle.table._frames import refuse_patterns

BLOCK = 4 << 20  # bytes read at a time
LONGEST_RECORD = 64 << 20  # a record longer than this is a quote that was never closed
QUOTE, NEWLINE, RETURN = b'"\n\r'
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def record_blocks(path: Path, *, quoted: bool, size: int = 0) -> Iterator[bytes]:
    """Blocks of whole records; each ends with a newline.

    ``quoted``: newlines inside double quotes do not end a record (CSV).
    """
    recode = _Recoder(path)
    rest = b""
    line = 1
    with _opened(path) as file:
        while chunk := _read(file, path, size or BLOCK):
            block = rest + chunk
            end = _last_record_end(block, quoted)
            if end == 0 and len(block) > LONGEST_RECORD:
                raise DataError(
                    f"{path}: the record on line {line} does not end within "
                    f"{LONGEST_RECORD >> 20} MB: a quote is not closed, or this is no text table"
                )
            rest = block[end:]
            if end:
                yield recode(block[:end], line)
                line += block.count(b"\n", 0, end)
    if rest.strip(b"\r\n"):
        if quoted and rest.count(b'"') % 2:
            raise DataError(f"{path}: a quote that opens on or after line {line} is never closed")
        yield recode(rest + b"\n", line)


def stamp_of(path: Path) -> tuple[int, int]:
    """What tells whether a file was changed: its size and its time."""
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns


def repeated_blocks(path: Path, stamp: tuple[int, int], *, quoted: bool) -> Iterator[bytes]:
    """The blocks once more, of a file that must be what it was."""
    changed = DataError(f"{path}: the file changed while it was read")
    if stamp_of(path) != stamp:
        raise changed
    yield from record_blocks(path, quoted=quoted)
    if stamp_of(path) != stamp:
        raise changed


def outside_quotes(codes: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The marks that are not inside double quotes (a doubled quote closes and opens again)."""
    quotes = codes == QUOTE
    if not quotes.any():
        return marks
    return np.asarray(marks & ~np.bitwise_xor.accumulate(quotes))


def _last_record_end(block: bytes, quoted: bool) -> int:
    """The length of the whole records at the start of a block."""
    if not quoted or b'"' not in block:
        return block.rfind(b"\n") + 1
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(outside_quotes(codes, codes == NEWLINE))
    return int(ends[-1]) + 1 if ends.size else 0


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
        mark = _read(file, path, 3)
        if mark[:2] in _WIDE_MARKS:
            raise DataError(f"{path}: the text is UTF-16: save it as UTF-8")
        if mark != codecs.BOM_UTF8:
            file.seek(0)
        yield file


def _read(file: BinaryIO, path: Path, size: int) -> bytes:
    try:
        return file.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: the gzip data are damaged or cut short") from None


class _Recoder:
    """Decides the encoding at the first byte that is not ASCII and holds the file to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.encoding: str | None = None

    def __call__(self, block: bytes, line: int) -> bytes:
        if b"\0" in block:
            raise DataError(f"{self.path}: holds zero bytes: this is no text table")
        if block.isascii():
            return block
        if self.encoding is None:
            self.encoding = "utf-8" if _is_utf8(block) else "cp1252"
        if self.encoding == "utf-8":
            if not _is_utf8(block):
                raise self._mixed(block, line)
            return block
        if _mostly_utf8(block):
            raise self._mixed(block, line)
        try:
            return block.decode("cp1252").encode()
        except UnicodeDecodeError as error:
            raise self._mixed(block, line, error.start) from None

    def _mixed(self, block: bytes, line: int, at: int | None = None) -> DataError:
        if at is None:
            try:
                block.decode()
                at = 0
            except UnicodeDecodeError as error:
                at = error.start
        line += block.count(b"\n", 0, at)
        return DataError(
            f"{self.path}: the text is neither UTF-8 nor Windows-1252 (Latin-1) throughout; "
            f"look at line {line}, and save it as UTF-8"
        )


def _mostly_utf8(block: bytes) -> bool:
    """Whether more than half of the bytes beyond ASCII belong to letters in UTF-8.

    A few may look so in any Latin-1 text: a capital umlaut before a dash.
    """
    beyond = sum(len(run) for run in re.findall(rb"[\x80-\xff]+", block))
    return 2 * sum(len(letter) for letter in _MULTIBYTE.findall(block)) > beyond


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


# Where the fields of a block of CSV begin, looked at byte by byte with NumPy. It finds the
# records that do not have the width of the header, and the columns that must be judged by their
# text although a parser would take it for numbers: a leading zero is lost in a number.

_ZERO, _NINE, _MINUS, _POINT = b"09-."
# a number that begins with one of these is the same number without it, but not the same text
_ODD = np.zeros(256, bool)
_ODD[list(b'+ \t"')] = True
_DOUBTFUL = _ODD.copy()
_DOUBTFUL[[_ZERO, _MINUS]] = True


class Layout:
    """The fields of a block of whole records.

    Attributes
    ----------
    block : the records without the blank lines between them
    regular : whether there was nothing to take out
    wrong, first_wrong : how many records have another width, and how many lines before the first
    """

    def __init__(self, block: bytes, separator: str, width: int) -> None:
        codes = np.frombuffer(block, np.uint8)
        marks = outside_quotes(codes, (codes == ord(separator)) | (codes == NEWLINE))
        stops = np.flatnonzero(marks)  # where the fields end
        ends = codes[stops] == NEWLINE
        self.block, self.width, self.wrong, self.first_wrong = block, width, 0, 0
        self._codes, self._stops = codes, stops
        rows, rest = divmod(stops.size, width)
        self.regular = (
            not rest
            and np.count_nonzero(ends) == rows
            and bool(ends.reshape(rows, width)[:, -1].all())
        )
        if not self.regular:
            self._look_closer(codes, stops, ends)

    def columns_of_odd_numbers(self) -> set[int]:
        """The columns in which a number would not be written as it is.

        There is a sign, zero, blank or quote before it that the number itself does not have.
        """
        if not self.regular:
            return set(range(self.width))
        starts = np.empty_like(self._stops)
        starts[0] = 0
        np.add(self._stops[:-1], 1, out=starts[1:])
        first = self._codes[starts]
        fields = np.flatnonzero(_DOUBTFUL[first])
        first, starts = first[fields], starts[fields]
        # the block ends with a newline, so that a field has a byte behind each of its own
        second = self._codes[starts + 1]
        odd = _ODD[first] | ((first == _ZERO) & (second >= _ZERO) & (second <= _NINE))
        below = np.flatnonzero((first == _MINUS) & (second == _ZERO))  # -0.5, but not -0 or -05
        odd[below] = self._codes[starts[below] + 2] != _POINT
        return set(np.unique(fields[odd] % self.width).tolist())

    def _look_closer(self, codes: np.ndarray, marks: np.ndarray, ends: np.ndarray) -> None:
        """Counts the fields of each record; blank lines are no records and are taken out."""
        fields = np.diff(np.flatnonzero(ends), prepend=-1)
        stops = marks[ends]
        lengths = np.diff(stops, prepend=-1) - 1
        bare = (lengths == 1) & (codes[stops - 1] == RETURN)
        blank = (fields == 1) & ((lengths == 0) | bare)
        wrong = (fields != self.width) & ~blank
        self.wrong = int(np.count_nonzero(wrong))
        if self.wrong:
            begin = int(stops[wrong][0] - lengths[wrong][0])
            self.first_wrong = int(np.count_nonzero(codes[:begin] == NEWLINE))
        keep = np.ones(codes.size, bool)
        keep[stops[blank]] = False
        keep[stops[bare & blank] - 1] = False
        self.block = codes[keep].tobytes()


# The names of columns, and a first line that is a record instead. A record that is taken for the
# header is lost, and its cells are published: as names of columns, in messages, policies and
# manifests.

_YEARS = range(1900, 2101)


def refuse_doubled(source: str, names: list[str]) -> None:
    """A column name that occurs twice cannot be given one role; nor can a pattern of names."""
    refuse_patterns(names)
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if any(_number(name) is not None for name in doubled):
        raise _no_header(source)  # it may be a record, whose cells are not told
    if doubled:
        shown = ", ".join(f"'{name}'" for name in doubled[:5])
        raise DataError(f"{source}: the column name {shown} occurs twice: rename one of them")


def refuse_record(source: str, records: pl.DataFrame) -> None:
    """Refuses names that are values like those below them, in every column that is not text.

    Numbers may be names if most of them are no values of their columns (items above zeros and
    ones), or if they are what people name columns by: years, hours, positions.
    """
    judged = [series for series in records if series.dtype not in (pl.String, pl.Null)]
    if not judged or not all(_is_value(series.name, series.dtype) for series in judged):
        return
    inside = sum(map(_within, judged))
    if 2 * inside >= len(judged) and not _number_columns(records, judged):
        raise _no_header(source)


def _number_columns(records: pl.DataFrame, judged: list[pl.Series]) -> bool:
    """Whether numbers that could be values are names: in steps, or years above what are none."""
    texts = [s for s in records if s.dtype == pl.String and s.null_count() < len(s)]
    if not all(series.dtype.is_numeric() for series in judged) or any(map(_occurs, texts)):
        return False
    numbers = [float(series.name) for series in judged]
    steps = {round(b - a, 9) for a, b in pairwise(numbers)}
    years = all(number in _YEARS for number in numbers)
    if steps == {1.0}:
        return True
    if len(steps) == 1 and len(numbers) > 2 and abs(min(steps)) > 0:  # two always have one step
        return years or bool(texts) or not all(map(_occurs, judged))
    return years and (bool(texts) or len(numbers) > 1) and not any(map(_holds_years, judged))


def _no_header(source: str) -> DataError:
    return DataError(
        f"{source}: the first line looks like a record: a table begins with the names of its "
        "columns. Put them before it, or rename columns that are named by a number"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_value(name: str, dtype: pl.DataType) -> bool:
    """Whether a name could stand in a column of this type."""
    if dtype.is_numeric():
        return _number(name) is not None
    guess = ColumnGuess(ALL)
    guess.update(pl.Series([name]))
    return guess.result is not None and guess.result.dtype.base_type() == dtype.base_type()


def _within(values: pl.Series) -> bool:
    """Whether the name lies among the values; a date or truth value above its like does."""
    if not values.dtype.is_numeric():
        return True
    low: Any = values.min()
    high: Any = values.max()
    return low is not None and bool(low <= float(values.name) <= high)


def _occurs(values: pl.Series) -> bool:
    """Whether the name is one of the values."""
    name = float(values.name) if values.dtype.is_numeric() else values.name
    return bool((values == name).any())


def _holds_years(values: pl.Series) -> bool:
    """Whether half of the values could be years of birth, say."""
    share: Any = values.is_between(_YEARS[0], _YEARS[-1]).mean()
    return share is not None and share >= 0.5


# CSV, read whole or not at all. Two passes, both block by block: the first settles the layout
# (separator, names, width of every record, encoding) and the type of each column over the whole
# file; the second gives typed frames. Records with too many or too few fields are an error with
# their count and the first line. The first pass parses a column as numbers as long as it has been
# one, and looks at its text again where a number would not be written as it is. If the table is
# wanted whole, the frames of the first pass are held, and there is a second only if numbers
# turned out to be text.

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
