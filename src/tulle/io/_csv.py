"""CSV: fields of blocks of records, judged and read, for whole files and for streams."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from tulle._types import Ints
from tulle.errors import DataError
from tulle.io._dialect import SOME, Dialect, dialect_of
from tulle.io._formats import Format, readable_as
from tulle.io._headers import (
    column_names,
    refuse_no_header,
    refuse_record,
    refuse_title,
    separator_of,
)
from tulle.io._text import (
    ANY_MARK,
    NEWLINE,
    QUOTE,
    RETURN,
    WRONG_QUOTES,
    Encoding,
    Reasons,
    TypedRecords,
    outside_quotes,
    record_blocks,
    repeated_blocks,
    stamp_of,
    typed_records,
    wrong_quotes,
)
from tulle.io._text_types import ALL, WITH_COMMA, ColumnGuess, TextType

_TEXT = pl.String()

# Where the fields of a block of CSV begin, looked at byte by byte with NumPy. It finds the
# records that do not have the width of the header, and the columns that must be judged by their
# text although a parser would take it for numbers: a leading zero is lost in a number.

_ZERO, _NINE, _MINUS, _POINT = b"09-."
# a number that begins with one of these is the same number without it, but not the same text
_ODD = np.zeros(256, bool)
_ODD[list(b'+ \t"')] = True
_DOUBTFUL = _ODD.copy()
_DOUBTFUL[[_ZERO, _MINUS]] = True


class Fields:
    """The fields of a block of whole records.

    Attributes
    ----------
    block : the records without blank lines and without those that are refused
    regular : whether there was nothing to take out
    kept : the places of the records among all lines, blank ones included
    reasons : why others are refused
    """

    def __init__(self, block: bytes, separator: str, width: int) -> None:
        codes = np.frombuffer(block, np.uint8)
        newlines = codes == NEWLINE
        both = (codes == ord(separator)) | newlines
        stops = np.flatnonzero(outside_quotes(codes, both))  # where the fields end
        ends = newlines[stops]
        wrong = np.empty((0, 2), np.int64)
        if b'"' in block:  # a stream finds the ends of records by any separator
            any_separator = wrong_quotes(codes, ANY_MARK[codes], newlines)
            wrong = np.concatenate([wrong_quotes(codes, both, both), any_separator])
        self.block, self.width = block, width
        self._codes, self._stops = codes, stops
        self.reasons: Reasons = {}
        rows, rest = divmod(stops.size, width)
        self.regular = (
            not rest
            and not len(wrong)
            and np.count_nonzero(ends) == rows
            and bool(ends.reshape(rows, width)[:, -1].all())
        )
        self.kept: Ints = np.arange(rows)
        if not self.regular:
            self._look_closer(ends, wrong)

    @property
    def has_wrong_quotes(self) -> bool:
        return WRONG_QUOTES in self.reasons.values()

    def first_bytes(self) -> np.ndarray:
        """Return the first byte of each field, (records, width); 0 of an empty field."""
        starts = np.insert(self._stops + 1, 0, 0)[:-1]
        firsts = self._codes[starts]
        bare = (firsts == RETURN) & (self._codes[np.minimum(starts + 1, self._stops)] == NEWLINE)
        return np.where((starts == self._stops) | bare, 0, firsts).reshape(-1, self.width)

    def lines_before(self, record: int) -> int:
        ends = self._stops[self._codes[self._stops] == NEWLINE]
        begin = 0 if record == 0 else int(ends[record - 1]) + 1
        return int(np.count_nonzero(self._codes[:begin] == NEWLINE))

    def columns_of_odd_numbers(self) -> set[int]:
        """Return the columns in which a number would not be written as it is.

        There is a sign, zero, blank or quote before it that the number itself does not have.
        """
        if not self.regular:
            return set(range(self.width))
        starts = np.empty_like(self._stops)
        starts[:1] = 0
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

    def _look_closer(self, ends: np.ndarray, wrong: np.ndarray) -> None:
        """Count the fields of each record; take out blank lines and refused records."""
        fields = np.diff(np.flatnonzero(ends), prepend=-1)
        stops = self._stops[ends]
        lengths = np.diff(stops, prepend=-1)  # with the newline
        bare = (lengths == 2) & (self._codes[stops - 1] == RETURN)
        blank = (fields == 1) & ((lengths == 1) | bare) & (self.width > 1)
        ragged = np.flatnonzero((fields != self.width) & ~blank).tolist()
        self.reasons = {at: f"{fields[at]} fields instead of {self.width}" for at in ragged}
        for opened, _ in wrong:
            self.reasons[int(np.searchsorted(stops, opened))] = WRONG_QUOTES
        keep = ~blank
        keep[list(self.reasons)] = False
        self.kept = np.flatnonzero(keep)
        self.block = self._codes[np.repeat(keep, lengths)].tobytes()


# The records of a table in CSV, once its header is known.


class CsvReader:
    """Judges and reads blocks of records: those of a whole file, or of a stream."""

    def __init__(self, source: str, header: bytes, record: bytes | None, mark: str = "") -> None:
        text = header.decode().rstrip("\r\n")
        refuse_no_header(source, text)
        self.source = source
        self.separator = mark or separator_of(text, None if record is None else record.decode())
        self.line_end = "\r\n" if header.endswith(b"\r\n") else "\n"
        line = text.encode() + b"\n"
        if Fields(line, self.separator, 1).has_wrong_quotes:
            raise DataError(f"{source}: the header has unbalanced quotes")
        self.header = parsed(line, {}, separator=self.separator).row(0)
        self.names = column_names(source, self.header)
        self.quoted_header = bool((self.fields(line).first_bytes() == QUOTE).all())
        candidates = (*ALL, WITH_COMMA) if self.separator == ";" else ALL
        self.guesses = {name: ColumnGuess(candidates) for name in self.names}

    def fields(self, block: bytes) -> Fields:
        return Fields(block, self.separator, len(self.names))

    def judge(self, fields: Fields) -> pl.DataFrame:
        """Take a block into account; return it, each column parsed as what it has been so far."""
        guesses = self.guesses
        types = {name: guess.parsed_as for name, guess in guesses.items()}
        frame = self._numbers_or_texts(fields, types, lambda s: guesses[s.name].accept(s))
        for series in frame:
            if series.dtype == _TEXT:
                guesses[series.name].update(series)
        return frame

    def refuse_wrong_header(self, first: pl.DataFrame | None) -> None:
        """Raise if the header is a title or a record, by all guesses and the first records."""
        guesses = self.guesses.values()
        refuse_title(self.source, self.header, [guess.has_values for guess in guesses])
        if first is not None:
            refuse_record(self.source, first)

    def read(self, fields: Fields, types: dict[str, TextType | None]) -> TypedRecords:
        numbers = {n for n, found in types.items() if found in ALL[:2]}
        plain = {n: found.dtype if found and n in numbers else _TEXT for n, found in types.items()}
        raw = self._numbers_or_texts(fields, plain, _is_exact)
        return typed_records(raw, types, fields.kept, fields.reasons, {})

    def _numbers_or_texts(
        self, fields: Fields, types: dict[str, pl.DataType], accepted: Callable[[pl.Series], bool]
    ) -> pl.DataFrame:
        """Parse a block as numbers where that loses nothing, and as text where it might."""
        if not fields.block:
            return pl.DataFrame(schema=types)
        if any(dtype != _TEXT for dtype in types.values()):
            odd = fields.columns_of_odd_numbers()
            types = {n: _TEXT if i in odd else t for i, (n, t) in enumerate(types.items())}
        try:
            frame = parsed(fields.block, types, separator=self.separator)
        except pl.exceptions.ComputeError:  # some column is not what it was
            types = dict.fromkeys(types, _TEXT)
            frame = parsed(fields.block, types, separator=self.separator)
        doubtful = [s.name for s in frame if s.dtype != _TEXT and not accepted(s)]
        if not doubtful:
            return frame
        types = dict.fromkeys(types, _TEXT)
        return frame.with_columns(
            parsed(fields.block, types, separator=self.separator, names=doubtful)
        )


def parsed(
    block: bytes,
    types: dict[str, pl.DataType],
    *,
    separator: str,
    names: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Return the columns of these names of a block of records; without types, as text."""
    if block.startswith(codecs.BOM_UTF8):
        block = codecs.BOM_UTF8 + block  # the parser takes one away, but this one is text
    wanted = None if names is None else [i for i, name in enumerate(types) if name in names]
    return pl.read_csv(
        block,
        has_header=False,
        schema=types or None,
        infer_schema=bool(types),
        separator=separator,
        columns=wanted,
    )


