"""Rows of one parent after another: each drawn given its parent and the rows before it.

1. Two chains of forests, one for the first row of a parent and one for all later ones. A column is
   drawn given the parent's columns, the place of the row and how many are to come, the row before,
   its own value two rows before, its mean and how often it changed so far, and the columns of the
   row that are drawn already.
2. Time is drawn as the step from the row before, and so is a column that mostly rises by the same
   step: the order of rows cannot break. It begins and ends where the parent says.
3. A regression over everybody on all that is known is one more feature; of columns without heaps,
   the forest draws what the regression leaves.
4. Cells are held by at least ``k`` and leaves by ``2 k`` different people, of whom none is more
   than one part in ``k``. When rows are drawn, what came before are drawn rows as well: a person's
   own level builds up in the release and belongs to nobody in the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._columns import (
    CategoryColumn,
    Column,
    NumberColumn,
    cells_of,
    missing_of,
    rounded,
    take_rows,
)
from tulle._people import Owners
from tulle._random import spawn
from tulle._shape.cells import Cells, NumberCells, fit_cells, standard
from tulle._shape.dependencies import Dependency, find_dependencies
from tulle._shape.diversity import Diversity
from tulle._shape.model import as_feature
from tulle._shape.quantiles import Quantiles
from tulle._shape.trees import MOST_CELLS, Forest, fit_forest
from tulle._types import Flags, Floats, Ints
from tulle.errors import PrivacyError

_LEAF = 2  # times k people in a leaf
_TREES = 3  # of a column: there are many more rows to grow on than people
_GROWN_ON = 0.85  # of the people, each tree on others
_TRIES = 60  # of a row that breaks a rule
_RISES = 0.5  # of the steps of a column are the same, for steps to be drawn instead of values
_STAYS = 0.4  # of the rows have the number of the row before, for that to be drawn as such
_SAME = -2e305  # stands for it among numbers: beyond all of them and their states
_LEVELS = 10  # of a number's ranks that trees tell apart next to their order
_MOST_ORDERED = 8  # categories that need no order of their own
_FEW_CELLS = 12  # numbers of fewer cells need no regression
_TELLS = 0.02  # of the variance: a regression that explains less is left out
_CARRIES = 0.3  # of the variance: one that explains more is drawn about
_HEAPS = 0.5  # of the people hold values that many share: such values are not drawn about a line
_HEAP = 0.1  # of the people hold one value: it is drawn as it is, and others about the line
_RIDGE = 1e-4
_KINDS = 0.5  # of the variance of ranks that a category explains: it says what kind of number it is
_SPREADS = 3.0  # times that of another kind, the spread of one
_DOUBLED = 0.005  # of the rows: if fewer are there twice, such rows are drawn again
_BACK = 12  # rows before that a row is compared with
_MOST_INDICATORS = 6  # of a category in a regression

# tells which rows, just drawn, break a rule: gets their values, their parents and their place
Check = Callable[[Mapping[str, Any], Ints, int], Flags]


class Sequences(NamedTuple):
    """Rows sorted by parent, each parent's in order."""

    parent: Ints  # (n,)
    counts: Ints  # (parents,)

    @property
    def begin(self) -> Ints:
        """Where the rows of each parent begin."""
        return np.cumsum(self.counts) - self.counts

    @property
    def place(self) -> Ints:
        """The place of each row among those of its parent."""
        return np.arange(len(self.parent)) - self.begin[self.parent]

    @classmethod
    def of(cls, counts: Ints) -> Sequences:
        """Return the rows of parents that have so many each."""
        return cls(np.repeat(np.arange(len(counts)), counts), counts)


class Times(NamedTuple):
    """When the rows of each parent begin and end, in the unit of the time column."""

    first: Floats
    last: Floats

    @classmethod
    def of(cls, values: Floats, rows: Sequences) -> Times:
        """Return the first and the last time of each parent, NaN where it has no rows."""
        padded, none = np.r_[values, np.nan], rows.counts == 0
        ends = rows.begin, rows.begin + rows.counts - 1
        return cls(*(padded[np.where(none, len(values), at)] for at in ends))


