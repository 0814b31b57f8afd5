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

_CHECKED = 4096  # bytes before a position that must be what they were


class FileSource:
    """A position holds a checksum of the bytes before it: another file is not read on.

    With ``continued``, another file under the same name is taken for the one that comes next (logs
    rotate), and read from its beginning.
    """

    def __init__(
        self,
        path: str,
        *,
        has_header: bool,
        follow: bool,
        position: Position | None,
        continued: bool = False,
    ) -> None:
        self.name = os.path.basename(path)
        self.path = path
        self.has_header = has_header
        self.goes_back = True
        try:
            self.file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
            self.close()
            raise DataError(f"{path} is no regular file: pipe it in, with - as the source")
        start = position or {"offset": 0, "line": 0}
        if not self._is_at(start):
            if not continued:
                self.close()
                raise DataError(
                    f"{path} is another file than this state has read: it was cut, edited or "
                    "replaced. If it goes on where that one ended, say --restart continued"
                )
            start, self.goes_back = {"offset": 0, "line": 0}, False
        self.file.seek(start["offset"])
        self.lines = LineReader(
            self._fetch, self.name, growing=follow, offset=start["offset"], number=start["line"]
        )
        self._header = None
        if has_header:
            self._header = first_line(path) if start["line"] else self.lines.first()

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

    def _fetch(self, size: int) -> bytes:
        block = self.file.read(size)
        if not block and self.lines.growing:
            self._require_same_file()
            time.sleep(PAUSE)
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
        """Few bits, so that it says nothing of the records it is made of."""
        size = min(offset, _CHECKED)
        return zlib.crc32(os.pread(self.file.fileno(), size, offset - size))


def first_line(path: str | os.PathLike[str]) -> bytes | None:
    """The first line of a file, without the mark that some programs begin files with."""
    with open(path, "rb") as file:
        return LineReader(file.read, "", growing=False).first()


def lines_at(path: str | os.PathLike[str], places: Sequence[int]) -> list[bytes | None]:
    """The lines of a file that begin at some places."""
    found = []
    with open(path, "rb") as file:
        for place in places:
            file.seek(place)
            lines = LineReader(file.read, "", growing=False, offset=place).read(1)
            if lines is None:
                raise DataError(f"{path} is shorter than what was read of it: it is another file")
            found.append(lines.texts[0])
    return found
