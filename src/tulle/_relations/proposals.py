"""Rules that a table follows: found, so that a release can follow them too.

A rule is proposed if at least 99.9 % of the records that it speaks of follow it and chance does
not explain that: were the columns independent, at least 20 records (and at least ``k``) would
break it. Candidates are looked for in a sample of records; the counts are those of the whole table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from tulle._columns import CategoryColumn, Column, NumberColumn, take_rows
from tulle._people import distinct_people, draw_threshold, people_among, weigh_people
from tulle._plurals import counted
from tulle._relations.formulas import Numbers, exclusive_sets
from tulle._relations.language import SETS, Call, ColumnRule, Name, columns_of, parse_rule, quote
from tulle._relations.values import Values, broken, quantity, roundings, truth, unit_of
from tulle._shape.dependencies import find_dependencies
from tulle._types import Flags, Floats, Ints
from tulle.table._series import filled
from tulle.table._states import Writing

LEAST = 20  # records that would break a rule if it held by chance
_HOLDS = 0.999
_FEW = 2  # records that never refute a rule, if they are at most this share:
_FEW_SHARE = 0.01
_MOST_ROWS = 20_000  # records that rules are looked for in
_SAMPLE = 2_000  # records that candidates are looked for in
_FIRST = 100  # records of a first look at ages
_MOST_NUMBERS = 60  # columns that sums and orders are looked for in; the rest is left alone
_MOST_CATEGORIES = 40  # values of a column that pairs are looked for in
_MOST_SMALL_NUMBERS = 12  # different numbers of a column that is treated as categories
_MOST_RULES = 60  # of each kind
_EXPECTED_SHARE = 0.02  # of records that would break an order by chance
_EXCEPTIONS = 0.05  # of the people who would have a combination by chance
_FEW_LEFT = 5  # values that are left where most of a column's values do not occur
_MOSTLY = 0.5  # share of records with the values that do not occur
_SURELY = 4  # times as many more as may break it
_SURE = 5  # times as many expected where a single combination is the evidence
_HEAP = 0.3  # share of records with one number, which is then a state like missing
_ONSET = 0.2  # of the usual share of other states, at the border of a condition
_MOST_LEVELS = 160  # different numbers that a condition is looked for in
_LEAST_LEVELS = 8  # values of a column that is a quantity rather than a code


@dataclass(frozen=True)
class Proposal:
    """A rule that the table follows, and how many records say so."""

    rule: ColumnRule
    records: int  # that the rule speaks of
    exceptions: int

    @property
    def reason(self) -> str:
        if not self.exceptions:
            return f"holds in all of {counted(self.records, 'record')}"
        return f"holds in all but {self.exceptions:,} of {counted(self.records, 'record')}"


def find_rules(
    table: pl.DataFrame,
    columns: Mapping[str, Column],
    k: int,
    people: Ints | None,
    writings: Mapping[str, Writing],
    rng: np.random.Generator,
) -> list[ColumnRule]:
    """Return the rules that a release of the table keeps if none are given.

    It must not be one person whose presence decides: how many people a rule and its edges rest on
    is drawn, and how many exceptions are too many; rules that allow none (``never``) are only
    proposed.
    """
    found = propose_rules(table, columns, k, people, writings, rng)
    return [one.rule for one in found if one.rule.parts[0].op != "not"]


def propose_rules(
    table: pl.DataFrame,
    columns: Mapping[str, Column],
    k: int,
    people: Ints | None,
    writings: Mapping[str, Writing],
    rng: np.random.Generator | None = None,
) -> list[Proposal]:
    """Return the rules that a table follows; with ``rng``, those that a release may show.

    Those of a large table are looked for in some of its records, and counted in all.
    """
    asked = Evidence.of(k, rng)
    if table.height <= _MOST_ROWS:
        return RelationSearch(_values(table, writings), columns, asked, people).all()
    rows = np.linspace(0, table.height - 1, _MOST_ROWS).astype(np.int64)
    some = {name: take_rows(column, rows) for name, column in columns.items()}
    own = None if people is None else people[rows]
    found = RelationSearch(_values(table[rows], writings), some, asked, own).all()
    values = _values(table, writings)
    recounted = (_recounted(one, values, asked, people) for one in found)
    return [one for one in recounted if one is not None]


@dataclass(frozen=True)
class Evidence:
    """How many different people a rule rests on, and how many may break it."""

    k: int
    least: float  # people who follow a rule, and who would break it if it held by chance
    edge: float  # people at the edge of a condition, who are in another state
    spare: float | None  # people who may break it; None for a share of those it speaks of

    @classmethod
    def of(cls, k: int, rng: np.random.Generator | None) -> Evidence:
        """Return what is asked for: drawn, so that no single person decides what is found."""
        least, edge = draw_threshold(k, rng), draw_threshold(k, rng)
        return cls(k, max(LEAST, least), edge, None if rng is None else k / 2 * rng.random())

    @property
    def chance(self) -> float:
        """How many people would break a rule by chance if it meant nothing."""
        return self.least + _SURELY * (self.spare or 0.0)

    def allows(self, exceptions: float, people: float) -> bool:
        """Tell whether so few exceptions among so many people do not refute a rule."""
        return exceptions <= (_tolerated(people) if self.spare is None else self.spare)


def _values(table: pl.DataFrame, writings: Mapping[str, Writing]) -> Values:
    values = Values(table, {}, writings=writings)
    values.units = {name: unit_of(values.typed(name)) for name in table.columns}
    return values


def _recounted(
    found: Proposal, values: Values, asked: Evidence, people: Ints | None
) -> Proposal | None:
    """Return a rule with the counts of another table, if it holds there too."""
    wrong, spoken_of = broken(found.rule, values), _spoken_of(found.rule, values)
    if not asked.allows(people_among(wrong, people), people_among(spoken_of, people)):
        return None
    return replace(found, records=int(spoken_of.sum()), exceptions=int(wrong.sum()))


def _spoken_of(rule: ColumnRule, values: Values) -> Flags:
    """Return the records that a rule says something about."""
    part = rule.parts[0]
    complete, names = np.ones(values.frame.height, dtype=bool), list(rule.columns)
    if part.op == "if":
        said, condition = part.args
        complete = truth(condition, values)[0].copy()
        asks = isinstance(said, Call) and said.op == "missing"
        names = [] if asks else list(columns_of(said))
    for name in names:
        complete &= ~values.absent(name)
    return complete


@dataclass
class RelationSearch:
    """A table in which rules are looked for, and what was found so far."""

    values: Values
    columns: Mapping[str, Column]
    asked: Evidence
    people: Ints | None
    explained: list[frozenset[str]] = field(default_factory=list)  # columns of one equation
    bound: set[frozenset[str]] = field(default_factory=set)  # pairs with a rule for a state
    computed: dict[str, tuple[str, ...]] = field(default_factory=dict)  # and of what it is made
    known_codes: dict[str, tuple[int, Ints]] = field(default_factory=dict)
    known_levels: dict[str, tuple[Floats, Ints, Flags, Ints]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = self.values.frame
        self.names = self.table.columns
        self.k, self.least = self.asked.k, self.asked.least
        self.everybody = people_among(np.ones(self.table.height, dtype=bool), self.people)
        self.types = {name: self.values.typed(name).dtype for name in self.names}
        height = self.table.height
        self._persons = np.arange(height) if self.people is None else self.people
        self._weights = weigh_people(self.people, height)
        rows = min(height, _SAMPLE)
        self.sample = np.linspace(0, self.table.height - 1, rows).astype(np.int64)
        self.numbers = [
            name for name in self.names[:_MOST_NUMBERS] if self._is_number(name)
        ]  # codes of numbers too: a length of stay has few values

    def _is_number(self, name: str) -> bool:
        dtype = self.types[name]
        if not (dtype.is_numeric() or dtype.is_temporal()):
            return False
        present = self.values.numbers(name)[self.sample]
        return len(np.unique(present[~np.isnan(present)])) > 2

    def all(self) -> list[Proposal]:
        """Return equations, dependencies, orders, and columns that are bound to others."""
        return [found for look in _LOOKS for found in look(self)]

    def _proposal(self, text: str) -> Proposal | None:
        """Return a rule if it holds nearly everywhere and enough people say so."""
        rule = parse_rule(text, self.names)
        wrong, spoken_of = broken(rule, self.values), _spoken_of(rule, self.values)
        if not self._are_enough(spoken_of & ~wrong) or not self._are_few(wrong, spoken_of):
            return None
        return Proposal(rule, int(spoken_of.sum()), int(wrong.sum()))

    def _is_time(self, name: str) -> bool:
        return self.types[name] in (pl.Date, pl.Datetime)

    def _clock(self, name: str) -> Any:
        """Return what a column counts: days, hours of a day, a time that passes, or a number."""
        dtype = self.types[name]
        return "day" if self._is_time(name) else dtype.base_type() if dtype.is_temporal() else ""

    def _explains(self, *names: str) -> bool:
        if any({*names} <= known for known in self.explained):
            return True
        first, last = names[0], names[-1]
        return len(names) == 2 and (self._is_made_of(first, last) or self._is_made_of(last, first))

    # -- equations --------------------------------------------------------------------------------

    def _differences(self) -> Iterator[Proposal]:
        """Look for the days between two points in time."""
        times = [name for name in self.numbers if self._is_time(name)]
        others = [name for name in self.numbers if not self._is_time(name)]
        for first, last in combinations(times, 2):
            away = (self.values.numbers(last) - self.values.numbers(first))[self.sample]
            for name in others:
                value = self.values.numbers(name)[self.sample]
                for sign, early, late in ((1, first, last), (-1, last, first)):
                    for more in (0, 1):  # counted with or without the first day
                        if _agree(value, sign * away + more, 1.0):
                            text = f"{quote(name)} = {quote(late)} - {quote(early)}"
                            text += " + 1" if more else ""
                            yield from self._equation(text, (name, late, early))

    def _ages(self) -> Iterator[Proposal]:
        """Look for the whole years between two points in time."""
        times = [name for name in self.numbers if self._is_time(name)]
        for first in times:
            for last in times:
                if first == last:
                    continue
                for name in self.numbers:
                    if self._is_time(name) or self.values.units[name] != 1.0:
                        continue
                    text = f"{quote(name)} = years({quote(first)}, {quote(last)})"
                    rule = parse_rule(text, self.names)
                    some = replace(self.values, frame=self.table[self.sample[:_FIRST]])
                    if not broken(rule, some).any():
                        yield from self._equation(text, (name, first, last))

    def _equation(self, text: str, about: tuple[str, ...]) -> Iterator[Proposal]:
        if self._explains(*about) or any(self._is_made_of(one, about[0]) for one in about[1:]):
            return
        found = self._proposal(text)
        if found is None or not self._is_rounded(found.rule):
            return
        if self._is_no_chance(found.rule, about[0]):
            self.explained.append(frozenset(about))
            made = about if found.rule.parts[0].op in SETS else about[:1]
            self.computed |= dict.fromkeys(made, about[len(made) :])
            yield found

    def _is_made_of(self, name: str, other: str) -> bool:
        """Tell whether a column was computed from another, or from what was."""
        sources = self.computed.get(name, ())
        return other in sources or any(self._is_made_of(source, other) for source in sources)

    def _is_rounded(self, rule: ColumnRule) -> bool:
        """Tell whether a column is a formula, rounded the same way in all records but a few."""
        left, right = rule.parts[0].args[0], rule.parts[0].args[-1]
        if rule.parts[0].op != "=" or not isinstance(left, Name):
            return True
        value, formed = self.values.numbers(left.column), quantity(right, self.values)
        both = ~(np.isnan(value) | np.isnan(formed))
        ways = roundings(formed, value, self.values.units[left.column])
        return any(self._are_few(both & ~fits, both) for fits in ways)

    def _is_no_chance(self, rule: ColumnRule, name: str) -> bool:
        """Tell whether enough people would break a rule if one of its columns were shuffled."""
        if not rule.columns:
            return False
        order = np.random.default_rng(0).permutation(self.table.height)
        frame = self.table.select(rule.columns)
        frame = frame.with_columns(frame[name].gather(order))
        wrong = broken(rule, replace(self.values, frame=frame))
        return people_among(wrong, self.people) >= self.asked.chance

    def _formulas(self) -> Iterator[Proposal]:
        for text, about in self._plain_numbers().formulas(self.computed):
            yield from self._equation(text, about)

    def _sums(self) -> Iterator[Proposal]:
        for text, about in self._plain_numbers(but=self.computed).sums(self.least):
            yield from self._equation(text, about)

    def _plain_numbers(self, but: Collection[str] = ()) -> Numbers:
        """Return the columns that something may be computed from, in the sample."""
        names = [name for name in self.names if self._is_plain(name) and name not in but]
        names = names[:_MOST_NUMBERS]
        sample = np.zeros((len(self.sample), len(names)))
        for place, name in enumerate(names):
            sample[:, place] = self.values.numbers(name)[self.sample]
        return Numbers(names, [self.values.units[name] for name in names], sample)

    def _is_plain(self, name: str) -> bool:
        dtype = self.types[name]
        return bool(dtype.is_numeric()) or dtype == pl.Boolean

    def _sets(self) -> Iterator[Proposal]:
        """Look for sets of columns of which exactly one, or at most one, is 1."""
        truths = [name for name in self.names if self._is_truth(name)]
        truths = [name for name in truths if name not in self.computed]
        if len(truths) < 3:
            return
        ones = np.stack([self.values.numbers(name) for name in truths], axis=1)
        ones = ones[~np.isnan(ones).any(axis=1)] == 1
        few = self.asked.spare or 0.0
        for places, always in exclusive_sets(ones, self.least, few) if len(ones) else ():
            names = [truths[place] for place in places]
            listed = ", ".join(quote(name) for name in names)
            text = f"{'one_of' if always else 'at_most_one_of'}({listed})"
            commonest = max(places, key=lambda place: int(ones[:, place].sum()))
            yield from self._equation(text, (truths[commonest], *names))

    def _is_truth(self, name: str) -> bool:
        if self.types[name] == pl.Boolean:
            return True
        if not self._is_plain(name):
            return False
        values = self.values.numbers(name)
        return set(np.unique(values[~np.isnan(values)]).tolist()) == {0.0, 1.0}

    # -- orders -----------------------------------------------------------------------------------

    def _orders(self) -> Iterator[Proposal]:
        """Look for columns of which one is never above the other, though it could be."""
        found: dict[tuple[str, str], Proposal] = {}
        levels = {
            name: len(np.unique(self.values.numbers(name)[self.sample])) for name in self.numbers
        }
        quantities = [name for name in self.numbers if levels[name] >= _LEAST_LEVELS]
        for first, last in combinations(quantities, 2):
            if self._clock(first) != self._clock(last):
                continue
            if self._explains(first, last) and not self._is_time(first):
                continue
            if first in self.computed or last in self.computed:
                continue  # what it is made of decides
            for low, high in ((first, last), (last, first)):
                if self._may_be_ordered(low, high):
                    text = f"{quote(low)} <= {quote(high)}"
                    proposal = self._proposal(text)
                    if proposal is not None:
                        found[low, high] = proposal
                        break
        for low, high in found:
            between = ((low, name) in found and (name, high) in found for name in quantities)
            if not any(between):
                yield found[low, high]

    def _may_be_ordered(self, low: str, high: str) -> bool:
        first, last = (self.values.numbers(name)[self.sample] for name in (low, high))
        both = ~(np.isnan(first) | np.isnan(last))
        wrong = int((first[both] > last[both]).sum())
        if both.sum() < self.least or wrong > max(_tolerated(both.sum()), self.asked.spare or 0):
            return False
        ordered = np.sort(last[both])
        by_chance = np.searchsorted(ordered, first[both], side="left") / len(ordered)
        share = float(by_chance.mean())
        return share >= _EXPECTED_SHARE and share * self.everybody >= self.asked.chance

    # -- states -----------------------------------------------------------------------------------

    def _states(self) -> Iterator[Proposal]:
        """Look for values of one column at which another is always missing, or always the same."""
        count = 0
        names = self.names[:_MOST_NUMBERS]
        for target in (name for name in names if name not in self.computed):
            for state, gone in self._states_of(target):
                for other in names:
                    if other == target or self._explains(target, other):
                        continue
                    for condition in self._conditions(target, state, gone, other):
                        text = f"{quote(target)} {state} if {condition}"
                        found = self._proposal(text)
                        if found is not None and count < _MOST_RULES:
                            count += 1
                            self.bound.add(frozenset((target, other)))
                            yield found

    def _states_of(self, name: str) -> Iterator[tuple[str, Flags]]:
        """Yield the states that a column may be bound to, and where it is in no other."""
        gone = self.values.absent(name)
        if self._are_enough(gone) and self._are_enough(~gone):
            yield "is missing", gone
        if name in self.numbers and not self._is_time(name):
            values = self.values.numbers(name)
            levels, counts = np.unique(values[~np.isnan(values)], return_counts=True)
            most = float(levels[counts.argmax()])
            others = (values != most) & ~np.isnan(values)
            if counts.max() >= _HEAP * len(values) and self._are_enough(others):
                yield f"= {most:.12g}", ~others
        elif self._is_category(name):
            words = self.values.words(name)
            for word, count in words.drop_nulls().value_counts(sort=True).rows():
                others = ~filled(words == word, True)
                if count >= self.least and self._are_enough(others) and '"' not in word:
                    yield f'= "{word}"', ~others

    def _are_enough(self, rows: Flags) -> bool:
        return people_among(rows, self.people) >= self.least

    def _are_few(self, wrong: Flags, spoken_of: Flags) -> bool:
        speaking = people_among(spoken_of, self.people)
        return self.asked.allows(people_among(wrong, self.people), speaking)

    def _conditions(self, target: str, state: str, gone: Flags, other: str) -> Iterator[str]:
        """Yield the conditions on another column under which a column is always in a state.

        Categories that depend on categories are left to :meth:`_pairs`.
        """
        if state == "is missing" and self._is_always(gone, self.values.absent(other)):
            yield f"{quote(other)} is missing"
        if other in self.numbers and not self._is_time(other):
            yield from self._numbers_with(gone, other)
        elif state == "is missing" or target in self.numbers:
            yield from self._words_with(target, gone, other)

    def _is_always(self, gone: Flags, rows: Flags) -> bool:
        """Tell whether a state is that of some rows, where by chance enough would be in another."""
        if not self._are_few(rows & ~gone, rows):
            return False
        return people_among(rows, self.people) * (1 - float(gone.mean())) >= self.asked.chance

    def _words_with(self, target: str, gone: Flags, other: str) -> Iterator[str]:
        if not isinstance(self.columns.get(other), CategoryColumn):
            return
        words = self.values.words(other)
        held = pl.DataFrame({"word": words, "people": self._persons, "gone": gone}).drop_nulls()
        counts = held.group_by("word").agg(pl.col("people").n_unique(), pl.col("gone").mean())
        if counts.height > _MOST_CATEGORIES:
            return
        always = counts.filter((pl.col("gone") >= _HOLDS) & (pl.col("people") >= self.least))
        chosen = always["word"].sort().to_list()
        rows = np.isin(words.fill_null("").to_numpy(), chosen)
        if not chosen or not self._is_always(gone, rows) or any('"' in word for word in chosen):
            return
        depends = self.table.group_by(other).agg(pl.col(target).n_unique())[target].max() == 1
        rest = counts.filter(~pl.col("word").is_in(chosen))["word"].sort().to_list()
        if not depends and len(chosen) <= _FEW_LEFT:
            yield _one_of(other, chosen)
        elif not depends and len(rest) == 1 and '"' not in rest[0]:
            yield f'{quote(other)} != "{rest[0]}"'

    def _numbers_with(self, gone: Flags, other: str) -> Iterator[str]:
        """Look for a number below or above which a state is always the same.

        From there on other states are usual: it is a border of what can be, not the age of the
        first few who are rich.
        """
        levels, place, present, held = self._levels(other)
        if len(levels) > _MOST_LEVELS:
            return
        there = np.where(gone[present], -1, place)
        persons = self._persons[present]
        seen, few = distinct_people(there, persons, len(levels)), self.asked.edge
        total = distinct_people(np.minimum(there, 0), persons, 1)[0]
        if total < 2 * few:
            return
        first = _edge(there, persons, few)
        last = len(seen) - 1 - _edge(np.where(there < 0, -1, len(seen) - 1 - there), persons, few)
        for edge, sign in ((first, "<"), (last, ">")):
            rows = np.zeros(len(gone), dtype=bool)
            rows[present] = place < edge if sign == "<" else place > edge
            usual = seen[edge] >= max(few, _ONSET * held[edge] * total / held.sum())
            if usual and self._is_always(gone, rows):
                yield f"{quote(other)} {sign} {levels[edge]:.12g}"

    def _levels(self, name: str) -> tuple[Floats, Ints, Flags, Ints]:
        """Return the different numbers of a column, which each row has, and of how many people."""
        if name not in self.known_levels:
            values = self.values.numbers(name)
            present = ~np.isnan(values)
            levels, place = np.unique(values[present], return_inverse=True)
            held = distinct_people(place.reshape(-1), self._persons[present], len(levels))
            self.known_levels[name] = levels, place.reshape(-1), present, held
        return self.known_levels[name]

    # -- combinations -----------------------------------------------------------------------------

    def _dependencies(self) -> Iterator[Proposal]:
        columns = [one for name, one in self.columns.items() if name not in self.computed]
        for one in find_dependencies(columns, self.k, self._weights, persons=self.people):
            if self._explains(one.source, one.target):
                continue
            text = f"{quote(one.source)} -> {quote(one.target)}"
            found = self._proposal(text)
            if found is not None:
                self.explained.append(frozenset((one.source, one.target)))
                self.computed[one.target] = (one.source,)
                yield found

    def _pairs(self) -> Iterator[Proposal]:
        """Return pairs of categories of which some combinations never occur, though they could."""
        names = [name for name in self.names[:_MOST_NUMBERS] if self._is_category(name)]
        count = 0
        for first, last in combinations(names, 2):
            if self._explains(first, last) or frozenset((first, last)) in self.bound:
                continue
            if {first, last} <= self.computed.keys():
                continue
            for text, rare in self._never(first, last):
                found = self._proposal(text)
                if found is not None and count < _MOST_RULES:
                    found = replace(found, exceptions=found.exceptions + rare)
                    count += 1
                    yield found

    def _is_category(self, name: str) -> bool:
        column = self.columns.get(name)
        if isinstance(column, NumberColumn):
            few = 2 <= len(np.unique(column.values)) <= _MOST_SMALL_NUMBERS
            return few and self.values.units[name] == 1.0
        return 2 <= self.table[name].n_unique() <= _MOST_CATEGORIES

    def _never(self, first: str, last: str) -> list[tuple[str, int]]:
        """Return rules for combinations that do not occur, and how many others they exclude."""
        if not self._may_exclude(first, last):
            return []
        cells = self._cells(first, last)
        empty = cells.filter("empty")
        if not empty.height:
            return []
        total = float(cells["people"].sum())
        rare = float(cells.filter(pl.col("people") < self.k)["people"].sum())
        if self.asked.allows(rare, total):
            return [(f"known({quote(first)}, {quote(last)})", round(rare))]
        texts = []
        for one, other, a, b in ((first, last, "a", "b"), (last, first, "b", "a")):
            for (value,), part in sorted(cells.group_by(a), key=lambda pair: str(pair[0][0])):
                left = part.filter(~pl.col("empty") & (pl.col("people") >= self.k))[b].sort()
                closed = part.filter("empty")
                if 0 < len(left) <= _FEW_LEFT and closed[f"of_{b}"].sum() >= _MOSTLY * total:
                    texts.append(f"{_one_of(other, left.to_list())} if {_one_of(one, [value])}")
                    empty = empty.filter(pl.col(a) != value)
        certain = (pl.col("expected") >= _SURE * self.least) & (pl.col("people") == 0)
        sure = empty.filter(certain)
        for (value,), part in sorted(sure.group_by("b"), key=lambda pair: str(pair[0][0])):
            texts.append(
                f"never {_one_of(first, part['a'].sort().to_list())} and {_one_of(last, [value])}"
            )
        return [(text, 0) for text in texts if text.count('"') % 2 == 0]

    def _may_exclude(self, first: str, last: str) -> bool:
        """Tell at little cost whether too few people have a combination that many should have."""
        (a, codes), (b, others) = self._codes(first), self._codes(last)
        both = (codes >= 0) & (others >= 0)
        place = codes[both] * b + others[both]
        held = distinct_people(place, self._persons[both], a * b).reshape(a, b)
        expected = held.sum(axis=1)[:, None] * held.sum(axis=0) / max(held.sum(), 1)
        few = np.minimum(self.asked.spare or 0.0, _EXCEPTIONS * expected)
        return bool(((expected >= self.least) & (held <= few)).any())

    def _codes(self, name: str) -> tuple[int, Ints]:
        """Return how many values a column has, and the number of each row's, -1 if missing."""
        if name not in self.known_codes:
            words = self.values.words(name)
            domain = words.drop_nulls().unique().sort()
            places = pl.Series(np.arange(len(domain)))
            codes = words.replace_strict(domain, places, default=-1, return_dtype=pl.Int64)
            self.known_codes[name] = len(domain), codes.to_numpy()
        return self.known_codes[name]

    def _cells(self, first: str, last: str) -> pl.DataFrame:
        """Return all combinations of two columns, their people, and if there should be more."""
        words = {"a": self.values.words(first), "b": self.values.words(last)}
        frame = pl.DataFrame(words | {"people": self._persons}).drop_nulls()
        held = frame.group_by("a", "b").agg(pl.col("people").n_unique().cast(pl.Float64))
        rows = held.group_by("a").agg(pl.col("people").sum().alias("of_a"))
        cols = held.group_by("b").agg(pl.col("people").sum().alias("of_b"))
        cells = rows.join(cols, how="cross").join(held, on=["a", "b"], how="left")
        expected = pl.col("of_a") * pl.col("of_b") / float(held["people"].sum())
        few = pl.min_horizontal(pl.lit(self.asked.spare or 0.0), _EXCEPTIONS * expected)
        people = pl.col("people").fill_null(0.0)
        empty = (expected >= self.least) & (people <= few)
        return cells.with_columns(people, empty.alias("empty"), expected.alias("expected"))