class Past:
    """What is known of the rows of each parent so far, while these come one after the other."""

    def __init__(
        self, columns: Sequence[Column], kinds: Mapping[str, CategoryColumn], counts: Ints,
        time: str | None, times: Times | None,
    ) -> None:  # fmt: skip
        self.columns, self.kinds, self.counts, self.time = columns, kinds, counts, time
        self.times, n = times, len(counts)
        self.place = np.zeros(n, np.int64)
        self.before, self.second = (
            {c.name: np.full(n, _none(c)) for c in columns} for _ in range(2)
        )
        self.sums, self.seen, self.changes = (
            {c.name: np.zeros(n) for c in columns} for _ in range(3)
        )
        # of numbers of several kinds, the sums of each kind
        self.kind_sums, self.kind_seen = (
            {name: np.zeros((n, by.size + 1)) for name, by in kinds.items()} for _ in range(2)
        )

    def known(self, who: Ints) -> dict[str, Column]:
        """Return what is known of the next row of some parents but what these say themselves."""
        place, time = self.place[who], self.time
        to_come = self.counts[who] - place
        known: dict[str, Column] = {
            "place": NumberColumn("place", place.astype(float), 0),
            "to come": NumberColumn("to come", to_come.astype(float), 0),
        }
        if self.times is not None and time is not None:
            since = np.where(place > 0, self.before[time][who], self.times.first[who])
            left = np.round(self.times.last[who] - since, 9)
            known["left"] = NumberColumn("left", left)
            pace = np.round(left / np.maximum(to_come, 1), 6)  # of the steps that are to come
            known["pace"] = NumberColumn("pace", pace)
        share = np.maximum(place - 1, 1)
        for column in self.columns:
            name = column.name
            known[f"before {name}"] = _filled(column, self.before[name][who])
            known[f"second {name}"] = _filled(column, self.second[name][who])
            if name != time:
                changes = np.round(self.changes[name][who] / share, 6)
                known[f"changes {name}"] = NumberColumn(name, changes)
                if isinstance(column, NumberColumn):
                    mean = _mean_so_far(self.sums[name][who], self.seen[name][who])
                    known[f"mean {name}"] = mean
        return known

    def own(self, by: str, who: Ints, kind: Any) -> dict[str, Column]:
        """Return the means so far of the numbers whose kind a column says."""
        return {
            f"own {name}": _mean_so_far(self.kind_sums[name][who, kind],
                                        self.kind_seen[name][who, kind])
            for name, one in self.kinds.items() if one.name == by
        }  # fmt: skip

    def add(self, who: Ints, drawn: Mapping[str, Any]) -> None:
        """Take in the next row of some parents."""
        for column in self.columns:
            name = column.name
            now, before = _filled(column, drawn[name]), self.before[name][who]
            self.seen[name][who] += ~missing_of(now)
            if isinstance(now, NumberColumn):
                self.sums[name][who] += np.nan_to_num(_numbers(now))
            self.changes[name][who] += _differs(now, before) & (self.place[who] > 0)
            self.second[name][who], self.before[name][who] = before, drawn[name]
            if name in self.kinds:
                kind = drawn[self.kinds[name].name]
                self.kind_sums[name][who, kind] += np.nan_to_num(_numbers(now))
                self.kind_seen[name][who, kind] += ~missing_of(now)
        self.place[who] += 1


@dataclass
class Known:
    """What is known before a column is drawn, as columns and as the cells that trees split on."""

    columns: dict[str, Column]
    coders: dict[str, Cells]

    def __post_init__(self) -> None:
        self._bytes: dict[str, NDArray[np.uint8]] = {}

    def table(self, names: Sequence[str], n: int) -> NDArray[np.uint8]:
        """Return the cells of some of it, (n, names)."""
        for name in names:
            if name not in self._bytes:
                self._bytes[name] = as_byte(self.coders[name], self.columns[name])
        parts = [self._bytes[name] for name in names]
        return np.stack(parts, axis=1) if parts else np.zeros((n, 0), np.uint8)

    def take(self, some: Ints) -> Known:
        """Return what is known of some rows."""
        return Known({n: take_rows(c, some) for n, c in self.columns.items()}, dict(self.coders))


class Regression(NamedTuple):
    """A regression over everybody on what is known: numbers, and indicators of categories."""

    names: list[str]
    indicators: list[Ints]  # the codes of a category that have one each; none for numbers
    middle: Floats
    weights: Floats
    level: float
    bounds: tuple[float, float]

    def at(self, known: Mapping[str, Column]) -> Floats:
        """Return its value for each row."""
        values = _design(known, self.names, self.indicators)
        values = np.where(np.isfinite(values), values - self.middle, 0.0)
        return np.asarray(np.clip(values @ self.weights + self.level, *self.bounds))


