"""Where records come from: standard input, a file (growing or not), a folder, a broker.

A source delivers lines in order and knows its position as a JSON value: opened at a position it
delivers exactly the lines after it. It reads at most a block ahead of what is asked for, so a slow
condenser slows the source down and memory stays bounded.
"""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import sys
import time
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, Protocol, cast

import numpy as np

from tulle._plurals import counted
from tulle.errors import DataError, TulleError
from tulle.io._text import TOO_LONG, split_records

# Records of text from a binary file, read in blocks, in bounded memory. One is a line, or in CSV
# several, if there are line breaks inside quotes.

LONGEST = 1 << 20  # bytes of a record; longer ones are refused, not kept
BLOCK = 2 << 20  # bytes read at a time
Fetch = Callable[[int], bytes | None]  # up to so many bytes; b"" at the end, None if none came


@dataclass(frozen=True, slots=True, repr=False)
class Lines:
    """Some records of a source as text, one after the other.

    ``numbers`` (of the first line of each) and ``origins`` are for people. What is not a record
    comes without its text, and ``faults`` say why.
    """

    texts: list[bytes | None]
    numbers: Sequence[int]
    origins: Sequence[str]
    faults: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        """Show a count only: a traceback must not show records."""
        return f"<{len(self)} lines>"

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        if len(parts) == 1:
            return parts[0]
        faults: dict[int, str] = {}
        before = 0
        for part in parts:
            faults |= {before + at: reason for at, reason in part.faults.items()}
            before += len(part)
        return cls(
            [text for part in parts for text in part.texts],
            [number for part in parts for number in part.numbers],
            [origin for part in parts for origin in part.origins],
            faults,
        )


NO_LINES = Lines([], [], [])


