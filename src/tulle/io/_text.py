"""Text to records: one splitter for whole files and for streams.

Bytes are cut where a record ends (a newline outside of quotes), brought to UTF-8, and checked field
by field. What is malformed gets a reason: a whole file is refused for it, a stream refuses the
record and goes on.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._types import Ints
from tulle.errors import DataError
from tulle.io._formats import Format, readable_as
from tulle.io._headers import (
    SEPARATORS,
    column_names,
    refuse_no_header,
    refuse_record,
    refuse_title,
    separator_of,
)
from tulle.io._text_types import ALL, WITH_COMMA, ColumnGuess, TextType

BLOCK = 4 << 20  # bytes read at a time
LONGEST_RECORD = 64 << 20  # a record longer than this is a quote that was never closed
QUOTE, NEWLINE, RETURN = b'"\n\r'
Reasons = dict[int, str]  # why records are refused, by their place
_TEXT = pl.String()
_QUOTES = "quotes do not match"
TOO_LONG = "longer than 1 MiB"

# UTF-8, or else Windows-1252.

_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


class Encoding:
    """Decided by the first text that is not ASCII, which all later ones are held to."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def decide(self, text: bytes) -> None:
        """Settle the encoding, if it is still open and this text tells."""
        if self.name is None and not text.isascii():
            self.name = "utf-8" if _is_utf8(text) or _mostly_utf8(text) else "cp1252"

    def recoded(self, text: bytes) -> bytes | None:
        """Return a text in UTF-8; None if it is not in this encoding, or not text at all."""
        if b"\0" in text:
            return None
        if text.isascii():
            return text
        self.decide(text)
        if self.name == "utf-8":
            return text if _is_utf8(text) else None
        try:
            return text.decode("cp1252").encode()
        except UnicodeDecodeError:
            return None


def _mostly_utf8(text: bytes) -> bool:
    """Whether more than half of the bytes beyond ASCII belong to letters in UTF-8.

    A few may look so in any Latin-1 text: a capital umlaut before a dash.
    """
    beyond = sum(len(run) for run in re.findall(rb"[\x80-\xff]+", text))
    return 2 * sum(len(letter) for letter in _MULTIBYTE.findall(text)) > beyond


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


# Files in blocks of whole records, with bounded memory: unpacked (gzip), without the byte order
# mark, in UTF-8.

_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def record_blocks(path: Path, *, quoted: bool) -> Iterator[bytes]:
    """Yield blocks of whole records; each ends with a newline.

    ``quoted``: newlines inside double quotes do not end a record (CSV).
    """
    encoding, rest, line = Encoding(), b"", 1
    with _opened(path) as file:
        while chunk := _read(file, path, BLOCK):
            block = rest + chunk
            end = _last_record_end(block, quoted)
            if end == 0 and len(block) > LONGEST_RECORD:
                raise DataError(
                    f"{path}: the record on line {line} does not end within "
                    f"{LONGEST_RECORD >> 20} MB: a quote is not closed, or this is not a text table"
                )
            rest = block[end:]
            if end:
                yield _recoded(path, encoding, block[:end], line)
                line += block.count(b"\n", 0, end)
    if rest.strip(b"\r\n"):
        if quoted and rest.count(b'"') % 2:
            raise DataError(f"{path}: a quote that opens on or after line {line} is never closed")
        yield _recoded(path, encoding, rest + b"\n", line)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return what tells whether a file was changed: its size and its time."""
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns


def repeated_blocks(path: Path, stamp: tuple[int, int], *, quoted: bool) -> Iterator[bytes]:
    """Yield the blocks once more, of a file that must be what it was."""
    changed = DataError(f"{path}: the file changed while it was read")
    if stamp_of(path) != stamp:
        raise changed
    yield from record_blocks(path, quoted=quoted)
    if stamp_of(path) != stamp:
        raise changed


def _last_record_end(block: bytes, quoted: bool) -> int:
    """The length of the whole records at the start of a block."""
    if not quoted or b'"' not in block:
        return block.rfind(b"\n") + 1
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(_outside_quotes(codes, codes == NEWLINE))
    return int(ends[-1]) + 1 if ends.size else 0


def _outside_quotes(codes: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The marks that are not inside double quotes (a doubled quote closes and opens again)."""
    quotes = codes == QUOTE
    if not quotes.any():
        return marks
    return np.asarray(marks & ~np.bitwise_xor.accumulate(quotes))


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


