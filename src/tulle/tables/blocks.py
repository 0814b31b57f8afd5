"""Text files in blocks of whole records, as UTF-8, with bounded memory.

One pass over a text file of any size: unpacked (gzip), without the byte order mark, transcoded
if it is Windows-1252 (Latin-1), cut only where a record ends. A block is what a parser gets.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tulle.errors import DataError

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
