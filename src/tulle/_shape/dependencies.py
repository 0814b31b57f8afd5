"""Columns that follow from others: found, left out, and restored through a map.

A dependency holds in (nearly) all rows: a region has one country, an industry code one sector, an
age one age band. The map has an entry for each value of the source that at least ``k`` people
hold, or, where the source is a number and the target changes only a few times along it, for each
stretch of at least ``k`` people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._columns import CategoryColumn, Column, NumberColumn, cells_of
from tulle._people import distinct_people
from tulle._threads import on_all_cores
from tulle._types import Floats, Ints

_SLACK = 1e-9
_BROKEN = 0.001  # share of rows that may break a dependency
_BROKEN_OF_MINORITY = 0.02  # and share of those whose value is not the commonest
_COVERED = 0.7  # share of people whose value of the source k people hold
_COVERED_OF_MOVED = 0.5  # where the others take a value near theirs, which would contradict
_SAMPLE = 2_000  # rows of a first look
_MOST_PAIRS = 20_000  # of columns looked at
_MOST_STEPS = 64


@dataclass(frozen=True)
class Dependency:
    """A map from the values of one column to those of another, every entry of >= k people."""

    source: str
    target: str
    keys: Floats  # ascending; with steps, the last value of each stretch but the last
    starts: Ints  # where the answers to each key begin
    answers: Floats  # one for each key, or several where the key stands for many values
    rises: Floats  # running total of how often
    steps: bool
    codes: bool  # whether answers are codes of categories

    def restore(self, values: Floats | Ints, rng: np.random.Generator) -> Floats | Ints:
        keys = np.asarray(values, dtype=float)
        if np.issubdtype(np.asarray(values).dtype, np.integer):  # codes, of which -1 is missing
            keys = np.where(keys < 0, np.nan, keys)
        missing = np.isnan(keys)
        if self.steps:
            place = np.searchsorted(self.keys, np.where(missing, -np.inf, keys), side="left")
            place = np.where(missing, len(self.starts) - 2, place)
        else:
            place = _nearest(self.keys, np.where(missing, np.inf, keys))
        first, last = self.starts[place], self.starts[place + 1]
        low = np.where(first > 0, self.rises[np.maximum(first - 1, 0)], 0.0)
        level = low + rng.random(len(keys)) * (self.rises[last - 1] - low)
        found = np.clip(np.searchsorted(self.rises, level, side="right"), first, last - 1)
        restored = self.answers[found]
        return restored.astype(np.int64) if self.codes else restored


@dataclass(frozen=True)
class _Discrete:
    """A column as numbered values."""

    column: Column
    values: Floats  # distinct, ascending; missing is the last as infinity
    codes: Ints  # (n,)
    held: Floats  # people of each value
    common: NDArray[np.bool_]  # held by k people

    def of_common(self, rows: Ints | None = None) -> Ints:
        """Return which of some rows (all by default) have a common value, and their own."""
        codes = self.codes if rows is None else self.codes[rows]
        good = self.common[codes]
        moved = getattr(self.column, "moved", None)
        if moved is not None:
            good = good & ~(moved if rows is None else moved[rows])
        return np.flatnonzero(good) if rows is None else rows[good]

    @property
    def is_number(self) -> bool:
        return isinstance(self.column, NumberColumn)


def find_dependencies(
    columns: Sequence[Column],
    k: int,
    people: Floats,
    *,
    keep: str | None = None,
    rng: np.random.Generator | None = None,
    persons: Ints | None = None,
) -> list[Dependency]:
    """Find the columns that follow from another one that stays.

    The finest columns are looked at first, so that chains end in a column that is kept, and of
    two that follow from one another the category stays. ``keep`` is never left out. How many
    exceptions are too many is drawn by ``rng``: a map that one more exception breaks for sure would
    tell of it. ``people`` is what each row counts; where ``persons`` say whose it is, a value that
    everybody has in one of many rows is held by all of them.
    """
    found: list[Dependency] = []
    kept: list[_Discrete] = []
    size = len(people) * len(columns)
    all_of_them = on_all_cores(lambda column: _discrete(column, k, people, persons), columns, size)
    sample = np.linspace(0, len(people) - 1, min(len(people), _SAMPLE)).astype(np.int64)
    looked = 0
    for target in sorted(all_of_them, key=lambda one: (-_fineness(one), one.is_number)):
        dependency = None
        if target.column.name != keep and target.common.sum() > 1:
            for source in kept:
                looked += 1
                if looked > _MOST_PAIRS or len(source.values) < 2:
                    continue
                if _may_follow(source, target, sample):
                    luck = 0.0 if rng is None else float(rng.random())
                    dependency = _stepwise(source, target, people, k, luck)
                    dependency = dependency or _valuewise(source, target, people, k, luck)
                if dependency is not None:
                    break
        if dependency is None:
            kept.append(target)
        else:
            found.append(dependency)
    return found


def fit_dependency(
    source: Column, target: Column, k: int, people: Floats, persons: Ints | None = None
) -> Dependency | None:
    """Map one column to another that is said to follow from it, whatever few rows say.

    Every entry is what at least ``k`` people share. Returns None if there is none.
    """
    first, second = (_discrete(column, k, people, persons) for column in (source, target))
    stretches = _stepwise(first, second, people, k, 0.0)
    return stretches or _majority(first, second, people, k, persons)


def _fineness(one: _Discrete) -> int:
    """Return how many values a column has that count: all, or those of k people if these are most.

    The rare values of a column that has common ones are merged, whatever its kind.
    """
    covered = one.held[one.common].sum() >= _COVERED * one.held.sum()
    return int(one.common.sum()) if covered else len(one.values)


def _discrete(column: Column, k: int, people: Floats, persons: Ints | None) -> _Discrete:
    raw = np.asarray(cells_of(column), dtype=float)
    if isinstance(column, CategoryColumn):
        raw = np.where(raw < 0, np.inf, raw)
    values, codes = np.unique(np.where(np.isnan(raw), np.inf, raw), return_inverse=True)
    codes = codes.reshape(-1)
    held = _held(codes, len(values), people, persons)
    common = held >= k - _SLACK
    if isinstance(column, CategoryColumn) and column.other is not None:
        common &= values != column.other
    return _Discrete(column, values, codes, held, common)


def _held(codes: Ints, size: int, people: Floats, persons: Ints | None) -> Floats:
    """Return how many people hold each code: by what rows count, or different ones."""
    if persons is None:
        return np.bincount(codes, weights=people, minlength=size).astype(float)
    return distinct_people(np.where(people > 0, codes, -1), persons, size).astype(float)


def _may_follow(source: _Discrete, target: _Discrete, sample: Ints) -> bool:
    """Tell from some rows whether the target can follow from the source."""
    rows = source.of_common(sample)
    if not len(rows):
        return source.is_number
    pairs = source.codes[rows] * len(target.values) + target.codes[rows]
    distinct, counts = np.unique(pairs, return_counts=True)
    of_key = distinct // len(target.values)
    most = np.zeros(len(source.values))
    np.maximum.at(most, of_key, counts)
    return bool(len(rows) - most.sum() <= max(5.0, 0.01 * len(rows)))


def _allowed(target: _Discrete, rows: Ints, k: int, luck: float) -> float:
    """Return how many of the rows may break a dependency.

    Up to ``k - 1`` may if they are few among those whose value is not the commonest: values that
    so few hold were merged with others. One always may: a single person who breaks a rule must not
    show by the rule being broken in the release. ``luck`` in [0, 1) blurs where the limit is.
    """
    counts = np.bincount(target.codes[rows], minlength=len(target.values))
    minority = len(rows) - counts.max()
    few = float(min(max(_BROKEN * len(rows), k - 1), _BROKEN_OF_MINORITY * minority))
    return max(few, 1.0) * (1.0 + luck)


def _valuewise(
    source: _Discrete, target: _Discrete, people: Floats, k: int, luck: float
) -> Dependency | None:
    """Look for a map with an entry for each value that at least ``k`` people hold."""
    rows = source.of_common()
    is_moved = getattr(source.column, "moved", None) is not None
    share = _COVERED_OF_MOVED if is_moved else _COVERED
    if people[rows].sum() < share * people.sum() or source.common.sum() < 2:
        return None
    _, answer, counts = _usual(source, target, rows, np.ones(len(people)))
    broken = len(rows) - counts.sum()
    if broken > _allowed(target, rows, k, luck) or len(np.unique(answer)) < 2:
        return None
    if not target.common[answer].all():
        return None
    return _majority(source, target, people, 0)


def _usual(
    source: _Discrete, target: _Discrete, rows: Ints, people: Floats, persons: Ints | None = None
) -> tuple[Ints, Ints, Floats]:
    """Return each value of the source, the target's commonest value with it, and of how many."""
    width = len(target.values)
    pairs, place = np.unique(source.codes[rows] * width + target.codes[rows], return_inverse=True)
    whose = None if persons is None else persons[rows]
    held = _held(place.reshape(-1), len(pairs), people[rows], whose)
    key, answer = pairs // width, pairs % width
    best = np.lexsort((-held, ~target.common[answer], key))  # never an answer of few people
    first = best[np.r_[True, key[best][1:] != key[best][:-1]]]
    return key[first], answer[first], held[first]


