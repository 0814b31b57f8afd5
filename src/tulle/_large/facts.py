"""What must be known of a table before its records are condensed cell by cell, from batches.

Facts are the same for any cut of the table into batches: a sample by keyed hash, how many people
hold each value of a column of words, how far numbers are spread, and how often each class and
level occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from tulle._types import Flags, Ints
from tulle.condense._levels import COMMON, check_levels
from tulle.errors import DataError
from tulle.table._series import filled, is_missing, is_opaque, person_names
from tulle.table.schema import Column, Kind, Role, Schema

SAMPLE = 200_000  # records that cells of columns and cuts rest on
_KEYS = 4096  # by which contents are counted, to some 2 %
_LAST = 2**64 - 1  # the largest key
_COMMON = 500  # a content is common if one row in so many has it
_FEWEST = 20  # ... and so many rows at least
_CANDIDATES = 2_000  # contents among which the common ones are
_MOST_VALUES = 100_000  # different values of a column of words
_MOST_PEOPLE = 512  # that are counted for a value, where people have several rows
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)

Keys = NDArray[np.uint64]


def mixed(words: Keys, seed: int) -> Keys:
    """Return a pseudo-random word for each word, which nobody can foresee without the seed."""
    with np.errstate(over="ignore"):
        mixed = (words + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31)) ^ np.uint64(seed >> 1)


def person_keys(series: pl.Series, seed: int) -> Keys:
    """Return a word for the person of each row; rows without a person are one person's."""
    texts = person_names(series).fill_null("\0")
    return mixed(texts.hash(seed % 2**32).to_numpy(), seed)


def row_keys(frame: pl.DataFrame, seed: int) -> Keys:
    """Return a word for what each row holds: equal rows have equal words."""
    plain = [name for name, dtype in frame.schema.items() if not is_opaque(dtype)]
    # numbers of categories depend on which came first
    named = frame.select(plain).cast({cs.categorical() | cs.enum(): pl.String})
    return mixed(named.hash_rows(seed % 2**32).to_numpy(), seed)


class Apart(NamedTuple):
    """Whom a release leaves out, by lot: the same people, or rows, in every reading."""

    share: float
    seed: int
    person: str | None
    keyed: int = 0  # the seed of the keys of contents
    common: Keys = np.empty(0, dtype=np.uint64)  # contents that very many rows have

    def among(self, frame: pl.DataFrame) -> Flags:
        """Return which rows of a batch are left out; those of nobody stay.

        Equal rows share a lot: which of them stands where must not matter. Only those that very
        many have, and that would all be missing here or there, get lots in turn.
        """
        if self.person is not None:
            keys = person_keys(frame[self.person], self.seed)
            named = filled(person_names(frame[self.person]).is_not_null(), False)
            return np.asarray(named & (keys < np.uint64(self.share * 2.0**64)))
        keys = row_keys(frame, self.keyed)
        for key in np.intersect1d(keys, self.common):
            rows = np.flatnonzero(keys == key)
            keys[rows] = mixed(key + np.arange(len(rows), dtype=np.uint64), self.seed)
        return mixed(keys, self.seed) < np.uint64(self.share * 2.0**64)


class Reading(Protocol):
    """What is learnt from the rows of a table: batch by batch, here or elsewhere."""

    def add(self, frame: pl.DataFrame) -> object:
        """Take in a batch."""

    def merge(self, other: Any) -> None:
        """Take in what was learnt elsewhere, from other rows."""


Learnt = TypeVar("Learnt", bound=Reading)


class Read(Protocol):
    """Shows all rows of a table to a reading, and returns it."""

    def __call__(self, reading: Learnt) -> Learnt: ...


@dataclass
class KeyCount:
    """About how many different contents a table has, from the smallest keys of its rows."""

    records: int = 0
    _smallest: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def add(self, keys: Keys) -> None:
        self.records += len(keys)
        self._smallest = np.unique(np.concatenate([self._smallest, keys]))[:_KEYS]

    def merge(self, other: KeyCount) -> None:
        self.records += other.records
        self._smallest = np.unique(np.concatenate([self._smallest, other._smallest]))[:_KEYS]

    @property
    def distinct(self) -> int:
        """How many different contents there are, to some 2 % if there are many."""
        if len(self._smallest) < _KEYS:
            return len(self._smallest)
        return round((_KEYS - 1) / (int(self._smallest[-1]) / 2.0**64))

    def limit(self, size: int) -> int:
        """Return a key below which there are at least ``size`` contents, if so many exist."""
        if len(self._smallest) < _KEYS:
            return _LAST
        return min(_LAST, int(1.25 * size / _KEYS * int(self._smallest[-1])))


