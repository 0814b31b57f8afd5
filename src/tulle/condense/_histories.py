"""People with rows in one or several tables: learnt people first, then row after row.

What never changes among the rows of a parent moves to the parent, and so do the number of rows,
the first and the last time. People are then one row each, and are condensed as any table is. The
rows of each table are drawn given their parent and the rows before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._people import people_among
from tulle._relations.language import Call, Name, Node, Rule, parse_rule, quote
from tulle._relations.plan import Plan, Planner
from tulle._relations.proposals import find_rules
from tulle._relations.values import as_released, numbers_of, writings_of
from tulle._shape.columns import Column as Cells
from tulle._shape.columns import NumberColumn
from tulle._shape.model import LEAF_PIECE
from tulle._shape.quantiles import draw_threshold
from tulle._shape.sequence import Rows, SequenceModel, Times, fit_sequence
from tulle._types import Flags, Floats, Ints
from tulle.condense._diversity import locate_sensitive
from tulle.condense._grouping import Grouper, GroupFacts
from tulle.condense._levels import common_level
from tulle.condense._people import check_people
from tulle.condense._row_rules import BEFORE, PlacedRule, Placing, Sum, TableNames
from tulle.condense._shaped import (
    Block,
    RuleSummary,
    Shape,
    fewest_of,
    refuse_broken,
    summarise_rules,
)
from tulle.table._encoder import TableEncoder
from tulle.table._rare import Crowd
from tulle.table._words import topics_of
from tulle.table.schema import Column, Kind, Schema

_CONSTANT = 0.995  # of the parents with several rows: a column that changes in fewer is constant
_RISES = 0.995  # of the people: a time that rises in so many gives the order
# what a table hands up to its parent, in the order in which it is drawn
_COUNT, _TIME, _MOVED, _MEAN = range(4)
_SPARSE = 0.05  # of the rows: where time is missing in more, it is a column like others


@dataclass(frozen=True)
class RowTable:
    """Rows that belong to the rows of another table, while they are learnt from."""

    name: str
    parent: str
    frame: pl.DataFrame
    schema: Schema
    owner: Ints  # the row of the parent
    people: Ints  # the person of each row
    order: tuple[str, ...] | None = None  # None: to be found; empty: as they stand
    unique: bool = False  # whether the time is part of a key, which no two rows of a parent share

    def label(self, column: str) -> str:
        """Return what a column is called in the parent."""
        return f"{self.name}.{column}" if self.name else column

    def summary(self, function: str, column: str = "") -> str:
        """Return what a summary of a column is called in the parent."""
        inside = ".".join(part for part in (self.name, column) if part)
        return f"{function}({inside})"


class Settings(NamedTuple):
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
    made: list[str]  # columns that only serve to draw the rows of a child
    parents: list[str]  # columns of the parent that rows depend on
    fixed: dict[str, str]  # columns of the parent, or of the row before, that rules speak of
    types: dict[str, Any]  # of columns of the row before

    def draw(
        self, above: pl.DataFrame, codecs: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[pl.DataFrame, pl.DataFrame, Ints]:
        """Draw the rows of drawn parents; return them, as rules see them too, and whose they are."""
        counts = above[self.count].fill_null(0).to_numpy().astype(np.int64)
        counts = np.maximum(counts, self.least)
        times = None
        if self.first is not None and self.last is not None and self.model is not None:
            counts = np.where(above[self.first].is_null().to_numpy(), 0, counts)
            times = self._times(above, counts)
        rows = Rows.of(counts)
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

    def _times(self, above: pl.DataFrame, counts: Ints) -> Times:
        """Return when the rows of parents begin and end, in the unit of the time."""
        assert self.model is not None and self.encoder is not None
        codec = self.encoder.codecs[str(self.model.time)]
        some, parts = np.flatnonzero(counts > 0), []
        for name in (self.first, self.last):
            values = np.full(len(counts), np.nan)
            series = above[str(name)][some].alias(codec.name)
            values[some] = codec.as_known(series).values  # type: ignore[union-attr]
            parts.append(values)
        first, last = parts
        last = np.where(np.isnan(last), first, last)
        return Times(first, np.maximum(last, first + self.model.gap * np.maximum(counts - 1, 0)))


class _Completing:
    """Rows completed by their rules, step by step."""

    def __init__(
        self, table: FittedRows, above: pl.DataFrame, rows: Rows, rng: np.random.Generator
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


class Histories:
    """A model of people and of their rows in other tables."""

    def __init__(self, rules: Sequence[str] | None, *, exact: bool = False) -> None:
        self.rules = rules
        self.exact = exact
        self.notes: list[str] = []

    def fit(
        self,
        name: str,
        frame: pl.DataFrame,
        schema: Schema,
        tables: Sequence[RowTable],
        levels: Ints,
        grouper: Grouper,
    ) -> GroupFacts:
        """Learn from people and their rows, parents first, and return what is known of groups.

        Of people who ask for more than nine of ten do, no row is learnt from.
        """
        k = common_level(levels)
        settings = Settings(k, self.exact, grouper.rng)
        self.name, self.columns = name, [c for c in schema.released if c in frame.columns]
        own = Schema(schema[column] for column in self.columns)
        sheets = {name: _Sheet(name, len(levels), frame.select(self.columns), own)}
        for table in tables:
            sheets[table.name] = _Sheet.of(table, settings)
        placed = self._place(sheets, tables)
        for table in reversed(tables):
            sheets[table.name].lift(sheets[table.parent], settings, middle=table.parent != name)
        self.notes = [note for sheet in sheets.values() for note in sheet.notes]
        lifted = [one for sheet in sheets.values() for one in sheet.lifted]
        self.summaries = {column.name for rank, column, _ in lifted if rank != _MOVED}
        self.structural = {text for sheet in sheets.values() for text in sheet.rules}
        root = sheets[name]
        people = root.summarised()
        schema = Schema(root.schema[column] for column in people.columns)
        crowd = Crowd.of_kept(k, levels <= k, None, grouper.rng)
        encoder = TableEncoder(schema).fit(people, (), crowd)
        rules = None if self.rules is None else self._of(sheets, placed, name)
        own_rules = None if rules is None else [one.rule for one in rules]
        self.people = Shape(
            own_rules, exact=self.exact, also=root.rules, near=frozenset(root.near)
        )
        secret = locate_sensitive(people, schema)
        block = Block(people, levels, None, secret)
        facts = self.people.fit(block, encoder, grouper)
        self.encoder = encoder
        self.notes += self.people.notes
        self.tables: list[FittedRows] = []
        above = {name: (people, encoder.codecs)}
        learnt = levels <= k
        for table in tables:
            sheet = sheets[table.name]
            rules = None if self.rules is None else self._of(sheets, placed, table.name)
            fitted, whole = sheet.fit(above[table.parent], settings, learnt, rules)
            self.tables.append(fitted)
            above[table.name] = whole, {} if fitted.encoder is None else fitted.encoder.codecs
        return facts

    def _place(self, sheets: Mapping[str, _Sheet], tables: Sequence[RowTable]) -> list[PlacedRule]:
        """Find the table of each rule; what rows add up to is left out of their parent."""
        parents = {table.name: table.parent for table in tables}
        named = {
            name: TableNames(sheet.every, parents.get(name), sheet.time)
            for name, sheet in sheets.items()
            if sheet.every
        }
        placing = Placing(named)
        for text in self.rules or ():
            placing.place(text)
        self.sums = [s for s in placing.sums if s.column in sheets[s.table].frame.columns]
        for one in self.sums:
            sheet = sheets[one.table]
            sheet.dtypes[one.column] = sheet.frame.schema[one.column]
            sheet.frame = sheet.frame.drop(one.column)
        self.types = {one.column: sheets[one.table].dtypes[one.column] for one in self.sums}
        return placing.rules

    def _of(
        self, sheets: Mapping[str, _Sheet], placed: Sequence[PlacedRule], table: str
    ) -> list[PlacedRule]:
        """Return the rules of a table, with those of its children that are about constants."""
        found = []
        for one in placed:
            sheet = sheets[one.table]
            moved = {
                name: sheet.constant[name] for name in one.rule.columns if name in sheet.constant
            }
            up = bool(moved) and {*moved} | {*one.fixed} >= {*one.rule.columns}
            if up and sheet.table is not None and sheet.table.parent == table:
                names = {**one.fixed, **moved}
                found.append(PlacedRule(table, renamed(one.rule, names), {}))
            elif not up and one.table == table:
                found.append(one._replace(fixed={**one.fixed, **moved}))
        return found

    def draw(
        self, n: int | None, rng: np.random.Generator, *, accept: bool = False
    ) -> tuple[dict[str, pl.DataFrame], dict[str, Ints]]:
        """Draw people and their rows; return the tables, and the parent of each row.

        Rows that break a rule which was asked for are refused, unless they are accepted.
        """
        self.verify()
        whole = {self.name: self.people.draw(n, rng)}
        codecs: dict[str, Mapping[str, Any]] = {self.name: self.encoder.codecs}
        owners: dict[str, Ints] = {}
        self.broken: dict[str, int] = {}
        for table in self.tables:
            drawn, seen, owner = table.draw(whole[table.parent], codecs[table.parent], rng)
            self.broken |= refuse_broken(table.plan, seen, accept=accept)
            whole[table.name], owners[table.name] = drawn, owner
            codecs[table.name] = {} if table.encoder is None else table.encoder.codecs
        self._summarise(whole, owners)
        checked = refuse_broken(self.people.plan, whole[self.name], accept=accept)
        self.broken |= checked
        frames = {self.name: whole[self.name].select(self.columns)}
        frames |= {table.name: whole[table.name].select(table.columns) for table in self.tables}
        return frames, owners

    def _summarise(self, whole: dict[str, pl.DataFrame], owners: Mapping[str, Ints]) -> None:
        """Say of drawn parents what their drawn rows are: rules are verified on that."""
        for table in reversed(self.tables):
            above, owner, rows = whole[table.parent], owners[table.name], whole[table.name]
            counts = np.bincount(owner, minlength=above.height)
            series = [pl.Series(table.count, counts, dtype=above.schema[table.count])]
            none, end = counts == 0, np.cumsum(counts) - 1
            for name, at in ((table.first, end - counts + 1), (table.last, end)):
                if name is not None and table.model is not None:
                    time = rows[str(table.model.time)]
                    series.append(_at(time, np.where(none, 0, at), none).alias(name))
            for one in self.sums:
                if one.child == table.name:
                    series.append(self._added(one, rows[one.part], owner, above.height))
            whole[table.parent] = above.with_columns(series)

    def _added(self, one: Sum, part: pl.Series, owner: Ints, n: int) -> pl.Series:
        values = np.nan_to_num(numbers_of(part))
        sums = pl.Series(np.bincount(owner, weights=values, minlength=n).round(9))
        dtype = self.types[one.column]
        return (sums.round(0) if dtype.is_integer() else sums).cast(dtype).alias(one.column)

    @property
    def plans(self) -> dict[str, Plan]:
        """Return how rules are kept in each table."""
        return {self.name: self.people.plan} | {table.name: table.plan for table in self.tables}

    def rules_kept(self) -> list[RuleSummary]:
        """Return the rules that are kept, those that were found in the tables among them."""
        sums = [RuleSummary(one.text, False, 0.0) for one in self.sums]
        kept = []
        for plan in self.plans.values():
            for one, summary in zip(plan.rules, summarise_rules(plan)):
                plain = {*one.rule.columns} - self.summaries
                if not one.found or (plain and one.rule.text not in self.structural):
                    kept.append(summary)
        return sums + kept

    def verify(self) -> None:
        """Raise unless every leaf of every table holds as many people as it must."""
        for shaped in self.people.tables:
            shaped.model.verify()
        for table in self.tables:
            if table.model is not None:
                table.model.verify()

    def sentence(self, *, sizes: bool = True) -> str:
        """Return in words what every released row was drawn from.

        Without ``sizes``, which levels of single people may have set, in parts of these levels.
        """
        fewest = fewest_of(self.rests_on().values())
        cell = f"at least {min(fewest.values())} people"
        leaf = f"at least {fewest[LEAF_PIECE]}"
        if not sizes:
            cell = "at least as many people as nine of ten require"
            leaf = "as many" if self.exact else "twice as many"
        return (
            "Released people are invented, and so is every history. Every value, number of rows "
            f"and step of time is held by {cell}; every dependence, also that of one row on the "
            f"row before, rests on {leaf}, of whom nobody counts for more than a small part. A "
            "history as a whole is a product of such steps: it is not shared by as many people."
        )

    def rests_on(self) -> dict[str, dict[str, int]]:
        """Return for each table what a release shows, and of how many people each piece is."""
        found = {self.name: self.people.rests_on()}
        for table in self.tables:
            shown = {"a category, a shared value, missing values": self.people.tables[0].model.k}
            if table.model is not None:
                shown["a stretch of numbers, a step of time"] = table.model.k
                shown[LEAF_PIECE] = table.model.leaf
            found[table.name] = shown
        return found


_EVERYBODY = "\0people"


class LinkedRows:
    """The synthesis of a table in which people have several rows: its release has people, too."""

    def __init__(
        self,
        rules: Sequence[str] | None,
        person: str,
        order: Sequence[str] | None,
        *,
        exact: bool = False,
        accept: bool = False,
    ) -> None:
        self.rules, self.person, self.exact, self.accept = rules, person, exact, accept
        self.order = None if order is None else tuple(order)
        self.parts: list[Histories] = []  # several where condensers were merged
        self.notes: list[str] = []

    def fit(self, block: Block, encoder: TableEncoder, grouper: Grouper) -> GroupFacts:
        """Learn from the rows of people, and return what is known of the groups of people."""
        assert block.people is not None
        check_people(np.zeros(len(block.people), np.int64), block.levels, block.people)
        schema = Schema(encoder.columns_)
        who = np.unique(block.people, return_inverse=True)[1]
        levels = np.zeros(int(who.max()) + 1, dtype=np.int64)
        np.maximum.at(levels, who, block.levels)
        self.dtype = block.frame.schema[self.person]
        self.columns = [c for c in block.frame.columns if c in schema or c == self.person]
        rows = RowTable("", _EVERYBODY, block.frame, schema, who, who, self.order)
        model = Histories(self.rules, exact=self.exact)
        people = replace(grouper, levels=levels, people=None, sensitive=())
        facts = model.fit(_EVERYBODY, pl.DataFrame(), Schema(), [rows], levels, people)
        self.parts, self.notes = [model], model.notes
        # that people of a group are alike says nothing of rows which differ
        return facts if model.tables[0].model is None else replace(facts, degenerate=0)

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw so many people: their rows stand together, in order, under new keys."""
        counts = np.array([part.people.tables[0].model.n_rows for part in self.parts])
        sizes = counts if n is None else rng.multinomial(n, counts / counts.sum())
        keys = new_keys(int(sizes.sum()), self.dtype, rng)
        frames, first = [], 0
        for part, size in zip(self.parts, sizes.tolist()):
            drawn, owners = part.draw(size, rng, accept=self.accept)
            key = keys[first + owners[""]].alias(self.person)
            frames.append(drawn[""].with_columns(key).select(self.columns))
            first += size
        return pl.concat(frames, how="vertical_relaxed")

    @property
    def plan(self) -> Plan:
        """Return the rules that single rows of a release can be checked by."""
        plans = [plan for part in self.parts for plan in part.plans.values()]
        rules = [
            one for plan in plans for one in plan.rules if {*one.rule.columns} <= {*self.columns}
        ]
        units, merged, known, writings = (
            {key: value for plan in plans for key, value in getattr(plan, name).items()}
            for name in ("units", "merged", "known", "writings")
        )
        return Plan(tuple(dict.fromkeys(rules)), (), units, merged, known, writings)

    def merged(self, other: LinkedRows) -> LinkedRows:
        """Return the synthesis of both tables."""
        both = LinkedRows(
            self.rules, self.person, self.order,
            exact=self.exact or other.exact, accept=self.accept and other.accept,
        )  # fmt: skip
        both.parts, both.dtype, both.columns = self.parts + other.parts, self.dtype, self.columns
        both.notes = list(dict.fromkeys(self.notes + other.notes))
        return both

    def rests_on(self) -> dict[str, int]:
        """Return what a release shows, and of how many people at least each piece is."""
        return fewest_of(table for part in self.parts for table in part.rests_on().values())

    def sentence(self, *, sizes: bool = True) -> str:
        """Return in words what every released row was drawn from."""
        return self.parts[0].sentence(sizes=sizes)

    def limits(self) -> list[str]:
        """Return what this synthesis does not protect."""
        return [
            *self.parts[0].people.limits(),
            "A released history as a whole: each of its steps rests on many people, all of them "
            "together on none. What histories reveal is measured, not guaranteed.",
        ]


