"""The rows of one table while they are learnt from, and what is kept of them.

What never changes among the rows of a parent moves to the parent, and so do the number of rows, the
first and the last time. What is left is drawn row after row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._columns import Column as Cells
from tulle._columns import NumberColumn
from tulle._people import draw_threshold, people_among
from tulle._relations.language import parse_rule, quote
from tulle._relations.plan import Plan, Planner
from tulle._relations.proposals import LEAST, find_rules
from tulle._relations.values import as_released, numbers_of, writings_of
from tulle._shape.sequence import SequenceModel, Sequences, Times, fit_sequence
from tulle._types import Flags, Floats, Ints
from tulle.condense._diversity import locate_sensitive
from tulle.condense._row_rules import BEFORE, PlacedRule
from tulle.table._encoder import TableEncoder
from tulle.table._rare import Crowd
from tulle.table._words import topics_of
from tulle.table.schema import Column, Kind, Role, Schema

CONSTANT = 0.995  # of the parents with several rows: a column that changes in fewer is constant
_RISES = 0.995  # of the people: a time that rises in so many gives the order
# what a table hands up to its parent, in the order in which it is drawn
_COUNT, _TIME, MOVED, _MEAN = range(4)
_MOVES = 0.25  # of the steps: a column that rises in so many may be a time without a name
_COUNTED = (Kind.INTEGER, Kind.DECIMAL, Kind.ORDERED)
_MOST_PAIRED = 12  # columns of which two together may tell the rows of a person apart
_ONCE = {"birth"}  # dates that a person has one of
# what times are whole multiples of: days or hours, minutes, seconds of a day, decimals
_UNITS = (
    1.0,
    1 / 24,
    0.1,
    0.01,
    1 / 1440,
    1e-3,
    1e-4,
    1 / 86400,
    *(10.0**-n for n in range(5, 10)),
)
_SPARSE = 0.05  # of the rows: where time is missing in more, it is a column like others


@dataclass(frozen=True)
class RowTable:
    """Sequences that belong to the rows of another table, while they are learnt from."""

    name: str
    parent: str
    frame: pl.DataFrame
    schema: Schema
    owner: Ints  # the row of the parent
    people: Ints  # the person of each row
    order: tuple[str, ...] | None = None  # None: to be found; empty: as they stand

    def label(self, column: str) -> str:
        """Return what a column is called in the parent."""
        return f"{self.name}.{column}" if self.name else column

    def summary(self, function: str, column: str = "") -> str:
        """Return what a summary of a column is called in the parent."""
        inside = ".".join(part for part in (self.name, column) if part)
        return f"{function}({inside})"


class RowDemands(NamedTuple):
    """What is asked of every table."""

    k: int
    exact: bool
    rng: np.random.Generator


@dataclass(frozen=True)
class FittedRows:
    """What is kept of a table of rows."""

    name: str
    parent: str
    columns: list[str]  # that are released, in the order of the table
    encoder: TableEncoder | None  # None if nothing but the number of rows differs
    plan: Plan
    model: SequenceModel | None
    least: int  # rows of a parent, at least
    count: str  # the columns of the parent that hold the number of rows,
    first: str | None  # the first time,
    last: str | None  # and the last
    constant: dict[str, str]  # columns that do not change: what they are called in the parent
    parents: list[str]  # columns of the parent that rows depend on
    fixed: dict[str, str]  # columns of the parent, or of the row before, that rules speak of
    types: dict[str, Any]  # of columns of the row before

    def draw(
        self, above: pl.DataFrame, codecs: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[pl.DataFrame, pl.DataFrame, Ints]:
        """Draw the rows of drawn parents; return them, as rules see them too, and their parents."""
        counts = above[self.count].fill_null(0).to_numpy().astype(np.int64)
        counts = np.maximum(counts, self.least)
        times = None
        if self.first is not None and self.last is not None and self.model is not None:
            counts = np.where(above[self.first].is_null().to_numpy(), 0, counts)
            times = self._times(above, counts)
        rows = Sequences.of(counts)
        known = _as_known(above, codecs, self.parents)
        frame = pl.DataFrame()
        if self.model is not None and self.encoder is not None:
            drawing = _Completing(self, above, rows, rng)
            check = drawing if self.plan.rules else None
            drawn = self.model.draw(known, counts, times, rng, check)
            frame = drawing.finish(drawn)
        series = [frame[name] for name in frame.columns if name not in self.fixed]
        series += [above[there][rows.parent].alias(name) for name, there in self.constant.items()]
        return pl.DataFrame(series), frame, rows.parent

    def known(self, frame: pl.DataFrame) -> list[Cells]:
        """Return columns of rows as the synthesis takes them."""
        codecs = {} if self.encoder is None else self.encoder.codecs
        return _as_known(frame, codecs, codecs)

    def untimely(self, above: pl.DataFrame) -> Flags:
        """Return which parents begin before all others do, or too late to end with them."""
        counts = np.maximum(above[self.count].fill_null(0).to_numpy().astype(np.int64), self.least)
        if self.first is None or self.model is None:
            return np.zeros(len(counts), dtype=bool)
        counts = np.where(above[self.first].is_null().to_numpy(), 0, counts)
        first, _, length = self._between(above, counts)
        return (first < self.model.span[0]) | (first > self.model.span[1] - length)

    def _times(self, above: pl.DataFrame, counts: Ints) -> Times:
        """Return when the rows of parents begin and end; no later than about anybody's do."""
        assert self.model is not None
        first, last, length = self._between(above, counts)
        earliest, latest = self.model.span
        first = np.minimum(np.maximum(first, earliest), latest - length)
        last = np.minimum(np.where(np.isnan(last), first, last), latest)
        return Times(first, np.maximum(last, first + length))

    def _between(self, above: pl.DataFrame, counts: Ints) -> tuple[Floats, Floats, Floats]:
        """Return when the rows of parents begin and end as drawn, and how long they last."""
        assert self.model is not None
        assert self.encoder is not None
        codec = self.encoder.codecs[str(self.model.time)]
        some, parts = np.flatnonzero(counts > 0), []
        for name in (self.first, self.last):
            values = np.full(len(counts), np.nan)
            series = above[str(name)][some].alias(codec.name)
            values[some] = codec.as_known(series).values  # type: ignore[union-attr]
            parts.append(values)
        return parts[0], parts[1], self.model.gap * np.maximum(counts - 1, 0)


