"""What whole numbers are: numbers given to records, measurements, counts, answers or codes.

The names of columns help, but the numbers themselves say most. Numbers that were *given*
to people or records do not repeat where numbers that were *measured* would.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

_BIN = 32  # neighbouring values that are taken as equally likely
_SURE = 5.0  # repeats that have to be expected before their absence says anything
_CERTAIN = 20.0  # ... and before it decides
_HARDLY = 0.2  # share of the expected repeats that may be there all the same
_NEARLY_UNIQUE = 0.9
_ENOUGH = 20
_MANY = 50  # different people, at least, to be known by their repeats
_CHANCE = 5.0  # standard deviations: so many tens more than a tenth are not by chance
_LATE = 0.65  # where the median of a measurement lies at most, from 0 (lowest) to 1 (highest)
_AROUND = 8  # steps on either side of a gap that tell how wide it is
_NONE = 0.1  # of the rows, at least, that have no number
_DAYS = 366  # different numbers up to which they may be days of a year
_ROWS = 50  # rows of one number, on average
_VISITS = 20  # rows that one person may have on average
_FEW = 12  # different values that answers may have
_BUMP = 0.01  # of the records: how far a frequency must rise again to be a second peak
_DIP = 0.7  # how deep the frequencies between two peaks must be, relative to the lower one
_TURNS = 0.1  # share of the rows at which a time series turns
_TAIL = 0.02  # of the highest frequency: that of the last value of a count
_ALIKE = 0.5  # rank correlation of neighbouring frequencies that a quantity has at least
_LIST = 30  # different values that a list of codes from 1 may have
_CODES = 20  # records a value, at least, from which many whole numbers may be codes

Ints = NDArray[np.int64]


class Nature(StrEnum):
    """What a set of whole numbers is, judged by the numbers alone."""

    GIVEN = "given"  # numbered through: repeats are missing that would have to be there
    MEASURED = "measured"
    UNCLEAR = "unclear"  # nearly all different, and nothing speaks for a measurement
    COUNT = "count"
    ANSWERS = "answers"  # few values in an order
    CODES = "codes"


@dataclass(frozen=True)
class WholeNumbers:
    """Whole numbers of a column, counted."""

    different: Ints
    counts: Ints

    @classmethod
    def of(cls, values: Ints) -> WholeNumbers:
        """Count the values of a column that are present."""
        different, counts = np.unique(values, return_counts=True)
        return cls(different, counts.astype(np.int64))

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def nearly_unique(self) -> bool:
        return self.rows >= 2 and len(self.different) >= _NEARLY_UNIQUE * self.rows

    @property
    def running(self) -> bool:
        """Return whether these are all numbers from the first to the last."""
        first, last = int(self.different[0]), int(self.different[-1])
        return len(self.different) == self.rows == last - first + 1


def nature_of(whole: WholeNumbers) -> tuple[Nature, str]:
    """Judge whole numbers by their repeats, gaps and frequencies, with a reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cases = rng.permutation(np.arange(2_500_000, 2_502_000))[:1900]
    >>> weights = np.rint(rng.normal(3400, 500, 1900)).astype(int)
    >>> str(nature_of(WholeNumbers.of(cases))[0]), str(nature_of(WholeNumbers.of(weights))[0])
    ('given', 'measured')
    """
    if whole.rows < _ENOUGH or not len(whole.different):
        return Nature.MEASURED, ""
    if _are_years(whole):
        return Nature.MEASURED, ""
    if whole.running:
        return Nature.GIVEN, "a running number"
    if whole.nearly_unique:
        return _nature_of_unique(whole)
    others = _without_none(whole)
    if others is not None and others.nearly_unique and others.rows >= _ENOUGH:
        return _nature_of_unique(others)
    if len(whole.different) <= _FEW:
        return _nature_of_few(whole)
    if _repeat_like_people(whole):
        why = "numbers far apart repeat exactly, as those of people with several rows do"
        return Nature.UNCLEAR, why
    if _are_numbered_from_one(whole):
        return Nature.UNCLEAR, "numbers from 1 on that are all about equally frequent"
    if _are_codes(whole) or _is_list(whole):
        return Nature.CODES, "few of the possible numbers, at irregular rates: codes"
    return Nature.MEASURED, ""


def is_wandering(values: Ints) -> bool:
    """Return whether numbers in the order of the rows go up and down in small steps: a time
    series.
    """
    if len(values) < _ENOUGH:
        return False
    steps = np.diff(values).astype(float)
    turns = float((np.sign(steps[1:]) != np.sign(steps[:-1])).mean())
    spread = float(np.std(values)) or 1.0
    return turns > _TURNS and float(np.std(steps)) < 0.5 * spread


def expected_repeats(whole: WholeNumbers) -> float:
    """Count the repeats to expect if each record had drawn its number independently.

    Numbers are taken as equally likely among ``_BIN`` neighbours: what is drawn from an uneven
    distribution repeats more often still. The step between numbers may be larger than one.
    """
    values = np.repeat(whole.different, whole.counts)
    step = int(np.gcd.reduce(np.diff(whole.different))) if len(whole.different) > 1 else 1
    edges = np.arange(0, len(values), _BIN)
    last = np.append(edges[1:], len(values)) - 1
    rows = last - edges + 1
    width = (values[last] - values[edges]) / step + 1.0
    distinct = width * -np.expm1(rows * np.log1p(-1 / np.maximum(width, 1 + 1e-9)))
    return float((rows - np.minimum(distinct, rows)).sum())


def _nature_of_unique(whole: WholeNumbers) -> tuple[Nature, str]:
    share = f"{len(whole.different):,} of {whole.rows:,} numbers are different"
    repeats, expected = whole.rows - len(whole.different), expected_repeats(whole)
    given = expected >= _SURE and repeats <= _HARDLY * expected
    measured = _looks_measured(whole)
    if given and not measured and expected >= _CERTAIN:
        return Nature.GIVEN, f"{share}, which measurements in so narrow a range would not be"
    if given:
        return Nature.UNCLEAR, f"{share}, although measurements in so narrow a range would repeat"
    if measured or expected >= _SURE:
        return Nature.MEASURED, ""
    return Nature.UNCLEAR, f"{share}, and nothing says that they are measurements"


def _without_none(whole: WholeNumbers) -> WholeNumbers | None:
    """Return the numbers without the lowest one if many have it: 0 may stand for none."""
    if whole.different[0] not in (-1, 0) or whole.counts[0] < _NONE * whole.rows:
        return None
    return WholeNumbers(whole.different[1:], whole.counts[1:])


def _repeat_like_people(whole: WholeNumbers) -> bool:
    """Return whether numbers repeat more often than in a measurement, all alike, and not because
    they are round.
    """
    rows, different = whole.rows, len(whole.different)
    if (
        different <= _MANY
        or rows > _VISITS * different
        or int(whole.counts.max()) > 10 * rows / different
    ):
        return False
    if rows - different < 3 * expected_repeats(whole):
        return False
    return not _looks_measured(whole)


def _are_numbered_from_one(whole: WholeNumbers) -> bool:
    """Return whether hundreds of numbers begin at 0 or 1 and are spread evenly: people or
    things.
    """
    values = whole.different
    if len(values) <= _DAYS or whole.rows > _ROWS * len(values) or values[0] not in (0, 1):
        return False
    dense = values[-1] <= 3 * len(values)
    even = bool(whole.counts.max() <= 20 * whole.rows / len(values))
    return (
        dense
        and even
        and not _looks_measured(WholeNumbers(np.repeat(values, whole.counts), whole.counts))
    )


def _looks_measured(whole: WholeNumbers) -> bool:
    """Return whether numbers are rounded, negative, skewed or heaped in the middle: not
    assigned.
    """
    values = whole.different
    if values[0] < 0:
        return True
    rounded = float((values % 10 == 0).mean())
    if rounded > 0.1 + _CHANCE * np.sqrt(0.09 / len(values)) and rounded >= 0.15:
        return True
    place = (values - values[0]) / max(int(values[-1] - values[0]), 1)
    middle = float(np.median(place))
    if middle > _LATE or _has_blocks(place):
        return False  # the newest customers are the most, or each branch has its numbers
    if middle < 0.2 and _is_smooth(place):
        return True  # most are small, few are large
    uniform = (np.arange(len(place)) + 0.5) / len(place)
    far = float(np.abs(np.sort(place) - uniform).max())
    return far > 0.1 + 1.5 / np.sqrt(len(place)) and _is_smooth(place)


def _has_blocks(place: NDArray[np.float64]) -> bool:
    """Return whether wide gaps separate the numbers in the middle, measured by the steps around
    each gap.
    """
    values = np.unique(place)
    steps = np.diff(values)
    if len(steps) < 4 * _AROUND:
        return False
    total = np.concatenate([[0.0], np.cumsum(steps)])
    at = np.arange(len(steps) // 20 + _AROUND, len(steps) - len(steps) // 20 - _AROUND)
    around = total[at + _AROUND + 1] - total[at - _AROUND] - steps[at]
    ratio = steps[at] * 2 * _AROUND / np.maximum(around, 1e-300)
    return bool(len(ratio) and ratio.max() > 10 + 3 * np.log(len(steps)))


def _is_smooth(place: NDArray[np.float64]) -> bool:
    """Return whether the density falls off from one peak; numbers assigned in blocks have
    several.
    """
    edges = np.quantile(place, np.linspace(0.02, 0.98, 9))
    width = np.maximum(np.diff(edges), 1e-12)
    density = 1 / width
    rises = np.sign(np.diff(density))
    turns = int((np.diff(rises[rises != 0]) != 0).sum())
    return turns <= 3


def _nature_of_few(whole: WholeNumbers) -> tuple[Nature, str]:
    """Judge numbers with few different values."""
    values, counts = whole.different, whole.counts
    steps = np.diff(values)
    if len(values) <= 2:
        return Nature.CODES, "two values"
    even = bool(np.all(steps == steps[0])) if len(steps) else True
    small = values[0] in (0, 1) and values[-1] <= 30 and bool(np.all(steps <= 3))
    peaks = _peaks(counts, whole.rows)
    if len(values) >= 4 and values[0] >= 0 and peaks <= 1 and _is_falling(values, counts):
        return Nature.COUNT, "frequencies that fall off: a count"
    gaps = int(steps.sum()) - len(steps)
    if values[0] >= 0 and values[-1] <= 9 and not even and (gaps >= 2 or len(values) == 3):
        return Nature.CODES, "few digits with gaps: codes"
    if (even or small) and peaks <= 1:
        return Nature.ANSWERS, "few values in a row"
    if even or small:
        return Nature.CODES, "few values, with no order in their frequencies"
    if peaks <= 1:
        return Nature.MEASURED, ""
    return Nature.CODES, "few numbers with gaps: codes"


def _are_years(whole: WholeNumbers) -> bool:
    """Return whether numbers are a few years of our time, most of them next to each other."""
    first, last = int(whole.different[0]), int(whole.different[-1])
    repeated = whole.rows >= 3 * len(whole.different)
    return first >= 1900 and last <= 2100 and repeated and last - first < 2 * len(whole.different)


def _is_falling(values: Ints, counts: Ints) -> bool:
    """Return whether frequencies fall from the first values on, from 0 or to hardly any at the
    end.
    """
    early = int(np.argmax(counts)) <= len(values) // 3
    return early and bool(values[0] == 0 or counts[-1] < _TAIL * counts.max())


def _peaks(counts: Ints, rows: int) -> int:
    """Count the peaks of frequencies that chance does not explain.

    A peak is parted from the one before by a frequency far below both of them.
    """
    if not len(counts):
        return 0
    peaks, top, low = 1, float(counts[0]), float(counts[0])
    for count in counts[1:].tolist():
        if low < _DIP * min(top, count) and count - low > max(_BUMP * rows, 4 * np.sqrt(count)):
            peaks, top, low = peaks + 1, count, count
        elif count >= top and low >= _DIP * top:
            top, low = count, count
        else:
            low = min(low, count)
    return peaks


def _are_codes(whole: WholeNumbers) -> bool:
    """Return whether many numbers are codes: hardly any of the possible ones, at irregular
    rates.
    """
    values, counts = whole.different, whole.counts
    step = int(np.gcd.reduce(np.diff(values)))
    possible = (values[-1] - values[0]) / step + 1
    if whole.rows < _CODES * len(values) or possible < 3 * len(values) or np.median(counts) < 5:
        return False
    round_by = np.array([_roundness(int(value // step)) for value in values])
    common = np.bincount(round_by).argmax()
    rates = counts[round_by == common]
    return len(rates) >= _CODES and _is_rough(rates)


def _is_rough(counts: Ints) -> bool:
    """Return whether the frequencies of neighbouring values have little to do with each other."""
    ranks = np.unique(counts, return_inverse=True)[1].astype(float)
    if np.ptp(ranks[:-1]) == 0 or np.ptp(ranks[1:]) == 0:
        return False
    return float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1]) < _ALIKE


def _is_list(whole: WholeNumbers) -> bool:
    """Return whether numbers up to 30 or so are positions in a list: frequencies go up and down.

    Round numbers are left out: people like to answer 10 and 20.
    """
    if len(whole.different) > _LIST or whole.rows < _CODES * len(whole.different):
        return False
    odd = whole.counts[whole.different % 5 != 0]
    return whole.different[0] in (0, 1) and _peaks(odd, whole.rows) >= 3 and _is_rough(odd)


def _roundness(value: int) -> int:
    """Count the zeros at the end of a number."""
    zeros = 0
    while value and value % 10 == 0 and zeros < 6:
        value, zeros = value // 10, zeros + 1
    return zeros