def _is_exact(numbers: pl.Series) -> bool:
    """Tell whether numbers that were parsed need no look at their texts."""
    if numbers.dtype.is_integer():
        return True
    largest = numbers.abs().max()
    return largest is None or bool(largest < 2**53)  # type: ignore[operator]


# Whole files of CSV, read whole or not at all. Two passes, both block by block: the first settles
# the layout (separator, names, width of every record, encoding) and the type of each column over
# the whole file; the second gives typed frames. The first pass parses a column as numbers as long
# as it has been one, and looks at its text again where a number would not be written as it is. If
# the table is wanted whole, the frames of the first pass are held, and there is a second only if
# numbers turned out to be text.

_BLANK_LINES = re.compile(rb"(?:\r*\n)*")
_SOME = 1000  # records that are compared with the header


@dataclass
class CsvPlan:
    """What the first pass found."""

    path: Path
    reader: CsvReader
    stamp: tuple[int, int]  # size and time of the file
    encoding: Encoding
    regular: bool = True  # whether every line is a record
    held: list[pl.DataFrame] = field(default_factory=list)

    @property
    def guesses(self) -> dict[str, ColumnGuess]:
        return self.reader.guesses

    @property
    def schema(self) -> pl.Schema:
        found = {name: guess.result for name, guess in self.guesses.items()}
        return pl.Schema({n: _TEXT if t is None else t.dtype for n, t in found.items()})