class _Completing:
    """Sequences completed by their rules, step by step."""

    def __init__(
        self, table: FittedRows, above: pl.DataFrame, rows: Sequences, rng: np.random.Generator
    ) -> None:
        self.table, self.above, self.rows, self.rng = table, above, rows, rng
        self.done: list[pl.DataFrame] = []  # by place; the row number is the parent

    def __call__(self, drawn: Mapping[str, Any], who: Ints, place: int) -> Flags:
        """Return which rows, just drawn, break a rule; the others are kept as they are."""
        frame = self._complete(dict(drawn), who, place)
        wrong = self.table.plan.breaking(frame)
        frame = frame.with_columns(pl.Series(_WHO, who))
        if place == len(self.done):
            self.done.append(frame)
        else:
            kept = self.done[place].filter(~pl.Series(np.isin(self.done[place][_WHO], who)))
            self.done[place] = pl.concat([kept, frame]).sort(_WHO)
        return wrong

    def finish(self, drawn: dict[str, Any]) -> pl.DataFrame:
        """Return all rows, each parent's together and in order."""
        if not self.table.plan.rules or not self.done:
            return self._complete(drawn, self.rows.parent, 0)
        places = [part.with_columns(pl.lit(at).alias(_PLACE)) for at, part in enumerate(self.done)]
        whole = pl.concat(places).sort(_WHO, _PLACE, maintain_order=True)
        return whole.drop(_WHO, _PLACE)

    def _complete(self, drawn: dict[str, Any], who: Ints, place: int) -> pl.DataFrame:
        table = self.table
        assert table.encoder is not None
        fixed = {}
        for name, there in table.fixed.items():
            if name.startswith(BEFORE):
                fixed[name] = self._before(there, who, place).alias(name)
            else:
                fixed[name] = self.above[there][who].alias(name)
        return table.plan.complete(drawn, table.encoder.codecs, fixed, self.rng)

    def _before(self, name: str, who: Ints, place: int) -> pl.Series:
        if not place:
            return pl.Series(name, [None] * len(who), dtype=self.table.types[name])
        done = self.done[place - 1]
        return done[name][np.searchsorted(done[_WHO].to_numpy(), who)]


