"""Where the fields of a block of CSV begin, looked at byte by byte with NumPy.

It finds the records that do not have the width of the header, and the columns that must be judged
by their text although a parser would take it for numbers: a leading zero is lost in a number.
"""

from __future__ import annotations

import numpy as np

from tulle.tables.blocks import NEWLINE, RETURN, outside_quotes

_ZERO, _NINE, _MINUS, _POINT = b"09-."
# a number that begins with one of these is the same number without it, but not the same text
_ODD = np.zeros(256, bool)
_ODD[list(b'+ \t"')] = True
_DOUBTFUL = _ODD.copy()
_DOUBTFUL[[_ZERO, _MINUS]] = True


class Layout:
    """The fields of a block of whole records.

    Attributes
    ----------
    block : the records without the blank lines between them
    regular : whether there was nothing to take out
    wrong, first_wrong : how many records have another width, and how many lines before the first
    """

    def __init__(self, block: bytes, separator: str, width: int) -> None:
        codes = np.frombuffer(block, np.uint8)
        marks = outside_quotes(codes, (codes == ord(separator)) | (codes == NEWLINE))
        stops = np.flatnonzero(marks)  # where the fields end
        ends = codes[stops] == NEWLINE
        self.block, self.width, self.wrong, self.first_wrong = block, width, 0, 0
        self._codes, self._stops = codes, stops
        rows, rest = divmod(stops.size, width)
        self.regular = (
            not rest
            and np.count_nonzero(ends) == rows
            and bool(ends.reshape(rows, width)[:, -1].all())
        )
        if not self.regular:
            self._look_closer(codes, stops, ends)

    def columns_of_odd_numbers(self) -> set[int]:
        """The columns in which a number would not be written as it is.

        There is a sign, zero, blank or quote before it that the number itself does not have.
        """
        if not self.regular:
            return set(range(self.width))
        starts = np.empty_like(self._stops)
        starts[0] = 0
        np.add(self._stops[:-1], 1, out=starts[1:])
        first = self._codes[starts]
        fields = np.flatnonzero(_DOUBTFUL[first])
        first, starts = first[fields], starts[fields]
        # the block ends with a newline, so that a field has a byte behind each of its own
        second = self._codes[starts + 1]
        odd = _ODD[first] | ((first == _ZERO) & (second >= _ZERO) & (second <= _NINE))
        below = np.flatnonzero((first == _MINUS) & (second == _ZERO))  # -0.5, but not -0 or -05
        odd[below] = self._codes[starts[below] + 2] != _POINT
        return set(np.unique(fields[odd] % self.width).tolist())

    def _look_closer(self, codes: np.ndarray, marks: np.ndarray, ends: np.ndarray) -> None:
        """Counts the fields of each record; blank lines are no records and are taken out."""
        fields = np.diff(np.flatnonzero(ends), prepend=-1)
        stops = marks[ends]
        lengths = np.diff(stops, prepend=-1) - 1
        bare = (lengths == 1) & (codes[stops - 1] == RETURN)
        blank = (fields == 1) & ((lengths == 0) | bare)
        wrong = (fields != self.width) & ~blank
        self.wrong = int(np.count_nonzero(wrong))
        if self.wrong:
            begin = int(stops[wrong][0] - lengths[wrong][0])
            self.first_wrong = int(np.count_nonzero(codes[:begin] == NEWLINE))
        keep = np.ones(codes.size, bool)
        keep[stops[blank]] = False
        keep[stops[bare & blank] - 1] = False
        self.block = codes[keep].tobytes()
