"""One file as a source, read to its end or for as long as it grows."""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Sequence
from typing import BinaryIO

from tulle.errors import DataError
from tulle.workflows.stream.lines import LineReader, Lines
from tulle.workflows.stream.sources import PAUSE, Position

_LINE = 1 << 14  # bytes read at a time where one line is wanted
_CHECKED = 4096  # bytes before a position that must be what they were


class FileSource:
    """A position holds a checksum of the bytes before it: another file is not read on.

    With ``continued``, another file under the same name is taken for the one that comes next (logs
    rotate), and read from its beginning. A file is ``complete`` if nobody writes to it any more.
    """

    def __init__(
        self,
        path: str,
        *,
        has_header: bool,
        follow: bool,
        position: Position | None,
        continued: bool = False,
        complete: bool = False,
    ) -> None:
        self.name = os.path.basename(path)
        self.path = path
        self.has_header = has_header
        self.complete = complete
        self.goes_back = True
        self.file = _opened(path)
        try:
            offset, number = self._start(position, continued=continued)
        except DataError:
            self.close()
            raise
        self.file.seek(offset)
        self.lines = LineReader(
            self._fetch, self.name, growing=follow, offset=offset, number=number
        )
        self._header = None
        if has_header:
            self._header = first_line(path) if number else self.lines.first()

    @property
    def position(self) -> Position:
        offset = self.lines.offset
        return {"offset": offset, "line": self.lines.number, "check": self._check(offset)}

    def read(self, most: int) -> Lines | None:
        return self.lines.read(most)

    def header(self) -> bytes | None:
        return self._header

    def again(self, places: Sequence[int]) -> list[bytes | None]:
        return lines_at(self.path, places)

    def close(self) -> None:
        self.file.close()

    def _start(self, position: Position | None, *, continued: bool) -> tuple[int, int]:
        """The offset and the number of lines to go on from."""
        if position is None or not position["offset"]:
            return 0, 0
        if not self._is_at(position):
            if continued:
                self.goes_back = False
                return 0, 0
            if self.complete:
                raise self._changed_in_folder(position["line"])
            raise DataError(
                f"{self.path} is another file than this state has read: it was cut, edited or "
                "replaced. If it goes on where that one ended, say --restart continued"
            )
        offset, number = position["offset"], position["line"]
        return offset + self._length_of_end(offset, number, continued=continued), number

    def _length_of_end(self, offset: int, number: int, *, continued: bool) -> int:
        """Bytes of a line end that a line did not have yet when it was read."""
        last = os.pread(self.file.fileno(), 1, offset - 1)
        more = os.pread(self.file.fileno(), 2, offset)
        if last == b"\n" or not more:
            return 0
        if more.startswith((b"\n", b"\r\n")):
            return more.index(b"\n") + 1
        if continued:
            return 0
        if self.complete:
            raise self._changed_in_folder(number)
        raise DataError(
            f"line {number} of {self.path} was still being written when it was read; --follow "
            "waits for the ends of lines. --restart continued takes the rest for a line"
        )

    def _changed_in_folder(self, number: int) -> DataError:
        """A folder has no ``--restart``: the next file is another file."""
        return DataError(
            f"{self.path} was changed after {number} lines of it were read: files of a folder must "
            "be complete when they appear. Put it back as it was, and add what is new as another "
            "file, or begin a new state"
        )

    def _fetch(self, size: int) -> bytes:
        block = self.file.read(size)
        if block or self.complete:
            return block
        if self.lines.growing:
            self._require_same_file()
            time.sleep(PAUSE)
        elif self.lines.unfinished:
            time.sleep(PAUSE)  # perhaps somebody is writing this line right now
            block = self.file.read(size)
        return block

    def _require_same_file(self) -> None:
        """Refuses to wait for ever at the end of a file that was cut or replaced."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return  # moved away, and the next one is not there yet
        ours = os.fstat(self.file.fileno())
        if not os.path.samestat(there, ours) or ours.st_size < self.lines.reached:
            raise DataError(
                f"{self.path} was cut or replaced while it was followed; it is counted up to line "
                f"{self.lines.number}. Start again with --restart continued to go on with the new "
                "one"
            )

    def _is_at(self, position: Position) -> bool:
        offset, check = position["offset"], position.get("check")
        if os.fstat(self.file.fileno()).st_size < offset:
            return False
        return check is None or check == self._check(offset)

    def _check(self, offset: int) -> int:
        """Tells another file from this one. Lines that wait have checksums of their own.

        It is no secret-keeper: who holds the state, its owner, can test guesses of these bytes.
        """
        size = min(offset, _CHECKED)
        return zlib.crc32(os.pread(self.file.fileno(), size, offset - size))


def first_line(path: str | os.PathLike[str]) -> bytes | None:
    """The first line of a file, without the mark that some programs begin files with."""
    with open(path, "rb") as file:
        return LineReader(lambda _: file.read(_LINE), "", growing=False).first()


def lines_at(path: str | os.PathLike[str], places: Sequence[int]) -> list[bytes | None]:
    """The lines of a file that begin at some places."""
    found = []
    with open(path, "rb") as file:
        for place in places:
            file.seek(place)
            reader = LineReader(lambda _: file.read(_LINE), "", growing=False, offset=place)
            lines = reader.read(1)
            if lines is None:
                raise DataError(f"{path} is shorter than what was read of it: it is another file")
            found.append(lines.texts[0])
    return found


def _opened(path: str) -> BinaryIO:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by its source)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DataError(f"{path} is no regular file: pipe it in, with - as the source")
    return file
