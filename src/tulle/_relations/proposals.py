"""Rules that a table follows: found, so that a release can follow them too.

A rule is proposed if at least 99.9 % of the records that it speaks of follow it and chance does
not explain that: were the columns independent, at least 20 records (and at least ``k``) would
break it. Candidates are looked for in a sample of records; the counts are those of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._relations.language import Rule, parse_rule, quote
from tulle._relations.values import Values, broken, unit_of
from tulle._shape.columns import CategoryColumn, Column, NumberColumn
from tulle._shape.dependencies import find_dependencies
from tulle._types import Flags, Floats

LEAST = 20  # records that would break a rule if it held by chance
_HOLDS = 0.999
_SAMPLE = 2_000  # records that candidates are looked for in
_FIRST = 60  # records of a first look at products
_MOST_NUMBERS = 60  # columns that sums and orders are looked for in; the rest is left alone
_MOST_FACTORS = 24  # columns that products are looked for in
_MOST_CATEGORIES = 40  # values of a column that pairs are looked for in
_MOST_RULES = 50  # of each kind
_EXPECTED_SHARE = 0.02  # of records that would break an order by chance
_RARE_SHARE = 0.01  # of records in combinations that too few people hold
_EXCEPTIONS = 0.01  # of the people who would have a combination by chance
_FEW_LEFT = 5  # values that are left where most of a column's values do not occur
_MOSTLY = 0.5  # share of records with the values that do not occur
_SURE = 5  # times as many expected where a single combination is the evidence
_LEAST_LEVELS = 8  # values of a column that is a quantity rather than a code
_POWERS = ((1, 1), (1, -1), (1, -2), (2, 1), (2, -1), (-1, -1))


@dataclass(frozen=True)
class Proposal:
    """A rule that the table follows, and how many records say so."""

    rule: Rule
    kind: str
    records: int  # that the rule speaks of
    exceptions: int

    @property
    def reason(self) -> str:
        """Return the counts in words."""
        if not self.exceptions:
            return f"holds in all of {counted(self.records, 'record')}"
        return f"holds in all but {self.exceptions:,} of {counted(self.records, 'record')}"


def find_rules(
    table: pl.DataFrame, columns: Mapping[str, Column], k: int, people: Floats
) -> list[Rule]:
    """Return the rules that a release of the table keeps if none are given.

    Dependencies are left to the model of the columns, which looks for them itself. Exceptions
    must be fewer than a quarter of ``k`` people, so that nobody's presence alone decides.
    """
    search = Search(table, columns, k, people)
    return [one.rule for one in search.arithmetic_and_order() if one.exceptions < k / 4]


def propose_rules(
    table: pl.DataFrame, columns: Mapping[str, Column], k: int, people: Floats
) -> list[Proposal]:
    """Return all rules that are worth a look, the telling kinds first."""
    search = Search(table, columns, k, people)
    return [*search.arithmetic_and_order(), *search.dependencies(), *search.pairs()]


@dataclass
class Search:
    """A table in which rules are looked for, and what was found so far."""

    table: pl.DataFrame
    columns: Mapping[str, Column]
    k: int
    people: Floats
    explained: list[frozenset[str]] = field(default_factory=list)  # columns of one equation

    def __post_init__(self) -> None:
        self.names = self.table.columns
        self.least = max(LEAST, self.k)
        self.values = Values(self.table, {name: unit_of(self.table[name]) for name in self.names})
        rows = min(self.table.height, _SAMPLE)
        self.sample = np.linspace(0, self.table.height - 1, rows).astype(np.int64)
        self.numbers = [
            name
            for name in self.names
            if isinstance(self.columns.get(name), NumberColumn) and self._varies(name)
        ][:_MOST_NUMBERS]

    def _varies(self, name: str) -> bool:
        present = self.values.numbers(name)[self.sample]
        return len(np.unique(present[~np.isnan(present)])) > 2

    def arithmetic_and_order(self) -> list[Proposal]:
        """Return equations, orders and what must be missing."""
        found = [*self._differences(), *self._ages(), *self._sums(), *self._products()]
        return [*found, *self._orders(), *self._missing()]

    def _proposal(self, text: str, kind: str, about: Sequence[str]) -> Proposal | None:
        """Return a rule if it holds nearly everywhere and enough people say so."""
        rule = parse_rule(text, self.names)
        wrong = broken(rule, self.values)
        complete = ~np.logical_or.reduce([self.values.absent(name) for name in about])
        records, exceptions = int(complete.sum()), int(wrong.sum())
        enough = self.people[complete & ~wrong].sum() >= self.least
        if not enough or exceptions > (1 - _HOLDS) * records:
            return None
        return Proposal(rule, kind, records, exceptions)

    def _is_time(self, name: str) -> bool:
        return self.table.schema[name] in (pl.Date, pl.Datetime)

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
                    some = Values(self.table[self.sample[:_FIRST]], self.values.units)
                    if not broken(rule, some).any():
                        yield from self._equation(text, (name, first, last))

    def _equation(self, text: str, about: tuple[str, ...]) -> Iterator[Proposal]:
        if self._explains(*about):
            return
        found = self._proposal(text, "arithmetic", about)
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
                yield from self._equation(_as_sum(plain[place], terms), about)

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
        for target in names:
            for first, last in combinations([name for name in names if name != target], 2):
                text = self._product(target, first, last)
                if text is not None:
                    yield from self._equation(text, (target, first, last))

    def _product(self, target: str, first: str, last: str) -> str | None:
        parts = [self.values.numbers(name)[self.sample] for name in (target, first, last)]
        rows = np.flatnonzero(np.logical_and.reduce([part > 0 for part in parts]))
        if len(rows) < self.least:
            return None
        value, x, y = (np.log(part[rows[:_FIRST]]) for part in parts)
        unit = self.values.units[target] or 0.0
        slack = np.maximum(unit / np.exp(value), 1e-6)
        for powers in (*_POWERS, *((q, p) for p, q in _POWERS if p != q)):
            rest = value - powers[0] * x - powers[1] * y
            tens = np.round(np.median(rest) / np.log(10))
            if (np.abs(rest - tens * np.log(10)) <= slack).all():
                return f"{quote(target)} = {_as_product((first, last), powers, int(tens))}"
        return None

    # -- orders -----------------------------------------------------------------------------------

    def _orders(self) -> Iterator[Proposal]:
        """Look for columns of which one is never above the other, though it could be."""
        found: dict[tuple[str, str], Proposal] = {}
        levels = {
            name: len(np.unique(self.values.numbers(name)[self.sample])) for name in self.numbers
        }
        quantities = [name for name in self.numbers if levels[name] >= _LEAST_LEVELS]
        for first, last in combinations(quantities, 2):
            if self._is_time(first) != self._is_time(last) or self._explains(first, last):
                continue
            for low, high in ((first, last), (last, first)):
                if self._may_be_ordered(low, high):
                    text = f"{quote(low)} <= {quote(high)}"
                    proposal = self._proposal(text, "order", (low, high))
                    if proposal is not None:
                        found[low, high] = proposal
                        break
        edges = set(found)
        for low, high in edges:
            between = ((low, name) in edges and (name, high) in edges for name in self.numbers)
            if not any(between):
                yield found[low, high]

    def _may_be_ordered(self, low: str, high: str) -> bool:
        first, last = (self.values.numbers(name)[self.sample] for name in (low, high))
        both = ~(np.isnan(first) | np.isnan(last))
        if both.sum() < self.least or (first[both] > last[both]).mean() > 1 - _HOLDS:
            return False
        ordered = np.sort(last[both])
        by_chance = np.searchsorted(ordered, first[both], side="left") / len(ordered)
        share = float(by_chance.mean())
        return share >= _EXPECTED_SHARE and share * self.people.sum() >= self.least

    # -- missing values ---------------------------------------------------------------------------

    def _missing(self) -> Iterator[Proposal]:
        """Look for values of one column at which another is always missing."""
        gaps = {name: self.values.absent(name) for name in self.names}
        gaps = {
            name: gone
            for name, gone in gaps.items()
            if self.people[gone].sum() >= self.least and self.people[~gone].sum() >= self.least
        }
        count = 0
        for target, gone in gaps.items():
            for other in self.names:
                if other == target or self._explains(target, other) or count >= _MOST_RULES:
                    continue
                condition = self._gap_condition(gone, other, gaps.get(other))
                if condition is None:
                    continue
                text = f"{quote(target)} is missing if {condition}"
                rule = parse_rule(text, self.names)
                exceptions = int(broken(rule, self.values).sum())
                if exceptions <= (1 - _HOLDS) * gone.sum():
                    count += 1
                    yield Proposal(rule, "missing", int(gone.sum()), exceptions)

    def _gap_condition(self, gone: Flags, other: str, absent: Flags | None) -> str | None:
        """Return the condition on another column under which a column is always missing."""
        if absent is not None and self._is_always(gone, absent):
            return f"{quote(other)} is missing"
        column = self.columns.get(other)
        if isinstance(column, CategoryColumn):
            return self._gap_words(gone, other)
        if other in self.numbers and not self._is_time(other):
            return self._gap_below(gone, other)
        return None

    def _is_always(self, gone: Flags, rows: Flags) -> bool:
        """Tell whether values are missing in some rows, where otherwise enough would not be."""
        if not rows.any() or (gone & rows).sum() < _HOLDS * rows.sum():
            return False
        return bool(self.people[rows].sum() * (1 - gone.mean()) >= self.least)

    def _gap_words(self, gone: Flags, other: str) -> str | None:
        words = self.values.words(other)
        held = pl.DataFrame({"word": words, "people": self.people, "gone": gone})
        counts = held.group_by("word").agg(pl.col("people").sum(), pl.col("gone").mean())
        if not 2 <= counts.height <= _MOST_CATEGORIES:
            return None
        always = counts.filter((pl.col("gone") == 1.0) & (pl.col("people") >= self.least))
        chosen = sorted(word for word in always["word"].to_list() if word is not None)
        rows = np.isin(words.to_numpy(), chosen)
        if not chosen or not self._is_always(gone, rows) or any('"' in word for word in chosen):
            return None
        return _one_of(other, chosen)

    def _gap_below(self, gone: Flags, other: str) -> str | None:
        """Look for a number below (or above) which a column is always missing."""
        values = self.values.numbers(other)
        levels, place = np.unique(values[~np.isnan(values)], return_inverse=True)
        if len(levels) > 4 * _MOST_CATEGORIES:
            return None
        there = ~gone[~np.isnan(values)]
        people = self.people[~np.isnan(values)]
        held = np.bincount(place.reshape(-1), weights=people)
        seen = np.bincount(place.reshape(-1), weights=people * there)
        first, last = np.flatnonzero(seen)[[0, -1]] if seen.any() else (0, len(levels) - 1)
        for edge, sign, rows in (
            (first, "<", values < levels[first]),
            (last, ">", values > levels[last]),
        ):
            if held[edge] >= self.k and self._is_always(gone, rows):
                return f"{quote(other)} {sign} {levels[edge]:g}"
        return None

    # -- combinations -----------------------------------------------------------------------------

    def dependencies(self) -> Iterator[Proposal]:
        """Return the columns that follow from another one."""
        columns = list(self.columns.values())
        for one in find_dependencies(columns, self.k, self.people):
            if self._explains(one.source, one.target):
                continue
            text = f"{quote(one.source)} -> {quote(one.target)}"
            found = self._proposal(text, "dependency", (one.source, one.target))
            if found is not None:
                self.explained.append(frozenset((one.source, one.target)))
                yield found

    def pairs(self) -> Iterator[Proposal]:
        """Return pairs of categories of which some combinations never occur, though they could."""
        names = [
            name
            for name, column in self.columns.items()
            if isinstance(column, CategoryColumn) and 2 <= column.size <= _MOST_CATEGORIES
        ][:_MOST_NUMBERS]
        count = 0
        for first, last in combinations(names, 2):
            if self._explains(first, last):
                continue
            for text in self._never(first, last):
                found = self._proposal(text, "combination", (first, last))
                if found is not None and count < _MOST_RULES:
                    count += 1
                    yield found

    def _never(self, first: str, last: str) -> list[str]:
        """Return rules for combinations that do not occur."""
        cells = self._cells(first, last)
        empty = cells.filter("empty")
        if not empty.height:
            return []
        total = float(cells["people"].sum())
        rare = float(cells.filter(pl.col("people") < self.k)["people"].sum())
        if rare <= _RARE_SHARE * total:
            return [f"known({quote(first)}, {quote(last)})"]
        texts = []
        for one, other, a, b in ((first, last, "a", "b"), (last, first, "b", "a")):
            for (value,), part in sorted(cells.group_by(a), key=lambda pair: str(pair[0][0])):
                left = part.filter(~pl.col("empty") & (pl.col("people") >= self.k))[b].sort()
                closed = part.filter("empty")
                if 0 < len(left) <= _FEW_LEFT and closed[f"of_{b}"].sum() >= _MOSTLY * total:
                    texts.append(f"{_one_of(other, left.to_list())} if {_one_of(one, [value])}")
                    empty = empty.filter(pl.col(a) != value)
        sure = empty.filter(pl.col("expected") >= _SURE * self.least)
        for (value,), part in sorted(sure.group_by("b"), key=lambda pair: str(pair[0][0])):
            texts.append(
                f"never {_one_of(first, part['a'].sort().to_list())} and {_one_of(last, [value])}"
            )
        return [text for text in texts if text.count('"') % 2 == 0]

    def _cells(self, first: str, last: str) -> pl.DataFrame:
        """Return all combinations of two columns: their people, and whether there should be more."""
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


def _one_of(name: str, words: Sequence[str]) -> str:
    """Write that a column has one of some values."""
    listed = ", ".join(f'"{word}"' for word in words)
    return f"{quote(name)} = {listed}" if len(words) == 1 else f"{quote(name)} in ({listed})"


def _agree(value: Floats, formed: Floats, unit: float) -> bool:
    both = ~(np.isnan(value) | np.isnan(formed))
    if both.sum() < LEAST:
        return False
    return bool((np.abs(value - formed)[both] < unit).mean() >= _HOLDS)


def _factors(matrix: Floats, basis: list[int], place: int) -> list[float] | None:
    """Return the whole factors with which columns add up to another; None if they do not."""
    if not basis:
        return None
    base, target = matrix[:, basis], matrix[:, place]
    scale = np.maximum(np.abs(base).max(axis=0), 1e-12)
    factors = np.linalg.lstsq(base / scale, target, rcond=None)[0] / scale
    rest = np.abs(base @ factors - target)
    if rest.mean() > 0.02 * max(float(np.abs(target - target.mean()).mean()), 1e-12):
        return None
    whole = np.round(factors)
    away = np.abs(base @ whole - target)
    if np.median(away) > 0.02 * float(np.abs(target - target.mean()).mean()):
        return None
    return [float(factor) for factor in whole]


def _as_sum(target: str, terms: Sequence[tuple[float, str]]) -> str:
    """Write a sum, the total alone on the left if there is one."""
    negative = [name for factor, name in terms if factor < 0]
    positive = [name for factor, name in terms if factor > 0]
    if len(positive) == 1 and negative:  # a part is the total less the other parts
        target, positive, negative = positive[0], [target, *negative], []
    signed = [("+", name) for name in positive] + [("-", name) for name in negative]
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
