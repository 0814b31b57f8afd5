"""People with rows in one or several tables: learnt people first, then row after row.

People are one row each, with what their rows have in common and how many there are, and are
condensed as any table is. The rows of each table are drawn given their parent and the rows before
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from tulle._columns import take_rows
from tulle._people import people_among
from tulle._relations.language import quote
from tulle._relations.plan import Plan
from tulle._relations.values import numbers_of
from tulle._shape.model import LEAF_PIECE
from tulle._shape.odds import Odds, fit_odds, shown_of, traits_of
from tulle._types import Flags, Ints
from tulle.condense._diversity import locate_sensitive
from tulle.condense._grouping import Grouper, GroupFacts
from tulle.condense._levels import check_people, common_level
from tulle.condense._row_rules import PlacedRule, Placing, Sum, TableNames, renamed
from tulle.condense._row_tables import CONSTANT, MOVED, FittedRows, RowDemands, RowTable, value_at
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
from tulle.table.schema import Kind, Schema

_DRAWINGS = 8  # histories of each person, of which one is released
_TRIES = 20  # of people whose rows would not end in time
_BATCH = 25_000  # people whose histories are drawn at a time
_MOST_TRIED = 20_000  # people whose histories are drawn to learn which to choose


class Histories:
    """A model of people and of their rows in other tables."""

    def __init__(self, rules: Sequence[str] | None, *, exact: bool = False) -> None:
        self.rules = rules
        self.exact = exact
        self.notes: list[str] = []
        self.odds: Odds | None = None  # by which one of several drawn histories is chosen
        self.shown: dict[str, dict[str, Ints]] = {}  # categories that these look at

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
        settings = RowDemands(k, self.exact, grouper.rng)
        self.name, self.columns = name, [c for c in schema.released if c in frame.columns]
        own = Schema(schema[column] for column in self.columns)
        everybody = np.arange(len(levels))
        root = RowTable(name, "", frame.select(self.columns), own, everybody, everybody)
        sheets = {name: root} | {table.name: table for table in tables}
        for table in tables:
            table.arrange(settings)
        placed = self._place(sheets, tables, k)
        for table in reversed(tables):
            table.lift(sheets[table.parent], settings, middle=table.parent != name)
        self.notes = [note for sheet in sheets.values() for note in sheet.notes]
        lifted = [one for sheet in sheets.values() for one in sheet.lifted]
        self.summaries = {column.name for rank, column, _ in lifted if rank != MOVED}
        self.structural = {text for sheet in sheets.values() for text in sheet.rules}
        self.beginnings = [] if self.rules is not None else _equal_beginnings(sheets, tables, k)
        for parent, text in self.beginnings:
            sheets[parent].rules.append(text)
        rules = None if self.rules is None else self._of(sheets, placed, name)
        people = root.summarised()
        facts = self._fit_people(root, people, rules, levels, grouper)
        self.tables: list[FittedRows] = []
        above = {name: (people, self.encoder.codecs)}
        learnt = levels <= k
        persons = {table.name: table.people for table in tables}
        for table in tables:
            rules = None if self.rules is None else self._of(sheets, placed, table.name)
            fitted, whole = table.fit(above[table.parent], settings, learnt, rules)
            self.tables.append(fitted)
            above[table.name] = whole, {} if fitted.encoder is None else fitted.encoder.codecs
        if not self.exact and any(table.model is not None for table in self.tables):
            frames = {name: frame for name, (frame, _) in above.items()}
            self._learn_odds(frames, persons, learnt, settings)
        return facts

    def _fit_people(
        self,
        root: RowTable,
        people: pl.DataFrame,
        rules: list[PlacedRule] | None,
        levels: Ints,
        grouper: Grouper,
    ) -> GroupFacts:
        """Learn from people, one row each, with what their rows have in common."""
        k = common_level(levels)
        schema = Schema(root.schema[column] for column in people.columns)
        crowd = Crowd.of_kept(k, levels <= k, None, grouper.rng)
        self.encoder = TableEncoder(schema).fit(people, (), crowd)
        own = None if rules is None else [one.rule for one in rules]
        self.people = Shape(own, exact=self.exact, also=root.rules, near=frozenset(root.near))
        block = Block(people, levels, None, locate_sensitive(people, schema))
        facts = self.people.fit(block, self.encoder, grouper)
        self.notes += self.people.notes
        return facts

    def _learn_odds(
        self,
        frames: Mapping[str, pl.DataFrame],
        persons: Mapping[str, Ints],
        learnt: Flags,
        settings: RowDemands,
    ) -> None:
        """Learn by what odds one of several drawn histories is chosen."""
        k, _, rng = settings
        for table in self.tables:
            counted = learnt[persons[table.name]]
            rows = table.known(frames[table.name].filter(counted))
            self.shown[table.name] = shown_of(rows, persons[table.name][counted])
        own = [take_rows(c, np.flatnonzero(learnt)) for c in self._traits(frames, persons)]
        people = self._draw_people(min(len(learnt), _MOST_TRIED), rng)
        drawn, _, owners = self._draw_rows(pl.concat([people] * _DRAWINGS), rng)
        traits = self._traits(drawn, self.persons_of(owners))
        found = fit_odds(own, traits, _DRAWINGS, k, 2 * k, rng)
        self.odds = found if found.trees else None

    def _traits(self, frames: Mapping[str, pl.DataFrame], persons: Mapping[str, Ints]) -> list[Any]:
        """Return one row of each person: their own columns, and what their rows are like."""
        whole, codecs = frames[self.name], self.encoder.codecs
        found: list[Any] = [codecs[name].as_known(whole[name]) for name in codecs]
        for table in self.tables:
            rows = table.known(frames[table.name])
            found += traits_of(rows, persons[table.name], whole.height, self.shown[table.name])
        return found

    def persons_of(self, owners: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the person of each drawn row."""
        found: dict[str, Ints] = {}
        for table in self.tables:
            above, owner = found.get(table.parent), owners[table.name]
            found[table.name] = owner if above is None else above[owner]
        return found

    def _place(
        self, sheets: Mapping[str, RowTable], tables: Sequence[RowTable], k: int
    ) -> list[PlacedRule]:
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
        sums = placing.sums if self.rules is not None else _sums_found(sheets, tables, k)
        self.sums = [s for s in sums if s.column in sheets[s.table].frame.columns]
        self.types = {s.column: sheets[s.table].frame.schema[s.column] for s in self.sums}
        for one in self.sums:
            sheets[one.table].frame = sheets[one.table].frame.drop(one.column)
        return placing.rules

    def _of(
        self, sheets: Mapping[str, RowTable], placed: Sequence[PlacedRule], table: str
    ) -> list[PlacedRule]:
        """Return the rules of a table, with those of its children that are about constants."""
        found = []
        for one in placed:
            sheet = sheets[one.table]
            moved = {
                name: sheet.constant[name] for name in one.rule.columns if name in sheet.constant
            }
            up = bool(moved) and {*moved} | {*one.fixed} >= {*one.rule.columns}
            if up and sheet.parent == table:
                names = {**one.fixed, **moved}
                found.append(PlacedRule(table, renamed(one.rule, names), {}))
            elif not up and one.table == table:
                found.append(one._replace(fixed={**one.fixed, **moved}))
        return found

    def draw(
        self, n: int | None, rng: np.random.Generator, *, accept: bool = False
    ) -> tuple[dict[str, pl.DataFrame], dict[str, Ints]]:
        """Draw people and their rows; return the tables, and the parent of each row.

        Sequences that break a rule which was asked for are refused, unless they are accepted.
        """
        self.verify()
        people = self._draw_people(n, rng)
        whole, seen, owners = self._chosen(people[:_BATCH], rng)
        for start in range(_BATCH, people.height, _BATCH):
            more = self._chosen(people[start : start + _BATCH], rng)
            for table in self.tables:
                later = more[2][table.name] + whole[table.parent].height
                owners[table.name] = np.r_[owners[table.name], later]
            whole, seen = (
                {name: pl.concat([frame, new[name]]) for name, frame in old.items()}
                for old, new in ((whole, more[0]), (seen, more[1]))
            )
        self.broken: dict[str, int] = {}
        for table in self.tables:
            self.broken |= refuse_broken(table.plan, seen[table.name], accept=accept)
        self._summarise(whole, owners)
        checked = refuse_broken(self.people.plan, whole[self.name], accept=accept)
        self.broken |= checked
        owners[self.name] = np.arange(people.height)
        frames = {self.name: whole[self.name].select(self.columns)}
        frames |= {table.name: whole[table.name].select(table.columns) for table in self.tables}
        return frames, owners

    def _draw_people(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw people; those whose rows would not be in the time of the data are drawn again."""
        people = self.people.draw(n, rng)
        for _ in range(_TRIES):
            late = [table.untimely(people) for table in self.tables if table.parent == self.name]
            wrong = np.logical_or.reduce(late) if late else np.zeros(people.height, dtype=bool)
            if not wrong.any():
                break
            fresh = self.people.draw(int(wrong.sum()), rng)
            people = pl.concat([people.filter(~pl.Series(wrong)), fresh])
        return people

    def _chosen(
        self, people: pl.DataFrame, rng: np.random.Generator
    ) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame], dict[str, Ints]]:
        """Draw several histories for each drawn person, and choose one by the odds."""
        if self.odds is None:
            return self._draw_rows(people, rng)
        whole, seen, owners = self._draw_rows(pl.concat([people] * _DRAWINGS), rng)
        traits = self._traits(whole, self.persons_of(owners))
        chosen = self.odds.choose(traits, _DRAWINGS, rng)
        kept = self._rows_of(chosen, owners, whole[self.name].height)
        owners = {name: owner for name, (_, owner) in kept.items() if name != self.name}
        whole, seen = (
            {name: frame[kept[name][0]] for name, frame in frames.items()}
            for frames in (whole, seen)
        )
        return whole, seen, owners

    def _draw_rows(
        self, people: pl.DataFrame, rng: np.random.Generator
    ) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame], dict[str, Ints]]:
        """Draw rows for drawn people; return tables, as rules see them too, and rows' parents."""
        whole, seen = {self.name: people}, dict[str, pl.DataFrame]()
        codecs: dict[str, Mapping[str, Any]] = {self.name: self.encoder.codecs}
        owners: dict[str, Ints] = {}
        for table in self.tables:
            drawn = table.draw(whole[table.parent], codecs[table.parent], rng)
            whole[table.name], seen[table.name], owners[table.name] = drawn
            codecs[table.name] = {} if table.encoder is None else table.encoder.codecs
        return whole, seen, owners

    def _rows_of(
        self, chosen: Ints, owners: Mapping[str, Ints], n: int
    ) -> dict[str, tuple[Ints, Ints]]:
        """Return the rows of chosen people in each table, and the new places of their parents."""
        kept, heights = {self.name: (chosen, chosen)}, {self.name: n}
        for table in self.tables:
            place = np.full(heights[table.parent], -1)
            place[kept[table.parent][0]] = np.arange(len(kept[table.parent][0]))
            owner = place[owners[table.name]]
            rows = np.flatnonzero(owner >= 0)
            rows = rows[np.argsort(owner[rows], kind="stable")]
            kept[table.name], heights[table.name] = (rows, owner[rows]), len(owner)
        return kept

    def _summarise(self, whole: dict[str, pl.DataFrame], owners: Mapping[str, Ints]) -> None:
        """Say of drawn parents what their drawn rows are: rules are verified on that."""
        for table in reversed(self.tables):
            above, owner, rows = whole[table.parent], owners[table.name], whole[table.name]
            counts = np.bincount(owner, minlength=above.height)
            series = [pl.Series(table.count, counts, dtype=above.schema[table.count])]
            end = np.cumsum(counts) - 1
            for name, at in zip(table.ends or (), (end - counts + 1, end)):
                if table.model is not None:
                    time = rows[str(table.model.time)]
                    series.append(value_at(time, at, counts > 0).alias(name))
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
        """How rules are kept in each table."""
        return {self.name: self.people.plan} | {table.name: table.plan for table in self.tables}

    def rules_kept(self) -> list[RuleSummary]:
        """Return the rules that are kept, those that were found in the tables among them."""
        sums = [RuleSummary(one.text, self.rules is None, 0.0) for one in self.sums]
        kept = [RuleSummary(text, True, 0.0) for _, text in self.beginnings]
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
        if self.odds is not None:
            self.odds.verify(2 * self.people.tables[0].model.k)

    def sentence(self, *, sizes: bool = True) -> str:
        """Return in words what every released row was drawn from.

        Without ``sizes``, which levels of single people may have set, in parts of these levels.
        """
        return history_sentence(fewest_of(self.rests_on().values()), exact=self.exact, sizes=sizes)

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


def _sums_found(sheets: Mapping[str, RowTable], tables: Sequence[RowTable], k: int) -> list[Sum]:
    """Find columns that are what rows add up to in nearly everybody."""
    found: dict[tuple[str, str], Sum] = {}
    for table in tables:
        above, rows = sheets[table.parent], sheets[table.name]
        several = np.bincount(rows.owner, minlength=above.height) > 1
        who = above.people
        if people_among(several, who) < 2 * k:
            continue
        wanted = {s.name: numbers_of(s) for s in above.frame if s.dtype.is_numeric()}
        for part in (series for series in rows.frame if series.dtype.is_numeric()):
            values = np.nan_to_num(numbers_of(part))
            sums = np.bincount(rows.owner, weights=values, minlength=above.height)
            for name, total in wanted.items():
                apart = ~np.isclose(total, sums, rtol=1e-9, atol=1e-6)
                if people_among(apart, who) <= (1 - CONSTANT) * len(np.unique(who)):
                    text = f"{table.parent}.{name} = sum({table.name}.{part.name})"
                    one = Sum(table.parent, name, table.name, part.name, text)
                    found.setdefault((table.parent, name), one)
    return list(found.values())


def _equal_beginnings(
    sheets: Mapping[str, RowTable], tables: Sequence[RowTable], k: int
) -> list[tuple[str, str]]:
    """Find tables whose rows begin with those of a sibling in nearly everybody.

    Each rule comes with the table of the parents.
    """
    firsts: dict[str, list[str]] = {}
    for table in tables:
        time = sheets[table.name].time
        firsts.setdefault(table.parent, []).extend([table.summary("min", time)] if time else [])
    found = []
    for parent, names in firsts.items():
        lifted = {column.name: series for _, column, series in sheets[parent].lifted}
        who = sheets[parent].people
        for name, other in pairwise(names):
            if lifted[name].dtype != lifted[other].dtype:
                continue
            both = (lifted[name].is_not_null() & lifted[other].is_not_null()).to_numpy()
            apart = (lifted[name] != lifted[other]).fill_null(False).to_numpy()
            people = people_among(both, who)
            if people >= 2 * k and people_among(apart, who) <= (1 - CONSTANT) * people:
                found.append((parent, f"{quote(other)} = {quote(name)}"))
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
        self.shown: dict[str, int] = {}  # what a release shows, and of how many people at least
        self.notes: list[str] = []
        self.block = (0, 1)

    def fit(self, block: Block, encoder: TableEncoder, grouper: Grouper) -> GroupFacts:
        """Learn from the rows of people, and return what is known of the groups of people."""
        assert block.people is not None
        check_people(np.zeros(len(block.people), np.int64), block.levels, block.people)
        # what codes of texts are learnt from is text
        schema = Schema(replace(c, kind=Kind.TEXT) if c.text else c for c in encoder.columns_)
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
        self.shown = fewest_of(model.rests_on().values())
        self.block = (0, 1) if block.settled is None else block.settled.block
        # that people of a group are alike says nothing of rows which differ
        return facts if model.tables[0].model is None else replace(facts, degenerate=0)

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw so many people: their rows stand together, in order, under new keys."""
        counts = np.array([part.people.tables[0].model.n_rows for part in self.parts])
        sizes = counts if n is None else rng.multinomial(n, counts / counts.sum())
        keys = new_keys(int(sizes.sum()), self.dtype, rng, self.block)
        frames, first = [], 0
        for part, size in zip(self.parts, sizes.tolist()):
            drawn, owners = part.draw(size, rng, accept=self.accept)
            key = keys[first + owners[""]].alias(self.person)
            frames.append(drawn[""].with_columns(key).select(self.columns))
            first += size
        return pl.concat(frames, how="vertical_relaxed")

    @property
    def plan(self) -> Plan:
        """The rules that single rows of a release can be checked by."""
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
        both.shown = fewest_of([self.shown, other.shown])
        return both

    def rests_on(self) -> dict[str, int]:
        """Return what a release shows, and of how many people at least each piece is."""
        return self.shown

    def sentence(self, *, sizes: bool = True) -> str:
        """Return in words what every released row was drawn from."""
        return history_sentence(self.shown, exact=self.exact, sizes=sizes)

    def limits(self) -> list[str]:
        """Return what this synthesis does not protect."""
        return [
            *Shape(self.rules, exact=self.exact).limits(),
            "A released history as a whole: each of its steps rests on many people, all of them "
            "together on none. What histories reveal is measured, not guaranteed.",
        ]


def history_sentence(rests_on: Mapping[str, int], *, exact: bool, sizes: bool = True) -> str:
    """Say what every released row was drawn from."""
    cell, leaf = f"at least {min(rests_on.values())} people", f"at least {rests_on[LEAF_PIECE]}"
    if not sizes:
        cell = "at least as many people as nine of ten require"
        leaf = "as many" if exact else "twice as many"
    return (
        "Released people are invented, and so is every history. Every value, number of rows "
        f"and step of time is held by {cell}; every dependence, also that of one row on the "
        f"row before, rests on {leaf}, of whom nobody counts for more than a small part. A "
        "history as a whole is a product of such steps: it is not shared by as many people."
    )


def new_keys(
    n: int, dtype: Any, rng: np.random.Generator, block: tuple[int, int] = (0, 1)
) -> pl.Series:
    """Draw new keys in random order, numbers where the old ones were.

    Blocks take turns: no two of them have the same key.
    """
    which, blocks = block
    numbers = pl.Series(1 + which + blocks * rng.permutation(n))
    if dtype.is_numeric():
        if blocks > 1:  # the numbers have gaps, and may not fit into the few bits of the old ones
            dtype = pl.Int64 if dtype.is_integer() else pl.Float64
        return numbers.cast(dtype)
    return numbers.cast(pl.String).str.zfill(len(str(n * blocks)))