def _majority(
    source: _Discrete, target: _Discrete, people: Floats, least: int, persons: Ints | None = None
) -> Dependency | None:
    """Map each value of ``k`` people to the commonest value with it, if ``least`` share that."""
    rows = source.of_common()
    if not len(rows):
        return None
    key, answer, held = _usual(source, target, rows, people, persons)
    enough = (held >= least - _SLACK) & target.common[answer]
    if not enough.any():
        return None
    key, answer = key[enough], answer[enough]
    entries = {int(code): ([int(value)], [1.0]) for code, value in zip(key, answer)}
    other = getattr(source.column, "other", None)
    if other is not None and (source.values == other).any():
        entries |= _mixed(source, target, int(np.flatnonzero(source.values == other)[0]))
    return _mapped(source, target, source.values, entries)


def _mixed(
    source: _Discrete, target: _Discrete, code: int
) -> dict[int, tuple[list[int], list[float]]]:
    """Return the target's rates among those whose value of the source was merged with others."""
    counts = (
        np.bincount(target.codes[source.codes == code], minlength=len(target.values))
        * target.common
    )
    if not counts.any():
        return {}
    answers = np.flatnonzero(counts)
    return {code: (answers.tolist(), counts[answers].astype(float).tolist())}


def _stepwise(
    source: _Discrete, target: _Discrete, people: Floats, k: int, luck: float
) -> Dependency | None:
    """Look for stretches of a number along which the target does not change, but for a few rows."""
    if not isinstance(source.column, NumberColumn) or source.column.coded:
        return None
    rows = np.flatnonzero(np.isfinite(source.values)[source.codes])
    if not len(rows):
        return None
    allowed = _allowed(target, rows, k, luck)
    values, answers, broken = _majorities(source.codes[rows], target.codes[rows])
    held: Floats = np.bincount(source.codes[rows], weights=people[rows])[values].astype(float)
    answers, more = _smoothed(answers, held, allowed)
    change = np.flatnonzero(answers[1:] != answers[:-1])
    if broken + more > allowed or not 1 <= len(change) <= _MOST_STEPS:
        return None
    ends = np.r_[change, len(values) - 1]
    if (np.diff(np.r_[0.0, np.cumsum(held)[ends]]) < k - _SLACK).any():
        return None
    cuts = [
        _between(source.values[values[i]], source.values[values[i + 1]], source.column.decimals)
        for i in change.tolist()
    ]
    entries = {place: ([int(answers[end])], [1.0]) for place, end in enumerate(ends.tolist())}
    absent = np.flatnonzero(np.isinf(source.values)[source.codes])
    if people[absent].sum() >= k - _SLACK:
        counts = np.bincount(target.codes[absent], minlength=len(target.values))
        if len(absent) - counts.max() > max(_BROKEN * len(absent), 1.0):
            return None
        entries[len(ends)] = ([int(counts.argmax())], [1.0])
    else:
        entries[len(ends)] = entries[len(ends) - 1]
    return _mapped(source, target, np.array(cuts), entries, steps=True)