_WHO, _PLACE = "\0who", "\0place"


@dataclass
class Sheet:
    """A table while it is learnt from: its own columns, and what its children hand up."""

    name: str
    height: int
    frame: pl.DataFrame
    schema: Schema
    table: RowTable | None = None
    names: list[str] = field(default_factory=list)
    time: str | None = None
    least: int = 0  # rows of a parent
    lifted: list[tuple[int, Column, pl.Series]] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)  # columns from which distances are modelled
    constant: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dtypes: dict[str, Any] = field(default_factory=dict)

    @property
    def every(self) -> list[str]:
        """All columns of the table, also those that are not released."""
        return self.names or self.frame.columns

    @classmethod
    def of(cls, table: RowTable, settings: RowDemands) -> Sheet:
        """Put the rows of each parent in order: by time, or as they stand, or by lot."""
        names = [name for name in table.schema.released if name in table.frame.columns]
        order, found = table.order, tuple[str, ...]()
        if order is None:
            found = find_order(table.frame, table.schema, table.people)
            order = found or None
        keys = [_rank(table.frame[name], table.schema) for name in order or ()]
        if order is None:
            keys = [settings.rng.random(table.frame.height)]
        by = (
            np.lexsort((*keys[::-1], table.owner))
            if keys
            else np.argsort(table.owner, kind="stable")
        )
        every, frame = table.frame.columns, table.frame.select(names)[by]
        table = replace(table, frame=frame, owner=table.owner[by], people=table.people[by])
        sheet = cls(
            table.name, len(by), frame, Schema(table.schema[name] for name in names), table, every
        )
        called = f"table '{table.name}': " if table.name else ""
        if found:
            by_what = " and ".join(f"'{name}'" for name in found)
            sheet.notes.append(f"{called}the rows of a person are in the order of {by_what}")
        elif order is None:
            sheet.notes.append(f"{called}the rows of a person have no order: none is released")
        if order:
            sheet._take_time(order[0])
        return sheet

    def _take_time(self, name: str) -> None:
        """Take a column for the time of the rows, if it is a number or a date."""
        if name not in self.frame.columns or self.table is None:
            return
        series, column = self.frame[name], self.schema[name]
        if column.kind is Kind.ORDERED and series.dtype.is_integer():  # waves are counted
            column = replace(column, kind=Kind.INTEGER)
        if column.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME) or column.special:
            return
        gone = series.null_count()
        if gone > _SPARSE * len(series) or gone == len(series):
            return
        if gone:  # such rows come last: they are as late as the row before
            owner = pl.Series(self.table.owner)
            filled = series.to_frame().with_columns(owner.alias(_WHO))
            filled = filled.with_columns(pl.col(name).forward_fill().backward_fill().over(_WHO))
            series = filled[name].forward_fill().backward_fill()
            self.frame = self.frame.with_columns(series)
        self.time, self.schema = name, self.schema.with_column(column)

    def lift(self, parent: Sheet, settings: RowDemands, *, middle: bool) -> None:
        """Hand up the number of rows, the first and last time, and what does not change."""
        table = self.table
        assert table is not None
        counts = np.bincount(table.owner, minlength=parent.height)
        rows = Sequences(table.owner, counts)
        none, whole = counts == 0, self.summarised()
        up = _Lifting(parent, table, rows, none, np.where(none, 0, rows.begin), settings)
        changes = {c: _changes(whole[c], rows) for c in whole.columns}
        several = max(int((counts > 1).sum()), 1)
        self.least = int(none.sum() < draw_threshold(settings.k, settings.rng))
        parent._add(_COUNT, Column(up.number, Kind.INTEGER), pl.Series(counts))
        for name in whole.columns:
            changing = len(np.unique(table.owner[changes[name]]))
            inner = name in self.frame.columns and self.frame.height
            if inner and name != self.time and changing <= (1 - CONSTANT) * several:
                self._move(up, name, whole[name], exceptions=changing)
        if self.time is not None:
            self._hand_time(up, self.time)
        if middle:
            self._hand_means(up)
        self.frame = self.frame.drop(list(self.constant))

    def _move(self, up: _Lifting, name: str, series: pl.Series, *, exceptions: int) -> None:
        there = up.table.label(name)
        self.constant[name] = there
        up.add(MOVED, replace(self.schema[name], name=there), series, up.begin)
        if exceptions:
            self.notes.append(
                f"column '{there}' does not change among the rows of nearly everybody: it does in "
                "nobody's of the release"
            )

    def _hand_time(self, up: _Lifting, time: str) -> None:
        series, column, rules = self.frame[time], self.schema[time], up.parent.rules
        first, last = (up.table.summary(f, time) for f in ("min", "max"))
        end = np.maximum(np.cumsum(up.rows.counts) - 1, 0)
        for name, at in ((first, up.begin), (last, end)):
            up.add(_TIME, replace(column, name=name), series, at)
            rules.append(f"{quote(name)} is not missing if {quote(up.number)} > 0")
        if series.dtype.is_numeric() or series.dtype.is_temporal():
            gap = least_gap(numbers_of(series), up.rows, up.table, up.settings)
            more = f" + {gap!r} * ({quote(up.number)} - 1)" if gap else ""
            up.parent.near.append(first)
            rules.append(f"{quote(last)} >= {quote(first)}{more}")
            rules.append(f"{quote(last)} = {quote(first)} if {quote(up.number)} = 1")

    def _hand_means(self, up: _Lifting) -> None:
        """Hand up what the rows of a parent are like: its other children do not see it else."""
        owner = pl.Series(_WHO, up.rows.parent)
        for name in self.frame.columns:
            series = self.frame[name]
            if name in self.constant or name == self.time or not series.dtype.is_numeric():
                continue
            there = up.table.summary("mean", name)
            means = series.cast(pl.Float64).to_frame().with_columns(owner).group_by(_WHO).mean()
            every = pl.DataFrame({_WHO: np.arange(len(up.none))}, schema={_WHO: owner.dtype})
            found = every.join(means, on=_WHO, how="left", maintain_order="left")[name].round(6)
            up.parent._add(_MEAN, Column(there, Kind.DECIMAL), found)

    def _add(self, rank: int, column: Column, series: pl.Series) -> None:
        self.lifted.append((rank, column, series.alias(column.name)))
        self.schema = self.schema.with_column(column)

    def summarised(self) -> pl.DataFrame:
        """Return the table with what its children handed up: numbers of rows and times first."""
        ranked = sorted(self.lifted, key=lambda one: one[0])
        early = [series for rank, _, series in ranked if rank < MOVED]
        late = [series for rank, _, series in ranked if rank >= MOVED]
        return pl.DataFrame([*early, *self.frame, *late])

    def fit(
        self,
        above: tuple[pl.DataFrame, Mapping[str, Any]],
        settings: RowDemands,
        learnt: Flags,
        rules: list[PlacedRule] | None,
    ) -> tuple[FittedRows, pl.DataFrame]:
        """Learn the rows of the table, given the rows of the parent."""
        table, whole = self.table, self.summarised()
        assert table is not None
        names = [n for n in table.schema.released if n in table.frame.columns]
        first, last = (
            None if self.time is None else table.summary(f, self.time) for f in ("min", "max")
        )
        fitted = FittedRows(
            table.name, table.parent, names, None, Plan(), None, self.least,
            table.summary("count"), first, last, dict(self.constant), list(above[1]), {}, {},
        )  # fmt: skip
        if not whole.width or not whole.height:
            return fitted, self._complete(whole, above[0])
        fitted = self._learn(whole, above, settings, learnt, fitted, rules)
        return fitted, self._complete(whole, above[0])

    def _learn(
        self,
        whole: pl.DataFrame,
        above: tuple[pl.DataFrame, Mapping[str, Any]],
        settings: RowDemands,
        learnt: Flags,
        fitted: FittedRows,
        rules: list[PlacedRule] | None,
    ) -> FittedRows:
        table, (k, exact, rng) = self.table, settings
        assert table is not None
        counted = learnt[table.people]
        whole, owner, people = whole.filter(counted), table.owner[counted], table.people[counted]
        schema = Schema(self.schema[name] for name in whole.columns)
        crowd = Crowd.of_kept(k, np.ones(len(people), dtype=bool), people, rng)
        encoder = TableEncoder(schema).fit(whole, (), crowd)
        columns = {column.name: column for column in encoder.plain(whole, k, rng, people)}
        shown = as_released(whole, encoder.codecs, columns)
        rows = Sequences(owner, np.bincount(owner, minlength=above[0].height))
        fixed = self.constant if rules is None else _joined(one.fixed for one in rules)
        rising = self._rising(shown, rows, people) if rules is None else {}
        fixed = {**fixed, **rising}
        shown = shown.with_columns(
            _fixed(name, there, shown, above[0], rows) for name, there in fixed.items()
        )
        if rules is None:
            alone = shown.drop(rising)
            found = find_rules(alone, columns, k, people, writings_of(encoder.codecs), rng)
            weights = {*schema.named(Role.WEIGHT)}
            asked = [
                (rule, True)
                for rule in found
                if not {*rule.columns} <= {*fixed} and weights.isdisjoint(rule.columns)
            ]
        else:
            asked = [(one.rule, False) for one in rules if {*one.rule.columns} <= {*shown.columns}]
        also = [(parse_rule(text, shown.columns), True) for text in self.rules]
        for before, name in rising.items():
            also.append((parse_rule(f"{quote(name)} >= {quote(before)}", shown.columns), True))
        asked = [*also, *asked]
        used = {name for rule, _ in asked for name in rule.columns}
        fixed = {name: there for name, there in fixed.items() if name in used}
        shown = shown.select(*columns, *fixed)
        every = np.ones(len(people), dtype=bool)
        given = frozenset([self.time] if self.time is not None else [])
        near = frozenset(name for name in fixed if name.startswith(BEFORE)) | {*self.near}
        planner = Planner(shown, encoder.codecs, columns, k, people, rng, every, given, near)
        plan, modelled = planner.plan(asked)
        parents = _as_known(above[0], above[1], fitted.parents)
        demands = [one.demand for one in locate_sensitive(whole, schema)]
        gap = 0.0
        if self.time is not None:
            time = columns[self.time]
            assert isinstance(time, NumberColumn)
            gap = least_gap(time.values, rows, replace(table, people=people), settings)
        model = fit_sequence(
            modelled, parents, rows, people, k, rng,
            time=self.time, gap=gap, exact=exact, demands=demands,
        )  # fmt: skip
        types = {there: shown.schema[name] for name, there in fixed.items()}
        return replace(fitted, encoder=encoder, plan=plan, model=model, fixed=fixed, types=types)

    def _rising(self, shown: pl.DataFrame, rows: Sequences, people: Ints) -> dict[str, str]:
        """Name the numbers that never fall from row to row: the row before, and the column."""
        kinds, found = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME), {}
        for name in shown.columns if self.time is not None else ():
            series = shown[name]
            plain = series.dtype.is_numeric() or series.dtype in (pl.Date, pl.Datetime)
            if name == self.time or self.schema[name].kind not in kinds or not plain:
                continue
            steps = np.diff(numbers_of(series), prepend=np.nan)
            steps[rows.place == 0] = np.nan
            falls, rises = (people_among(one, people) for one in (steps < 0, steps > 0))
            few = falls <= (1 - _RISES) * rises
            if few and rises >= LEAST and (steps > 0).mean() >= _MOVES / 2:
                found[f"{BEFORE}{name}"] = name
        return found

    def _complete(self, whole: pl.DataFrame, above: pl.DataFrame) -> pl.DataFrame:
        assert self.table is not None
        moved = [above[there][self.table.owner].alias(n) for n, there in self.constant.items()]
        return pl.DataFrame([*whole, *moved])


