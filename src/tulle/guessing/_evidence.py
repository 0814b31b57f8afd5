"""The evidence about a column: what its name speaks of and what its values look like.

Each piece is computed once, when a row of the table in ``columns`` first asks for it. Whole
numbers say most about themselves: numbers that were *given* to people or records do not repeat
where numbers that were *measured* would.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.guessing._forms import form_of
from tulle.guessing._person import PersonColumn
from tulle.table._look import FEW, Look
from tulle.table._words import vocabulary, words_of
from tulle.table.schema import Kind, Role

ENOUGH = 20  # rows: with fewer, frequencies are chance
UNIQUE = 0.9  # share of different values from which a column tells people apart
VISITS = 20  # rows that one person has on average, at most; a code has more
_ENOUGH_TEXTS = 5  # texts, which would be released as they are, are judged sooner than numbers
_PROSE = 40  # characters on average: longer than any label of a category in the corpus
_RARE = 0.5  # share of rows that merging would put into the rest: what is left says little
_SAMPLE = 2000  # texts read for their form and length: shares within two points

_QUANTITIES = {"count", "age", "measure", "money", "lab", "body", "date", "birth", "coordinate"}
_OF = {"of", "de", "di", "von", "van", "per", "pro"}  # "number of children" is no number of a child

Ints = NDArray[np.int64]
Places = NDArray[np.float64]  # of numbers in their range, from 0 to 1


class Nature(StrEnum):
    """What whole numbers are, judged by the numbers alone."""

    GIVEN = "given"  # numbered through: repeats are missing that would have to be there
    MEASURED = "measured"  # or counted
    UNCLEAR = "unclear"  # tell people apart, and nothing speaks for a measurement
    ANSWERS = "answers"  # few values in an order
    CODES = "codes"


@dataclass(frozen=True)
class ColumnEvidence:
    """What the rows of the table ask about a column."""

    look: Look
    person: PersonColumn | None = None  # if the column is the one that names people
    own: ColumnEvidence | None = (
        None  # of one row of each person, where it does not change between them
    )
    nature: Nature | None = None  # of whole numbers, once it is judged, with its sentence
    why: str = ""
    kind: Kind = Kind.TEXT  # once it is judged, with its sentence
    why_kind: str = ""

    @cached_property
    def topics(self) -> set[str]:
        return set(self.look.topics)

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.look.name)

    @cached_property
    def quantity(self) -> set[str]:
        return self.topics & _QUANTITIES

    @property
    def measures(self) -> set[str]:
        return self.quantity - {"count", "date"}

    @cached_property
    def whole(self) -> WholeNumbers | None:
        """Return the whole numbers of the column without codes; None if it holds anything else."""
        if not self.look.whole or self.look.boolean:
            return None
        return WholeNumbers.of(self.look.quantity().cast(pl.Int64).to_numpy())

    @property
    def apart(self) -> ColumnEvidence:
        """Return the evidence about what tells people apart: of one row each, if that differs."""
        return self.own or self

    @property
    def enough(self) -> bool:
        return self.look.records >= ENOUGH

    @property
    def text(self) -> bool:
        return self.look.numbers is None

    @property
    def few(self) -> bool:
        return self.look.distinct <= FEW

    @property
    def unique(self) -> bool:
        """Return whether nearly all values are different."""
        return self.look.present >= 2 and self.look.distinct >= UNIQUE * self.look.present

    @property
    def surely_unique(self) -> bool:
        return self.unique and self.look.present >= (_ENOUGH_TEXTS if self.text else ENOUGH)

    @property
    def many(self) -> bool:
        return not self.few or (self.text and self.unique)

    def rows_each(self, least: int) -> bool:
        """Return whether a value has at least so many rows on average."""
        return self.look.distinct * least <= self.look.present

    # -- the name and the values together

    @property
    def constant(self) -> bool:
        look = self.look
        return look.distinct == 1 < look.records and not (look.absent or look.unread or look.codes)

    @property
    def level(self) -> bool:
        """Return whether small positive numbers are named like a privacy level."""
        look, parts = self.look, set(self.words)
        named = parts == {"level"} or parts >= {"privacy", "level"}
        if not named or look.numbers is None or not look.whole or look.absent:
            return False
        most = 100  # levels are sizes of groups: a handful of choices
        small = look.numbers.is_between(1, max(1, look.records)).all()
        return bool(small) and look.distinct <= most

    @cached_property
    def form(self) -> str:
        """Return what nearly all values have the form of, if people can be known by it."""
        return form_of(self.look, self._sample)

    @property
    def nameable(self) -> bool:
        """Return whether values can be names or numbers of people at all."""
        look = self.look
        return look.times is None and not look.boolean and (self.text or look.whole)

    @property
    def names_people(self) -> bool:
        """Return whether the column is called a name, of people or of nothing else."""
        called = "personal_name" in self.topics or {"name", "person"} <= self.topics
        alone = "name" in self.topics and not self.topics & {"place", "code", "work"}
        named = called or (alone and (self.many or self.words == ["name"]))
        return self.nameable and named and (self.text or (called and self.many))

    @property
    def reaches(self) -> str:
        """Return what the name says of values by which people are reached or registered."""
        if not self.nameable or not self.many or self.topics & {"measure", "count"}:
            return ""
        topic = next((t for t in ("contact", "official_number") if t in self.topics), None)
        return "" if topic is None else vocabulary().topics[topic].says

    @property
    def numbered(self) -> bool:
        """Return whether the column is named like a number of something, not a number of ..."""
        counted = "count" in self.topics and bool(_OF & set(self.words))
        return self.nameable and "number" in self.topics and not counted

    @property
    def of_people(self) -> bool:
        only = self.topics <= {"person", "record", "household", "name"}
        return self.nameable and bool(self.topics) and only

    @cached_property
    def free_text(self) -> bool:
        """Return whether texts are remarks: long, or named so and of several words."""
        if self._sample is None or not self.text or self.look.times is not None:
            return False
        length = float(self._sample.str.len_chars().mean() or 0)  # type: ignore[arg-type]
        spaces = float(self._sample.str.contains(r"\S\s+\S+\s+\S").mean() or 0)  # type: ignore[arg-type]
        named = "free_text" in self.topics and (spaces >= 0.1 or length >= _PROSE / 2)
        return named or (length >= _PROSE and (not self.few or self.surely_unique))

    @cached_property
    def _sample(self) -> pl.Series | None:
        return None if self.look.texts is None else self.look.texts.drop_nulls().head(_SAMPLE)

    @property
    def mostly_rare(self) -> bool:
        """Return whether merging would put most rows of a category into the rest."""
        return not self.few and self.look.rare_rows >= _RARE * self.look.present

    @property
    def answers_from_one(self) -> bool:
        return self.nature is Nature.ANSWERS and self.whole is not None and self.whole.ends[0] == 1

    @property
    def given(self) -> bool:
        """Return whether whole numbers that are no codes were given to people or records."""
        return (
            self.kind is not Kind.CATEGORY and self.apart.nature is Nature.GIVEN and not self.timed
        )

    @property
    def unclear(self) -> bool:
        judged = self.kind is not Kind.CATEGORY and self.apart.nature is Nature.UNCLEAR
        return judged and not self.timed

    @property
    def timed(self) -> bool:
        """Return whether whole numbers are years, or time stamps in a column named so."""
        if self.whole is None or not self.topics & {"date", "birth"}:
            return False
        first, last = self.whole.ends
        return (first >= 1500 and last <= 2100) or first >= 10**8

    @property
    def wandering(self) -> bool:
        """Return whether numbers go up and down in small steps from row to row: a time series."""
        values = self.look.quantity().cast(pl.Float64).to_numpy()
        steps = np.diff(values)
        turns = float((np.sign(steps[1:]) != np.sign(steps[:-1])).mean())
        # a list in an order never turns, numbers in no order make steps as wide as their spread
        return turns > 0.1 and float(np.std(steps)) < 0.5 * (float(np.std(values)) or 1.0)

    @cached_property
    def secret(self) -> str:
        return self._hint(Role.SENSITIVE)

    @cached_property
    def public(self) -> str:
        return self._hint(Role.QUASI)

    def _hint(self, role: Role) -> str:
        """Return what the name says that hints at a role, with the word; empty if it does not."""
        worded = self.text and self.look.times is None and self.few
        no_date = worded or bool(
            self.topics & {"measure", "age"}
        )  # "full time: yes", hours of work
        for topic, word in self.look.topics.items():
            entry = vocabulary().topics[topic]
            if entry.role == role and not (topic == "date" and no_date):
                return f"{entry.says} ('{word}')"
        return ""


# -- whole numbers ------------------------------------------------------------------------------

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
        """Return whether these are all numbers from the first to the last, once each."""
        return self.size == self.rows == self.ends[1] - self.ends[0] + 1

    @property
    def years(self) -> bool:
        """Return whether numbers are some years of our time, most of them next to each other."""
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
        """Return whether repeats are missing that would have to be there."""
        repeats = self.rows - self.size
        return self.expected >= _SURE and repeats <= _HARDLY * self.expected

    @property
    def surely_unrepeated(self) -> bool:
        return self.unrepeated and self.expected >= _CERTAIN

    @property
    def sparse(self) -> bool:
        """Return whether numbers are so far apart that not even measurements would repeat."""
        return self.expected < _SURE

    @property
    def repeats_like_people(self) -> bool:
        """Return whether numbers repeat more often than measurements, all about as often."""
        some = self.size > _MANY and self.rows <= VISITS * self.size
        alike = int(self.counts.max()) <= 10 * self.rows / self.size  # a keen visitor
        often = self.rows - self.size >= 3 * self.expected
        return some and alike and often and not self.measured

    @property
    def numbered_from_one(self) -> bool:
        """Return whether hundreds of numbers begin at 0 or 1 and are spread evenly."""
        some = self.size > _DAYS and self.rows <= _MANY * self.size and self.ends[0] in (0, 1)
        even = self.counts.max() <= 20 * self.rows / self.size
        return some and self.ends[1] <= 3 * self.size and bool(even) and not self._heaped

    # -- the shape of the distribution

    @cached_property
    def measured(self) -> bool:
        """Return whether numbers are negative, rounded, skewed or heaped: not given to people."""
        return self.ends[0] < 0 or self._rounded or _is_heaped(self._places(self.different))

    @property
    def _heaped(self) -> bool:
        return self._rounded or _is_heaped(self._places(np.repeat(self.different, self.counts)))

    @property
    def _rounded(self) -> bool:
        """Return whether more than a tenth are tens: by 5 points, and by 5 standard deviations."""
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
        """Return whether frequencies fall from the first values on, from 0 or to hardly any."""
        early = int(np.argmax(self.counts)) <= self.size // 3
        to_nothing = self.ends[0] == 0 or self.counts[-1] < 0.02 * self.counts.max()
        return self.size >= 4 and self.ends[0] >= 0 and self.peaks <= 1 and early and to_nothing

    @property
    def gapped_digits(self) -> bool:
        """Return whether digits are left out in between, as codes do and answers do not."""
        steps = np.diff(self.different)
        gaps = int(steps.sum()) - len(steps)
        digits = self.ends[0] >= 0 and self.ends[1] <= 9
        return digits and not self._even and (gaps >= 2 or self.size == 3)

    @property
    def in_a_row(self) -> bool:
        """Return whether steps are all the same, or small from 0 or 1 on."""
        small = self.ends[0] in (0, 1) and self.ends[1] <= _LIST
        return self._even or (small and bool(np.all(np.diff(self.different) <= 3)))

    @property
    def _even(self) -> bool:
        return len(np.unique(np.diff(self.different))) == 1

    # -- codes among many values

    @property
    def codes(self) -> bool:
        """Return whether hardly any of the possible numbers occur, at irregular rates."""
        possible = (self.ends[1] - self.ends[0]) / self._step + 1
        if self.rows < VISITS * self.size or possible < 3 * self.size or np.median(self.counts) < 5:
            return False
        zeros = np.array([_zeros(int(value // self._step)) for value in self.different])
        rates = self.counts[zeros == np.bincount(zeros).argmax()]  # round ones are more frequent
        return len(rates) >= ENOUGH and _is_rough(rates)

    @property
    def listed(self) -> bool:
        """Return whether numbers are places in a list: frequencies up and down, tens left out."""
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
