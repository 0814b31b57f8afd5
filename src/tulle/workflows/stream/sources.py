"""Where records come from: standard input, a file (growing or not), a folder, a broker.

A source delivers lines in order and knows its position as a JSON value: opened at a position it
delivers exactly the lines after it. Nothing is read ahead of what is asked for, so a slow
condenser slows the source down and memory stays bounded.
"""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tulle.errors import DataError, TulleError
from tulle.workflows.stream.lines import TOO_LONG, Line, LineReader

_UNFINISHED = (".part", ".tmp", ".crdownload")
Position = dict[str, Any]


class Source(Protocol):
    """What the stream needs of a source."""

    name: str
    has_header: bool  # whether each file begins with the names of its columns

    @property
    def position(self) -> Position:
        """Everything up to here was delivered."""

    def read(self, most: int) -> list[Line] | None:
        """The next lines, [] if there are none yet, None if there will be none."""

    def header(self) -> bytes | None:
        """The first line of the first file, if files begin with the names of columns."""

    def again(self, places: list[Any]) -> list[Line]:
        """Lines that were delivered before."""

    def close(self) -> None:
        """Lets go of files and connections."""


class FileSource:
    """One file, read to its end or, with ``follow``, for as long as it grows."""

    def __init__(
        self, path: str, *, has_header: bool, follow: bool, position: Position | None
    ) -> None:
        self.name = os.path.basename(path)
        self.path = path
        self.has_header = has_header
        self.follow = follow
        start = position or {"offset": 0, "line": 0}
        try:
            if os.path.getsize(path) < start["offset"]:
                raise DataError(f"{path} is shorter than what was read of it: it is another file")
            self.file: BinaryIO = open(path, "rb")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        self.file.seek(start["offset"])
        self.lines = LineReader(
            self.file, growing=follow, offset=start["offset"], number=start["line"]
        )
        if has_header and not start["line"]:
            self._header = self.lines.read()

    @property
    def position(self) -> Position:
        return {"offset": self.lines.offset, "line": self.lines.number}

    def read(self, most: int) -> list[Line] | None:
        found: list[Line] = []
        while len(found) < most:
            place = self.lines.offset
            text = self.lines.read()
            if text is None:
                break
            found.append(_line(text, place, self.lines.number, self.name))
        return found if found or self.follow else None

    def header(self) -> bytes | None:
        return _first_line(self.path) if self.has_header else None

    def again(self, places: list[Any]) -> list[Line]:
        with open(self.path, "rb") as file:
            return [_line_at(file, place, self.name) for place in places]

    def close(self) -> None:
        self.file.close()


class StandardInput:
    """Lines piped in. A pipe cannot go back: a restart gets the same lines again (``replayed``),
    or goes on where the pipe now is (``continued``)."""

    name = "standard input"

    def __init__(self, *, has_header: bool, position: Position | None, restart: str | None) -> None:
        self.has_header = has_header
        self.lines = LineReader(sys.stdin.buffer, growing=False)
        self.skip = 0
        if position is not None:
            if restart is None:
                raise TulleError(
                    "this state has read from standard input before: say --restart replayed if "
                    "the same lines come again, or --restart continued if only new ones come"
                )
            self.skip = position["line"] if restart == "replayed" else 0
            self.lines.number = position["line"] - self.skip
        self.wanted: dict[int, Line] = {}
        self._header = self.lines.read() if has_header else None

    @property
    def position(self) -> Position:
        return {"line": self.lines.number}

    def read(self, most: int) -> list[Line] | None:
        found: list[Line] = []
        while len(found) < most and (text := self.lines.read()) is not None:
            found.append(_line(text, self.lines.number, self.lines.number, self.name))
        return found or None

    def header(self) -> bytes | None:
        return self._header

    def again(self, places: list[Any]) -> list[Line]:
        """Passes over the lines that were delivered before and picks some of them."""
        picked: dict[int, Line] = {}
        while self.lines.number < self.skip:
            text = self.lines.read()
            if text is None:
                raise DataError("standard input ends before the place that was reached before")
            if self.lines.number in places:
                number = self.lines.number
                picked[number] = _line(text, number, number, self.name)
        missing = sum(place not in picked for place in places)
        if missing:
            raise DataError(
                f"{missing} records wait and standard input does not bring them again: seal them "
                "in the state with --key"
            )
        return [picked[place] for place in places]

    def close(self) -> None:
        pass


