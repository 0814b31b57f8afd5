"""Standard input as a source."""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from tulle.errors import DataError, TulleError
from tulle.workflows.stream.lines import Fetch, LineReader, Lines
from tulle.workflows.stream.sources import PAUSE, Position

_GATHERING = 0.05  # seconds that lines wait for more of them: many at a time are faster
_STEP = 1 << 16  # the most that a pipe gives at once, unless it was made larger
_PIPE = 1 << 20


class StandardInput:
    """Lines piped in. A pipe cannot go back: a restart gets the same lines again (``replayed``),
    or goes on where the pipe now is (``continued``)."""

    name = "standard input"

    def __init__(self, *, has_header: bool, position: Position | None, restart: str | None) -> None:
        self.lines = LineReader(_fetcher(), self.name, growing=False)
        self.goes_back = restart == "replayed"
        self.skip = 0
        if position is not None:
            if restart is None:
                raise TulleError(
                    "this state has read from standard input before: say --restart replayed if "
                    "the same lines come again, or --restart continued if only new ones come"
                )
            self.skip = position["line"] if self.goes_back else 0
        self._header = self.lines.first() if has_header else None
        if position is not None and not self.goes_back:
            # the header comes again, but only once in a replay of everything: not counted anew
            self.lines.number = position["line"]

    @property
    def position(self) -> Position:
        return {"line": self.lines.number}

    def read(self, most: int) -> Lines | None:
        found = self.lines.read(most)
        return None if found is None else _by_number(found)

    def header(self) -> bytes | None:
        return self._header

    def again(self, places: Sequence[int]) -> list[bytes | None]:
        """Passes over the lines that were delivered before and picks some of them."""
        wanted = set(places)
        picked: dict[int, bytes | None] = {}
        while self.lines.number < self.skip:
            found = self.lines.read(self.skip - self.lines.number)
            if found is None:
                raise DataError("standard input ends before the place that was reached before")
            picked |= {n: text for n, text in zip(found.numbers, found.texts) if n in wanted}
        return [picked[place] for place in places]

    def close(self) -> None:
        pass


def _by_number(lines: Lines) -> Lines:
    return Lines(lines.texts, lines.numbers, lines.numbers, lines.origins)


def _fetcher() -> Fetch:
    """Reads what is there: a slow pipe is answered at once, and a signal is not waited out."""
    if sys.stdin is None:
        raise DataError("standard input is closed: pipe records in, or name a file")
    try:
        pipe = sys.stdin.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return sys.stdin.buffer.read  # no descriptor: text that a program set in its place
    with suppress(OSError, AttributeError):  # no pipe, not allowed, or not Linux
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)

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
