"""Rules that a table follows: found, so that a release can follow them too.

A rule is proposed if at least 99.9 % of the records that it speaks of follow it and chance does
not explain that: were the columns independent, at least 20 records (and at least ``k``) would
break it. Candidates are looked for in a sample of records; the counts are those of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._relations.language import Call, Rule, columns_of, parse_rule, quote
from tulle._relations.values import Values, broken, truth, unit_of
from tulle._shape.columns import CategoryColumn, Column, NumberColumn, take_rows
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
_FIRST = 100  # records of a first look at products
_MOST_NUMBERS = 60  # columns that sums and orders are looked for in; the rest is left alone
_MOST_FACTORS = 24  # columns that products are looked for in
_MOST_CATEGORIES = 40  # values of a column that pairs are looked for in
_MOST_SMALL_NUMBERS = 12  # different numbers of a column that is treated as categories
_MOST_RULES = 60  # of each kind
_EXPECTED_SHARE = 0.02  # of records that would break an order by chance
_EXCEPTIONS = 0.01  # of the people who would have a combination by chance
_FEW_LEFT = 5  # values that are left where most of a column's values do not occur
_MOSTLY = 0.5  # share of records with the values that do not occur
_SURE = 5  # times as many expected where a single combination is the evidence
_HEAP = 0.3  # share of records with one number, which is then a state like missing
_ONSET = 0.2  # of the usual share of other states, at the border of a condition
_MOST_LEVELS = 160  # different numbers that a condition is looked for in
_LEAST_LEVELS = 8  # values of a column that is a quantity rather than a code
_POWERS = ((1, 1), (1, -1), (1, -2), (2, 1), (2, -1), (-1, -1))


@dataclass(frozen=True)
class Proposal:
    """A rule that the table follows, and how many records say so."""

    rule: Rule
    records: int  # that the rule speaks of
    exceptions: int

    @property
    def reason(self) -> str:
        """Return the counts in words."""
        if not self.exceptions:
            return f"holds in all of {counted(self.records, 'record')}"
        return f"holds in all but {self.exceptions:,} of {counted(self.records, 'record')}"


def find_rules(
    table: pl.DataFrame,
    columns: Mapping[str, Column],
    k: int,
    people: Floats,
    writings: Mapping[str, Writing],
    rng: np.random.Generator,
) -> list[Rule]:
    """Return the rules that a release of the table keeps if none are given.

    It must not be one person whose presence decides: how many exceptions are too many is drawn,
    about a quarter of ``k``, and rules that allow none (``never``) are only proposed.
    """
    few = k / 4 * (0.5 + rng.random())
    found = propose_rules(table, columns, k, people, writings)
    return [one.rule for one in found if one.exceptions < few and one.rule.parts[0].op != "not"]


def propose_rules(
    table: pl.DataFrame,
    columns: Mapping[str, Column],
    k: int,
    people: Floats,
    writings: Mapping[str, Writing],
) -> list[Proposal]:
    """Return the rules that a table follows.

    Those of a large table are looked for in some of its records, and counted in all.
    """
    if table.height <= _MOST_ROWS:
        return Search(_values(table, writings), columns, k, people).all()
    rows = np.linspace(0, table.height - 1, _MOST_ROWS).astype(np.int64)
    some = {name: take_rows(column, rows) for name, column in columns.items()}
    found = Search(_values(table[rows], writings), some, k, people[rows]).all()
    values = _values(table, writings)
    return [one for one in (_recounted(one, values) for one in found) if one is not None]


def _values(table: pl.DataFrame, writings: Mapping[str, Writing]) -> Values:
    values = Values(table, {}, writings=writings)
    values.units = {name: unit_of(values.typed(name)) for name in table.columns}
    return values


def _recounted(found: Proposal, values: Values) -> Proposal | None:
    """Return a rule with the counts of another table, if it holds there too."""
    exceptions = int(broken(found.rule, values).sum())
    records = int(_spoken_of(found.rule, values).sum())
    if exceptions > _tolerated(records):
        return None
    return replace(found, records=records, exceptions=exceptions)


def _spoken_of(rule: Rule, values: Values) -> Flags:
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
class Search:
    """A table in which rules are looked for, and what was found so far."""

    values: Values
    columns: Mapping[str, Column]
    k: int
    people: Floats
    explained: list[frozenset[str]] = field(default_factory=list)  # columns of one equation
    bound: set[frozenset[str]] = field(default_factory=set)  # pairs with a rule for a state
    known_codes: dict[str, tuple[int, Ints]] = field(default_factory=dict)
    known_levels: dict[str, tuple[Floats, Ints, Flags, Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = self.values.frame
        self.names = self.table.columns
        self.least = max(LEAST, self.k)
        self.types = {name: self.values.typed(name).dtype for name in self.names}
        rows = min(self.table.height, _SAMPLE)
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
        found = [*self._differences(), *self._ages(), *self._sums(), *self._products()]
        found += [*self._dependencies(), *self._orders(), *self._states()]
        return [*found, *self._pairs()]

    def _proposal(self, text: str) -> Proposal | None:
        """Return a rule if it holds nearly everywhere and enough people say so."""
        rule = parse_rule(text, self.names)
        wrong, spoken_of = broken(rule, self.values), _spoken_of(rule, self.values)
        records, exceptions = int(spoken_of.sum()), int(wrong.sum())
        if not self._are_enough(spoken_of & ~wrong) or exceptions > _tolerated(records):
            return None
        return Proposal(rule, records, exceptions)

    def _is_time(self, name: str) -> bool:
        return self.types[name] in (pl.Date, pl.Datetime)

    def _explains(self, *names: str) -> bool:
        return any({*names} <= known for known in self.explained)

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
        if self._explains(*about):
            return
        found = self._proposal(text)
        if found is not None:
            self.explained.append(frozenset(about))
            yield found

    def _sums(self) -> Iterator[Proposal]:
        """Look for columns that are sums and differences of others.

        Columns join a basis one after the other, those of few different values first. One that
        the basis gives exactly, with factors of 1 and -1, is a sum.
        """
        plain = [name for name in self.numbers if not self._is_time(name)]
        matrix = np.stack(
            [self.values.numbers(name)[self.sample] for name in plain] or [np.zeros(0)], axis=1
        )
        full = [i for i in range(len(plain)) if np.isnan(matrix[:, i]).mean() < 0.5]
        matrix, plain = matrix[:, full], [plain[i] for i in full]
        matrix = matrix[~np.isnan(matrix).any(axis=1)]
        if len(matrix) < max(self.least, 3 * len(plain)) or len(plain) < 2:
            return
        kinds = [len(np.unique(column)) for column in matrix.T]
        basis: list[int] = []
        for place in sorted(range(len(plain)), key=lambda i: kinds[i]):
            factors = _factors(matrix, basis, place)
            if factors is None:
                basis.append(place)
                continue
            terms = [(factor, plain[i]) for i, factor in zip(basis, factors) if factor]
            if terms and all(abs(factor) == 1 for factor, _ in terms):
                about = (plain[place], *(name for _, name in terms))
                yield from self._equation(_as_sum(plain[place], terms, self.names), about)

    def _products(self) -> Iterator[Proposal]:
        """Look for columns that are products or ratios of two others, up to a power of ten."""
        names = [
            name
            for name in self.numbers
            if not self._is_time(name)
            and not any(name in known for known in self.explained)
            and np.nanmin(self.values.numbers(name), initial=np.inf) >= 0
            and len(np.unique(self.values.numbers(name)[self.sample])) > 10
        ][:_MOST_FACTORS]
        if len(names) < 3:
            return
        logs = np.stack([self.values.numbers(name)[self.sample] for name in names], axis=1)
        logs = np.log(np.where(logs > 0, logs, np.nan))[:_FIRST]
        for place, target in enumerate(names):
            unit = self.values.units[target] or 0.0
            slack = np.maximum(unit / np.exp(logs[:, place]), 1e-6)
            for powers in _POWERS:
                for first, last, tens in _products_with(logs, place, powers, slack):
                    about = (target, names[first], names[last])
                    text = _as_product(about[1:], powers, tens)
                    yield from self._equation(f"{quote(target)} = {text}", about)

    # -- orders -----------------------------------------------------------------------------------

    def _orders(self) -> Iterator[Proposal]:
        """Look for columns of which one is never above the other, though it could be."""
        found: dict[tuple[str, str], Proposal] = {}
        levels = {
            name: len(np.unique(self.values.numbers(name)[self.sample])) for name in self.numbers
        }
        quantities = [name for name in self.numbers if levels[name] >= _LEAST_LEVELS]
        for first, last in combinations(quantities, 2):
            if self._is_time(first) != self._is_time(last):
                continue
            if self._explains(first, last) and not self._is_time(first):
                continue
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
        if both.sum() < self.least or (first[both] > last[both]).sum() > _tolerated(both.sum()):
            return False
        ordered = np.sort(last[both])
        by_chance = np.searchsorted(ordered, first[both], side="left") / len(ordered)
        share = float(by_chance.mean())
        return share >= _EXPECTED_SHARE and share * self.people.sum() >= self.least

    # -- states -----------------------------------------------------------------------------------

    def _states(self) -> Iterator[Proposal]:
        """Look for values of one column at which another is always missing, or always the same."""
        count = 0
        names = self.names[:_MOST_NUMBERS]
        for target in names:
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
        return bool(self.people[rows].sum() >= self.least)

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
        if (rows & ~gone).sum() > _tolerated(rows.sum()):
            return False
        return bool(self.people[rows].sum() * (1 - gone.mean()) >= self.least)

    def _words_with(self, target: str, gone: Flags, other: str) -> Iterator[str]:
        if not isinstance(self.columns.get(other), CategoryColumn):
            return
        words = self.values.words(other)
        held = pl.DataFrame({"word": words, "people": self.people, "gone": gone}).drop_nulls()
        counts = held.group_by("word").agg(pl.col("people").sum(), pl.col("gone").mean())
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
        seen = np.bincount(place, weights=self.people[present] * ~gone[present])
        few = self.k / 4
        if seen.sum() < 2 * few:
            return
        first = int(np.searchsorted(np.cumsum(seen), few))
        last = len(seen) - 1 - int(np.searchsorted(np.cumsum(seen[::-1]), few))
        for edge, sign in ((first, "<"), (last, ">")):
            rows = np.zeros(len(gone), dtype=bool)
            rows[present] = place < edge if sign == "<" else place > edge
            usual = seen[edge] >= max(few, _ONSET * held[edge] * seen.sum() / held.sum())
            if usual and self._is_always(gone, rows):
                yield f"{quote(other)} {sign} {levels[edge]:.12g}"

    def _levels(self, name: str) -> tuple[Floats, Ints, Flags, Floats]:
        """Return the different numbers of a column, which each row has, and of how many people."""
        if name not in self.known_levels:
            values = self.values.numbers(name)
            present = ~np.isnan(values)
            levels, place = np.unique(values[present], return_inverse=True)
            held = np.bincount(place.reshape(-1), weights=self.people[present]).astype(float)
            self.known_levels[name] = levels, place.reshape(-1), present, held
        return self.known_levels[name]

    # -- combinations -----------------------------------------------------------------------------

    def _dependencies(self) -> Iterator[Proposal]:
        """Return the columns that follow from another one."""
        columns = list(self.columns.values())
        for one in find_dependencies(columns, self.k, self.people):
            if self._explains(one.source, one.target):
                continue
            text = f"{quote(one.source)} -> {quote(one.target)}"
            found = self._proposal(text)
            if found is not None:
                self.explained.append(frozenset((one.source, one.target)))
                yield found

    def _pairs(self) -> Iterator[Proposal]:
        """Return pairs of categories of which some combinations never occur, though they could."""
        names = [name for name in self.names[:_MOST_NUMBERS] if self._is_category(name)]
        count = 0
        for first, last in combinations(names, 2):
            if self._explains(first, last) or frozenset((first, last)) in self.bound:
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
        if rare <= (1 - _HOLDS) * total:
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
        held = np.bincount(place, weights=self.people[both], minlength=a * b).reshape(a, b)
        expected = held.sum(axis=1)[:, None] * held.sum(axis=0) / max(held.sum(), 1.0)
        few = np.minimum(self.k / 4, _EXCEPTIONS * expected)
        return bool(((expected >= self.least) & ((held == 0) | (held < few))).any())

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
        frame = pl.DataFrame(words | {"people": self.people}).drop_nulls()
        held = frame.group_by("a", "b").agg(pl.col("people").sum())
        rows = frame.group_by("a").agg(pl.col("people").sum().alias("of_a"))
        cols = frame.group_by("b").agg(pl.col("people").sum().alias("of_b"))
        cells = rows.join(cols, how="cross").join(held, on=["a", "b"], how="left")
        expected = pl.col("of_a") * pl.col("of_b") / float(frame["people"].sum())
        few = pl.min_horizontal(pl.lit(self.k / 4), _EXCEPTIONS * expected)
        people = pl.col("people").fill_null(0.0)
        empty = (expected >= self.least) & ((people == 0) | (people < few))
        return cells.with_columns(people, empty.alias("empty"), expected.alias("expected"))


def _tolerated(records: float) -> float:
    """Return how many records may break a rule: one person must not show by refuting it."""
    return max((1 - _HOLDS) * float(records), min(_FEW, _FEW_SHARE * float(records)))


def _one_of(name: str, words: Sequence[str]) -> str:
    """Write that a column has one of some values."""
    listed = ", ".join(f'"{word}"' for word in words)
    return f"{quote(name)} = {listed}" if len(words) == 1 else f"{quote(name)} in ({listed})"


def _agree(value: Floats, formed: Floats, unit: float) -> bool:
    both = ~(np.isnan(value) | np.isnan(formed))
    if both.sum() < LEAST:
        return False
    return bool((np.abs(value - formed)[both] >= unit).sum() <= _tolerated(both.sum()))


def _factors(matrix: Floats, basis: list[int], place: int) -> list[float] | None:
    """Return the whole factors with which columns add up to another; None if they do not."""
    if not basis:
        return None
    base, target = matrix[:, basis], matrix[:, place]
    scale = np.maximum(np.abs(base).max(axis=0), 1e-12)
    for _ in range(3):  # the few records that fit worst, exceptions perhaps, are left out
        factors = np.linalg.lstsq(base / scale, target, rcond=None)[0] / scale
        rest = np.abs(base @ factors - target)
        kept = np.argsort(rest, kind="stable")[: len(rest) - int(_FEW_SHARE * len(rest))]
        base, target, rest = base[kept], target[kept], rest[kept]
    if rest.mean() > 0.02 * max(float(np.abs(target - target.mean()).mean()), 1e-12):
        return None
    whole = np.round(factors)
    away = np.abs(base @ whole - target)
    if np.median(away) > 0.02 * float(np.abs(target - target.mean()).mean()):
        return None
    return [float(factor) for factor in whole]


def _products_with(
    logs: Floats, target: int, powers: tuple[int, int], slack: Floats
) -> Iterator[tuple[int, int, int]]:
    """Yield pairs of columns whose powers give the target, and the power of ten besides."""
    rest = logs[:, target, None, None] - powers[0] * logs[:, :, None] - powers[1] * logs[:, None]
    there = ~np.isnan(rest)
    enough = there.sum(axis=0) >= LEAST
    rest = np.where(there, rest, 0.0)
    tens = np.round(rest.sum(axis=0) / np.maximum(there.sum(axis=0), 1) / np.log(10))
    close = np.abs(rest - tens * np.log(10)) <= np.nan_to_num(slack)[:, None, None]
    fits = enough & (close | ~there).all(axis=0)
    fits[target] = fits[:, target] = False
    np.fill_diagonal(fits, False)
    for first, last in np.argwhere(fits).tolist():
        if powers[0] != powers[1] or first < last:
            yield first, last, int(tens[first, last])


def _as_sum(target: str, terms: Sequence[tuple[float, str]], names: Sequence[str]) -> str:
    """Write a sum, the total alone on the left if there is one."""
    negative = [name for factor, name in terms if factor < 0]
    positive = [name for factor, name in terms if factor > 0]
    if len(positive) == 1 and negative:  # a part is the total less the other parts
        target, positive, negative = positive[0], [*negative, target], []
    signed = [("+", name) for name in sorted(positive, key=names.index)]
    signed += [("-", name) for name in sorted(negative, key=names.index)]
    text = " ".join(f"{sign} {quote(name)}" for sign, name in signed).removeprefix("+ ")
    return f"{quote(target)} = {text}"


def _as_product(names: tuple[str, str], powers: tuple[int, int], tens: int) -> str:
    """Write a product of powers and a power of ten."""
    above = [_power(name, power) for name, power in zip(names, powers) if power > 0]
    below = [_power(name, -power) for name, power in zip(names, powers) if power < 0]
    factor = [f"{10**tens}"] if tens > 0 else []
    text = " * ".join([*factor, *above]) or "1"
    for part in below:
        text += f" / {part}"
    return text + (f" / {10**-tens}" if tens < 0 else "")


def _power(name: str, power: int) -> str:
    return quote(name) if power == 1 else f"{quote(name)} ** {power}"