@dataclass
class CommonKeys:
    """Which contents many rows of a table may have: all that are common, and some others.

    Counts of Misra and Gries: what is not common gives way, and a count lacks one row in 2,000 at
    most. Which others there are depends on the order of the rows.
    """

    records: int = 0
    _keys: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _counts: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, keys: Keys) -> None:
        self.records += len(keys)
        self._take(*np.unique(keys, return_counts=True))

    def merge(self, other: CommonKeys) -> None:
        self.records += other.records
        self._take(other._keys, other._counts)

    def candidates(self) -> Keys:
        lacking = self.records // _CANDIDATES
        return self._keys[self._counts + lacking >= _least_common(self.records)]

    def _take(self, keys: Keys, counts: Ints) -> None:
        known, place = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate([self._counts, counts])).astype(np.int64)
        if len(known) > _CANDIDATES:
            counts -= np.partition(counts, -_CANDIDATES - 1)[-_CANDIDATES - 1]
        self._keys, self._counts = known[counts > 0], counts[counts > 0]


@dataclass
class FirstLook:
    """How many rows a table has, and which contents may be common."""

    seed: int
    count: KeyCount = field(default_factory=KeyCount)
    common: CommonKeys = field(default_factory=CommonKeys)

    def add(self, frame: pl.DataFrame) -> None:
        keys = row_keys(frame, self.seed)
        self.count.add(keys)
        self.common.add(keys)

    def merge(self, other: FirstLook) -> None:
        self.count.merge(other.count)
        self.common.merge(other.common)


class Sampled(NamedTuple):
    """Rows of a table, chosen by a keyed hash of what they hold."""

    rows: pl.DataFrame
    records: int  # of the whole table
    common: Keys  # of contents that very many rows have


def sample_rows(read: Read, size: int, seed: tuple[int, ...]) -> Sampled:
    """Draw rows of a table, the same for any batches and any order."""
    look = read(FirstLook(seed[0]))
    if not look.count.records:
        return Sampled(pl.DataFrame(), 0, np.empty(0, dtype=np.uint64))
    limit, candidates = look.count.limit(size), look.common.candidates()
    sample = read(RowSample(size, seed[0], limit, candidates))
    return Sampled(sample.rows(), look.count.records, sample.common())


def _least_common(records: int) -> float:
    return max(records / _COMMON, _FEWEST)