# one kind of evidence after the other: what an earlier one explains, a later one leaves out
_LOOKS = (
    RelationSearch._differences,
    RelationSearch._ages,
    RelationSearch._formulas,
    RelationSearch._dependencies,
    RelationSearch._sets,
    RelationSearch._sums,
    RelationSearch._orders,
    RelationSearch._states,
    RelationSearch._pairs,
)


def _edge(places: Ints, people: Ints, enough: float) -> int:
    """Return the first place up to which enough different people are; -1 counts nowhere."""
    order = np.lexsort((places, people))
    order = order[places[order] >= 0]
    first = order[np.diff(people[order], prepend=-1) != 0]  # the smallest place of each person
    return int(np.sort(places[first])[int(np.ceil(enough)) - 1])


def _tolerated(records: float) -> float:
    """Return how many records may break a rule: one person must not show by refuting it."""
    return max((1 - _HOLDS) * float(records), min(_FEW, _FEW_SHARE * float(records)))


def _one_of(name: str, words: Sequence[str]) -> str:
    listed = ", ".join(f'"{word}"' for word in words)
    return f"{quote(name)} = {listed}" if len(words) == 1 else f"{quote(name)} in ({listed})"


def _agree(value: Floats, formed: Floats, unit: float) -> bool:
    both = ~(np.isnan(value) | np.isnan(formed))
    if both.sum() < LEAST:
        return False
    return bool((np.abs(value - formed)[both] >= unit).sum() <= _tolerated(both.sum()))