def _recoded(path: Path, encoding: Encoding, block: bytes, line: int) -> bytes:
    """A block in UTF-8; a file of two encodings is refused with the line where they meet."""
    if b"\0" in block:
        raise DataError(f"{path}: holds zero bytes: this is not a text table")
    known = encoding.name
    found = encoding.recoded(block)
    if found is not None and not (known == "cp1252" and _mostly_utf8(block)):
        return found
    odd = (at for at, text in enumerate(block.split(b"\n")) if encoding.recoded(text) is None)
    raise DataError(
        f"{path}: the text is neither UTF-8 nor Windows-1252 (Latin-1) throughout; look at line "
        f"{line + next(odd, 0)}, and save it as UTF-8"
    )


# Records of CSV in a stream. Where a record ends does not depend on the separator, which nobody
# knows before the first record; quotes that contradict each other end what they have opened.

_ANY_MARK = np.zeros(256, bool)
_ANY_MARK[[*SEPARATORS.encode(), NEWLINE]] = True
_WINDOW = 4096  # bytes looked at after a record with wrong quotes: there may be many of them


class Split(NamedTuple):
    """Records one after the other, which of them are none, and the beginning of the next one."""

    records: list[bytes]  # without the newline behind each of them
    faults: Reasons
    rest: bytes


def split_records(block: bytes, longest: int) -> Split:
    """Cut CSV where records end; lines that are no record are refused as one.

    That is, if their quotes do not match, or if a quote is not closed within ``longest`` bytes:
    where the block ends must not matter, so it ends what it has opened even if it is closed later.
    """
    if b'"' not in block:
        *lines, rest = block.split(b"\n")
        return Split(lines, {}, rest)
    records: list[bytes] = []
    faults: Reasons = {}
    start, window = 0, len(block)
    while start < len(block):
        part = block[start : start + window]
        ends, stop = _record_ends(part)
        before = 0
        for end in ends:
            if end - before > longest:
                break
            records.append(part[before:end])
            before = end + 1
        long = (stop or len(part)) - before > longest
        if long:
            stop = part.rfind(b"\n", before, before + longest) + 1
            stop = stop or part.find(b"\n", before) + 1
        if stop:
            faults[len(records)] = TOO_LONG if long else _QUOTES
            records.append(part[before : stop - 1])
            start, window = start + stop, _WINDOW
        elif before or start + window < len(block):
            start, window = start + before, 4 * window
        else:
            break
    return Split(records, faults, block[start:])


def _record_ends(block: bytes) -> tuple[list[int], int]:
    """Where records end, and where the lines end that are no record (0 if there are none)."""
    codes = np.frombuffer(block, np.uint8)
    newlines = codes == NEWLINE
    ends = np.flatnonzero(_outside_quotes(codes, newlines))
    marks = _ANY_MARK[codes]
    if block.startswith(codecs.BOM_UTF8):
        marks[2] = True  # at the beginning of a file, a field begins after it
    wrong = _wrong_quotes(codes, marks, newlines)
    if not wrong.size:
        return ends.tolist(), 0
    fine = ends[ends < wrong[0, 0]]
    begin = int(fine[-1]) + 1 if fine.size else 0
    # what the quote has opened ends before the line that contradicts it
    stop = block.rfind(b"\n", begin, int(wrong[0, 1])) + 1 or block.find(b"\n", begin) + 1
    return fine.tolist(), stop