class _Lifting(NamedTuple):
    """What rows are to their parents while a table hands up what they have in common."""

    parent: Sheet
    table: RowTable
    rows: Sequences
    none: Flags  # parents without rows
    begin: Ints
    settings: RowDemands

    @property
    def number(self) -> str:
        return self.table.summary("count")

    def add(self, rank: int, column: Column, series: pl.Series, at: Ints) -> None:
        """Give parents a column of their rows, missing where they have none."""
        self.parent._add(rank, column, value_at(series, at, self.none))
        if self.none.any():
            rule = f"{quote(column.name)} is missing if {quote(self.number)} < 1"
            self.parent.rules.append(rule)


def _fixed(
    name: str, there: str, shown: pl.DataFrame, above: pl.DataFrame, rows: Sequences
) -> pl.Series:
    """Return a column of the row before, or of the parent, for each row."""
    if name.startswith(BEFORE):
        first = rows.place == 0
        return value_at(shown[there], np.maximum(np.arange(shown.height) - 1, 0), first).alias(name)
    return above[there][rows.parent].alias(name)


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: there for part in parts for name, there in part.items()}


def find_order(
    frame: pl.DataFrame, schema: Schema, people: Ints, *, standing: bool = True
) -> tuple[str, ...]:
    """Return the time that rises within people, as rows stand; a date that varies, else none.

    Without a time, what is different in every row of a person tells them apart, and orders them: a
    column, or two of them together. If rows do not stand in an order, a time need only differ among
    the rows of a person.
    """
    by = np.argsort(people, kind="stable")
    same = people[by][1:] == people[by][:-1]
    if not same.any():
        return ()
    found: list[tuple[float, str]] = []
    names = [name for name in schema.released if name in frame.columns]
    for name in names:
        column = schema[name]
        dated = column.kind is Kind.DATETIME
        counted = column.kind in _COUNTED and frame[name].dtype.is_numeric()
        topics = topics_of(name).keys()
        if not (dated or counted) or _ONCE & topics:
            continue
        values = _rank(frame[name], schema)[by]
        if np.isnan(values).mean() > _SPARSE:
            continue
        steps = np.diff(values)[same]
        falls = len(np.unique(people[by][1:][same][steps < 0]))
        moves = float((steps != 0).mean())
        few = (1 - _RISES) * len(np.unique(people))
        rising = falls <= few if standing else moves >= _MOVES
        named = dated or bool({"date", "time"} & topics)
        sure = standing and moves >= _MOVES and (steps > 0).sum() >= LEAST  # whatever its name
        if moves > 0 and (dated or (rising and (named or sure))):
            found.append((rising * (1 + moves + named), name))
    if found:
        return (max(found, key=lambda one: one[0])[1],)
    kinds = (Kind.INTEGER, Kind.ORDERED, Kind.CATEGORY)
    words = [n for n in names if schema[n].kind in kinds and not frame[n].null_count()]
    some = [*((name,) for name in words), *combinations(words[:_MOST_PAIRED], 2)]
    return next((one for one in some if _are_never_twice(frame.select(one), people)), ())