def plan_csv(path: Path, *, hold: bool = False) -> CsvPlan:
    """Make the first pass; with ``hold`` the second finds the parsed frames in the plan."""
    with readable_as(path, Format.CSV):
        stamp, encoding = stamp_of(path), Encoding()
        blocks = record_blocks(path, quoted=True, encoding=encoding)
        reader, line, body = _head(path, blocks)
        plan = CsvPlan(path, reader, stamp, encoding)
        first: pl.DataFrame | None = None
        for fields in _checked(reader, _chain(body, blocks), line):
            frame = reader.judge(fields)
            plan.regular = plan.regular and fields.regular
            first = frame.head(_SOME) if first is None else first
            if hold:
                plan.held.append(frame)
        reader.refuse_wrong_header(None if first is None else _typed(first, plan.schema, plan))
    return plan


def csv_names(path: Path) -> list[str]:
    return _head(path, record_blocks(path, quoted=True))[0].names


def csv_dialect(plan: CsvPlan) -> Dialect:
    reader = plan.reader
    with readable_as(plan.path, Format.CSV):
        fields = next(map(reader.fields, _same_blocks(plan)), None)
    block = b"" if fields is None else fields.block
    texts = parsed(block, dict.fromkeys(reader.names, _TEXT), separator=reader.separator)
    return dialect_of(
        texts.head(SOME),
        reader.fields(block).first_bytes(),
        plan.guesses,
        separator=reader.separator,
        line_end=reader.line_end,
        encoding=plan.encoding.of_file,
        mark=bool(plan.encoding.mark),
        quoted_header=reader.quoted_header,
    )