@dataclass(frozen=True)
class Target:
    """How one column of a row is drawn."""

    name: str
    known: list[str]  # the features of its forest
    cells: Cells  # of what is drawn: values, steps, or what a line leaves
    forest: Forest
    line: Regression | None = None  # one more feature
    base: str = ""  # what is drawn is added to it: "before", "line", or nothing; or "same"
    decimals: int | None = None
    step: int = 1  # in the last decimal
    scale: Cells | None = None  # of the line
    by: str = ""  # a category of the row: numbers are of another kind in each (test, value)
    parts: Mapping[int, Target] = field(default_factory=dict)  # by what they are drawn there
    heaps: tuple[float, ...] = ()  # values that are drawn as they are, and not about the line

    @property
    def forests(self) -> list[Forest]:
        """Return all forests that the column is drawn from."""
        return [self.forest, *(part.forest for part in self.parts.values())]

    def draw(self, known: Known, n: int, rng: np.random.Generator) -> Any:
        """Return the column for ``n`` rows of which so much is known."""
        if not self.parts:
            return self._draw(known, n, rng)
        kind, drawn = cells_of(known.columns[self.by]), np.empty(n)
        for code, part in (*self.parts.items(), (-1, self)):
            here = ~np.isin(kind, [*self.parts]) if part is self else kind == code
            some = np.flatnonzero(here)
            drawn[some] = part._draw(known.take(some), len(some), rng)
        return drawn

    def _draw(self, known: Known, n: int, rng: np.random.Generator) -> Any:
        line = np.zeros(0)
        if self.line is not None and self.scale is not None:
            line = self.line.at(known.columns)
            known.columns[f"line {self.name}"] = NumberColumn("", line)
            known.coders[f"line {self.name}"] = self.scale
        drawn: Any = self.cells.decode(self.forest.draw(known.table(self.known, n), rng)[0], rng)
        if not self.base:
            return drawn
        if self.base == "same":
            before = cells_of(known.columns[f"before {self.name}"])
            same = _SAME if isinstance(self.cells, NumberCells) else self.cells.categories - 1
            return np.where(drawn == same, before, drawn)
        if self.base == "before":
            drawn = drawn + _numbers(known.columns[f"before {self.name}"])
        elif self.line is not None:
            line = rounded(line, self.decimals, self.step)
            away, drawn = drawn, _folded(drawn + line, *self.line.bounds)
            for code, heap in zip(_codes(self.heaps), self.heaps):
                drawn = np.where(away == code, heap, drawn)
        return rounded(drawn, self.decimals, self.step)


class Chain(NamedTuple):
    """The columns of first rows, or of later ones, one after the other."""

    coders: dict[str, Cells]
    targets: list[Target]