class RowSample:
    """Rows of a table, drawn by keyed hash: the same however the table is cut and ordered.

    Those contents are kept that have the smallest keys, each with how many rows hold it, and all
    that are common. A table in which everything repeats is then known whole, and a heap of equal
    rows takes no more room than one of them.

    At most ``size`` contents are kept and as many rows drawn. Keys beyond ``limit`` are not looked
    at, but for those of ``candidates``, which may be common.
    """

    def __init__(
        self, size: int, seed: int, limit: int = _LAST, candidates: Keys | None = None
    ) -> None:
        self.records = 0
        self._size = size
        self._seed = seed
        self._limit = limit
        self._held: list[tuple[pl.DataFrame, Keys, Ints]] = []
        self._candidates = np.empty(0, dtype=np.uint64) if candidates is None else candidates
        self._common = RowSample(len(candidates) + 1, seed) if candidates is not None else None

    @property
    def whole(self) -> bool:
        self._shrink()
        return self._limit == _LAST

    def add(self, frame: pl.DataFrame) -> Keys:
        """Take in the rows of a batch, and return their keys."""
        self.records += frame.height
        keys = row_keys(frame, self._seed)
        small = keys <= np.uint64(self._limit)
        if self._common is not None:
            often = np.isin(keys, self._candidates)
            self._common._take_rows(frame, keys, often)
            small &= ~often
        self._take_rows(frame, keys, small)
        return keys

    def merge(self, other: RowSample) -> None:
        self.records += other.records
        self._limit = min(self._limit, other._limit)
        for held in other._held:
            self._take(*held)
        if self._common is not None and other._common is not None:
            self._common.merge(other._common)

    def shrunk(self) -> RowSample:
        """Return the same sample, each content held once."""
        self._shrink()
        if self._common is not None:
            self._common._shrink()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to another machine."""
        return vars(self.shrunk())

    def common(self) -> Keys:
        held = (self._common or self).shrunk()._held[0]
        return held[1][held[2] >= _least_common(self.records)]

    def rows(self) -> pl.DataFrame:
        heaps = self._heaps()
        self._shrink()
        frame, keys, counts = self._held[0]
        wanted = min(self._size, self.records)
        if heaps is not None:
            share = wanted * int(heaps[2].sum()) / self.records
            often = self._allotted(heaps[1], heaps[2], share)
            counts = np.r_[self._allotted(keys, counts, wanted - share), often]
            frame, keys = pl.concat([frame, heaps[0]]), np.r_[keys, heaps[1]]
        else:
            counts = self._allotted(keys, counts, wanted)
        places = np.repeat(np.arange(len(keys)), counts)
        turn = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return frame[places[np.argsort(mixed(keys[places] + turn.view(np.uint64), self._seed + 2))]]

    def _allotted(self, keys: Keys, counts: Ints, wanted: float) -> Ints:
        """Return how many rows of each content are drawn."""
        total = int(counts.sum())
        if total <= wanted:
            return counts
        chance = mixed(keys, self._seed + 1) / 2.0**64
        return np.floor(counts * (wanted / total) + chance).astype(np.int64)

    def _heaps(self) -> tuple[pl.DataFrame, Keys, Ints] | None:
        """Return the common contents; those that only might have been are held like any other."""
        if self._common is None:
            return None
        frame, keys, counts = self._common.shrunk()._held[0]
        common = counts >= _least_common(self.records)
        if self.whole and len(self._held[0][1]) + len(keys) < self._size:
            common[:] = False  # all contents are known, and in proportion
        small = ~common & (keys <= np.uint64(self._limit))
        self._take(frame.filter(pl.Series(small)), keys[small], counts[small])
        return frame.filter(pl.Series(common)), keys[common], counts[common]

    def _take_rows(self, frame: pl.DataFrame, keys: Keys, some: Flags) -> None:
        frame = frame.filter(pl.Series(some))
        self._take(frame, keys[some], np.ones(frame.height, dtype=np.int64))

    def _take(self, frame: pl.DataFrame, keys: Keys, counts: Ints) -> None:
        self._held.append((frame, keys, counts))
        if sum(len(held) for _, held, _ in self._held) > 2 * self._size:
            self._shrink()

    def _shrink(self) -> None:
        if not self._held:
            return
        frames, all_keys, all_counts = zip(*self._held)
        keys, first, place = np.unique(
            np.concatenate(all_keys), return_index=True, return_inverse=True
        )
        counts = np.bincount(place, weights=np.concatenate(all_counts)).astype(np.int64)
        keys, first, counts = keys[: self._size], first[: self._size], counts[: self._size]
        if len(keys) == self._size:
            self._limit = min(self._limit, int(keys[-1]))
        self._held = [(pl.concat(frames)[first], keys, counts)]


@dataclass
class HashSample:
    """The rows with the smallest keys: the same rows in whatever order they come.

    Rows of one key come all or not at all, so a sample by person holds whole people.
    """

    size: int
    _limit: int = _LAST
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _keys: list[Keys] = field(default_factory=list)

    @classmethod
    def of_table(cls, size: int, records: int) -> HashSample:
        """Return an empty sample for a table of so many records.

        It looks at four times as many rows as it needs, wherever the table is cut.
        """
        return cls(size, min(_LAST, 4 * size * _LAST // max(records, 1)))

    def add(self, frame: pl.DataFrame, keys: Keys) -> None:
        small = keys < np.uint64(self._limit)
        self._frames.append(frame.filter(pl.Series(small)))
        self._keys.append(keys[small])
        if sum(map(len, self._keys)) > 2 * self.size:
            self._shrink()

    def rows(self) -> tuple[pl.DataFrame, Keys]:
        self._shrink()
        frame, keys = self._frames[0], self._keys[0]
        order = np.lexsort((row_keys(frame, 0), keys))
        return frame[order], keys[order]

    def merge(self, other: HashSample) -> None:
        for frame, keys in zip(other._frames, other._keys):
            self.add(frame, keys)

    def _shrink(self) -> None:
        frame, keys = pl.concat(self._frames), np.concatenate(self._keys)
        if len(keys) > self.size:
            self._limit = int(np.partition(keys, self.size)[self.size])
            small = keys < np.uint64(self._limit)
            frame, keys = frame.filter(pl.Series(small)), keys[small]
        self._frames, self._keys = [frame], [keys]


class Spread(NamedTuple):
    """How far numbers lie apart: how many, their mean, and squared distances from it."""

    size: int
    mean: float
    squares: float

    def with_more(self, other: Spread) -> Spread:
        """Return the spread of these and other numbers."""
        size, apart = self.size + other.size, other.mean - self.mean
        return Spread(
            size,
            self.mean + apart * other.size / size,
            self.squares + other.squares + apart**2 * self.size * other.size / size,
        )


def measured_spread(series: pl.Series) -> Spread | None:
    """Return the spread of the numbers in a column; None where there are none."""
    if not series.dtype.is_numeric():
        return None
    values = series.drop_nulls().cast(pl.Float64).to_numpy()
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    mean = float(values.mean())
    return Spread(len(values), mean, float(((values - mean) ** 2).sum()))


class TableFacts:
    """Facts of a table, batch by batch; the ``target`` is its column of classes."""

    def __init__(self, schema: Schema, target: str | None = None) -> None:
        self.records = 0
        self._schema = schema
        self._units = [name for name in (target, *schema.named(Role.LEVEL)) if name is not None]
        self._counted: dict[str, pl.DataFrame] = {}
        self._unit_counts: pl.DataFrame | None = None
        self._overfull: set[str] = set()
        self._spreads: dict[str, Spread] = {}
        self._people: KeyCount | None = None

    def add(self, frame: pl.DataFrame, people: Keys | None) -> None:
        """Take in a batch; ``people`` are the keys of its people, where they have several rows."""
        self.records += frame.height
        if people is not None:
            self._people = self._people or KeyCount()
            self._people.add(people)
        for name in self._schema.released:
            rows = discrete_rows(frame[name], self._schema[name])
            if name not in self._overfull and rows.any():
                persons = None if people is None else people[rows]
                self._count(name, _counts(frame[name].filter(pl.Series(rows)), persons))
            self._measure(name, measured_spread(frame[name]))
        if self._units:
            self._count_units(frame.select(self._units).group_by(self._units).len("rows"))

    def merge(self, other: TableFacts) -> None:
        self.records += other.records
        if other._people is not None:
            self._people = self._people or KeyCount()
            self._people.merge(other._people)
        for name in other._overfull - self._overfull:
            self._overfull.add(name)
            self._counted.pop(name, None)
        for name, counts in other._counted.items():
            if name not in self._overfull:
                self._count(name, counts)
        for name, spread in other._spreads.items():
            self._measure(name, spread)
        if other._unit_counts is not None:
            self._count_units(other._unit_counts)

    def stretch(self, sample: pl.Series) -> float:
        """Return how much wider a column of numbers is spread in the table than in a sample.

        Rounded, so that the order in which batches were added does not show. Extremes that a sample
        lacks can be most of a column's variance.
        """
        whole, some = self._spreads.get(sample.name), measured_spread(sample)
        if whole is None or some is None or some.squares <= 0 or whole.squares <= 0:
            return 1.0
        ratio = np.sqrt(whole.squares / whole.size) / np.sqrt(some.squares / some.size)
        return float(f"{ratio:.3g}")

    @property
    def people(self) -> int:
        return self.records if self._people is None else max(self._people.distinct, 1)

    def levels(self, name: str | None, k: int) -> tuple[int, int]:
        """Return the level that nine records of ten accept, and the highest that can be met."""
        if name is None:
            return k, k
        units = self.units().sort(name)
        levels = check_levels(units[name], units.height)
        risen = np.cumsum(units["rows"].to_numpy())
        usual = int(levels[np.searchsorted(risen, COMMON * risen[-1] - 1e-9)])
        return usual, int(levels[levels <= self.records].max(initial=1))

    def units(self) -> pl.DataFrame:
        """Return how many rows there are of each class and level, in one order."""
        if self._unit_counts is None:
            return pl.DataFrame({"rows": [self.records]})
        return self._unit_counts.sort(self._units)

    def more(self, sample: pl.DataFrame, people: Ints | None, k: int) -> dict[str, pl.Series]:
        """Return values to add to the sample of each column, so that it shows all that matters.

        A value that as many people hold as can be asked for is then held by as many in the column;
        one that fewer hold, by as many as in the table. Each added one stands for one person.
        """
        enough = ceil(1.5 * k) + 1
        added = {}
        for name, counted in self._counted.items():
            rows = discrete_rows(sample[name], self._schema[name])
            persons = np.arange(len(rows)) if people is None else people
            there = {"value": sample[name].filter(pl.Series(rows)), "there": persons[rows]}
            held = pl.DataFrame(there).group_by("value").agg(pl.col("there").n_unique())
            asked_for = pl.len() if "person" in counted.columns else pl.col("rows").sum()
            asked = counted.group_by("value").agg(asked_for.alias("people").cast(pl.Int64))
            copies = pl.min_horizontal("people", pl.lit(enough)) - pl.col("there")
            short = (
                asked.join(held, on="value", how="left", nulls_equal=True)
                .with_columns(pl.col("there").cast(pl.Int64).fill_null(0))
                .with_columns(copies.alias("copies"))
                .filter(pl.col("copies") > 0)
                .sort("value")
            )
            places = np.repeat(np.arange(short.height), short["copies"].to_numpy())
            if len(places):
                added[name] = short["value"].gather(places).alias(name)
        return added

    def _measure(self, name: str, spread: Spread | None) -> None:
        if spread is not None:
            known = self._spreads.get(name)
            self._spreads[name] = spread if known is None else known.with_more(spread)

    def _count_units(self, units: pl.DataFrame) -> None:
        known = [units] if self._unit_counts is None else [self._unit_counts, units]
        together = pl.concat(known, how="vertical_relaxed").group_by(self._units)
        self._unit_counts = together.agg(pl.col("rows").sum())

    def _count(self, name: str, counts: pl.DataFrame) -> None:
        known = [self._counted[name]] if name in self._counted else []
        counted = pl.concat([*known, counts], how="vertical_relaxed")
        if "rows" in counted.columns:
            counted = counted.group_by("value").agg(pl.col("rows").sum())
            different = counted.height
        else:
            few = pl.col("person").rank("ordinal").over("value") <= _MOST_PEOPLE
            counted = counted.unique().filter(few)
            different = counted["value"].n_unique()
        self._counted[name] = counted
        if different > _MOST_VALUES:
            self._refuse_too_many(name)

    def _refuse_too_many(self, name: str) -> None:
        """Raise for a category of too many values; numbers that are text need not be counted."""
        if self._schema[name].kind not in _NUMBERS:
            raise DataError(
                f"column '{name}' has more than {_MOST_VALUES:,} different values: give it the "
                "role 'identifier', or coarsen it first"
            )
        self._overfull.add(name)
        del self._counted[name]


class KnownTable:
    """The facts of a table, and where people have several rows, a sample of whole people."""

    def __init__(
        self, schema: Schema, target: str | None, size: int, records: int, seed: int
    ) -> None:
        self.facts = TableFacts(schema, target)
        self._person = next(iter(schema.named(Role.PERSON)), None)
        self._people = HashSample.of_table(size, records)
        self._seed = seed

    def add(self, frame: pl.DataFrame) -> None:
        keys = None if self._person is None else person_keys(frame[self._person], self._seed)
        self.facts.add(frame, keys)
        if keys is not None:
            self._people.add(frame, keys)

    def merge(self, other: KnownTable) -> None:
        self.facts.merge(other.facts)
        self._people.merge(other._people)

    def people(self) -> tuple[pl.DataFrame, Keys] | None:
        return None if self._person is None else self._people.rows()


def _counts(values: pl.Series, people: Keys | None) -> pl.DataFrame:
    """Return how many rows have each value, or who they are."""
    values = values.alias("value")
    if people is not None:
        return pl.DataFrame([values, pl.Series("person", people)])
    return values.value_counts(name="rows").with_columns(pl.col("rows").cast(pl.Int64))


def discrete_rows(series: pl.Series, column: Column) -> Flags:
    """Return the rows whose value is counted: all of words, and of numbers those in a state."""
    if column.kind not in _NUMBERS or not (series.dtype.is_numeric() or series.dtype.is_temporal()):
        return np.ones(len(series), dtype=bool)
    rows = is_missing(series)
    if series.dtype.is_float():
        rows = rows | filled(series.is_nan(), False)
    numbers = [value for value in column.special if not isinstance(value, str)]
    if numbers and series.dtype.is_numeric():
        rows = rows | filled(series.cast(pl.Float64).is_in(numbers), False)
    return np.asarray(rows, dtype=bool)