def _wrong_quotes(codes: np.ndarray, marks: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """The pairs of quotes (where they open and close) that are wrong.

    A pair is around a whole field: a separator or a line end is before and behind it, or the quote
    of a next pair, which is then one quote of the text. Or it is inside a bare field, where quotes
    are characters like others, and there must be no ``inner`` mark between them. A pair that ends
    with the block is not judged.
    """
    at = np.flatnonzero(codes == QUOTE)
    pairs = at[: at.size - (at.size % 2)].reshape(-1, 2)
    if not pairs.size:
        return pairs
    opens, closes = pairs.T
    last = codes.size - 1
    begins = marks[opens - 1] | (opens == 0)
    behind = np.minimum(closes + 1, last)
    linked = (codes[behind] == QUOTE) & (closes < last)  # with the pair that follows
    behind += (codes[behind] == RETURN) & (codes[np.minimum(behind + 1, last)] == NEWLINE)
    heads = ~np.insert(linked[:-1], 0, False)
    bare = ~begins[heads][np.cumsum(heads) - 1]
    wrong = ~bare & ~linked & ~marks[behind]
    if bare.any():
        before = np.cumsum(inner)
        wrong |= bare & (before[closes] > before[opens])
    if closes[-1] + 2 > last and codes[-1] != NEWLINE:
        wrong[-1] = False
    return pairs[wrong]


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
        stops = np.flatnonzero(_outside_quotes(codes, both))  # where the fields end
        ends = newlines[stops]
        wrong = np.empty((0, 2), np.int64)
        if b'"' in block:  # a stream finds the ends of records by any separator
            any_separator = _wrong_quotes(codes, _ANY_MARK[codes], newlines)
            wrong = np.concatenate([_wrong_quotes(codes, both, both), any_separator])
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
        """Whether some record is refused for its quotes."""
        return _QUOTES in self.reasons.values()

    def lines_before(self, record: int) -> int:
        """Return how many lines of the block come before a record."""
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
        """Counts the fields of each record; takes out blank lines and what is refused."""
        fields = np.diff(np.flatnonzero(ends), prepend=-1)
        stops = self._stops[ends]
        lengths = np.diff(stops, prepend=-1)  # with the newline
        bare = (lengths == 2) & (self._codes[stops - 1] == RETURN)
        blank = (fields == 1) & ((lengths == 1) | bare) & (self.width > 1)
        ragged = np.flatnonzero((fields != self.width) & ~blank).tolist()
        self.reasons = {at: f"{fields[at]} fields instead of {self.width}" for at in ragged}
        for opened, _ in wrong:
            self.reasons[int(np.searchsorted(stops, opened))] = _QUOTES
        keep = ~blank
        keep[list(self.reasons)] = False
        self.kept = np.flatnonzero(keep)
        self.block = self._codes[np.repeat(keep, lengths)].tobytes()


# Typed records, of any text.


class Records(NamedTuple):
    """Typed records, which of the lines each was, and why other lines were refused."""

    frame: pl.DataFrame
    places: Ints
    refused: Reasons
    surplus: int = 0  # lines with keys that are no columns

    def __repr__(self) -> str:
        """Counts: a traceback must not show records."""
        return f"<{self.frame.height} records, {len(self.refused)} lines refused>"


def typed_records(
    raw: pl.DataFrame,
    types: dict[str, TextType | None],
    places: Ints,
    refused: Reasons,
    reasons: Reasons,
) -> Records:
    """Return records in their types, without those (by row) that have a reason or do not fit."""
    columns = []
    for series in raw:
        found, wrong = types[series.name], None
        if found is not None and series.dtype == _TEXT:
            series, wrong = found.read_cells(series)
        if found is not None and wrong is not None:
            for row in wrong.arg_true():
                reasons.setdefault(row, f"column '{series.name}' is not of type {found.name}")
        columns.append(series)
    frame = pl.DataFrame(columns)
    if not reasons:
        return Records(frame, places, refused)
    fine = np.ones(frame.height, dtype=bool)
    fine[list(reasons)] = False
    refused = refused | {int(places[row]): reason for row, reason in reasons.items()}
    return Records(frame.filter(fine), places[fine], refused)


# The records of a table in CSV, once its header is known.


class CsvReader:
    """Judges and reads blocks of records: those of a whole file, or of a stream."""

    def __init__(self, source: str, header: bytes, record: bytes | None, mark: str = "") -> None:
        text = header.decode().rstrip("\r\n")
        refuse_no_header(source, text)
        self.source = source
        self.separator = mark or separator_of(text, None if record is None else record.decode())
        line = text.encode() + b"\n"
        if Fields(line, self.separator, 1).has_wrong_quotes:
            raise DataError(f"{source}: the quotes of the header do not match")
        self.header = parsed(line, {}, separator=self.separator).row(0)
        self.names = column_names(source, self.header)
        candidates = (*ALL, WITH_COMMA) if self.separator == ";" else ALL
        self.guesses = {name: ColumnGuess(candidates) for name in self.names}

    def fields(self, block: bytes) -> Fields:
        """Return the fields of a block of records."""
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

    def read(self, fields: Fields, types: dict[str, TextType | None]) -> Records:
        """Return the records of a block in given types."""
        numbers = {n for n, found in types.items() if found in ALL[:2]}
        plain = {n: found.dtype if found and n in numbers else _TEXT for n, found in types.items()}
        raw = self._numbers_or_texts(fields, plain, _is_exact)
        return typed_records(raw, types, fields.kept, fields.reasons, {})

    def _numbers_or_texts(
        self,
        fields: Fields,
        types: dict[str, pl.DataType],
        accepted: Callable[[pl.Series], bool],
    ) -> pl.DataFrame:
        """A block parsed as numbers where that loses nothing, and as text where it might."""
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
    """Whether numbers that were parsed need no look at their texts."""
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
        stamp, blocks = stamp_of(path), record_blocks(path, quoted=True)
        reader, line, body = _head(path, blocks)
        plan = CsvPlan(path, reader, stamp)
        first: pl.DataFrame | None = None
        for fields in _checked(reader, _chain(body, blocks), line):
            frame = reader.judge(fields)
            plan.regular = plan.regular and fields.regular
            first = frame.head(_SOME) if first is None else first
            if hold:
                plan.held.append(frame)
        reader.refuse_wrong_header(None if first is None else _typed(first, plan.schema, plan))
    return plan


def csv_frames(plan: CsvPlan, names: list[str]) -> Iterator[pl.DataFrame]:
    """Make the second pass: yield typed frames of the named columns, at least one.

    Held frames are let go.
    """
    whole = plan.schema
    schema = pl.Schema({name: whole[name] for name in names})
    yield schema.to_frame()
    if plan.held and all(_convertible(frame, schema) for frame in plan.held):
        while plan.held:
            yield _typed(plan.held.pop(0), schema, plan)
        return
    plan.held.clear()
    types = {name: guess.parsed_as for name, guess in plan.guesses.items()}
    with readable_as(plan.path, Format.CSV):
        for block in _same_blocks(plan):
            frame = parsed(block, types, separator=plan.reader.separator, names=names)
            yield _typed(frame, schema, plan)


def _convertible(frame: pl.DataFrame, schema: pl.Schema) -> bool:
    """Whether no column was parsed as numbers that turned out to be text."""
    types = frame.schema
    return all(types[name] == _TEXT or dtype.is_numeric() for name, dtype in schema.items())


def _typed(frame: pl.DataFrame, schema: pl.Schema, plan: CsvPlan) -> pl.DataFrame:
    """The columns in their final types, from text or from the numbers they were parsed as."""
    types = frame.schema
    return frame.select(
        plan.guesses[name].expression(name) if types[name] == _TEXT else pl.col(name).cast(dtype)
        for name, dtype in schema.items()
    )


def _same_blocks(plan: CsvPlan) -> Iterator[bytes]:
    """The blocks of the first pass; they need not be checked again if the file is the same."""
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
    """A reader that knows the header, the line after it, and what follows in these blocks."""
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
    found = _BLANK_LINES.match(block, start)
    return start if found is None else found.end()


def _record_end(block: bytes, start: int) -> int:
    """Where the record ends that begins at ``start``, its newline included."""
    end = start
    while True:
        end = block.find(b"\n", end) + 1
        if not end:
            return len(block)
        if not block.count(b'"', start, end) % 2:
            return end


def _checked(reader: CsvReader, blocks: Iterator[bytes], line: int) -> Iterator[Fields]:
    """The blocks, after every record was found to have as many fields as the header."""
    wrong, first, width = 0, 0, len(reader.names)
    for block in blocks:
        fields = reader.fields(block)
        for record, reason in fields.reasons.items():
            at = first or line + fields.lines_before(record)
            if reason == _QUOTES:
                raise DataError(
                    f"{reader.source}: the quotes on line {at} do not match: they belong around a "
                    'whole field, with "" for a quote in it'
                )
            wrong, first = wrong + 1, at
        if not wrong and fields.block:
            yield fields
        line += block.count(b"\n")
    if wrong:
        records = "1 record does" if wrong == 1 else f"{wrong} records do"
        raise DataError(
            f"{reader.source}: {records} not have {width} fields as the header does; the first is "
            f"on line {first}. A separator inside a field needs quotes around the field"
        )
