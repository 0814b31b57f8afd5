"""Text to records: one splitter for whole files and for streams.

Bytes are cut where a record ends (a newline outside of quotes) and brought to UTF-8. What is
malformed gets a reason: a whole file is refused for it, a stream refuses the record and continues.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl

from tulle._files import BoundedGzip
from tulle._types import Ints
from tulle.errors import DataError
from tulle.io._headers import SEPARATORS
from tulle.io._text_types import TextType

BLOCK = 4 << 20  # bytes read at a time
LONGEST_RECORD = 64 << 20  # a record longer than this is a quote that was never closed
QUOTE, NEWLINE, RETURN = b'"\n\r'
Reasons = dict[int, str]  # why records are refused, by their place
_TEXT = pl.String()
WRONG_QUOTES = "unbalanced quotes"
TOO_LONG = "longer than 1 MiB"

# UTF-8, or else Windows-1252.

_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


class Encoding:
    """Decided by the first text that is not ASCII, which all later ones are held to."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.mark = b""  # the byte order mark of the file

    @property
    def of_file(self) -> str:
        """The encoding of the file itself, of which a text here is in UTF-8 already."""
        return _WIDE_MARKS.get(self.mark, self.name or "utf-8")

    def decide(self, text: bytes) -> None:
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
    """Tell whether more than half of the bytes beyond ASCII belong to letters in UTF-8.

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

_WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def record_blocks(path: Path, *, quoted: bool, encoding: Encoding | None = None) -> Iterator[bytes]:
    """Yield blocks of whole records; each ends with a newline.

    ``quoted``: newlines inside double quotes do not end a record (CSV). ``encoding`` learns what
    the file is written in.
    """
    encoding, rest, line = encoding or Encoding(), b"", 1
    with _opened(path, encoding) as file:
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
    """Return the length of the whole records at the start of a block."""
    if not quoted or b'"' not in block:
        return block.rfind(b"\n") + 1
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(outside_quotes(codes, codes == NEWLINE))
    return int(ends[-1]) + 1 if ends.size else 0


def outside_quotes(codes: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return the marks outside double quotes (a doubled quote closes and opens again)."""
    quotes = codes == QUOTE
    if not quotes.any():
        return marks
    return np.asarray(marks & ~np.bitwise_xor.accumulate(quotes))


class _Wide:
    """A file in UTF-16, read as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int) -> bytes:
        text = ""
        while not text:
            chunk = self._file.read(size)
            text = self._decoder.decode(chunk, final=not chunk)
            if not chunk:
                break
        return text.encode()


@contextmanager
def _opened(path: Path, encoding: Encoding) -> Iterator[BinaryIO]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = cast(BinaryIO, BoundedGzip(path, raw)) if packed else raw
        with _damage_named(path):
            if isinstance(file, BoundedGzip):
                file.look_ahead()
        mark = _read(file, path, 3)
        marks = (codecs.BOM_UTF8, *_WIDE_MARKS)
        encoding.mark = next((one for one in marks if mark.startswith(one)), b"")
        file.seek(len(encoding.mark))
        wide = _WIDE_MARKS.get(encoding.mark)
        yield cast(BinaryIO, _Wide(file, wide)) if wide else file


def _read(file: BinaryIO, path: Path, size: int) -> bytes:
    with _damage_named(path):
        return file.read(size)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: the gzip data is damaged or truncated") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: the text is not UTF-16 throughout: save it as UTF-8") from None


def _recoded(path: Path, encoding: Encoding, block: bytes, line: int) -> bytes:
    """Return a block in UTF-8; refuse a file of two encodings with the line where they meet."""
    if b"\0" in block:
        raise DataError(f"{path}: contains NUL bytes: this is not a text table")
    known = encoding.name
    found = encoding.recoded(block)
    if found is not None and not (known == "cp1252" and _mostly_utf8(block)):
        return found
    odd = (at for at, text in enumerate(block.split(b"\n")) if encoding.recoded(text) is None)
    raise DataError(
        f"{path}: the text is neither UTF-8 nor Windows-1252 (Latin-1) throughout; see line "
        f"{line + next(odd, 0)}, and save it as UTF-8"
    )


# Records of CSV in a stream. Where a record ends does not depend on the separator, which nobody
# knows before the first record; quotes that contradict each other end what they have opened.

ANY_MARK = np.zeros(256, bool)
ANY_MARK[[*SEPARATORS.encode(), NEWLINE]] = True
_WINDOW = 4096  # bytes looked at after a record with wrong quotes: there may be many of them


class SplitRecords(NamedTuple):
    """Records one after the other, which of them are none, and the beginning of the next one."""

    records: list[bytes]  # without the newline behind each of them
    faults: Reasons
    rest: bytes


def split_records(block: bytes, longest: int) -> SplitRecords:
    """Cut CSV where records end; lines that are not records are refused as one.

    That is, if their quotes do not match, or if a quote is not closed within ``longest`` bytes:
    where the block ends must not matter, so it ends what it has opened even if it is closed later.
    """
    if b'"' not in block:
        *lines, rest = block.split(b"\n")
        return SplitRecords(lines, {}, rest)
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
            faults[len(records)] = TOO_LONG if long else WRONG_QUOTES
            records.append(part[before : stop - 1])
            start, window = start + stop, _WINDOW
        elif before or start + window < len(block):
            start, window = start + before, 4 * window
        else:
            break
    return SplitRecords(records, faults, block[start:])


def _record_ends(block: bytes) -> tuple[list[int], int]:
    """Return where records end, and where lines end that are not records (0 if there are none)."""
    codes = np.frombuffer(block, np.uint8)
    newlines = codes == NEWLINE
    ends = np.flatnonzero(outside_quotes(codes, newlines))
    marks = ANY_MARK[codes]
    if block.startswith(codecs.BOM_UTF8):
        marks[2] = True  # at the beginning of a file, a field begins after it
    wrong = wrong_quotes(codes, marks, newlines)
    if not wrong.size:
        return ends.tolist(), 0
    fine = ends[ends < wrong[0, 0]]
    begin = int(fine[-1]) + 1 if fine.size else 0
    # what the quote has opened ends before the line that contradicts it
    stop = block.rfind(b"\n", begin, int(wrong[0, 1])) + 1 or block.find(b"\n", begin) + 1
    return fine.tolist(), stop


def wrong_quotes(codes: np.ndarray, marks: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the pairs of quotes (where they open and close) that are wrong.

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


# Typed records, of any text.


class TypedRecords(NamedTuple):
    """Typed records, which of the lines each was, and why other lines were refused."""

    frame: pl.DataFrame
    places: Ints
    refused: Reasons
    surplus: int = 0  # lines with keys that are not columns
    lacking: Mapping[str, int] = MappingProxyType({})  # lines without a key, by key

    def __repr__(self) -> str:
        """Show counts only: a traceback must not show records."""
        return f"<{self.frame.height} records, {len(self.refused)} lines refused>"


def typed_records(
    raw: pl.DataFrame,
    types: dict[str, TextType | None],
    places: Ints,
    refused: Reasons,
    reasons: Reasons,
) -> TypedRecords:
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
        return TypedRecords(frame, places, refused)
    fine = np.ones(frame.height, dtype=bool)
    fine[list(reasons)] = False
    refused = refused | {int(places[row]): reason for row, reason in reasons.items()}
    return TypedRecords(frame.filter(fine), places[fine], refused)
