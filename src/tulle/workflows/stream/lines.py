"""Lines of text from a binary file, read in blocks, with their places, in bounded memory."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST = 1 << 20  # bytes of a line; longer ones are refused, not kept
BLOCK = 2 << 20  # bytes read at a time

Fetch = Callable[[int], bytes | None]  # up to so many bytes; b"" at the end, None if none came


@dataclass(frozen=True, slots=True, repr=False)
class Lines:
    """Some lines of a source, one after the other.

    ``places`` are JSON values with which the source finds each line again; ``numbers`` and
    ``origins`` are for people. A line that is too long comes without its text. ``checks`` stand
    for texts that were let go.
    """

    texts: list[bytes | None]
    places: Sequence[Any]
    numbers: Sequence[int]
    origins: Sequence[str]
    checks: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        """A count: a traceback must not show records."""
        return f"<{len(self)} lines>"

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [text for part in parts for text in part.texts],
            [place for part in parts for place in part.places],
            [number for part in parts for number in part.numbers],
            [origin for part in parts for origin in part.origins],
            tuple(check for part in parts for check in part.checks),
        )


NO_LINES = Lines([], [], [], [])


class LineReader:
    """Whole lines; a last line without its end is left for later while the file grows.

    ``offset`` and ``number`` tell how many bytes and lines were delivered. What was read beyond
    them (at most a block) is kept for the next call.
    """

    def __init__(
        self, fetch: Fetch, origin: str, *, growing: bool, offset: int = 0, number: int = 0
    ) -> None:
        self.fetch = fetch
        self.origin = origin
        self.growing = growing
        self.offset = offset
        self.number = number
        self._ready: list[bytes] = []  # whole lines, each of which had a line end
        self._rest = b""  # the beginning of a line whose end was not read yet
        self._returns = False  # whether lines may end with CR and LF
        self._dropped = 0  # bytes of that beginning which were too many to keep

    @property
    def reached(self) -> int:
        """Bytes that were read, delivered or not."""
        ready = sum(map(len, self._ready)) + len(self._ready)
        return self.offset + ready + self._dropped + len(self._rest)

    @property
    def unfinished(self) -> bool:
        """Whether the beginning of a line was read, and not its end."""
        return bool(self._rest or self._dropped)

    def read(self, most: int) -> Lines | None:
        """The next lines, none if there are none yet, None if there will be none."""
        while not self._ready:
            block = self.fetch(BLOCK)
            if block is None:
                return NO_LINES
            if not block:
                return self._end()
            self._returns = self._returns or b"\r" in block
            *whole, rest = block.split(b"\n")
            if not whole:
                self._keep(rest)
                continue
            whole[0], self._rest = self._rest + whole[0], b""
            dropped, self._dropped = self._dropped, 0
            self._keep(rest)
            if dropped:
                self._ready = whole[1:]
                return self._too_long(dropped + len(whole[0]) + 1)
            self._ready = whole
        taken, self._ready = self._ready[:most], self._ready[most:]
        return self._deliver(taken)

    def first(self) -> bytes | None:
        """One line, waited for; None if there is none."""
        while (found := self.read(1)) is not None:
            if len(found):
                return found.texts[0]
        return None

    def _keep(self, rest: bytes) -> None:
        self._rest += rest
        if self._dropped or len(self._rest) > LONGEST:
            self._dropped, self._rest = self._dropped + len(self._rest), b""

    def _end(self) -> Lines | None:
        if self.growing:
            return NO_LINES
        if self._dropped:
            length, self._dropped = self._dropped, 0
            return self._too_long(length)
        if not self._rest:
            return None
        last, self._rest = self._rest, b""
        found = self._deliver([last])
        self.offset -= 1  # there was no line end
        return found

    def _deliver(self, raw: list[bytes]) -> Lines:
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        places = self.offset + np.cumsum(lengths + 1) - lengths - 1
        numbers = range(self.number + 1, self.number + 1 + len(raw))
        texts: list[bytes | None] = [*raw]
        if lengths.max() > LONGEST:
            texts = [text if len(text) <= LONGEST else None for text in raw]
        if self._returns:
            texts = [text and text.rstrip(b"\r") for text in texts]
        if not self.offset and texts[0]:
            texts[0] = texts[0].removeprefix(BOM_UTF8)
        self.offset, self.number = int(places[-1] + lengths[-1]) + 1, numbers[-1]
        return Lines(texts, places.tolist(), numbers, [self.origin] * len(raw))

    def _too_long(self, length: int) -> Lines:
        place, self.offset, self.number = self.offset, self.offset + length, self.number + 1
        return Lines([None], [place], [self.number], [self.origin])
