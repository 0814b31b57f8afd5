"""A folder as a source: files that arrive, each complete when it appears."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tulle.errors import DataError
from tulle.io._headers import separator_of
from tulle.stream._sources import (
    BLOCK,
    NO_LINES,
    PAUSE,
    FileSource,
    Lines,
    Position,
    first_line,
    is_packed,
)

_UNFINISHED = (".part", ".tmp", ".crdownload")
_WRITTEN = (".rejects.ndjson", ".manifest.json", ".key")  # by tulle stream itself
# so are states and reports, which have any name: a state is a zip that begins with header.json, and
# the first line of a report is not a record
_STATE_OR_REPORT = re.compile(
    rb'PK\x03\x04.{26}header\.json|\{\s*\n\s*"title": "Stream condensed from ', re.DOTALL
)
_MARKED = 4096  # bytes at either end of a file that tell it from another

Mark = tuple[int, str]  # size and checksum of a file that was read


class FolderSource:
    """Files in the order of their names.

    Hidden files and names that end in .part or .tmp are files still being written. A file that
    was read may be taken away; its name is remembered, for a folder may come back as it was (a
    disk that is mounted again). A mark of it is remembered too, so that another file of that name
    is not passed over in silence.
    """

    kind = "a folder"

    def __init__(
        self,
        path: str,
        *,
        has_header: bool,
        endings: Iterable[str],
        follow: bool,
        position: Position | None,
    ) -> None:
        self.name = os.path.basename(os.path.abspath(path))
        self.folder = Path(path)
        self.has_header = has_header
        self.endings = tuple(endings)
        self.follow = follow
        start = position or {"done": [], "file": None}
        self.done: set[str] = set(start["done"])
        self.own: set[str] = set()  # what Tulle wrote itself, found by what is in it
        self.salt = bytes.fromhex(start["salt"]) if "salt" in start else secrets.token_bytes(16)
        marks = zip(start["done"], start.get("marks", []))
        self.marks: dict[str, Mark] = {name: (mark[0], mark[1]) for name, mark in marks if mark}
        self.names: list[str] = []  # of files to read, the next one last
        self.strange: dict[str, int] = {}  # files with other columns, and their sizes
        self.order: list[int] | None = None  # of the columns in the current file
        self.current: FileSource | None = None
        arrived = self._arrived()
        if position is None and not follow and not arrived:
            raise DataError(f"{path} has no file to read: names must end in {self._endings()}")
        known = start.get("header")
        self._header = None if known is None else known.encode("latin-1")
        if start["file"] is not None:
            self._go_on_with(start["file"], start["within"], start.get("ended"))
        self._require_same()

    @property
    def position(self) -> Position:
        names = sorted(self.done)
        at = {
            "done": names,
            "marks": [self.marks.get(name) for name in names],
            "salt": self.salt.hex(),
            "header": None if self._header is None else self._header.decode("latin-1"),
            "file": None,
        }
        if self.current is None:
            return at
        # a file whose end was reached may be taken away, though nobody has looked beyond it yet
        file = self.current
        whole = not file.packed and file.lines.offset >= _size_of_open(file)
        ended = self._mark_of(file) if whole else None
        return at | {"file": file.name, "within": file.position, "ended": ended}

    @staticmethod
    def place(position: Position) -> str:
        current = f", and part of {position['file']}" if position["file"] else ""
        return f"a folder, {len(position['done']):,} files{current}"

    def read(self, most: int) -> Lines | None:
        parts: list[Lines] = []
        size = 0
        while most > 0 and size < BLOCK:
            try:
                if self.current is None and not self._open_next():
                    break
            except DataError:
                if parts:
                    break  # what was read comes first; the next call is refused
                raise
            assert self.current is not None
            lines = self.current.read(most)
            if lines is None:
                self.done.add(self.current.name)
                self.marks[self.current.name] = self._mark_of(self.current)
                self.close()
                self.current = None
            else:
                texts = _in_order(lines.texts, self.order, self._separator)
                parts.append(replace(lines, texts=texts))
                most -= len(lines)
                size += sum(len(text or b"") for text in lines.texts)
        if parts:
            return Lines.joined(parts)
        if not self.follow:
            return None
        time.sleep(PAUSE)
        return NO_LINES

    def header(self) -> bytes | None:
        while self.has_header and self._header is None:
            first = (first_line(self.folder / name) for name in self._arrived())
            self._header = next((line for line in first if line is not None), None)
            if self._header is None and not self.follow:
                break
            if self._header is None:
                time.sleep(PAUSE)
        return self._header

    def notes(self) -> list[str]:
        """Name or count the files that are not read, so that none is missed silently."""
        notes = []
        if names := sorted(self.strange):
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            notes.append(
                f"Set aside, because their columns are not those of the first file: "
                f"{', '.join(names[:5])}{more}. They are read once their columns are the same"
            )
        others = [name for name in self._complete() if not name.endswith(self.endings)]
        if left := sum(not self._is_own(name) for name in others):
            notes.append(
                f"Files in {self.name} that were ignored because their names do not end in "
                f"{self._endings()}: {left}"
            )
        return notes

    def close(self) -> None:
        if self.current is not None:
            self.current.close()

    def _open_next(self) -> bool:
        self.names = self.names or self._arrived()[::-1]
        while self.names:
            coming = self._open(self.names.pop(), None)
            header = coming.header()
            self.order = None if header is None else self._order(header)
            if header is None or self.order is not None:
                self.current = coming
                return True
            self.strange[coming.name] = _size_of_open(coming)
            coming.close()
        return False

    def _order(self, header: bytes) -> list[int] | None:
        """Return where the columns of the first file are in one with this header.

        Empty if they are in the same order, None if it has others.
        """
        known = self.header() or b""
        if header == known:
            return []
        mark = self._separator
        names = [_unquoted(field) for field in split_fields(known, mark)]
        here = [_unquoted(field) for field in split_fields(header, mark)]
        if sorted(names) != sorted(here) or len(set(here)) < len(here):
            return None
        return [here.index(name) for name in names]

    @property
    def _separator(self) -> str:
        return separator_of((self.header() or b"").decode("latin-1"), None)

    def _open(self, name: str, position: Position | None) -> FileSource:
        path = str(self.folder / name)
        return FileSource(
            path, has_header=self.has_header, follow=False, position=position, complete=True
        )

    def _go_on_with(self, name: str, position: Position, ended: Sequence[Any] | None) -> None:
        """Continue with the current file; ``ended`` is its mark if it was read to its end."""
        if (self.folder / name).exists():
            self.current = self._open(name, position)
            header = self.current.header()
            self.order = None if header is None else self._order(header)
            if ended and _size_of_open(self.current) != ended[0]:
                self.close()
                raise _another(name)
        elif ended:
            self.done.add(name)
            self.marks[name] = (ended[0], ended[1])
        else:
            raise DataError(
                f"{name} was removed before it was read to the end: put it back, or start a new "
                "state"
            )

    def _arrived(self) -> list[str]:
        """Return the files not read yet; those that were read must have kept their length."""
        there = self._complete()
        for name in there.keys() & self.marks.keys():
            if _size_of(there[name]) not in (None, self.marks[name][0]):
                raise _another(name)
        unread = there.keys() - self.done - self.own
        for name in self.strange.keys() & unread:
            if _size_of(there[name]) == self.strange[name]:
                unread -= {name}
            else:
                del self.strange[name]
        arrived = [name for name in unread if name.endswith(self.endings)]
        self.own |= {name for name in arrived if self._is_own(name)}
        return sorted(set(arrived) - self.own)

    def _complete(self) -> dict[str, os.DirEntry[str]]:
        """Return all files except those still being written and those Tulle wrote itself."""
        return {
            entry.name: entry
            for entry in os.scandir(self.folder)
            if entry.is_file()
            and not entry.name.startswith(".")
            and not entry.name.endswith(_UNFINISHED + _WRITTEN)
        }

    def _is_own(self, name: str) -> bool:
        try:
            with open(self.folder / name, "rb") as file:
                return _STATE_OR_REPORT.match(file.read(80)) is not None
        except OSError:
            return False  # the reader raises an error

    def _endings(self) -> str:
        *others, last = [ending for ending in self.endings if not is_packed(ending)]
        return f"{', '.join(others)} or {last} (or these and .gz)"

    # -- whether a file is the one that was read ---------------------------------------------------

    def _require_same(self) -> None:
        """Check, before reading anything new, that files already read are the same."""
        for name in sorted(self._complete().keys() & self.marks.keys()):
            with suppress(OSError), open(self.folder / name, "rb") as file:
                if self._mark(file.fileno(), self.marks[name][0]) != self.marks[name]:
                    raise _another(name)

    def _mark_of(self, file: FileSource) -> Mark:
        size = _size_of_open(file) if file.packed else file.lines.offset
        return self._mark(file.file.fileno(), size)

    def _mark(self, descriptor: int, size: int) -> Mark:
        """Return a keyed mark, short so that guesses of a file tested against it gain little."""
        ends = os.pread(descriptor, _MARKED, 0) + os.pread(
            descriptor, _MARKED, max(0, size - _MARKED)
        )
        return size, blake2b(ends, key=self.salt, digest_size=4).hexdigest()


def split_fields(text: bytes, separator: str) -> list[bytes]:
    """Return the fields of a CSV record as they are written, quotes included."""
    mark = separator.encode()
    if b'"' not in text:
        return text.split(mark)
    fields, start, quoted = [], 0, False
    for place in range(len(text)):
        letter = text[place : place + 1]
        if letter == b'"':
            quoted = not quoted
        elif letter == mark and not quoted:
            fields.append(text[start:place])
            start = place + 1
    return [*fields, text[start:]]


def _unquoted(field: bytes) -> bytes:
    whole = len(field) > 1 and field[:1] == field[-1:] == b'"'
    return field[1:-1].replace(b'""', b'"') if whole else field


def _in_order(
    texts: list[bytes | None], order: Sequence[int] | None, separator: str
) -> list[bytes | None]:
    """Return records with their fields in the order of the first file; odd ones stay."""
    if not order:
        return texts
    mark = separator.encode()
    moved: list[bytes | None] = []
    for text in texts:
        fields = [] if text is None else split_fields(text, separator)
        whole = len(fields) == len(order)
        moved.append(mark.join(fields[place] for place in order) if whole else text)
    return moved


def _size_of_open(file: FileSource) -> int:
    return os.fstat(file.file.fileno()).st_size


def _size_of(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return None  # taken away this very moment


def _another(name: str) -> DataError:
    return DataError(
        f"{name} is not the file that was read: either this state belongs to another folder, or "
        "the file was replaced. Restore it and add new records in another file, or start a new "
        "state"
    )
