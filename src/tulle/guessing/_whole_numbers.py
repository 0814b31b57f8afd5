"""Whole numbers, counted: how often they repeat, how they are spread, and what they may be.

Numbers that were *given* to people or records do not repeat where numbers that were *measured*
would.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Places = NDArray[np.float64]  # of numbers in their range, from 0 to 1

ENOUGH = 20  # rows: with fewer, frequencies are chance
UNIQUE = 0.9  # share of different values from which a column tells people apart
VISITS = 20  # rows that one person has on average, at most; a code has more
_FEW_ANSWERS = 12  # different values that answers may have: 0 to 10, and one for "none"
_NEIGHBOURS = 32  # neighbouring values that are taken as equally likely
_SURE, _CERTAIN = 5.0, 20.0  # repeats to expect before their absence says, and decides, anything
_HARDLY = 0.2  # share of the expected repeats that may be there all the same
_NONE = 0.1  # share of the rows with the lowest number, from which it may stand for none
_MANY = 50  # different numbers, at least, by whose repeats people are known
_DAYS = 366  # different numbers up to which they may be days of a year
_AROUND = 8  # steps on either side of a gap that tell how wide it is
_LIST = 30  # different values that a list of codes from 1 may have


@dataclass(frozen=True)
class WholeNumbers:
    """The different whole numbers of a column, in order, and how many rows have each."""

    different: Ints
    counts: Ints

    @classmethod
    def of(cls, values: Ints) -> WholeNumbers:
        """Count values; 0 or -1 is left out where it may stand for none among numbers of people."""
        different, counts = np.unique(values, return_counts=True)
        whole, rest = cls(different, counts), cls(different[1:], counts[1:])
        if whole.unique or rest.rows < ENOUGH or not rest.unique:
            return whole
        none = different[0] in (-1, 0) and counts[0] >= _NONE * whole.rows
        return rest if none else whole

    @cached_property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def enough(self) -> bool:
        return self.rows >= ENOUGH

    @property
    def size(self) -> int:
        return len(self.different)

    @property
    def ends(self) -> tuple[int, int]:
        return int(self.different[0]), int(self.different[-1])

    @property
    def unique(self) -> bool:
        return self.rows >= 2 and self.size >= UNIQUE * self.rows

    @property
    def running(self) -> bool:
        """Whether these are all numbers from the first to the last, once each."""
        return self.size == self.rows == self.ends[1] - self.ends[0] + 1

    @property
    def years(self) -> bool:
        """Whether numbers are some years of our time, most of them next to each other."""
        first, last = self.ends
        ours = first >= 1900 and last <= 2100 and last - first < 2 * self.size
        return ours and self.rows >= 3 * self.size

    @property
    def few(self) -> bool:
        return self.size <= _FEW_ANSWERS

    # -- repeats

    @cached_property
    def expected(self) -> float:
        """Count the repeats to expect if each record had drawn its number independently.

        Numbers are taken as equally likely among some neighbours: what is drawn from an uneven
        distribution repeats more often still. The step between numbers may be larger than one.
        """
        values = np.repeat(self.different, self.counts)
        edges = np.arange(0, len(values), _NEIGHBOURS)
        last = np.append(edges[1:], len(values)) - 1
        rows = last - edges + 1
        width = (values[last] - values[edges]) / self._step + 1.0
        distinct = width * -np.expm1(rows * np.log1p(-1 / np.maximum(width, 1 + 1e-9)))
        return float((rows - np.minimum(distinct, rows)).sum())

    @property
    def unrepeated(self) -> bool:
        """Whether repeats are missing that would have to be there."""
        return self.expected >= _SURE and self.rows - self.size <= _HARDLY * self.expected

    @property
    def surely_unrepeated(self) -> bool:
        return self.unrepeated and self.expected >= _CERTAIN

    @property
    def sparse(self) -> bool:
        """Whether numbers are so far apart that not even measurements would repeat."""
        return self.expected < _SURE

    @property
    def repeats_like_people(self) -> bool:
        """Whether numbers repeat more often than measurements, all about as often."""
        some = self.size > _MANY and self.rows <= VISITS * self.size
        alike = int(self.counts.max()) <= 10 * self.rows / self.size  # a keen visitor
        often = self.rows - self.size >= 3 * self.expected
        roots = np.sqrt(np.maximum(self.different, 0))
        squares = bool(np.all(roots == np.round(roots)))  # of ages, which repeat
        return some and alike and often and not squares and not self.measured

    @property
    def numbered_from_one(self) -> bool:
        """Whether hundreds of numbers begin at 0 or 1 and are spread evenly."""
        some = self.size > _DAYS and self.rows <= _MANY * self.size and self.ends[0] in (0, 1)
        even = self.counts.max() <= 20 * self.rows / self.size
        rows = np.repeat(self.different, self.counts)
        heaped = some and (self._rounded or _is_heaped(self._places(rows)))
        return some and self.ends[1] <= 3 * self.size and bool(even) and not heaped

    # -- the shape of the distribution

    @cached_property
    def measured(self) -> bool:
        """Whether numbers are negative, round, skewed or heaped: not given to people."""
        return self.ends[0] < 0 or self._rounded or _is_heaped(self._places(self.different))

    @property
    def _rounded(self) -> bool:
        """Whether more than a tenth are tens: by 5 points, and by 5 standard deviations."""
        tens = float((self.different % 10 == 0).mean())
        return tens >= 0.15 and tens > 0.1 + 5 * np.sqrt(0.09 / self.size)

    def _places(self, values: Ints) -> Places:
        first, last = self.ends
        return np.asarray((values - first) / max(last - first, 1))

    @property
    def _step(self) -> int:
        return int(np.gcd.reduce(np.diff(self.different))) if self.size > 1 else 1

    # -- few values

    @cached_property
    def peaks(self) -> int:
        return _peaks(self.counts, self.rows)

    @property
    def falling(self) -> bool:
        """Whether frequencies fall from the first values on, from 0 or to hardly any."""
        early = int(np.argmax(self.counts)) <= self.size // 3
        to_nothing = self.ends[0] == 0 or self.counts[-1] < 0.02 * self.counts.max()
        return self.size >= 4 and self.ends[0] >= 0 and self.peaks <= 1 and early and to_nothing

    @property
    def gapped_digits(self) -> bool:
        """Whether digits are left out in between, as codes do and answers do not."""
        steps = np.diff(self.different)
        gaps = int(steps.sum()) - len(steps)
        digits = self.ends[0] >= 0 and self.ends[1] <= 9
        return digits and not self._even and (gaps >= 2 or self.size == 3)

    @property
    def in_a_row(self) -> bool:
        """Whether steps are all the same, or small from 0 or 1 on."""
        small = self.ends[0] in (0, 1) and self.ends[1] <= _LIST
        return self._even or (small and bool(np.all(np.diff(self.different) <= 3)))

    @property
    def _even(self) -> bool:
        return len(np.unique(np.diff(self.different))) == 1

    # -- codes among many values

    @property
    def codes(self) -> bool:
        """Whether hardly any of the possible numbers occur, at irregular rates."""
        possible = (self.ends[1] - self.ends[0]) / self._step + 1
        if self.rows < VISITS * self.size or possible < 3 * self.size or np.median(self.counts) < 5:
            return False
        zeros = np.array([_zeros(int(value // self._step)) for value in self.different])
        rates = self.counts[zeros == np.bincount(zeros).argmax()]  # round ones are more frequent
        return len(rates) >= ENOUGH and _is_rough(rates)

    @property
    def listed(self) -> bool:
        """Whether numbers are places in a list: frequencies up and down, tens left out."""
        if self.size > _LIST or self.rows < VISITS * self.size or self.ends[0] not in (0, 1):
            return False
        odd = self.counts[self.different % 5 != 0]  # people like to answer 10 and 20
        return _peaks(odd, self.rows) >= 3 and _is_rough(odd)


def _is_heaped(place: Places) -> bool:
    """Return whether places are skewed to the low end or heaped in the middle, smoothly."""
    middle = float(np.median(place))
    if middle > 0.65 or _has_blocks(place) or not _is_smooth(place):
        return False  # the newest customers are the most, or each branch has its numbers
    uniform = (np.arange(len(place)) + 0.5) / len(place)
    far = float(np.abs(np.sort(place) - uniform).max())
    return middle < 0.2 or far > 0.1 + 1.5 / np.sqrt(len(place))  # Kolmogorov's distance


def _has_blocks(place: Places) -> bool:
    """Return whether wide gaps separate the numbers in the middle, by the steps around each."""
    steps = np.diff(np.unique(place))
    if len(steps) < 4 * _AROUND:
        return False
    total = np.concatenate([[0.0], np.cumsum(steps)])
    at = np.arange(len(steps) // 20 + _AROUND, len(steps) - len(steps) // 20 - _AROUND)
    around = total[at + _AROUND + 1] - total[at - _AROUND] - steps[at]
    ratio = steps[at] * 2 * _AROUND / np.maximum(around, 1e-300)
    return bool(len(ratio) and ratio.max() > 10 + 3 * np.log(len(steps)))


def _is_smooth(place: Places) -> bool:
    """Return whether the density falls off from one peak; numbers given in blocks have several."""
    width = np.maximum(np.diff(np.quantile(place, np.linspace(0.02, 0.98, 9))), 1e-12)
    rises = np.sign(np.diff(1 / width))
    return int((np.diff(rises[rises != 0]) != 0).sum()) <= 3


def _peaks(counts: Ints, rows: int) -> int:
    """Count the peaks of frequencies that chance does not explain.

    A peak is parted from the one before by a frequency far below both (seven tenths), and rises
    from it by a hundredth of the rows and four standard deviations.
    """
    if not len(counts):
        return 0
    peaks, top, low = 1, float(counts[0]), float(counts[0])
    for count in counts[1:].tolist():
        if low < 0.7 * min(top, count) and count - low > max(0.01 * rows, 4 * np.sqrt(count)):
            peaks, top, low = peaks + 1, count, count
        elif count >= top and low >= 0.7 * top:
            top, low = count, count
        else:
            low = min(low, count)
    return peaks


def _is_rough(counts: Ints) -> bool:
    """Return whether the frequencies of neighbours have little to do with each other."""
    ranks = np.unique(counts, return_inverse=True)[1].astype(float)
    if np.ptp(ranks[:-1]) == 0 or np.ptp(ranks[1:]) == 0:
        return False
    return float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1]) < 0.5


def _zeros(value: int) -> int:
    """Count the zeros at the end of a number, six at most."""
    return next((n for n in range(6) if value % 10 ** (n + 1)), 6) if value else 0