class FolderSource:
    """Files that arrive in a folder, each complete when it appears, in the order of their names.

    Hidden files and names that end in .part or .tmp are files still being written.
    """

    def __init__(
        self,
        path: str,
        *,
        has_header: bool,
        endings: Iterable[str],
        follow: bool,
        position: Position | None,
    ) -> None:
        self.name = os.path.basename(os.path.normpath(path))
        self.folder = Path(path)
        self.has_header = has_header
        self.endings = tuple(endings)
        self.follow = follow
        start = position or {"done": [], "file": None}
        self.done: list[str] = list(start["done"])
        self.current: FileSource | None = None
        if start["file"] is not None:
            self.current = self._open(start["file"], start["within"])
        self._first: str | None = start.get("first")

    @property
    def position(self) -> Position:
        at = {"done": self.done, "file": None, "first": self._first}
        if self.current is None:
            return at
        return at | {"file": self.current.name, "within": self.current.position}

    def read(self, most: int) -> list[Line] | None:
        found: list[Line] = []
        while len(found) < most:
            if self.current is None and not self._open_next():
                break
            assert self.current is not None
            lines = self.current.read(most - len(found))
            if lines is None:
                self.done.append(self.current.name)
                self.current.close()
                self.current = None
            else:
                name = self.current.name
                found += [line._replace(place=[name, line.place]) for line in lines]
        return found if found or self.follow else None

    def header(self) -> bytes | None:
        names = [self._first] if self._first else self._waiting()
        found = (_first_line(self.folder / name) for name in names if self.has_header)
        return next((line for line in found if line is not None), None)

    def again(self, places: list[Any]) -> list[Line]:
        found = []
        for name, place in places:
            with open(self.folder / name, "rb") as file:
                found.append(_line_at(file, place, name)._replace(place=[name, place]))
        return found

    def close(self) -> None:
        if self.current is not None:
            self.current.close()

    def _open_next(self) -> bool:
        names = self._waiting()
        if not names:
            return False
        self.current = self._open(names[0], None)
        header = self.current.header()
        empty = self.has_header and header is None
        if self._first is None and not empty:
            self._first = names[0]
        elif not empty and header != self.header():
            raise DataError(
                f"{names[0]} has other columns than {self._first}: move it away and start again; "
                "what was counted stays counted"
            )
        return True

    def _open(self, name: str, position: Position | None) -> FileSource:
        path = str(self.folder / name)
        return FileSource(path, has_header=self.has_header, follow=False, position=position)

    def _waiting(self) -> list[str]:
        read = set(self.done)
        return sorted(
            entry.name
            for entry in os.scandir(self.folder)
            if entry.is_file()
            and entry.name not in read
            and not entry.name.startswith(".")
            and not entry.name.endswith(_UNFINISHED)
            and entry.name.endswith(self.endings)
        )


def _first_line(path: str | Path) -> bytes | None:
    """The first line of a file without the mark that some programs begin files with."""
    with open(path, "rb") as file:
        line = LineReader(file, growing=False).read()
    return None if line is None else line.removeprefix(BOM_UTF8)


def _line(text: bytes, place: Any, number: int, origin: str) -> Line:
    return Line(None if text is TOO_LONG else text, place, number, origin)


def _line_at(file: BinaryIO, place: int, origin: str) -> Line:
    file.seek(place)
    text = LineReader(file, growing=False, offset=place).read()
    if text is None:
        raise DataError(f"{origin} is shorter than what was read of it: it is another file")
    return _line(text, place, 0, origin)