@dataclass(frozen=True)
class SequenceModel:
    """What is kept of the rows of a table: statistics of at least ``k`` people each."""

    k: int
    columns: list[Column]  # without rows: their names and kinds, in the order they are drawn
    time: str | None
    gap: float  # the least step of time
    span: tuple[float, float]  # about when time begins and ends for everybody
    apart: list[str]  # categories that tell rows of a parent at the same time apart
    kinds: dict[str, CategoryColumn]  # what says which kind of number a column holds, without rows
    chains: tuple[Chain, Chain]
    dependencies: list[Dependency]
    leaf: int  # people in every leaf

    def verify(self) -> None:
        """Raise unless every leaf holds as many people as it must."""
        columns = [target.forests for chain in self.chains for target in chain.targets]
        small = sum(min(one.fewest for one in forests) < self.leaf for forests in columns)
        if small:
            raise PrivacyError(
                f"{small} of {len(columns)} columns of rows have a leaf with fewer than "
                f"{self.leaf} people: nothing is released"
            )

    def draw(
        self, parents: Sequence[Column], counts: Ints, times: Times | None,
        rng: np.random.Generator, check: Check | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Draw as many rows for each parent as it has, one step for all of them at a time."""
        self.verify()
        drawing = _Drawing(self, parents, Sequences.of(counts), times, rng)
        for place in range(int(counts.max(initial=0))):
            drawing.step(place, check)
        return drawing.out


@dataclass
class _Drawing:
    """Rows while they are drawn."""

    model: SequenceModel
    parents: Sequence[Column]
    rows: Sequences
    times: Times | None
    rng: np.random.Generator

    def __post_init__(self) -> None:
        model, n = self.model, len(self.rows.parent)
        self.out: dict[str, Any] = {c.name: np.full(n, _none(c)) for c in model.columns}
        for dependency in model.dependencies:
            self.out[dependency.target] = np.full(n, -1 if dependency.codes else np.nan)
        self.past = Past(model.columns, model.kinds, self.rows.counts, model.time, self.times)

    def step(self, place: int, check: Check | None) -> None:
        """Draw the next row of everybody who has one, those that break a rule again."""
        who = np.flatnonzero(self.rows.counts > place)
        here = self.rows.begin[who] + place
        drawn = self._draw(who, place)
        wrong = np.flatnonzero(self._wrong(drawn, who, here, place, check))
        for _ in range(_TRIES):
            if not len(wrong):
                break
            fresh = self._draw(who[wrong], place)
            for name, values in fresh.items():
                drawn[name][wrong] = values
            wrong = wrong[self._wrong(fresh, who[wrong], here[wrong], place, check)]
        for name, values in drawn.items():
            self.out[name][here] = values
        self.past.add(who, drawn)

    def _wrong(
        self, drawn: Mapping[str, Any], who: Ints, here: Ints, place: int, check: Check | None
    ) -> Flags:
        """Return which rows break a rule, or are there already."""
        wrong = np.zeros(len(who), dtype=bool) if check is None else check(drawn, who, place)
        names = [*([] if self.model.time is None else [self.model.time]), *self.model.apart]
        for back in range(1, min(place, _BACK) + 1) if self.model.apart else ():
            same = [self.out[name][here - back] == drawn[name] for name in names]
            wrong = wrong | np.logical_and.reduce(same)
        return wrong

    def _draw(self, who: Ints, place: int) -> dict[str, Any]:
        model, chain = self.model, self.model.chains[place > 0]
        columns = _of_parents(self.parents, who) | self.past.known(who)
        known, drawn = Known(columns, chain.coders), dict[str, Any]()
        for target, column in zip(chain.targets, model.columns):
            if target.name == model.time and self.times is not None:
                values = self._time(target, known, who, place, self.times)
            else:
                values = target.draw(known, len(who), self.rng)
            drawn[target.name] = values
            columns |= just_drawn(_filled(column, values), columns, model.time)
            columns |= self.past.own(target.name, who, values)
        for dependency in model.dependencies:
            drawn[dependency.target] = dependency.restore(drawn[dependency.source], self.rng)
        return drawn

    def _time(self, target: Target, known: Known, who: Ints, place: int, times: Times) -> Floats:
        """Return when the rows are: never before the row before, and within the parent's time."""
        if not place:
            return times.first[who]
        values = target.draw(known, len(who), self.rng)
        to_come, last = self.rows.counts[who] - 1 - place, times.last[who]
        values = np.minimum(values, last - to_come * self.model.gap)
        values = np.maximum(values, self.past.before[target.name][who] + self.model.gap)
        return np.where(to_come == 0, last, values)


def _of_parents(parents: Sequence[Column], who: Ints) -> dict[str, Column]:
    return {f"parent {column.name}": take_rows(column, who) for column in parents}


def just_drawn(column: Column, known: Mapping[str, Column], time: str | None) -> dict[str, Column]:
    """Return what a column tells those after it in the same row: of time also its step."""
    found = {f"now {column.name}": column}
    before = known.get(f"before {column.name}")
    if column.name == time and before is not None:
        steps = np.round(_numbers(column) - _numbers(before), 9)
        found["now since"] = NumberColumn("since", steps)
    return found


def fit_sequence(
    columns: Sequence[Column],
    parents: Sequence[Column],
    rows: Sequences,
    people: Ints,
    k: int,
    rng: np.random.Generator,
    *,
    time: str | None = None,
    gap: float = 0.0,
    exact: bool = False,
    demands: Sequence[Diversity] = (),
) -> SequenceModel:
    """Fit the model of rows that belong to parents and, in the end, to ``people``.

    ``time`` is a column of numbers that is never missing and rises by at least ``gap`` from row to
    row; ``exact`` is that of :func:`~tulle._shape.model.fit_shape`; ``demands`` say what sensitive
    columns must look like in every leaf.
    """
    owners = Owners.of(people, len(people))
    asked = {demand.name: demand for demand in demands}
    lots = None if exact else rng
    found = find_dependencies(list(columns), k, owners.weights, keep=time, rng=lots, persons=people)
    found = [one for one in found if one.target not in asked]
    left_out = {dependency.target for dependency in found}
    kept = [column for column in columns if column.name not in left_out]
    kept.sort(key=lambda column: column.name != time)
    times = None if time is None else Times.of(_numbers(kept[0]), rows)
    least = k if exact else _LEAF * k
    kinds = {} if asked else _kinds(kept, owners, least, time)
    fitting = _Fitting(kept, parents, rows, owners, k, time, times, exact, asked, kinds, least)
    first = rows.place == 0
    parts = [fitting.enough(part) for part in (first, ~first)]
    chains = [
        fitting.chain(part, own, later=bool(later))
        for later, (part, own) in enumerate(zip(parts, spawn(rng, 2)))
    ]
    least = min(least, *(owners.take(part).n_people() for part in parts))
    empty = [take_rows(column, np.arange(0)) for column in kept]
    spans = [_span(chain.coders[f"now {time}"]) for chain in chains if time is not None]
    span = min((s[0] for s in spans), default=-np.inf), max((s[1] for s in spans), default=np.inf)
    apart, both = _told_apart(kept, rows, time), (chains[0], chains[1])
    none = {name: replace(by, codes=by.codes[:0], moved=None) for name, by in kinds.items()}
    model = SequenceModel(k, empty, time, gap, span, apart, none, both, found, least)
    model.verify()
    return model


def _span(cells: Cells) -> tuple[float, float]:
    """Return about where a column begins and ends: as far as stretches of many people go."""
    if not isinstance(cells, NumberCells) or cells.quantiles is None:
        return -np.inf, np.inf
    low, high = float(cells.quantiles.low[0]), float(cells.quantiles.high[-1])
    if cells.quantiles.decimals is None:
        return low, high
    unit = 10.0**cells.quantiles.decimals / cells.quantiles.step
    return float(np.ceil(low * unit - 1e-6) / unit), float(np.floor(high * unit + 1e-6) / unit)


def _told_apart(columns: Sequence[Column], rows: Sequences, time: str | None) -> list[str]:
    """Return the categories and codes by which all rows of a parent at the same time differ.

    If all of a parent's rows have times of their own, none; without a time, all are at the same.
    """
    words = [one for one in columns if not isinstance(one, NumberColumn) or one.coded]
    words = [column for column in words if column.name != time]
    times = [cells_of(column) for column in columns if column.name == time]
    parts = [rows.parent, *times, *(cells_of(column) for column in words)]
    keys, n = np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1), len(rows[0])
    early = keys[:, : 1 + len(times)]
    same_time, same = (n - len(np.unique(part, axis=0)) for part in (early, keys))
    alone = same <= _DOUBLED * n and same_time > 2 * same
    return [column.name for column in words] if alone else []


