"""Quotes in lines of CSV: around whole fields, and what a line is that leaves one open.

A record is one line here, so a text with a line break is refused, all of it: taken line by line,
the rest of somebody's note would be a record if it only had the right number of fields.
"""

from __future__ import annotations

import csv
import re

from tulle.workflows.stream.lines import LONGEST

_FARTHEST = 1 << 16  # bytes after which an open quote is a slip of the pen, and no long text
_IN_QUOTES = re.compile('"[^"]*"')


def quoted_fields(text: str, separator: str) -> list[str] | None:
    """The fields of a line; None unless every quote is around a whole field, or doubled in it."""
    if re.search(f'[^"{separator}]"', _IN_QUOTES.sub('"', text)):
        return None  # a quote in a bare field, which the parser would take for a character
    before = csv.field_size_limit(LONGEST)
    try:
        return next(csv.reader([text], delimiter=separator, strict=True), [])
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(before)


def leaves_open(text: str, separator: str) -> bool:
    """Whether a line ends inside a field in quotes."""
    return quoted_fields(text, separator) is None and (
        quoted_fields(text + '"', separator) is not None
    )


class OpenQuotes:
    """Follows lines, one after the other, for as long as quotes are open: to the file's end."""

    def __init__(self, separator: str, length: int = 0, origin: str = "") -> None:
        self.separator = separator
        self.length = length  # of the lines since a quote was opened; 0 if none is open
        self.origin = origin  # the file of the last line

    def would_open(self, text: bytes | None) -> bool:
        """Whether a line opens quotes, if none are open yet."""
        return text is not None and b'"' in text and leaves_open(_lenient(text), self.separator)

    def hold(self, text: bytes | None, origin: str) -> bool:
        """Whether a line is inside quotes of a line before; remembers what it leaves open."""
        length = self.length if origin == self.origin else 0
        self.length, self.origin = 0, origin
        if text is None:
            return False  # longer than quotes go, and refused for that
        if length and length + len(text) <= _FARTHEST:
            inside = '"' + _lenient(text)
            if leaves_open(inside, self.separator):
                self.length = length + len(text)
                return True
            if quoted_fields(inside, self.separator) is not None:
                return True  # they close here
        # no quotes are open, or what comes contradicts them: then the line stands for itself
        self.length = len(text) if self.would_open(text) else 0
        return False


def _lenient(text: bytes) -> str:
    """A quote is a quote, whatever else is no UTF-8."""
    return text.decode("utf-8", errors="replace")
