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
    ends: tuple[str, str] | None  # the first time, and the last
    constant: dict[str, str]  # columns that do not change: what they are called in the parent
    parents: list[str]  # columns of the parent that rows depend on
    fixed: dict[str, str]  # columns of the parent, or of the row before, that rules speak of
    types: dict[str, Any]  # of columns of the row before

    def draw(
        self, above: pl.DataFrame, codecs: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[pl.DataFrame, pl.DataFrame, Ints]:
        """Draw the rows of drawn parents; return them, as rules see them too, and their parents."""
        counts, times = self._counts(above), None
        if self.ends is not None and self.model is not None:
            first, last, length = self._between(above, counts)
            earliest, latest = self.model.span  # no later than about anybody's
            first = np.minimum(np.maximum(first, earliest), latest - length)
            last = np.minimum(np.where(np.isnan(last), first, last), latest)
            times = Times(first, np.maximum(last, first + length))
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
        if self.ends is None or self.model is None:
            return np.zeros(above.height, dtype=bool)
        first, _, length = self._between(above, self._counts(above))
        return (first < self.model.span[0]) | (first > self.model.span[1] - length)

    def _counts(self, above: pl.DataFrame) -> Ints:
        """Return how many rows parents have as drawn; without a first time, none."""
        counts = above[self.count].fill_null(0).to_numpy().astype(np.int64)
        counts = np.maximum(counts, self.least)
        if self.ends is None or self.model is None:
            return counts
        return np.where(above[self.ends[0]].is_null().to_numpy(), 0, counts)

    def _between(self, above: pl.DataFrame, counts: Ints) -> tuple[Floats, Floats, Floats]:
        """Return when the rows of parents begin and end as drawn, and how long they last."""
        assert self.model is not None
        assert self.encoder is not None
        codec = self.encoder.codecs[str(self.model.time)]
        some, parts = np.flatnonzero(counts > 0), []
        for name in self.ends or ():
            values = np.full(len(counts), np.nan)
            series = above[name][some].alias(codec.name)
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
class RowTable:
    """A table while it is learnt from: its own columns, and what its children hand up.

    The table of people, one row each, has no parent and is in no order.
    """

    name: str
    parent: str
    frame: pl.DataFrame
    schema: Schema
    owner: Ints  # the row of the parent
    people: Ints  # the person of each row
    order: tuple[str, ...] | None = None  # None: to be found; empty: as they stand
    time: str | None = None
    least: int = 0  # rows of a parent
    lifted: list[tuple[int, Column, pl.Series]] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)  # columns from which distances are modelled
    constant: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.every = self.frame.columns  # also those that are not released
        self.names = [name for name in self.schema.released if name in self.every]
        self.frame = self.frame.select(self.names)

    @property
    def height(self) -> int:
        return len(self.people)

    @property
    def ends(self) -> tuple[str, str] | None:
        """What the first and the last time are called in the parent."""
        if self.time is None:
            return None
        return self.summary("min", self.time), self.summary("max", self.time)

    def summary(self, function: str, column: str = "") -> str:
        """Return what a summary of a column is called in the parent."""
        inside = ".".join(part for part in (self.name, column) if part)
        return f"{function}({inside})"

    def arrange(self, settings: RowDemands) -> None:
        """Put the rows of each parent in order: by time, or as they stand, or by lot."""
        order, found = self.order, tuple[str, ...]()
        if order is None:
            found = find_order(self.frame, self.schema, self.people)
            order = found or None
        keys = [_rank(self.frame[name], self.schema) for name in order or ()]
        if order is None:
            keys = [settings.rng.random(self.height)]
        by = np.lexsort((*keys[::-1], self.owner))
        self.frame, self.owner, self.people = self.frame[by], self.owner[by], self.people[by]
        called = f"table '{self.name}': " if self.name else ""
        if found:
            by_what = " and ".join(f"'{name}'" for name in found)
            self.notes.append(f"{called}the rows of a person are in the order of {by_what}")
        elif order is None:
            self.notes.append(f"{called}the rows of a person have no order: none is released")
        if order:
            self._take_time(order[0])

    def _take_time(self, name: str) -> None:
        """Take a column for the time of the rows, if it is a number or a date."""
        if name not in self.frame.columns:
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
            owner = pl.Series(self.owner)
            filled = series.to_frame().with_columns(owner.alias(_WHO))
            filled = filled.with_columns(pl.col(name).forward_fill().backward_fill().over(_WHO))
            series = filled[name].forward_fill().backward_fill()
            self.frame = self.frame.with_columns(series)
        self.time, self.schema = name, self.schema.with_column(column)

    def lift(self, parent: RowTable, settings: RowDemands, *, middle: bool) -> None:
        """Hand up the number of rows, the first and last time, and what does not change."""
        rows = Sequences(self.owner, np.bincount(self.owner, minlength=parent.height))
        whole = self.summarised()
        several = max(int((rows.counts > 1).sum()), 1)
        self.least = int((rows.counts == 0).sum() < draw_threshold(settings.k, settings.rng))
        parent._add(_COUNT, Column(self.summary("count"), Kind.INTEGER), pl.Series(rows.counts))
        for name in whole.columns if self.frame.height else ():
            changing = len(np.unique(self.owner[_changes(whole[name], rows)]))
            inner = name in self.frame.columns and name != self.time
            if not inner or changing > (1 - CONSTANT) * several:
                continue
            there = self.constant[name] = f"{self.name}.{name}" if self.name else name
            column = replace(self.schema[name], name=there)
            self._hand(parent, MOVED, column, whole[name], rows, rows.begin)
            if changing:
                self.notes.append(
                    f"column '{there}' does not change among the rows of nearly everybody: it does "
                    "in nobody's of the release"
                )
        if self.time is not None:
            self._hand_time(parent, rows, settings)
        if middle:
            self._hand_means(parent, rows)
        self.frame = self.frame.drop(list(self.constant))

    def _hand(
        self, parent: RowTable, rank: int, column: Column, series: pl.Series, rows: Sequences,
        at: Ints,
    ) -> None:  # fmt: skip
        """Give parents a column of their rows, missing where they have none."""
        there = rows.counts > 0
        parent._add(rank, column, value_at(series, at, there))
        if not there.all():
            number = quote(self.summary("count"))
            parent.rules.append(f"{quote(column.name)} is missing if {number} < 1")

    def _hand_time(self, parent: RowTable, rows: Sequences, settings: RowDemands) -> None:
        series, column = self.frame[str(self.time)], self.schema[str(self.time)]
        number, end = quote(self.summary("count")), rows.begin + rows.counts - 1
        first, last = self.ends or ("", "")
        for name, at in ((first, rows.begin), (last, end)):
            self._hand(parent, _TIME, replace(column, name=name), series, rows, at)
            parent.rules.append(f"{quote(name)} is not missing if {number} > 0")
        if series.dtype.is_numeric() or series.dtype.is_temporal():
            gap = least_gap(numbers_of(series), rows, self.people, settings)
            more = f" + {gap!r} * ({number} - 1)" if gap else ""
            parent.near.append(first)
            parent.rules.append(f"{quote(last)} >= {quote(first)}{more}")
            parent.rules.append(f"{quote(last)} = {quote(first)} if {number} = 1")

    def _hand_means(self, parent: RowTable, rows: Sequences) -> None:
        """Hand up what the rows of a parent are like: its other children do not see it else."""
        owner = pl.Series(_WHO, rows.parent)
        every = pl.DataFrame({_WHO: np.arange(parent.height)}, schema={_WHO: owner.dtype})
        for name in self.frame.columns:
            series = self.frame[name]
            if name in self.constant or name == self.time or not series.dtype.is_numeric():
                continue
            means = series.cast(pl.Float64).to_frame().with_columns(owner).group_by(_WHO).mean()
            found = every.join(means, on=_WHO, how="left", maintain_order="left")[name].round(6)
            parent._add(_MEAN, Column(self.summary("mean", name), Kind.DECIMAL), found)

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
        whole = self.summarised()
        fitted = FittedRows(
            self.name, self.parent, self.names, None, Plan(), None, self.least,
            self.summary("count"), self.ends, dict(self.constant), list(above[1]), {}, {},
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
        k, exact, rng = settings
        counted = learnt[self.people]
        whole, owner, people = whole.filter(counted), self.owner[counted], self.people[counted]
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
            gap = least_gap(time.values, rows, people, settings)
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
        moved = [above[there][self.owner].alias(n) for n, there in self.constant.items()]
        return pl.DataFrame([*whole, *moved])


def _fixed(
    name: str, there: str, shown: pl.DataFrame, above: pl.DataFrame, rows: Sequences
) -> pl.Series:
    """Return a column of the row before, or of the parent, for each row."""
    if name.startswith(BEFORE):
        return value_at(shown[there], np.arange(shown.height) - 1, rows.place > 0).alias(name)
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


def least_gap(values: Floats, rows: Sequences, people: Ints, settings: RowDemands) -> float:
    """Return the step that time rises by at least from row to row, of all but a few people."""
    steps = np.diff(values)[rows.place[1:] > 0]
    people = people[1:][rows.place[1:] > 0]
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


def value_at(series: pl.Series, at: Ints, there: Flags) -> pl.Series:
    """Return some rows of a column, null where there is none."""
    if not len(series):
        return pl.Series(series.name, [None] * len(at), dtype=series.dtype)
    none = pl.Series([None], dtype=series.dtype)
    return series[np.where(there, at, 0)].zip_with(pl.Series(there), none)


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
