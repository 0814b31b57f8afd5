"""Lines of text from a binary file, with their places, in bounded memory."""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

LONGEST = 1 << 20  # bytes of a line; longer ones are refused, not kept


class Line(NamedTuple):
    """One line of a source.

    ``place`` is a JSON value with which the source finds the line again; ``number`` and
    ``origin`` are for people. A line that is too long comes without its text.
    """

    text: bytes | None
    place: Any
    number: int
    origin: str


class LineReader:
    """Reads whole lines; a last line without its end is left for later while the file grows."""

    def __init__(self, file: BinaryIO, *, growing: bool, offset: int = 0, number: int = 0) -> None:
        self.file = file
        self.growing = growing
        self.offset = offset
        self.number = number

    def read(self) -> bytes | None:
        """The next line without its end, or None if there is none (yet); b"" is an empty line.

        Too long a line comes as ``TOO_LONG``.
        """
        text = self.file.readline(LONGEST)
        whole = text.endswith(b"\n")
        length = len(text)
        if not whole and length == LONGEST:
            while not whole and (more := self.file.readline(LONGEST)):
                length += len(more)
                whole = more.endswith(b"\n")
            text = TOO_LONG
        if not length or (not whole and self.growing):
            if length:
                self.file.seek(self.offset)
            return None
        self.offset += length
        self.number += 1
        return text if text is TOO_LONG else text.rstrip(b"\r\n")


TOO_LONG = b"\0too long"