@dataclass(repr=False, eq=False)
class LineReader:
    """Whole records; a last one without its end is left for later while the file grows.

    ``quoted``: a line end inside quotes does not end a record (CSV). ``growing``: more may come, or
    with ``partial`` more may come after this run, so that quotes that are open in the end stay so.
    ``offset``, ``number`` and ``count`` tell how many bytes, lines and records were delivered. What
    was read beyond them (at most a block) is kept for the next call.
    """

    fetch: Fetch
    origin: str
    quoted: bool
    growing: bool = False
    partial: bool = False
    offset: int = 0
    number: int = 0
    count: int = 0
    _ready: list[bytes] = field(default_factory=list)  # whole records, each of which had a line end
    _faults: dict[int, str] = field(default_factory=dict)  # why some of these are none
    _rest: bytes = b""  # the beginning of a record whose end was not read yet
    _dropped: int = 0  # bytes of that beginning which were too many to keep
    _hidden: int = 0  # bytes of the first one that is ready which were not kept
    _unended: bool = False  # whether the last one that is ready had no line end
    _seen: dict[bytes, bool] = field(default_factory=lambda: {b"\r": False, b'"': False})

    @property
    def reached(self) -> int:
        """Count how many bytes were read, delivered or not."""
        ready = sum(map(len, self._ready)) + len(self._ready) + self._hidden - self._unended
        return self.offset + ready + self._dropped + len(self._rest)

    @property
    def unfinished(self) -> bool:
        return bool(self._rest or self._dropped)

    def read(self, most: int) -> Lines | None:
        """Return the next records, an empty list if there are none yet, None at the end."""
        while not self._ready:
            block = self.fetch(BLOCK)
            if block is None or (not block and self.growing):
                return NO_LINES
            if not block and not self._end():
                return None
            if block and self._dropped:
                self._drop(block)
            elif block:
                self._split(self._rest + block)
        return self._deliver(most)

    def first(self) -> bytes | None:
        """Wait for one record that is not blank; None if there is none."""
        while (found := self.read(1)) is not None:
            if len(found) and (found.texts[0] is None or found.texts[0].strip(b"\r")):
                return found.texts[0]
        return None

    def _split(self, block: bytes) -> None:
        """Make whole records ready, and keep the beginning of the next one."""
        self._seen = {mark: seen or mark in block for mark, seen in self._seen.items()}
        if self.quoted:
            self._ready, self._faults, rest = split_records(block, LONGEST)
        else:
            *self._ready, rest = block.split(b"\n")
        if len(rest) > LONGEST:
            self._dropped, rest = len(rest), b""
        self._rest = rest

    def _drop(self, block: bytes) -> None:
        """Skip to the end of a line that is too long."""
        end = block.find(b"\n")
        if end < 0:
            self._dropped += len(block)
            return
        hidden, self._dropped = self._dropped + end, 0
        self._split(block[end + 1 :])
        self._ready.insert(0, b"")
        self._hidden = hidden
        self._faults = {0: TOO_LONG} | {at + 1: why for at, why in self._faults.items()}

    def _end(self) -> bool:
        """Make ready what the source ends with, if anything."""
        if self._dropped:
            self._ready, self._faults = [b""], {0: TOO_LONG}
            self._hidden, self._dropped = self._dropped, 0
        elif self._rest:
            self._split(self._rest + b"\n")
            self._rest = self._rest[:-1]
            if self._rest and not self.partial:
                self._faults[len(self._ready)] = "a quote is not closed"
                self._ready.append(self._rest)
                self._rest = b""
        self._unended = bool(self._ready) and not self._rest
        return bool(self._ready)

    def _deliver(self, most: int) -> Lines:
        raw, self._ready = self._ready[:most], self._ready[most:]
        faults = {at: why for at, why in self._faults.items() if at < most}
        self._faults = {at - most: why for at, why in self._faults.items() if at >= most}
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        lengths[0] += self._hidden
        faults = dict.fromkeys(np.flatnonzero(lengths > LONGEST).tolist(), TOO_LONG) | faults
        texts: list[bytes | None] = [*raw]
        if self._seen[b"\r"]:
            texts = [text.removesuffix(b"\r") for text in raw]
        if not self.offset and texts[0]:
            texts[0] = texts[0].removeprefix(BOM_UTF8)
        for at in faults:
            texts[at] = None
        numbers: Sequence[int] = range(self.number + 1, self.number + 1 + len(raw))
        after = numbers[-1]
        if self.quoted and self._seen[b'"']:
            inner = np.fromiter((text.count(b"\n") for text in raw), np.int64, len(raw))
            numbers = (np.array(numbers) + np.cumsum(inner) - inner).tolist()
            after = numbers[-1] + int(inner[-1])
        self.offset += int(lengths.sum()) + len(raw) - (self._unended and not self._ready)
        self.number, self.count, self._hidden = after, self.count + len(raw), 0
        self._unended = self._unended and bool(self._ready)
        return Lines(texts, numbers, [self.origin] * len(raw), faults)


Position = dict[str, Any]
PAUSE = 0.2  # seconds that a source waits for lines before it says that there are none yet


class Source(Protocol):
    """What the stream needs of a source."""

    name: str
    kind: ClassVar[str]  # for people, and to tell a state of another kind of source

    @property
    def position(self) -> Position:
        """The position up to which everything was delivered."""

    @staticmethod
    def place(position: Position) -> str:
        """Say how far a position leads."""

    def read(self, most: int) -> Lines | None:
        """Return the next lines, an empty list if there are none yet, None at the end."""

    def header(self) -> bytes | None:
        """Return the first line of the first file, if files begin with the names of columns."""

    def notes(self) -> list[str]:
        """Report what was not read, in sentences without data."""

    def close(self) -> None:
        """Close files and connections."""


# One file as a source, read to its end or for as long as it grows.

_LINE = 1 << 14  # bytes read at a time where one line is wanted
_CHECKED = 4096  # bytes before a position that must be what they were