def _are_never_twice(values: pl.DataFrame, people: Ints) -> bool:
    """Tell whether no two rows of a person share values, although many would by chance."""
    n, rows = len(values), np.unique(people, return_counts=True)[1]
    shares = values.group_by(pl.all()).len()["len"].to_numpy() / n
    by_chance = float((rows * (rows - 1)).sum() / 2 * (shares**2).sum())
    twice = n - values.with_columns(pl.Series(_WHO, people)).n_unique()
    return by_chance >= LEAST and twice <= (1 - _RISES) * min(n, by_chance)


def least_gap(values: Floats, rows: Sequences, table: RowTable, settings: RowDemands) -> float:
    """Return the step that time rises by at least from row to row, of all but a few people."""
    steps = np.diff(values)[rows.place[1:] > 0]
    people = table.people[1:][rows.place[1:] > 0]
    steps, known = np.round(steps, 9), np.isfinite(steps)
    enough = draw_threshold(settings.k, None if settings.exact else settings.rng)
    least = 0.0
    for step in np.unique(steps[known & (steps >= 0)])[:64].tolist():
        if people_among(known & (steps <= step), people) >= enough:
            # the step of a clock, which many share, or just the shortest of many steps
            least = step if people_among(known & (steps == step), people) >= enough else 0.0
            break
    ties = people_among(known & (steps == 0), people)
    if known.any() and not least and ties < enough:  # or they would come where nobody has any
        # the finest that times are written, never one person's step
        least = next((unit for unit in _UNITS if _lie_on(values, unit)), _UNITS[-1])
    return float(least)


