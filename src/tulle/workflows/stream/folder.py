"""A folder as a source: files that arrive, each complete when it appears."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tulle.errors import DataError
from tulle.workflows.stream.files import FileSource, first_line, lines_at
from tulle.workflows.stream.lines import BLOCK, NO_LINES, Lines
from tulle.workflows.stream.sources import PAUSE, Position

_UNFINISHED = (".part", ".tmp", ".crdownload")
_WRITTEN = (".rejects.ndjson", ".manifest.json")  # by tulle stream itself


class FolderSource:
    """Files in the order of their names.

    Hidden files and names that end in .part or .tmp are files still being written. A file that
    was read may be taken away; its name is remembered, for a folder may come back as it was (a
    disk that is mounted again).
    """

    goes_back = True

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
        self.names: list[str] = []  # of files to read, the next one last
        self.current: FileSource | None = None
        if start["file"] is not None:
            self.current = self._open(start["file"], start["within"])
        known = start.get("header")
        self._header = None if known is None else known.encode("latin-1")
        if known is None and start.get("first"):  # states before 0.2 named a file instead
            self._header = first_line(self.folder / start["first"])

    @property
    def position(self) -> Position:
        header = None if self._header is None else self._header.decode("latin-1")
        at = {"done": sorted(self.done), "file": None, "header": header}
        if self.current is None:
            return at
        return at | {"file": self.current.name, "within": self.current.position}

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
                self.current.close()
                self.current = None
            else:
                name = self.current.name
                parts.append(replace(lines, places=[[name, place] for place in lines.places]))
                most -= len(lines)
                size += sum(len(text or b"") for text in lines.texts)
        if parts:
            return Lines.joined(parts)
        if not self.follow:
            return None
        time.sleep(PAUSE)
        return NO_LINES

    def header(self) -> bytes | None:
        if self.has_header and self._header is None:
            first = (first_line(self.folder / name) for name in self._arrived())
            self._header = next((line for line in first if line is not None), None)
        return self._header

    def again(self, places: Sequence[Any]) -> list[bytes | None]:
        try:
            return [lines_at(self.folder / name, [place])[0] for name, place in places]
        except FileNotFoundError as error:
            raise DataError(
                f"{os.path.basename(error.filename)} was taken away, and records of it wait: put "
                "it back, or seal waiting records in the state with --key from the start"
            ) from None

    def notes(self) -> list[str]:
        """Files that nobody reads are counted, so that none is missed in silence."""
        left = [name for name in self._complete() if not name.endswith(self.endings)]
        if not left:
            return []
        *others, last = self.endings
        return [
            f"Files of {self.name} that were left alone, because their names do not end in "
            f"{', '.join(others)} or {last}: {len(left)}"
        ]

    def close(self) -> None:
        if self.current is not None:
            self.current.close()

    def _open_next(self) -> bool:
        self.names = self.names or self._arrived()[::-1]
        if not self.names:
            return False
        coming = self._open(self.names[-1], None)
        if coming.header() is not None and coming.header() != self.header():
            coming.close()
            raise DataError(
                f"{coming.name} has other columns than the files before: move it away and start "
                "again; what was counted stays counted"
            )
        self.names.pop()
        self.current = coming
        return True

    def _open(self, name: str, position: Position | None) -> FileSource:
        path = str(self.folder / name)
        return FileSource(
            path, has_header=self.has_header, follow=False, position=position, complete=True
        )

    def _arrived(self) -> list[str]:
        """The files that were not read yet."""
        return sorted(name for name in self._complete() - self.done if name.endswith(self.endings))

    def _complete(self) -> set[str]:
        """All files but those that are being written, and what Tulle wrote itself."""
        return {
            entry.name
            for entry in os.scandir(self.folder)
            if entry.is_file()
            and not entry.name.startswith(".")
            and not entry.name.endswith(_UNFINISHED + _WRITTEN)
        }