def _majorities(codes: Ints, answers: Ints) -> tuple[Ints, Ints, int]:
    """Return the values that occur, the commonest answer to each, and the rows that differ."""
    width = int(answers.max()) + 1
    pairs, counts = np.unique(codes * width + answers, return_counts=True)
    best = np.lexsort((-counts, pairs // width))
    first = best[np.r_[True, np.diff((pairs // width)[best]) > 0]]
    return pairs[first] // width, pairs[first] % width, int(len(codes) - counts[first].sum())


def _smoothed(answers: Ints, held: Floats, allowed: float) -> tuple[Ints, float]:
    """Return answers without exceptions between two of the same stretch, and who these are."""
    answers, broken = answers.copy(), 0.0
    for _ in range(int(allowed)):
        change = np.flatnonzero(answers[1:] != answers[:-1]) + 1
        starts, ends = np.r_[0, change], np.r_[change, len(answers)]
        if len(starts) > 3 * _MOST_STEPS:
            break
        sizes = np.add.reduceat(held, starts)
        inside = np.arange(1, len(starts) - 1)
        alike = inside[answers[starts[inside - 1]] == answers[starts[inside + 1]]]
        alike = alike[sizes[alike] <= allowed - broken]
        if not len(alike):
            break
        least = int(alike[np.argmin(sizes[alike])])
        broken += float(sizes[least])
        answers[starts[least] : ends[least]] = answers[starts[least - 1]]
    return answers, broken


def _between(low: float, high: float, decimals: int | None) -> float:
    for places in range(-12, 13):
        number = np.floor(np.round(high * 10.0**places, 6)) / 10.0**places
        if number >= high:
            number -= 10.0**-places
        if low <= number < high:
            return float(number)
    return float(low)


def _mapped(
    source: _Discrete,
    target: _Discrete,
    keys: Floats,
    entries: dict[int, tuple[list[int], list[float]]],
    *,
    steps: bool = False,
) -> Dependency:
    places = sorted(entries)
    answers = np.concatenate([entries[place][0] for place in places])
    counts = np.concatenate([entries[place][1] for place in places])
    starts = np.cumsum([0, *(len(entries[place][0]) for place in places)])
    codes = isinstance(target.column, CategoryColumn)
    values = target.values[answers]
    values = np.where(np.isinf(values), -1.0 if codes else np.nan, values)
    return Dependency(
        source.column.name,
        target.column.name,
        keys if steps else keys[places],
        starts,
        values,
        np.cumsum(counts),
        steps,
        codes,
    )


def _nearest(keys: Floats, values: Floats) -> Ints:
    """Return the place of the key nearest to each value; missing is infinity."""
    after = np.clip(np.searchsorted(keys, values), 0, len(keys) - 1)
    before = np.maximum(after - 1, 0)
    with np.errstate(invalid="ignore"):
        nearer = values - keys[before] < keys[after] - values
    return np.where(nearer & (keys[after] != values), before, after)