def _lie_on(values: Floats, unit: float) -> bool:
    """Return whether times are whole multiples of a unit."""
    times = values[np.isfinite(values)] / unit
    return bool((np.abs(times - np.round(times)) < 1e-3).all())


def _changes(series: pl.Series, rows: Sequences) -> Flags:
    """Return which rows differ from the row before of the same parent."""
    same = series.eq_missing(series.shift(1)).fill_null(False).to_numpy()
    return ~same & (rows.place > 0)


def value_at(series: pl.Series, rows: Ints, none: Flags) -> pl.Series:
    """Return some rows of a column, null where there is none."""
    if not len(series):
        return pl.Series(series.name, [None] * len(rows), dtype=series.dtype)
    found = series[rows]
    return found.zip_with(pl.Series(~none), pl.Series([None], dtype=series.dtype))


def _rank(series: pl.Series, schema: Schema) -> Floats:
    """Return a column as numbers to sort by, dates that are written as text by what they say."""
    column = next((one for one in schema if one.name == series.name), None)
    if series.dtype.is_numeric() or series.dtype.is_temporal():
        values = numbers_of(series)
    elif column is not None and column.kind in (Kind.DATETIME, Kind.INTEGER, Kind.DECIMAL):
        encoder = TableEncoder(Schema([column])).fit(series.to_frame())
        plain = encoder.plain(series.to_frame(), 1, np.random.default_rng(0))[0]
        values = plain.values if isinstance(plain, NumberColumn) else plain.codes.astype(float)
    else:
        ranks = series.cast(pl.String).rank("dense").cast(pl.Float64)
        values = ranks.fill_null(np.nan).to_numpy()
    return values


def _as_known(frame: pl.DataFrame, codecs: Mapping[str, Any], names: Iterable[str]) -> list[Cells]:
    """Return columns as the synthesis takes them, in the words of a release."""
    return [codecs[name].as_known(frame[name]) for name in names]