def csv_frames(plan: CsvPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """Make the second pass: yield typed frames of the named columns, at least one.

    Held frames are let go.
    """
    whole = plan.schema
    schema = pl.Schema({name: whole[name] for name in names})
    yield schema.to_frame()
    # unless some column was parsed as numbers that turned out to be text
    if plan.held and all(
        frame.schema[name] == _TEXT or dtype.is_numeric()
        for frame in plan.held
        for name, dtype in schema.items()
    ):
        while plan.held:
            yield _typed(plan.held.pop(0), schema, plan)
        return
    plan.held.clear()
    types = {name: guess.parsed_as for name, guess in plan.guesses.items()}
    with readable_as(plan.path, Format.CSV):
        for block in _same_blocks(plan):
            frame = parsed(block, types, separator=plan.reader.separator, names=names)
            yield _typed(frame, schema, plan)


def _typed(frame: pl.DataFrame, schema: pl.Schema, plan: CsvPlan) -> pl.DataFrame:
    """Return the columns in their final types, from text or from parsed numbers."""
    types = frame.schema
    return frame.select(
        plan.guesses[name].expression(name) if types[name] == _TEXT else pl.col(name).cast(dtype)
        for name, dtype in schema.items()
    )


def _same_blocks(plan: CsvPlan) -> Iterator[bytes]:
    """Yield the blocks of the first pass, which need no second check if the file is the same."""
    blocks = repeated_blocks(plan.path, plan.stamp, quoted=True)
    _, line, body = _head(plan.path, blocks)
    rest = _chain(body, blocks)
    if plan.regular:
        yield from rest
    else:
        for fields in _checked(plan.reader, rest, line):
            yield fields.block


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _head(path: Path, blocks: Iterator[bytes]) -> tuple[CsvReader, int, bytes]:
    """Return a reader that knows the header, the next line, and what follows in these blocks."""
    whole = b""
    for block in blocks:
        whole += block
        start = _after_blank_lines(whole, 0)
        end = _record_end(whole, start)
        begin = _after_blank_lines(whole, end)
        if begin < len(whole):  # there is a record
            record = whole[begin : _record_end(whole, begin)]
            break
    else:
        if not whole.strip():
            raise DataError(f"{path}: the file is empty: a table needs a header line")
        record = None
    reader = CsvReader(str(path), whole[start:end], record)
    return reader, 1 + whole.count(b"\n", 0, end), whole[end:]


def _after_blank_lines(block: bytes, start: int) -> int:
    match = _BLANK_LINES.match(block, start)
    return start if match is None else match.end()


def _record_end(block: bytes, start: int) -> int:
    """Return where the record ends that begins at ``start``, its newline included."""
    end = start
    while True:
        end = block.find(b"\n", end) + 1
        if not end:
            return len(block)
        if not block.count(b'"', start, end) % 2:
            return end


def _checked(reader: CsvReader, blocks: Iterator[bytes], line: int) -> Iterator[Fields]:
    """Yield the blocks, after every record was found to have as many fields as the header."""
    wrong, first, width = 0, 0, len(reader.names)
    for block in blocks:
        fields = reader.fields(block)
        for record, reason in fields.reasons.items():
            at = first or line + fields.lines_before(record)
            if reason == WRONG_QUOTES:
                raise DataError(
                    f"{reader.source}: unbalanced quotes on line {at}: quotes must enclose a whole "
                    'field, with "" for a quote inside it'
                )
            wrong, first = wrong + 1, at
        if not wrong and fields.block:
            yield fields
        line += block.count(b"\n")
    if wrong:
        records = "1 record does" if wrong == 1 else f"{wrong} records do"
        raise DataError(
            f"{reader.source}: {records} not have {width} fields like the header; the first is on "
            f"line {first}. A field that contains the separator must be quoted"
        )