@dataclass
class _Sheet:
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
    made: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dtypes: dict[str, Any] = field(default_factory=dict)

    @property
    def every(self) -> list[str]:
        """Return all columns of the table, also those that are not released."""
        return self.names or self.frame.columns

    @classmethod
    def of(cls, table: RowTable, settings: Settings) -> _Sheet:
        """Put the rows of each parent in order: by time, or as they stand, or by lot."""
        names = [name for name in table.schema.released if name in table.frame.columns]
        order, found = table.order, ""
        if order is None:
            found = find_order(table.frame, table.schema, table.people) or ""
            order = (found,) if found else None
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
            sheet.notes.append(f"{called}the rows of a person are in the order of '{found}'")
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
        self.time = name

    def lift(self, parent: _Sheet, settings: Settings, *, middle: bool) -> None:
        """Hand up the number of rows, the first and last time, and what does not change."""
        table = self.table
        assert table is not None
        counts = np.bincount(table.owner, minlength=parent.height)
        rows = Rows(table.owner, counts)
        none, end = counts == 0, np.cumsum(counts) - 1
        begin = np.where(none, 0, end - counts + 1)
        whole = self.summarised()
        changes = {c: _changes(whole[c], rows) for c in whole.columns}
        several = max(int((counts > 1).sum()), 1)
        self.least = int(none.sum() < draw_threshold(settings.k, settings.rng))
        count = table.summary("count")
        parent._add(_COUNT, Column(count, Kind.INTEGER), pl.Series(counts))
        for name in whole.columns:
            changing = len(np.unique(table.owner[changes[name]]))
            inner = name in self.frame.columns and self.frame.height
            if inner and name != self.time and changing <= (1 - _CONSTANT) * several:
                self._move(name, parent, whole[name], begin, none, count, exceptions=changing)
        if self.time is not None:
            self._hand_time(parent, rows, begin, np.maximum(end, 0), none, count, settings)
        if middle:
            self._hand_means(parent, rows, none)
        self.frame = self.frame.drop(list(self.constant))

    def _move(
        self,
        name: str,
        parent: _Sheet,
        series: pl.Series,
        begin: Ints,
        none: Flags,
        count: str,
        *,
        exceptions: int,
    ) -> None:
        assert self.table is not None
        there = self.table.label(name)
        self.constant[name] = there
        parent._add(_MOVED, replace(self.schema[name], name=there), _at(series, begin, none))
        if none.any():
            parent.rules.append(f"{quote(there)} is missing if {quote(count)} < 1")
        if exceptions:
            self.notes.append(
                f"column '{there}' does not change among the rows of nearly everybody: it does in "
                "nobody's of the release"
            )

    def _hand_time(
        self,
        parent: _Sheet,
        rows: Rows,
        begin: Ints,
        end: Ints,
        none: Flags,
        count: str,
        settings: Settings,
    ) -> None:
        assert self.table is not None and self.time is not None
        series, column = self.frame[self.time], self.schema[self.time]
        first, last = (self.table.summary(f, self.time) for f in ("min", "max"))
        for name, at in ((first, begin), (last, end)):
            parent._add(_TIME, replace(column, name=name), _at(series, at, none))
            if none.any():
                parent.rules.append(f"{quote(name)} is missing if {quote(count)} < 1")
        parent.rules.append(f"{quote(first)} is not missing if {quote(count)} > 0")
        if series.dtype.is_numeric() or series.dtype.is_temporal():
            gap = least_gap(numbers_of(series), rows, self.table, settings)
            more = f" + {gap!r} * ({quote(count)} - 1)" if gap else ""
            parent.near.append(first)
            parent.rules.append(f"{quote(last)} >= {quote(first)}{more}")
            parent.rules.append(f"{quote(last)} = {quote(first)} if {quote(count)} = 1")

    def _hand_means(self, parent: _Sheet, rows: Rows, none: Flags) -> None:
        """Hand up what the rows of a parent are like: its other children do not see it else."""
        assert self.table is not None
        owner = pl.Series(_WHO, rows.parent)
        for name in self.frame.columns:
            series = self.frame[name]
            if name in self.constant or name == self.time or not series.dtype.is_numeric():
                continue
            there = self.table.summary("mean", name)
            means = series.cast(pl.Float64).to_frame().with_columns(owner).group_by(_WHO).mean()
            every = pl.DataFrame({_WHO: np.arange(len(none))}, schema={_WHO: owner.dtype})
            found = every.join(means, on=_WHO, how="left", maintain_order="left")[name].round(6)
            parent._add(_MEAN, Column(there, Kind.DECIMAL), found)
            parent.made.append(there)

    def _add(self, rank: int, column: Column, series: pl.Series) -> None:
        self.lifted.append((rank, column, series.alias(column.name)))
        self.schema = self.schema.with_column(column)

    def summarised(self) -> pl.DataFrame:
        """Return the table with what its children handed up: numbers of rows and times first."""
        ranked = sorted(self.lifted, key=lambda one: one[0])
        early = [series for rank, _, series in ranked if rank < _MOVED]
        late = [series for rank, _, series in ranked if rank >= _MOVED]
        return pl.DataFrame([*early, *self.frame, *late])

    def fit(
        self,
        above: tuple[pl.DataFrame, Mapping[str, Any]],
        settings: Settings,
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
            table.summary("count"), first, last, dict(self.constant), list(self.made), list(above[1]), {}, {},
        )  # fmt: skip
        if not whole.width or not whole.height:
            return fitted, self._complete(whole, above[0])
        fitted = self._learn(whole, above, settings, learnt, fitted, rules)
        return fitted, self._complete(whole, above[0])

    def _learn(
        self,
        whole: pl.DataFrame,
        above: tuple[pl.DataFrame, Mapping[str, Any]],
        settings: Settings,
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
        rows = Rows(owner, np.bincount(owner, minlength=above[0].height))
        fixed = self.constant if rules is None else _joined(one.fixed for one in rules)
        shown = shown.with_columns(
            _fixed(name, there, shown, above[0], rows) for name, there in fixed.items()
        )
        if rules is None:
            found = find_rules(shown, columns, k, people, writings_of(encoder.codecs), rng)
            asked = [(rule, True) for rule in found if not {*rule.columns} <= {*fixed}]
        else:
            asked = [(one.rule, False) for one in rules if {*one.rule.columns} <= {*shown.columns}]
        also = [(parse_rule(text, shown.columns), True) for text in self.rules]
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

    def _complete(self, whole: pl.DataFrame, above: pl.DataFrame) -> pl.DataFrame:
        assert self.table is not None
        moved = [above[there][self.table.owner].alias(n) for n, there in self.constant.items()]
        return pl.DataFrame([*whole, *moved])


def _fixed(
    name: str, there: str, shown: pl.DataFrame, above: pl.DataFrame, rows: Rows
) -> pl.Series:
    """Return a column of the row before, or of the parent, for each row."""
    if name.startswith(BEFORE):
        first = rows.place == 0
        return _at(shown[there], np.maximum(np.arange(shown.height) - 1, 0), first).alias(name)
    return above[there][rows.parent].alias(name)


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: there for part in parts for name, there in part.items()}


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Return a rule about columns that are called otherwise."""

    def changed(node: Node) -> Node:
        if isinstance(node, Name):
            return Name(names.get(node.column, node.column))
        if isinstance(node, Call):
            return Call(node.op, tuple(map(changed, node.args)))
        return node

    parts = tuple(Call(part.op, tuple(map(changed, part.args))) for part in rule.parts)
    return replace(rule, parts=parts)


def new_keys(n: int, dtype: Any, rng: np.random.Generator) -> pl.Series:
    """Return new keys in random order, numbers where the old ones were."""
    numbers = pl.Series(1 + rng.permutation(n))
    if dtype.is_numeric():
        return numbers.cast(dtype)
    return numbers.cast(pl.String).str.zfill(len(str(n)))


def find_order(frame: pl.DataFrame, schema: Schema, people: Ints) -> str | None:
    """Return the time that rises within people, as rows stand; a date that varies, else none."""
    by = np.argsort(people, kind="stable")
    same = people[by][1:] == people[by][:-1]
    if not same.any():
        return None
    found: list[tuple[float, str]] = []
    for name in schema.released:
        column = schema[name]
        dated = column.kind is Kind.DATETIME
        if name not in frame.columns or column.kind not in (Kind.INTEGER, Kind.DATETIME):
            continue
        if not dated and not {"date", "time"} & topics_of(name).keys():
            continue
        values = _rank(frame[name], schema)[by]
        if np.isnan(values).mean() > _SPARSE:
            continue
        steps = np.diff(values)[same]
        falls = len(np.unique(people[by][1:][same][steps < 0]))
        rising = falls <= (1 - _RISES) * len(np.unique(people))
        moves = float((steps != 0).mean())
        if moves > 0 and (rising or dated):
            found.append((2 * rising + moves, name))
    return max(found, key=lambda one: one[0])[1] if found else None


def least_gap(values: Floats, rows: Rows, table: RowTable, settings: Settings) -> float:
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
    if table.unique and not least:
        least = float(np.min(steps[known & (steps > 0)], initial=1.0))
    return float(least)


def _changes(series: pl.Series, rows: Rows) -> Flags:
    """Return which rows differ from the row before of the same parent."""
    same = series.eq_missing(series.shift(1)).fill_null(False).to_numpy()
    return ~same & (rows.place > 0)


def _at(series: pl.Series, rows: Ints, none: Flags) -> pl.Series:
    """Return some rows of a column, null where there is none."""
    if not len(series):
        return pl.Series(series.name, [None] * len(rows), dtype=series.dtype)
    found = series[rows]
    return found.zip_with(pl.Series(~none), pl.Series([None], dtype=series.dtype))


def _rank(series: pl.Series, schema: Schema) -> Floats:
    """Return a column as numbers to sort by, dates that are written as text by what they say."""
    column = schema[series.name] if series.name in schema else None
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
