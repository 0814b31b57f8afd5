"""What few people hold is not shown: rare categories are merged, bounds rest on many people.

A :class:`Crowd` says how many people have to share what a release shows. Without one, nothing is
merged: an encoder that only compares tables sees them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tulle._people import distinct_people, draw_threshold, people_among
from tulle._types import Flags, Floats, Integers, Ints

_STRETCHES, _FINENESS = 240, 4  # beyond bounds: four stretches to each doubling of the distance
_LEFT = -2  # the code of a category that nothing takes in
_SYSTEM = 10  # so many common codes that are numbers are a system, in which near ones are alike
_PARTS = 50  # of the middle half of the values: how coarse bounds are
_STEPS = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Crowd:
    """How many people must share what is shown, and whose each row is."""

    k: int
    kept: Flags  # False for a record that is withheld
    people: Ints | None = None  # the person of each row, numbered from 0, if some have several
    rng: np.random.Generator | None = None  # draws how many of k to 1.5 k people are enough

    @classmethod
    def of_kept(
        cls, k: int, kept: Flags, people: Integers | None, rng: np.random.Generator | None = None
    ) -> Crowd:
        if people is not None:
            people = np.unique(people, return_inverse=True)[1]
        return cls(k, kept, people, rng)

    def with_more(self, people: int) -> Crowd:
        kept, known = np.r_[self.kept, np.ones(people, dtype=bool)], self.people
        if known is not None:
            known = np.r_[known, known.max(initial=-1) + 1 + np.arange(people)]
        return replace(self, kept=kept, people=known)

    def among(self, rows: Any) -> Crowd:
        people = None if self.people is None else self.people[rows]
        return replace(self, kept=self.kept[rows], people=people)

    def enough(self) -> float:
        return draw_threshold(self.k, self.rng)

    def hold(self, rows: Flags) -> int:
        """Return how many different people some rows are of."""
        return people_among(rows & self.kept, self.people)

    def held(self, codes: Ints, size: int) -> Ints:
        """Return how many different people have each code; -1 counts nowhere."""
        return distinct_people(np.where(self.kept, codes, -1), self.people, size)


@dataclass(frozen=True)
class Merging:
    """Which categories are kept, and where the rows of the others go."""

    kept: Ints  # the places of the categories that stay
    general: list[str]  # more general values that take rare ones in
    rest: int | None  # where the others go: a place after the kept and general ones, or -1: missing
    merged: int = 0  # how many categories were not kept
    rows: int = 0  # how many rows they had

    @property
    def size(self) -> int:
        """How many categories there are now, without the rest."""
        return len(self.kept) + len(self.general)


def merge_categories(
    codes: Ints, domain: Sequence[Any], crowd: Crowd, parents: Hierarchy, *, nameless: bool
) -> tuple[Merging, Ints]:
    """Merge the categories that few people hold, and return the new code of each row.

    They go up the hierarchy until enough people share a value. Without one, a code that is a number
    becomes the nearest common code, if there are many. What is left becomes the rest. If the rest
    has too few people itself, or is ``nameless`` because the type of the column has no room for a
    new word, it is missing where enough people are, else the commonest category.
    """
    enough = crowd.enough()
    size = len(domain)
    held = crowd.held(codes, size)
    kept = np.flatnonzero(held >= enough)
    rare = held < enough
    new = np.full(size + 1, -1, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    if not rare.any():
        return Merging(kept, [], None), new[codes]
    names = _taken_in(codes, crowd, domain, parents, kept, enough, new)
    if not parents:
        nearest = nearest_codes([domain[code] for code in kept.tolist()], domain)
        new[:-1] = np.where((new[:-1] == _LEFT) & (nearest >= 0), nearest, new[:-1])
    merged, rows = int(rare.sum()), int(np.isin(codes, np.flatnonzero(rare)).sum())
    merging = Merging(kept, names, None, merged, rows)
    left = np.flatnonzero(new[:-1] == _LEFT)
    if len(left):
        rest = _rest(codes, crowd, left, enough, merging, new, nameless=nameless)
        new[left] = rest
        merging = Merging(kept, names, rest, merged, rows)
    return merging, new[codes]


def _taken_in(
    codes: Ints,
    crowd: Crowd,
    domain: Sequence[Any],
    parents: Hierarchy,
    kept: Ints,
    enough: float,
    new: Ints,
) -> list[str]:
    """Give rare categories the code of a more general value in ``new``; return the general ones.

    A value that would have too few people, since others go elsewhere, is not used after all.
    """
    too_few: set[Any] = set()
    rare = np.setdiff1d(np.arange(len(domain)), kept).tolist()
    while True:
        places = _general(codes, crowd, rare, domain, parents, kept, enough, too_few)
        for code in rare:
            ups = (places.get(up) for up in parents.above(domain[code]))
            new[code] = next((place for place in ups if place is not None), _LEFT)
        totals = crowd.held(new[codes], len(places))
        few = {value for value, place in places.items() if totals[place] < enough}
        if not few:
            return [value for value, place in places.items() if place >= len(kept)]
        too_few |= few


def nearest_codes(known: Sequence[Any], asked: Sequence[Any]) -> Ints:
    """Return which of some known codes is nearest to each of others, by number.

    -1 for what is not a number, and for all if the known ones are too few to be a system of codes:
    the classes 3 and 4 of a short list need have nothing in common.

    >>> nearest_codes([*range(100, 200, 10), "N"], [118, "132", "N"]).tolist()
    [2, 3, -1]
    """
    numbers = _numbers(known)
    places = np.argsort(numbers, kind="stable")[: int(np.isfinite(numbers).sum())]
    if len(places) < _SYSTEM:
        return np.full(len(asked), -1, dtype=np.int64)
    line, wanted = numbers[places], _numbers(asked)
    after = np.clip(np.searchsorted(line, wanted), 1, len(line) - 1)
    lower = wanted - line[after - 1] <= line[after] - wanted
    return np.where(np.isfinite(wanted), places[np.where(lower, after - 1, after)], -1)


def _numbers(values: Sequence[Any]) -> Floats:
    """Return values as numbers, NaN for what is not one."""
    texts = pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    numbers = texts.cast(pl.Float64, strict=False).to_numpy()
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _rest(
    codes: Ints,
    crowd: Crowd,
    left: Ints,
    enough: float,
    merging: Merging,
    new: Ints,
    *,
    nameless: bool,
) -> int:
    """Return where categories go that nothing else takes in."""
    rows = np.isin(codes, left)
    if not nameless and crowd.hold(rows) >= enough:
        return merging.size
    if crowd.hold(rows | (codes < 0)) >= enough or (nameless and not merging.size):
        return -1
    if not merging.size:
        return 0  # the rest is all there is
    return int(crowd.held(new[codes], merging.size).argmax())


def _general(
    codes: Ints,
    crowd: Crowd,
    rare: Sequence[int],
    domain: Sequence[Any],
    parents: Hierarchy,
    kept: Ints,
    enough: float,
    too_few: set[Any],
) -> dict[Any, int]:
    """Return the values that take rare ones in: kept ones, and more general ones of enough people.

    The most special ones first: who is taken in there does not count further up.
    """
    places = {domain[code]: place for place, code in enumerate(kept.tolist())}
    free = {code: parents.above(domain[code]) for code in rare}
    for height in range(max((len(line) for line in free.values()), default=0)):
        ups: dict[Any, int] = {}
        up_of = np.full(len(domain) + 1, -1)
        for code, line in free.items():
            if height < len(line):
                up_of[code] = ups.setdefault(line[height], len(ups))
        held = crowd.held(up_of[codes], len(ups))
        for value, people in zip(ups, held.tolist()):
            if people >= enough and value not in places and value not in too_few:
                places[value] = len(places)
        free = {
            code: line
            for code, line in free.items()
            if height >= len(line) or line[height] not in places
        }
    return places


@dataclass(frozen=True)
class Hierarchy:
    """More general values: given one by one, or as the beginnings of codes."""

    parents: Mapping[str, str]
    lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str] | Sequence[int] | None) -> Hierarchy:
        """Return the hierarchy that a policy gives.

        >>> Hierarchy.of([3, 1]).above("Q90.9"), Hierarchy.of({"Chur": "GR"}).above("Chur")
        (['Q90', 'Q'], ['GR'])
        """
        if given is None or isinstance(given, Mapping):
            return cls(dict(given or {}))
        return cls({}, tuple(given))

    def __bool__(self) -> bool:
        """Return whether anything is more general than another."""
        return bool(self.parents or self.lengths)

    def above(self, value: Any) -> list[str]:
        """Return the more general values of one, the nearest first."""
        if self.lengths:
            text = str(value)
            return [text[:length].rstrip(".-/ ") for length in self.lengths if length < len(text)]
        line: list[str] = []
        while value in self.parents and self.parents[value] not in line:
            value = self.parents[value]
            line.append(value)
        return line


# -- bounds -----------------------------------------------------------------------------------


def safe_bounds(
    values: Floats, crowd: Crowd, rows: Any, *, origin: float = 0.0
) -> tuple[float, float]:
    """Find bounds of numbers that are not a single person's value.

    A bound is the smallest (largest) value if at least ``k`` people hold it; else the mean of the
    middle half of the ``k`` people at that end, rounded outwards to a round number (counted from
    ``-origin``): one outlier does not move it.
    """
    crowd = crowd.among(rows)
    values, crowd = values[crowd.kept], crowd.among(crowd.kept)
    if not len(values):
        return 0.0, 0.0
    low_end, high_end = float(values.min()), float(values.max())
    step = _step(values)
    low = _bound(values, crowd, step, origin)
    high = -_bound(-values, crowd, step, -origin)
    if low_end >= 0:
        low, high = max(low, 0.0), max(high, 0.0)
    if high_end <= 0:
        low, high = min(low, 0.0), min(high, 0.0)
    return low, max(low, high)


def _bound(values: Floats, crowd: Crowd, step: float, origin: float) -> float:
    """Return the lower bound of values."""
    k, first = crowd.k, float(values.min())
    if crowd.hold(values == first) >= k:
        return first
    if crowd.people is not None:  # the smallest value of each person
        order = np.lexsort((values, crowd.people))
        values = values[order[np.diff(crowd.people[order], prepend=-1) > 0]]
    if k < len(values):  # all others are larger than these
        values = np.partition(values, k - 1)[:k]
    tail = np.sort(values)
    middle = float(tail[len(tail) // 4 : len(tail) - len(tail) // 4].mean())
    rounded = math.floor((middle + origin) / step) * step - origin
    return rounded if math.isfinite(rounded) else middle


@dataclass(frozen=True)
class Tails:
    """How many later values lie beyond bounds, in stretches that grow with the distance.

    Bounds follow a stream by these counts, whatever the order and the batches of its records.
    """

    low: float
    high: float
    step: float
    counts: Ints  # (2, _STRETCHES), below and above

    def __post_init__(self) -> None:
        whole = np.shape(self.counts) == (2, _STRETCHES) and self.counts.dtype == np.int64
        if not whole or not all(map(math.isfinite, (self.low, self.high))) or not self.step > 0:
            raise ValueError("the tails of a column are damaged")

    @classmethod
    def of(cls, low: float, high: float) -> Tails:
        """Return the tails of bounds that no value lies beyond yet."""
        width = high - low
        step = width / _PARTS if 0 < width < math.inf else max(abs(low), 1.0) / _PARTS
        return cls(low, high, step, np.zeros((2, _STRETCHES), dtype=np.int64))

    def with_values(self, values: Floats) -> Tails:
        counts = self.counts.copy()
        for side, (_, stretches) in enumerate(self._beyond(values)):
            counts[side] += np.bincount(stretches, minlength=_STRETCHES)
        return replace(self, counts=counts)

    def with_people(
        self, values: Floats, people: Integers, farthest: list[dict[int, int]]
    ) -> Tails:
        """Add values of people, each of whom counts once on a side: where they came farthest."""
        counts = self.counts.copy()
        for side, (beyond, stretches) in enumerate(self._beyond(values)):
            for person, stretch in zip(people[beyond].tolist(), stretches.tolist()):
                before = farthest[side].get(person, -1)
                if stretch > before:
                    counts[side, stretch] += 1
                    counts[side, before] -= before >= 0
                    farthest[side][person] = stretch
        return replace(self, counts=counts)

    def _beyond(self, values: Floats) -> Iterator[tuple[Flags, Ints]]:
        """Yield for each side which values lie beyond the bounds, and in which stretch."""
        for away in (self.low - values, values - self.high):
            with np.errstate(over="ignore"):
                far = _FINENESS * np.log2(1 + away[away > 0] / self.step)
            yield away > 0, np.minimum(far, _STRETCHES - 1).astype(np.int64)

    def bounds(self, k: int) -> tuple[float, float]:
        """Return the bounds, moved outwards to where at least ``k`` values lie beyond them."""
        ends = []
        for counts in self.counts:
            enough = np.flatnonzero(counts[::-1].cumsum()[::-1] >= k)
            place = int(enough[-1]) if len(enough) else 0
            ends.append(self.step * (2.0 ** (place / _FINENESS) - 1))
        return self.low - ends[0], self.high + ends[1]


def _step(values: Floats) -> float:
    """Return 1, 2 or 5 times a power of ten: a small part of what half of the values span."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = float(high - low) or float(values.max() - values.min())
    if not 0 < spread < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(spread / _PARTS)) if spread > 1e-290 else spread
    return next(power * size for size in _STEPS if power * size >= spread / _PARTS or size == 10.0)