@dataclass
class _Fitting:
    """What the chains of a table are fitted on."""

    columns: Sequence[Column]
    parents: Sequence[Column]
    rows: Sequences
    owners: Owners
    k: int
    time: str | None
    times: Times | None
    exact: bool
    asked: Mapping[str, Diversity]
    kinds: Mapping[str, CategoryColumn]
    least: int  # people in a leaf

    def enough(self, part: Flags) -> Ints:
        """Return the rows that a chain is learnt from: all, where too few people have such rows."""
        if self.owners.take(part).n_people() < self.least:
            part = np.ones(len(part), dtype=bool)
        return np.flatnonzero(part)

    def chain(self, some: Ints, rng: np.random.Generator, *, later: bool) -> Chain:
        """Fit one column after the other."""
        owners, coders = self.owners.take(some), dict[str, Cells]()
        columns, own_kind = self._known(some, later=later)
        known = Known(columns, coders)
        for name, column in known.columns.items():
            coders[name] = fit_cells(column, self.k, owners, rng, exact=self.exact)[0]
        targets = []
        for column, own in zip(self.columns, spawn(rng, len(self.columns))):
            now = take_rows(column, some)
            targets.append(self._target(now, known, owners, own))
            drawn = just_drawn(now, known.columns, self.time)
            drawn |= {
                f"own {name}": own_kind[name] for name, by in self.kinds.items() if by is column
            }
            for name, more in drawn.items():
                known.columns[name] = more
                coders[name] = fit_cells(more, self.k, owners, own, exact=self.exact)[0]
        return Chain(coders, targets)

    def _known(self, some: Ints, *, later: bool) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return what is known before each row, and the means so far of numbers of its kind."""
        past = {name: take_rows(column, some) for name, column in self.past.items()}
        own = {name: past.pop(f"own {name}") for name in self.kinds}
        if not later:
            of_past = ("before ", "second ", "mean ", "changes ")
            past = {name: column for name, column in past.items() if not name.startswith(of_past)}
        return _of_parents(self.parents, self.rows.parent[some]) | past, own

    @cached_property
    def past(self) -> dict[str, Column]:
        """What is known before each row: those of all parents pass by, one after the other."""
        rows, parts = self.rows, list[tuple[Ints, dict[str, Column]]]()
        past = Past(self.columns, self.kinds, rows.counts, self.time, self.times)
        for place in range(int(rows.counts.max(initial=0))):
            who = np.flatnonzero(rows.counts > place)
            here = rows.begin[who] + place
            row = {column.name: cells_of(column)[here] for column in self.columns}
            known = past.known(who)
            for name in {by.name for by in self.kinds.values()}:
                known |= past.own(name, who, row[name])
            parts.append((here, known))
            past.add(who, row)
        back = np.argsort(np.concatenate([here for here, _ in parts]))
        return {
            name: _filled(column, np.concatenate([cells_of(k[name]) for _, k in parts])[back])
            for name, column in parts[0][1].items()
        }

    def _target(
        self, now: Column, known: Known, owners: Owners, rng: np.random.Generator
    ) -> Target:
        """Fit one column given what is known, and apart for each kind of numbers that it holds."""
        if now.name not in self.kinds:
            return self._fitted(now, known, owners, rng)
        kind, by = self.kinds[now.name], f"now {self.kinds[now.name].name}"
        codes = np.asarray(cells_of(known.columns[by]), dtype=np.int64)
        parts, enough = {}, np.flatnonzero(owners.holders(codes, kind.size) >= self.least)
        for code, own in zip(enough.tolist(), spawn(rng, len(enough)) if len(enough) else ()):
            some = np.flatnonzero(codes == code)
            part = take_rows(now, some), known.take(some), owners.take(some), own
            parts[code] = self._fitted(*part)
        return replace(self._fitted(now, known, owners, rng), by=by, parts=parts)

    def _fitted(
        self, now: Column, known: Known, owners: Owners, rng: np.random.Generator
    ) -> Target:
        names = _features(now.name, known)
        line, base, drawn, heaps = None, "", now, tuple[float, ...]()
        decimals, step = (now.decimals, now.step) if isinstance(now, NumberColumn) else (None, 1)
        if isinstance(now, NumberColumn):
            before = known.columns.get(f"before {now.name}")
            if before is not None and (now.name == self.time or _rises(now, before)):
                some = self._follow(before, owners)
                known, owners = known.take(some), owners.take(some)
                away = (_numbers(now) - _numbers(before))[some]
                base, drawn = "before", replace(now, values=away, specials=(), coded=False)
            elif before is not None and _stays(now, before):
                base = "same"
                same = np.where(now.values == cells_of(before), _SAME, now.values)
                drawn = replace(now, values=same, specials=(*now.specials, _SAME))
            else:
                line, drawn, heaps = self._line(now, names, known, owners, rng)
                names = names if line is None else [*names, f"line {now.name}"]
                base = "" if drawn is now else "line"
        elif now.size > _MOST_ORDERED and f"before {now.name}" in known.columns:
            base, drawn = "same", _with_same(now, known.columns[f"before {now.name}"])
        cells, codes = fit_cells(drawn, self.k, owners, rng, exact=self.exact)
        coders = [known.coders[name] for name in names]
        forest = fit_forest(
            known.table(names, len(codes)),
            np.array([min(one.size, MOST_CELLS) for one in coders], dtype=np.int64),
            np.array([one.ordered for one in coders], dtype=bool),
            cells, codes, owners, self.least, rng,
            k=self.k, exact=self.exact, demand=self.asked.get(now.name),
            view=_view(cells, codes, [known.columns[name] for name in names]),
            trees=_TREES, grown_on=_GROWN_ON,
        )  # fmt: skip
        scale = known.coders.get(f"line {now.name}")
        return Target(
            now.name, names, cells, forest, line, base, decimals, step, scale, heaps=heaps
        )

    def _follow(self, before: Column, owners: Owners) -> Ints:
        """Return the rows that follow a known one: the step to a first row is not missing."""
        some = np.flatnonzero(~missing_of(before))
        enough = owners.take(some).n_people() >= min(self.least, owners.n_people())
        return some if enough and len(some) else np.arange(len(cells_of(before)))

    def _line(
        self, now: NumberColumn, names: Sequence[str], known: Known, owners: Owners,
        rng: np.random.Generator,
    ) -> tuple[Regression | None, NumberColumn, tuple[float, ...]]:  # fmt: skip
        """Regress a column of many values on what is known; return what is left to draw, too."""
        level, _ = fit_cells(now, self.k, owners, rng, exact=self.exact)
        pieces = level.quantiles if isinstance(level, NumberCells) else None
        if pieces is None or now.coded or level.size <= _FEW_CELLS:
            return None, now, ()
        bounds = float(pieces.low[0]), float(pieces.high[-1])
        line, explained = _regress(now, names, known, owners.n_people(), bounds)
        if line is None or explained < _TELLS:
            return None, now, ()
        score = NumberColumn("", line.at(known.columns))
        known.columns[f"line {now.name}"] = score
        known.coders[f"line {now.name}"] = fit_cells(score, self.k, owners, rng, exact=self.exact)[
            0
        ]
        shared = float(pieces.shares[pieces.low == pieces.high].sum())
        if explained < _CARRIES or shared >= _HEAPS or now.specials:
            return line, now, ()
        heaps = _heaps(now, pieces, owners, max(_HEAP * owners.n_people(), _LEAF * self.k))
        away = now.values - now.written(score.values)
        for code, heap in zip(_codes(heaps), heaps):
            away = np.where(now.values == heap, code, away)
        return line, replace(now, values=away, specials=_codes(heaps)), heaps


def _heaps(
    now: NumberColumn, pieces: Quantiles, owners: Owners, enough: float
) -> tuple[float, ...]:
    """Return the values that stand out and that so many people hold: about a line nobody would."""
    values = pieces.low[pieces.low == pieces.high]
    codes = np.full(len(now.values), -1)
    for code, value in enumerate(values.tolist()):
        codes[now.values == value] = code
    held = owners.holders(codes, len(values))
    return tuple(values[held >= enough].tolist())


def _codes(heaps: Sequence[float]) -> tuple[float, ...]:
    """Return what stands for values that are drawn as they are, among what a line leaves."""
    return tuple(_SAME * (2 + place) for place in range(len(heaps)))


def _kinds(
    columns: Sequence[Column], owners: Owners, least: int, time: str | None
) -> dict[str, CategoryColumn]:
    """Return for columns that hold numbers of several kinds the category that says which.

    Long tables (test, value) hold numbers of many kinds, each around a level of its own and with a
    spread of its own: a leaf of two kinds, or a cell between them, would be values of neither.
    """
    found = {}
    for place, now in enumerate(columns):
        if not isinstance(now, NumberColumn) or now.name == time:
            continue
        values = _numbers(now)
        rows = np.flatnonzero(np.isfinite(values))
        values, best = values[rows], _KINDS
        ranks = np.searchsorted(np.sort(values), values) / max(len(rows), 1)
        for by in (one for one in columns[:place] if isinstance(one, CategoryColumn)):
            held = owners.take(rows).holders(by.codes[rows], by.size)
            parts = [by.codes[rows] == code for code in np.flatnonzero(held >= least)]
            if len(parts) < 2:
                continue
            inside = sum(part.sum() * ranks[part].var() for part in parts)
            every = ranks[np.logical_or.reduce(parts)]
            told = 1 - inside / max(len(every) * every.var(), 1e-12)
            spreads = [values[part].std() for part in parts]
            if told > best and max(spreads) > _SPREADS * min(spreads):
                best, found[now.name] = told, by
    return found


def _mean_so_far(sums: Floats, seen: Floats) -> NumberColumn:
    mean = np.where(seen > 0, np.round(sums / np.maximum(seen, 1), 6), np.nan)
    return NumberColumn("", mean)


def _features(name: str, known: Known) -> list[str]:
    """Return what a column may depend on; of the past of other columns only the row before."""
    found = []
    for feature in known.columns:
        kind, _, column = feature.partition(" ")
        own = kind not in ("second", "mean", "changes", "line", "own") or column == name
        if own and known.coders[feature].size > 1:
            found.append(feature)
    return found


def _folded(values: Floats, low: float, high: float) -> Floats:
    """Turn what lies beyond an end back inside: cut off, it would be a heap at the end."""
    values = np.where(values < low, 2 * low - values, values)
    values = np.where(values > high, 2 * high - values, values)
    return np.clip(values, low, high)


def _with_same(now: CategoryColumn, before: Column) -> CategoryColumn:
    """Return categories of which many with one more: the same as in the row before.

    A tree would need a leaf for each category to say so.
    """
    same = (now.codes == cells_of(before)) & (now.codes >= 0)
    return replace(now, codes=np.where(same, now.size, now.codes), size=now.size + 1, moved=None)


def _rises(now: NumberColumn, before: Column) -> bool:
    """Tell whether a column mostly rises by the same step, and never falls."""
    steps = _numbers(now) - _numbers(before)
    if now.coded or not np.isfinite(steps).all() or not len(steps):
        return False
    distinct, counts = np.unique(np.round(steps, 9), return_counts=True)
    usual = distinct[counts.argmax()]
    return bool(distinct[0] >= 0 and usual != 0 and counts.max() > _RISES * counts.sum())


def _stays(now: NumberColumn, before: Column) -> bool:
    """Tell whether a number mostly is what it was in the row before."""
    there = np.isfinite(now.values) & np.isfinite(cells_of(before))
    same = now.values == cells_of(before)
    return bool(there.any() and same[there].mean() >= _STAYS)


def _regress(
    now: NumberColumn, names: Sequence[str], known: Known, people: int, bounds: tuple[float, float]
) -> tuple[Regression | None, float]:
    """Fit a ridge regression; return it with the part of the variance that it explains."""
    wanted = _numbers(now)
    there = np.isfinite(wanted)
    if not names:
        return None, 0.0
    indicators = [_indicators(known.columns[name]) for name in names]
    design = _design(known.columns, names, indicators)[there]
    if not design.shape[1] or there.sum() <= 10 * design.shape[1] + 50:
        return None, 0.0
    finite = np.isfinite(design)
    middle = np.where(finite, design, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    design = np.where(finite, design - middle, 0.0)
    scale = np.sqrt((design**2).mean(axis=0)) + 1e-9
    design /= scale
    target = wanted[there]
    ridge = _RIDGE + 0.1 * _RIDGE * design.shape[1] / max(people, 1)
    moments = design.T @ design / len(design) + ridge * np.eye(design.shape[1])
    weights = np.linalg.solve(moments, design.T @ (target - target.mean()) / len(design)) / scale
    line = Regression(list(names), indicators, middle, weights, float(target.mean()), bounds)
    left = target - line.at(known.columns)[there]
    return line, 1.0 - float(np.var(left) / max(float(np.var(target)), 1e-12))


def _design(
    known: Mapping[str, Column], names: Sequence[str], indicators: Sequence[Ints]
) -> Floats:
    """Return numbers as they are, and categories as indicators."""
    parts = []
    for name, codes in zip(names, indicators):
        column = known[name]
        if isinstance(column, NumberColumn):
            parts.append(_numbers(column)[:, None])
        else:
            parts.append((column.codes[:, None] == codes).astype(float))
    return np.hstack(parts)


def _indicators(column: Column) -> Ints:
    """Return the commonest categories, but for the very commonest; none of numbers."""
    if isinstance(column, NumberColumn):
        return np.arange(0)
    counts = np.bincount(column.codes[column.codes >= 0], minlength=column.size)
    return np.argsort(-counts, kind="stable")[1 : _MOST_INDICATORS + 1]


def _view(cells: Cells, codes: Ints, known: Sequence[Column]) -> tuple[Ints, Floats]:
    """Return what trees see of each cell: a class of its rank or a category, and an order."""
    counts = np.bincount(codes, minlength=cells.size)
    shares = counts / max(len(codes), 1)
    middle = np.cumsum(shares) - shares / 2
    if isinstance(cells, NumberCells):
        special = np.arange(cells.size) < len(cells.states)
        classes = np.where(special, -1 - np.arange(cells.size), np.floor(middle * _LEVELS))
        return np.unique(classes, return_inverse=True)[1], standard(middle, shares)
    if cells.size <= _MOST_ORDERED:
        return cells.as_states(), np.zeros(cells.size)
    best, order = _TELLS, np.zeros(cells.size)
    for column in known:  # categories get the order of the number that tells them apart best
        if not isinstance(column, NumberColumn):
            continue
        values = _numbers(column)
        known_ones = values[np.isfinite(values)]
        values = np.nan_to_num(values, nan=np.median(known_ones) if len(known_ones) else 0.0)
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable") / len(values) - 0.5
        means = np.bincount(codes, weights=ranks, minlength=cells.size) / np.maximum(counts, 1)
        explained = float(counts @ means**2 / max(float(ranks @ ranks), 1e-9))
        if explained > best:
            best, order = explained + _TELLS, standard(means, shares)
    return cells.as_states(), order


def as_byte(cells: Cells, column: Column) -> NDArray[np.uint8]:
    """Return the cells of a column as trees see them; what has none is in the middle."""
    codes = cells.encode(column)  # type: ignore[arg-type]
    return as_feature(np.where(codes < 0, cells.size // 2, codes), cells)


def _filled(column: Column, values: Any) -> Column:
    """Return a column of the same kind with other values."""
    if isinstance(column, NumberColumn):
        return replace(column, values=np.asarray(values, dtype=np.float64))
    return replace(column, codes=np.asarray(values, dtype=np.int64), moved=None)


def _numbers(column: Column) -> Floats:
    """Return numbers, NaN for missing ones and special codes."""
    values = np.asarray(cells_of(column), dtype=np.float64)
    specials = column.specials if isinstance(column, NumberColumn) else ()
    return np.where(np.isin(values, specials), np.nan, values) if specials else values


def _none(column: Column) -> Any:
    return np.nan if isinstance(column, NumberColumn) else -1


def _differs(column: Column, before: Any) -> Flags:
    """Return where a column is not what it was in the row before."""
    now = cells_of(column)
    return ~((now == before) | (missing_of(column) & ((before != before) | (before == -1))))