class FileSource:
    """A position holds a checksum of the bytes before it: another file is not read on.

    With ``continued``, another file under the same name is taken for the one that comes next (logs
    rotate), and read from its beginning. A file is ``complete`` if nobody writes to it any more.
    """

    kind = "a file"

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
        self.file = _opened(path)
        self.packed = is_packed(path)
        if self.packed and follow:
            self.close()
            raise TulleError(f"{path} is compressed and cannot grow: leave out --follow")
        self.texts: Any = gzip.GzipFile(fileobj=self.file) if self.packed else self.file
        try:
            self._begin(position, follow=follow, continued=continued)
        except DataError:
            self.close()
            raise

    def _begin(self, position: Position | None, *, follow: bool, continued: bool) -> None:
        """Go to where to read on, and read the header."""
        offset, number = self._start(position, continued=continued)
        with _readable(self.path):
            self.texts.seek(offset)
        self.lines = LineReader(
            self._fetch,
            self.name,
            quoted=self.has_header,
            growing=follow,
            partial=not self.complete and not self.packed,
            offset=offset,
            number=number,
        )
        self._header = None
        if self.has_header:
            self._header = first_line(self.path) if number else self.lines.first()

    @property
    def position(self) -> Position:
        offset = self.lines.offset
        return {"offset": offset, "line": self.lines.number, "check": self._check(offset)}

    @staticmethod
    def place(position: Position) -> str:
        return f"a file, up to line {position['line']:,}"

    def read(self, most: int) -> Lines | None:
        return self.lines.read(most)

    def header(self) -> bytes | None:
        return self._header

    def notes(self) -> list[str]:
        """Report what was left at the end of the file."""
        if not self.lines.unfinished or self.lines.growing:
            return []
        return [
            f"A quote opened on line {self.lines.number + 1} of {self.name} or later is not "
            "closed: the file was read up to there, and a later run continues once the quote is "
            "closed"
        ]

    def close(self) -> None:
        self.file.close()

    def _start(self, position: Position | None, *, continued: bool) -> tuple[int, int]:
        """Return the offset and the line number to resume from."""
        if position is None or not position["offset"]:
            return 0, 0
        if not self._is_at(position):
            if continued:
                return 0, 0
            if self.complete:
                raise self._changed_in_folder(position["line"])
            raise DataError(
                f"{self.path} is not the file that this state has read: it was truncated, edited "
                "or replaced. If it continues where that one ended, pass --restart continued"
            )
        offset, number = position["offset"], position["line"]
        return offset + self._length_of_end(offset, number, continued=continued), number

    def _length_of_end(self, offset: int, number: int, *, continued: bool) -> int:
        """Return the length of the line end that a line did not have yet when it was read."""
        if self.packed:
            return 0  # it does not grow
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
            f"line {number} of {self.path} was still being written when it was read. Use "
            "--follow to wait for the ends of lines, or --restart continued to read the rest as "
            "a line of its own"
        )

    def _changed_in_folder(self, number: int) -> DataError:
        """Make the error for a changed file of a folder, where the remedy is a new file."""
        return DataError(
            f"{self.path} was changed after {counted(number, 'line')} of it had been read: files "
            "in a folder must be complete when they appear. Restore it and add new records in "
            "another file, or start a new state"
        )

    def _fetch(self, size: int) -> bytes:
        with _readable(self.path):
            block: bytes = self.texts.read(size)
        if block or self.complete or self.packed:
            return block
        if self.lines.growing:
            self._require_same_file()
            time.sleep(PAUSE)
        elif self.lines.unfinished:
            time.sleep(PAUSE)  # perhaps this line is being written right now
            block = self.file.read(size)
        return block

    def _require_same_file(self) -> None:
        """Raise rather than wait forever at the end of a file that was truncated or replaced."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return  # moved away, and the next one is not there yet
        ours = os.fstat(self.file.fileno())
        if not os.path.samestat(there, ours) or ours.st_size < self.lines.reached:
            raise DataError(
                f"{self.path} was truncated or replaced while it was followed; it is counted up "
                f"to line {self.lines.number}. Run the command again with --restart continued to "
                "read the new file"
            )

    def _is_at(self, position: Position) -> bool:
        offset, check = position["offset"], position.get("check")
        if not self.packed and os.fstat(self.file.fileno()).st_size < offset:
            return False
        return check is None or check == self._check(offset)

    def _check(self, offset: int) -> int:
        """Compute a checksum that tells another file from this one; waiting lines have their own.

        It keeps no secret: the owner of the state can test guesses of these bytes.
        """
        if self.packed:  # it does not grow: the file as a whole
            offset = os.fstat(self.file.fileno()).st_size
        size = min(offset, _CHECKED)
        return zlib.crc32(os.pread(self.file.fileno(), size, offset - size))


def first_line(path: str | os.PathLike[str]) -> bytes | None:
    """Return the header of a CSV file, without the byte order mark that some programs write."""
    with _readable(path), _text_of(path) as file:
        return LineReader(lambda _: file.read(_LINE), "", quoted=True).first()


def is_packed(path: str | os.PathLike[str]) -> bool:
    return str(path).endswith(".gz")


def _text_of(path: str | os.PathLike[str]) -> Any:
    return gzip.open(path, "rb") if is_packed(path) else open(path, "rb")


@contextmanager
def _readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a damaged compressed file raises into an error that says so."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(
            f"{path} is not a whole gzip file: restore it, or write it under another name first "
            "and rename it when it is complete"
        ) from None


def _opened(path: str) -> BinaryIO:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by its source)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DataError(f"{path} is not a regular file: pipe it in, with - as the source")
    return file


# Standard input as a source.

_GATHERING = 0.05  # seconds that lines wait for more of them: many at a time are faster
_STEP = 1 << 16  # the most that a pipe gives at once, unless it was made larger
_PIPE_BYTES = 1 << 20


class StandardInput:
    """Lines piped in. A pipe cannot go back: a restart gets the same lines again (``replayed``),
    or continues where the pipe is now (``continued``)."""

    kind = name = "standard input"

    def __init__(self, *, has_header: bool, position: Position | None, restart: str | None) -> None:
        self.lines = LineReader(_fetcher(), self.name, quoted=has_header)
        if position is not None and restart is None:
            raise TulleError(
                "this state has read from standard input before: pass --restart replayed if "
                "the same lines will be sent again, or --restart continued if only new ones "
                "will"
            )
        self.skip = 0  # records that come once more
        self._header = self.lines.first() if has_header else None
        if restart == "replayed" and position is not None:
            self.skip = int(position["records"])
        elif position is not None:
            # the header comes again, but only once in a replay of everything: not counted again
            self.lines.number, self.lines.count = position["line"], int(position["records"])

    @property
    def position(self) -> Position:
        return {"line": self.lines.number, "records": self.lines.count}

    @staticmethod
    def place(position: Position) -> str:
        return f"standard input, up to line {position['line']:,}"

    def read(self, most: int) -> Lines | None:
        while self.lines.count < self.skip:
            if self.lines.read(self.skip - self.lines.count) is None:
                raise DataError(
                    "standard input ended before the position that was reached last time"
                )
        return self.lines.read(most)

    def header(self) -> bytes | None:
        return self._header

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


def _fetcher() -> Fetch:
    """Read what is available: a slow pipe is answered at once, and signals are handled promptly."""
    if sys.stdin is None:
        raise DataError("standard input is closed: pipe records in, or name a file")
    try:
        pipe = sys.stdin.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return sys.stdin.buffer.read  # no descriptor: text that a program set in its place
    if os.name == "nt":
        return cast(io.BufferedReader, sys.stdin.buffer).read1  # no pipe can be waited for there
    with suppress(ImportError, OSError, AttributeError):  # no pipe, not allowed, or not Linux
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def fetch(size: int) -> bytes | None:
        if not _ready(pipe, PAUSE):
            return None
        parts, left = [os.read(pipe, min(size, _STEP))], size
        until = time.monotonic() + _GATHERING
        while parts[-1] and (left := left - len(parts[-1])) > 0:
            if not _ready(pipe, max(0.0, until - time.monotonic())):
                break
            parts.append(os.read(pipe, min(left, _STEP)))
        return b"".join(parts)

    return fetch


def _ready(pipe: int, seconds: float) -> bool:
    return bool(select.select([pipe], [], [], seconds)[0])
