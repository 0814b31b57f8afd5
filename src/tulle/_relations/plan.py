"""How a release keeps rules between columns: what is left out of the model and made at the end.

* A column that follows from others (``stay = discharged - admitted``, ``industry -> sector``) is
  left out and computed from the released others.
* Of an order (``admitted <= discharged``) whose sides lie close together, the distance is modelled
  in place of the larger side.
* What must be missing is made missing.
* Records that break any other rule are drawn again.

A derivation needs the columns it is made of before it: where that would go round in a circle, the
rule is kept by drawing again. A rule that fewer than about ``k`` people break is kept in all
records; one that more break is broken about as often as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tulle._relations.language import Call, Name, Node, Number, Rule, columns_of
from tulle._relations.steps import Blanked, Clock, Computed, Mapped, Step, fit_longer, snap
from tulle._relations.values import Values, broken, is_text, quantity, unit_of, writings_of
from tulle._shape.columns import (
    CategoryColumn,
    Column,
    NumberColumn,
    missing_of,
    take_rows,
    with_cells,
)
from tulle._shape.dependencies import fit_dependency
from tulle._types import Flags, Floats
from tulle.table._codecs import Codec
from tulle.table._numbers import NumberCodec
from tulle.table._series import with_nulls
from tulle.table._states import Writing

_EXACT_CELLS = 128  # different values that the model keeps apart
_CLOSE = 0.5  # a distance varies at most so much of what the larger column does
_HEAP = 0.05  # share of records in which two columns are equal
_TRIES = 60
_BATCH = 256
_SLACK = 1e-9
_TURNED = {"<=": "<=", "<": "<", ">=": "<=", ">": "<"}


@dataclass(frozen=True)
class Kept:
    """A rule, and how it stood in the table."""

    rule: Rule
    found: bool  # proposed from the table, not given
    rate: float  # share of records that break it; 0 where fewer than about k people do


@dataclass(frozen=True)
class Plan:
    """The rules of a table and how they are kept."""

    rules: tuple[Kept, ...] = ()
    steps: tuple[Step, ...] = ()
    units: Mapping[str, float | None] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[Call, pl.DataFrame] = field(default_factory=dict)
    writings: Mapping[str, Writing] = field(default_factory=dict)

    def joined(self, other: Plan) -> Plan:
        """Return a plan that checks what both do in a table that both made parts of."""
        same = [kept for kept in self.rules if kept in other.rules]
        merged = {**self.merged, **other.merged}
        return Plan(tuple(same), (), self.units, merged, {}, self.writings)

    @property
    def made(self) -> set[str]:
        """Return the columns that are made at the end."""
        return {step.target for step in self.steps if not isinstance(step, Blanked)}

    def values(self, frame: pl.DataFrame) -> Values:
        """Return a released table as the rules see it."""
        return Values(frame, self.units, self.merged, self.known, self.writings)

    def count_broken(self, frame: pl.DataFrame) -> list[int]:
        """Return how many records of a released table break each rule."""
        values = self.values(frame)
        return [int(broken(kept.rule, values).sum()) for kept in self.rules]

    def complete(
        self,
        drawn: dict[str, Any],
        codecs: Mapping[str, Codec],
        fixed: Mapping[str, pl.Series],
        rng: np.random.Generator,
    ) -> pl.DataFrame:
        """Return the columns of a table from what the model drew, with those made at the end."""
        made = self.made
        series = dict(fixed)
        series |= {n: codec.restore(drawn[n]) for n, codec in codecs.items() if n not in made}
        for step in self.steps:
            needed = dict.fromkeys(step.sources)
            if isinstance(step, Blanked):
                needed[step.target] = None
            values = self.values(_frame({name: series[name] for name in needed}))
            if isinstance(step, Blanked):
                rows = step.rows(values) & ~values.absent(step.target)
                series[step.target] = with_nulls(series[step.target], rows)
                drawn[step.target] = _without(drawn[step.target], rows)
            else:
                drawn[step.target] = step.make(values, drawn, rng)
                series[step.target] = codecs[step.target].restore(drawn[step.target])
        return _frame({name: series[name] for name in (*codecs, *fixed)})

    def redraw(
        self, frame: pl.DataFrame, draw: Callable[[int], pl.DataFrame], rng: np.random.Generator
    ) -> pl.DataFrame:
        """Replace records that break rules by others that do not; some stay if none are found."""
        left = np.flatnonzero(self._unwanted(frame, rng))
        for _ in range(_TRIES):
            if not len(left):
                break
            fresh = draw(max(2 * len(left), _BATCH))
            good = np.flatnonzero(~self._breaking(fresh))[: len(left)]
            rows = np.arange(frame.height)
            rows[left[: len(good)]] = frame.height + good
            frame = pl.concat([frame, fresh])[rows]
            left = left[len(good) :]
        return frame

    def _breaking(self, frame: pl.DataFrame) -> Flags:
        """Return the records that break a rule which single records can break."""
        values = self.values(frame)
        wrong = np.zeros(frame.height, dtype=bool)
        for kept in self.rules:
            if _is_rowwise(kept):
                wrong |= broken(kept.rule, values)
        return wrong

    def _unwanted(self, frame: pl.DataFrame, rng: np.random.Generator) -> Flags:
        """Return the records to draw again: of a rule that is broken at times, the surplus."""
        values = self.values(frame)
        unwanted = np.zeros(frame.height, dtype=bool)
        for kept in self.rules:
            if not _is_rowwise(kept):
                continue
            rows = np.flatnonzero(broken(kept.rule, values))
            allowed = int(rng.binomial(frame.height, kept.rate)) if kept.rate else 0
            if len(rows) > allowed:
                unwanted[rng.permutation(rows)[allowed:]] = True
        return unwanted


def _frame(series: Mapping[str, pl.Series]) -> pl.DataFrame:
    return pl.DataFrame([column.alias(name) for name, column in series.items()])


def _without(cells: Any, rows: Flags) -> Any:
    """Return drawn cells with some missing: codes are then -1, numbers NaN."""
    return np.where(rows, -1 if np.issubdtype(cells.dtype, np.integer) else np.nan, cells)


def _is_rowwise(kept: Kept) -> bool:
    """Tell whether drawing a record again can mend it: a distance that is drawn, it cannot."""
    ops = {part.op for part in kept.rule.parts}
    return "->" not in ops and not (kept.rate and "=" in ops)


# -- fitting -------------------------------------------------------------------------------------


@dataclass
class Planner:
    """Decides how each rule is kept, and collects what the model needs for it."""

    frame: pl.DataFrame  # the table, with the classes if there are some
    codecs: Mapping[str, Codec]
    columns: dict[str, Column]  # as the model takes them
    k: int
    people: Floats  # what each row counts
    rng: np.random.Generator

    def plan(self, rules: Sequence[tuple[Rule, bool]]) -> tuple[Plan, list[Column]]:
        """Return the plan, and the columns to model in place of the given ones."""
        self.steps: dict[str, Computed | Mapped] = {}
        self.blanks: dict[str, list[Blanked]] = {}
        self.extra: dict[str, list[Column]] = {}
        used = dict.fromkeys(name for rule, _ in rules for name in rule.columns)
        self.values = Values(self.frame, {}, writings=writings_of(self.codecs))
        self.units = {name: unit_of(self.values.typed(name)) for name in used}
        self.values.units = self.units
        kept = tuple(self._kept(rule, found) for rule, found in rules)
        parts = [(part, one) for one in kept for part in one.rule.parts]
        for part, one in parts:
            self._equate(part, one)
        for part, one in parts:
            self._look_up(part, one)
        for part, one in sorted(parts, key=lambda pair: self._spread(pair[0])):
            self._put_in_order(part, one)
        for part, one in parts:
            self._blank(part, one)
        known = {part: self._combinations(part) for part, _ in parts if part.op == "known"}
        steps, writings = tuple(self._ordered()), self.values.writings
        plan = Plan(kept, steps, self.units, self._merged(), known, writings)
        return plan, list(self._modelled())

    def _kept(self, rule: Rule, found: bool) -> Kept:
        wrong = broken(rule, self.values)
        few = self.k * (0.5 + 0.5 * self.rng.random())
        rate = float(wrong.mean()) if self.people[wrong].sum() >= few else 0.0
        return Kept(rule, found, rate)

    # -- columns that follow by arithmetic --------------------------------------------------------

    def _equate(self, part: Call, kept: Kept) -> None:
        """Leave out a column that the others of an equation give."""
        if part.op != "=" or all(self.values.is_words(side) for side in part.args):
            return
        for target, formula in self._solutions(part):
            if self._free(target, formula):
                self._compute(target, formula, exact=kept.rate == 0.0)
                return

    def _solutions(self, part: Call) -> Iterator[tuple[str, Node]]:
        """Yield the columns that can be left out, the best first, and their formulas."""
        left, right = part.args
        terms = linear_terms(Call("-", (left, right)))
        if terms is not None and self._is_exact(left, right):
            names = [name for name in terms[0] if abs(terms[0][name]) == 1.0]
            for name in sorted(names, key=self._distinct, reverse=True):
                yield name, _solved(name, *terms)
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Name) and side.column not in columns_of(other):
                yield side.column, other

    def _is_exact(self, left: Node, right: Node) -> bool:
        first, second = quantity(left, self.values), quantity(right, self.values)
        away = np.abs(first - second)
        away = away[~np.isnan(away)]
        return bool((away <= _SLACK * (1 + np.nanmax(np.abs(first), initial=0.0))).all())

    def _distinct(self, name: str) -> int:
        return len(np.unique(self.values.numbers(name)))

    def _free(self, target: str, formula: Node) -> bool:
        """Tell whether a column can be made of others: it is not yet, and they do not need it."""
        if target in self.steps or not isinstance(self.codecs.get(target), NumberCodec):
            return False
        return bool(list(columns_of(formula))) and not self._needs(columns_of(formula), target)

    def _needs(self, names: Any, target: str) -> bool:
        """Tell whether one of some columns is, or is made of, the target."""
        for name in names:
            if name == target:
                return True
            made = [self.steps[name]] if name in self.steps else []
            for step in (*made, *self.blanks.get(name, [])):
                if self._needs(step.sources, target):
                    return True
        return False

    def _compute(self, target: str, formula: Node, *, exact: bool) -> None:
        """Leave out the target; where the formula is not all there is, model what else there is."""
        unit, clock = self.units[target], Clock.of(self.codecs[target])
        value, formed = self.values.numbers(target), quantity(formula, self.values)
        rounding = _rounding(value, formed, unit)
        step = Computed(target, formula, unit, clock, rounding)
        extra: list[Column] = []
        if not exact:
            away = _in_units(value - snap(formed, unit, rounding), unit)
            extra.append(NumberColumn(f"{target}\0distance", away, None if unit is None else 0))
            step = replace(step, distance=extra[0].name)
        self._store(step, ~np.isnan(formed), ~np.isnan(value), extra)

    def _store(
        self, step: Computed | Mapped, formed: Flags, there: Flags, extra: list[Column]
    ) -> None:
        """Model where the target has values of its own, and where it has none, if ``k`` have.

        ``formed`` is where the others give it a value, ``there`` where it has one.
        """
        column = self.columns[step.target]
        states = np.zeros(len(formed), dtype=bool)
        if isinstance(column, NumberColumn) and isinstance(step, Computed):
            states = np.isin(column.values, column.specials)
            step = replace(step, states=column.specials)
        own = with_cells(column, f"{step.target}\0own", ~formed | states)
        if self._are_enough(~missing_of(own)):
            extra.append(own)
            step = replace(step, own=own.name)
        gone = formed & ~there & ~states
        drawn = isinstance(step, Computed) and step.distance is not None
        if not drawn and self._are_enough(gone):
            extra.append(CategoryColumn(f"{step.target}\0gone", gone.astype(np.int64), 2))
            step = replace(step, gone=extra[-1].name)
        self.steps[step.target] = step
        self.extra[step.target] = extra

    def _are_enough(self, rows: Flags) -> bool:
        return bool(self.people[rows].sum() >= self.k - _SLACK)

    # -- columns that are looked up ---------------------------------------------------------------

    def _look_up(self, part: Call, kept: Kept) -> None:
        """Leave out a column of which others decide the value."""
        if part.op != "->" or kept.rate:
            return
        *sources, target = columns_of(part)
        blocked = target in self.steps or target not in self.columns
        if blocked or any(name not in self.columns for name in sources):
            return
        if self._needs(sources, target):
            return
        columns = [self.columns[name] for name in (*sources, target)]
        there = ~np.logical_or.reduce([missing_of(column) for column in columns[:-1]])
        rows = np.flatnonzero(there & ~missing_of(columns[-1]))
        *known, answer = (take_rows(column, rows) for column in columns)
        first = fit_dependency(known[0], answer, self.k, self.people[rows])
        if first is not None:
            longer = fit_longer(known, answer, self.k, self.people[rows])
            step = Mapped(target, tuple(sources), first, longer)
            self._store(step, there, ~missing_of(columns[-1]), [])

    # -- orders -----------------------------------------------------------------------------------

    def _spread(self, part: Call) -> float:
        """Return how much the distance of an order varies, to begin with the tightest."""
        if part.op not in _TURNED:
            return 0.0
        left, right = (quantity(side, self.values) for side in part.args)
        return _quartiles_apart(right - left)

    def _put_in_order(self, part: Call, kept: Kept) -> None:
        """Model the distance of an order in place of one side, where that says more."""
        if part.op not in _TURNED:
            return
        sides = part.args if part.op in ("<", "<=") else part.args[::-1]
        op = _TURNED[part.op]
        for target, formula, sign in ((sides[1], sides[0], 1), (sides[0], sides[1], -1)):
            if not isinstance(target, Name) or not self._free(target.column, formula):
                continue
            name = target.column
            value, formed = self.values.numbers(name), quantity(formula, self.values)
            if not self._is_telling(value, formed):
                continue
            unit, rounding = self.units[name], "up" if sign > 0 else "down"
            away = _in_units(sign * (value - snap(formed, unit, rounding)), unit)
            least = None if kept.rate else float(op == "<" and unit is not None)
            column = NumberColumn(f"{name}\0distance", away, None if unit is None else 0)
            step = Computed(
                name, formula, unit, Clock.of(self.codecs[name]), rounding, column.name, sign, least
            )
            self._store(step, ~np.isnan(formed), ~np.isnan(value), [column])
            return

    def _is_telling(self, value: Floats, formed: Floats) -> bool:
        """Tell whether the distance of two columns says more than the larger one itself."""
        both = ~(np.isnan(value) | np.isnan(formed))
        if both.sum() < 2 or len(np.unique(value[both])) <= _EXACT_CELLS:
            return False
        away = value[both] - formed[both]
        close = _quartiles_apart(away) <= _CLOSE * _quartiles_apart(value[both])
        return bool(close or (away == 0).mean() >= _HEAP)

    # -- what must be missing ---------------------------------------------------------------------

    def _blank(self, part: Call, kept: Kept) -> None:
        if part.op != "if" or kept.rate:
            return
        said, condition = part.args
        if not isinstance(said, Call) or said.op != "missing" or not isinstance(condition, Call):
            return
        target = next(columns_of(said))
        blank = Blanked(target, condition)
        coded = target in self.values.writings  # missing may be written as a code, such as N
        if target in self.codecs and not coded and not self._needs(blank.sources, target):
            self.blanks.setdefault(target, []).append(blank)

    # -- all together -----------------------------------------------------------------------------

    def _combinations(self, part: Call) -> pl.DataFrame:
        """Return the combinations that at least ``k`` people hold."""
        names = list(columns_of(part))
        words = pl.DataFrame([self.values.words(name).alias(name) for name in names])
        held = words.with_columns(pl.Series("\0people", self.people)).group_by(names).sum()
        return held.filter(pl.col("\0people") >= self.k - _SLACK).drop("\0people")

    def _merged(self) -> dict[str, str]:
        """Return the words that stand for merged values in a release."""
        return {
            name: str(self.codecs[name].restore(np.array([column.other]))[0])
            for name, column in self.columns.items()
            if isinstance(column, CategoryColumn)
            and column.other is not None
            and is_text(self.frame.schema[name])
        }

    def _modelled(self) -> Iterator[Column]:
        for name, column in self.columns.items():
            yield from self.extra.get(name, [column])

    def _ordered(self) -> Iterator[Step]:
        """Yield the steps so that each comes after those it needs."""
        done: set[str] = set()

        def visit(name: str) -> Iterator[Step]:
            if name in done:
                return
            done.add(name)
            own: list[Step] = [self.steps[name]] if name in self.steps else []
            for step in (*own, *self.blanks.get(name, [])):
                for source in step.sources:
                    yield from visit(source)
                yield step

        for name in self.codecs:
            yield from visit(name)


def linear_terms(node: Node) -> tuple[dict[str, float], float] | None:
    """Return the factor of each column and what is added, if an expression is a plain sum."""
    if isinstance(node, Number):
        return {}, node.value
    if isinstance(node, Name):
        return {node.column: 1.0}, 0.0
    if not isinstance(node, Call) or node.op not in ("+", "-", "neg", "days"):
        return None
    parts = [linear_terms(part) for part in node.args]
    signs = {"+": (1.0, 1.0), "-": (1.0, -1.0), "neg": (-1.0,), "days": (-1.0, 1.0)}[node.op]
    terms: dict[str, float] = {}
    added = 0.0
    for part, sign in zip(parts, signs):
        if part is None:
            return None
        added += sign * part[1]
        for name, factor in part[0].items():
            terms[name] = terms.get(name, 0.0) + sign * factor
    return terms, added


def _solved(name: str, terms: Mapping[str, float], added: float) -> Node:
    """Return the formula of a column from a sum that is zero."""
    sign = -terms[name]
    formula: Node = Number(sign * added)
    for other, factor in terms.items():
        if other != name:
            part = Call("*", (Number(sign * factor), Name(other)))
            formula = Call("+", (formula, part))
    return formula


def _rounding(value: Floats, formed: Floats, unit: float | None) -> str:
    """Return how a column was rounded: the way that fits most records."""
    if unit is None:
        return "nearest"
    both = ~(np.isnan(value) | np.isnan(formed))
    fits = {
        way: (np.abs(snap(formed[both], unit, way) - value[both]) < 0.5 * unit).sum()
        for way in ("nearest", "down", "up")
    }
    return max(fits, key=lambda way: int(fits[way]))


def _in_units(away: Floats, unit: float | None) -> Floats:
    return away if unit is None else np.round(away / unit)


def _quartiles_apart(values: Floats) -> float:
    present = values[~np.isnan(values)]
    if not len(present):
        return 0.0
    low, high = np.quantile(present, [0.25, 0.75])
    return float(high - low)
