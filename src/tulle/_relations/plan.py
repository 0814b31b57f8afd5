"""How a release keeps rules between columns: what is left out of the model and made at the end.

* A column that follows from others (``stay = discharged - admitted``, ``industry -> sector``) is
  left out and computed from the released others.
* Of an order (``admitted <= discharged``) whose sides lie close together, the distance is modelled
  in place of the larger side.
* What must be missing is made missing.
* Records that break any other rule are drawn again.

A derivation needs the columns it is made of before it: where that would go round in a circle, the
rule is kept by drawing again. A rule is kept in all records, whoever breaks it in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tulle._columns import (
    CategoryColumn,
    Column,
    NumberColumn,
    cells_of,
    missing_of,
    take_rows,
    with_cells,
)
from tulle._people import draw_threshold, people_among, weigh_people
from tulle._relations.language import Call, ColumnRule, Name, Node, Number, columns_of
from tulle._relations.steps import Blanked, Chosen, Computed, Made, Mapped, Step, fit_longer, snap
from tulle._relations.values import (
    Values,
    broken,
    is_text,
    keys_of,
    part_broken,
    quantity,
    unit_of,
    usual_targets,
    writings_of,
)
from tulle._shape.dependencies import fit_dependency
from tulle._types import Flags, Floats, Ints
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

    rule: ColumnRule
    found: bool  # proposed from the table, not given
    share: float  # of the table's records that break it; 0 where fewer than about k people do


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
        theirs = {kept.rule for kept in other.rules}
        same = [kept for kept in self.rules if kept.rule in theirs]
        merged = {**self.merged, **other.merged}
        return Plan(tuple(same), (), self.units, merged, {}, self.writings)

    @property
    def made(self) -> set[str]:
        """The columns that are made at the end."""
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
                cells = drawn[step.target] = step.make(values, drawn, rng)
                codec = codecs[step.target]
                if isinstance(step, Computed):
                    series[step.target] = step.restore(cells, drawn, codec)
                else:
                    series[step.target] = codec.restore(cells)
        return _frame({name: series[name] for name in (*codecs, *fixed)})

    def redraw(self, frame: pl.DataFrame, draw: Callable[[int], pl.DataFrame]) -> pl.DataFrame:
        """Replace records that break rules by others that do not; some stay if none are found."""
        left = np.flatnonzero(self.breaking(frame))
        for _ in range(_TRIES):
            if not len(left):
                break
            fresh = draw(max(2 * len(left), _BATCH))
            good = np.flatnonzero(~self.breaking(fresh))[: len(left)]
            rows = np.arange(frame.height)
            rows[left[: len(good)]] = frame.height + good
            frame = pl.concat([frame, fresh])[rows]
            left = left[len(good) :]
        return frame

    def breaking(self, frame: pl.DataFrame) -> Flags:
        """Return the records that break a rule which single records can break."""
        values = self.values(frame)
        wrong = np.zeros(frame.height, dtype=bool)
        for kept in self.rules:
            for part in kept.rule.parts:
                if part.op != "->" or part in self.known:
                    wrong |= part_broken(part, values)
        return wrong


def _frame(series: Mapping[str, pl.Series]) -> pl.DataFrame:
    return pl.DataFrame([column.alias(name) for name, column in series.items()])


def _without(cells: Any, rows: Flags) -> Any:
    """Return drawn cells with some missing: codes are then -1, numbers NaN."""
    return np.where(rows, -1 if np.issubdtype(cells.dtype, np.integer) else np.nan, cells)


# -- fitting -------------------------------------------------------------------------------------


@dataclass
class Planner:
    """Decides how each rule is kept, and collects what the model needs for it."""

    frame: pl.DataFrame  # the table, with the classes if there are some
    codecs: Mapping[str, Codec]
    columns: dict[str, Column]  # as the model takes them
    k: int
    people: Ints | None  # the person of each row, if some have several
    rng: np.random.Generator
    counted: Flags  # False for rows of people who ask for more than k: nothing is learnt of them
    given: frozenset[str] = frozenset()  # columns that are never made of others
    near: frozenset[str] = frozenset()  # columns from which distances are always modelled
    part: bool = False  # of a larger table, which decides whether enough people break a rule

    def plan(self, rules: Sequence[tuple[ColumnRule, bool]]) -> tuple[Plan, list[Column]]:
        """Return the plan, and the columns to model in place of the given ones."""
        self.steps: dict[str, Made] = {}
        self.blanks: dict[str, list[Blanked]] = {}
        self.extra: dict[str, list[Column]] = {}
        used = dict.fromkeys(name for rule, _ in rules for name in rule.columns)
        self.values = Values(self.frame, {}, writings=writings_of(self.codecs))
        self.units = {name: unit_of(self.values.typed(name)) for name in used}
        self.values.units = self.units
        kept = tuple(self._kept(rule, found) for rule, found in rules)
        parts = [part for one in kept for part in one.rule.parts]
        for part in parts:
            self._equate(part)
        for part in parts:
            self._look_up(part)
        for part in parts:
            self._choose(part)
        for part in sorted(parts, key=self._spread):
            self._put_in_order(part)
        for part in parts:
            self._blank(part)
        known = {part: self._combinations(part) for part in parts if self._is_listed(part)}
        steps, writings = tuple(self._ordered()), self.values.writings
        plan = Plan(kept, steps, self.units, self._merged(), known, writings)
        names = self.columns.items()
        return plan, [one for name, own in names for one in self.extra.get(name, [own])]

    def _kept(self, rule: ColumnRule, found: bool) -> Kept:
        wrong = broken(rule, self.values) & self.counted
        many = self.part or people_among(wrong, self.people) >= draw_threshold(self.k, self.rng)
        return Kept(rule, found, float(wrong.mean()) if many else 0.0)

    # -- columns that follow by arithmetic --------------------------------------------------------

    def _equate(self, part: Call) -> None:
        """Leave out a column that the others of an equation give."""
        if part.op != "=" or all(self.values.is_words(side) for side in part.args):
            return
        for target, formula in self._solutions(part):
            if self._free(target, formula):
                self._compute(target, formula)
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
        if target in self.steps or target not in self.codecs or target in self.given:
            return False
        if not isinstance(self.codecs[target], NumberCodec) and self._written(target) is None:
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

    def _compute(self, target: str, formula: Node) -> None:
        """Leave out the target; where the formula has no value, model what there is."""
        unit, written = self.units[target], self._written(target)
        clock = self._clock(target)
        value, formed = self.values.numbers(target), quantity(formula, self.values)
        rounding = _rounding(value, formed, unit)
        step = Computed(target, formula, unit, clock, rounding, written=written)
        self._store(step, ~np.isnan(formed), ~np.isnan(value), [])

    def _clock(self, name: str) -> NumberCodec | None:
        """Return the code of a column of times; None of others."""
        codec = self.codecs[name]
        if not isinstance(codec, NumberCodec) or not codec.dtype.is_temporal():
            return None
        return codec

    def _written(self, name: str) -> Any:
        """Return the type of a column of numbers or truths of which the model draws codes."""
        dtype = self.values.typed(name).dtype
        plain = dtype.is_numeric() or dtype == pl.Boolean
        return dtype if plain and not isinstance(self.codecs[name], NumberCodec) else None

    def _store(
        self, step: Computed | Mapped, formed: Flags, there: Flags, extra: list[Column]
    ) -> None:
        """Model where the target has values of its own, and where it has none, if ``k`` have.

        ``formed`` is where the others give it a value, ``there`` where it has one.
        """
        column = self.columns[step.target]
        states = np.zeros(len(formed), dtype=bool)
        if isinstance(column, NumberColumn) and isinstance(step, Computed) and step.written is None:
            states = np.isin(column.values, column.specials)
            step = replace(step, states=column.specials)
        own = with_cells(column, f"{step.target}\0own", ~formed | states)
        if self._are_enough(~missing_of(own)):
            extra.append(own)
            step = replace(step, own=own.name, whole=not self._are_enough(~formed & ~there))
        gone = formed & ~there & ~states
        drawn = isinstance(step, Computed) and step.distance is not None
        if not drawn and self._are_enough(gone):
            extra.append(CategoryColumn(f"{step.target}\0gone", gone.astype(np.int64), 2))
            step = replace(step, gone=extra[-1].name)
        self.steps[step.target] = step
        self.extra[step.target] = extra

    def _are_enough(self, rows: Flags) -> bool:
        return people_among(rows & self.counted, self.people) >= self.k

    # -- columns that are looked up ---------------------------------------------------------------

    def _look_up(self, part: Call) -> None:
        """Leave out a column of which others decide the value."""
        if part.op != "->":
            return
        *sources, target = columns_of(part)
        blocked = target in self.steps or target not in self.columns or target in self.given
        if blocked or any(name not in self.columns or self._is_coded(name) for name in sources):
            return
        if self._needs(sources, target):
            return
        columns = [self.columns[name] for name in (*sources, target)]
        there = ~np.logical_or.reduce([missing_of(column) for column in columns[:-1]])
        rows = np.flatnonzero(there & ~missing_of(columns[-1]) & self.counted)
        *known, answer = (take_rows(column, rows) for column in columns)
        people = None if self.people is None else self.people[rows]
        weights = weigh_people(self.people, self.frame.height)[rows]
        first = fit_dependency(known[0], answer, self.k, weights, people)
        if first is not None:
            longer = fit_longer(known, answer, self.k, people)
            step = Mapped(target, tuple(sources), first, longer)
            self._store(step, there, ~missing_of(columns[-1]), [])

    def _is_coded(self, name: str) -> bool:
        """Tell whether a column is computed in its own type: the model has no cells of it then."""
        step = self.steps.get(name)
        return isinstance(step, Computed) and step.written is not None

    # -- sets of columns of which one is 1 --------------------------------------------------------

    def _choose(self, part: Call) -> None:
        """Model which column of a set is 1, in place of the columns."""
        names = list(columns_of(part))
        if part.op not in ("one_of", "at_most_one_of") or len({*names}) < len(names):
            return
        made = {*self.steps} | self.given
        if any(name in made or name not in self.columns for name in names):
            return
        ones = np.stack([self.values.numbers(name) for name in names], axis=1)
        pairs = [_cells_of_two(self.columns[name], one) for name, one in zip(names, ones.T)]
        some, every = np.isnan(ones).any(axis=1), np.isnan(ones).all(axis=1)
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(names) or self._are_enough(np.asarray(some & ~every)):
            return  # other values, or only some of a record's columns are missing: not one thing
        count = (ones == 1).sum(axis=1)
        which = np.where(count > 0, (ones == 1).argmax(axis=1), len(names))
        wrong = (count > 1) | ((count == 0) & (part.op == "one_of"))
        which[some | wrong] = -1
        if not self._are_enough(np.asarray(every)):  # those who break the rule are as most are
            which[which < 0] = np.bincount(which[which >= 0]).argmax()
        hidden = CategoryColumn(f"{names[0]}\0which", which, len(names) + 1)
        for place, (name, pair) in enumerate(zip(names, known)):
            coded = isinstance(self.columns[name], CategoryColumn)
            self.steps[name] = Chosen(name, hidden.name, place, pair, coded)
            self.extra[name] = [] if place else [hidden]

    # -- orders -----------------------------------------------------------------------------------

    def _spread(self, part: Call) -> float:
        """Return how much the distance of an order varies, to begin with the tightest."""
        if part.op not in _TURNED or not self.near.isdisjoint(columns_of(part)):
            return 0.0
        left, right = (quantity(side, self.values) for side in part.args)
        return _quartiles_apart(right - left)

    def _put_in_order(self, part: Call) -> None:
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
            near = not self.near.isdisjoint(columns_of(formula))
            if not near and not self._is_telling(value, formed):
                continue
            unit, rounding = self._shown_unit(name), "up" if sign > 0 else "down"
            away = sign * (value - snap(formed, unit, rounding))
            away = away if unit is None else np.round(away / unit)
            least = float(op == "<" and unit is not None)
            clock, even = self._clock(name), False
            if clock is not None and clock.clock and float(np.nanmedian(away)) * (unit or 0) >= 1:
                # over days, hours are as long as the records in them are many
                even = True
                away = sign * (clock.even_days(value) - clock.even_days(formed))
            column = NumberColumn(f"{name}\0distance", away, None if unit is None or even else 0)
            step = Computed(
                name, formula, unit, clock, rounding, column.name, sign, least * (not even), even
            )
            if sign < 0 and clock is None and isinstance(self.codecs[name], NumberCodec):
                step = replace(step, lowest=float(self.codecs[name].low))  # type: ignore[attr-defined]
            self._store(step, ~np.isnan(formed), ~np.isnan(value), [column])
            return

    def _shown_unit(self, name: str) -> float | None:
        """Return the precision of a column in a release: not that of a single person."""
        codec, unit = self.codecs[name], self.units[name]
        decimals = codec.shown[0] if isinstance(codec, NumberCodec) else None
        if decimals is None or self._clock(name) is not None:
            return unit
        return max(unit or 0.0, 10.0**-decimals)

    def _is_telling(self, value: Floats, formed: Floats) -> bool:
        """Tell whether the distance of two columns says more than the larger one itself."""
        both = ~(np.isnan(value) | np.isnan(formed))
        if both.sum() < 2 or len(np.unique(value[both])) <= _EXACT_CELLS:
            return False
        away, value = value[both] - formed[both], value[both]
        if _quartiles_apart(away) <= _CLOSE * _quartiles_apart(value):
            return True
        # of two columns that are both often 0, one may be far wider than the other
        narrow = np.abs(away).mean() <= np.abs(value - np.median(value)).mean()
        return bool(narrow and (away == 0).mean() >= _HEAP)

    # -- what must be missing ---------------------------------------------------------------------

    def _blank(self, part: Call) -> None:
        if part.op != "if":
            return
        said, condition = part.args
        if not isinstance(said, Call) or said.op != "missing" or not isinstance(condition, Call):
            return
        target = next(columns_of(said))
        blank = Blanked(target, condition)
        coded = target in self.values.writings  # missing may be written as a code, such as N
        free = target in self.codecs and target not in self.given
        if free and not coded and not self._needs(blank.sources, target):
            self.blanks.setdefault(target, []).append(blank)

    # -- all together -----------------------------------------------------------------------------

    def _is_listed(self, part: Call) -> bool:
        """Tell whether only known combinations follow a rule: of steps along a number, all do."""
        if part.op == "->":
            step = self.steps.get(list(columns_of(part))[-1])
            return not (isinstance(step, Mapped) and step.first.steps and len(step.by) == 1)
        return part.op == "known"

    def _combinations(self, part: Call) -> pl.DataFrame:
        """Return the combinations that at least ``k`` people hold, of ``->`` the commonest."""
        people = np.arange(self.frame.height) if self.people is None else self.people
        keys = keys_of(part, self.values)
        held = keys.with_columns(pl.Series("\0people", people)).filter(self.counted)
        groups = held.drop_nulls().group_by(keys.columns)
        common = groups.agg(pl.col("\0people").n_unique()).filter(pl.col("\0people") >= self.k)
        common = usual_targets(common, "\0people") if part.op == "->" else common
        return common.select(keys.columns)

    def _merged(self) -> dict[str, str]:
        """Return the words that stand for merged values in a release."""
        return {
            name: str(self.codecs[name].restore(np.array([column.other]))[0])
            for name, column in self.columns.items()
            if isinstance(column, CategoryColumn)
            and column.other is not None
            and is_text(self.frame.schema[name])
        }

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


def _cells_of_two(column: Column, values: Floats) -> tuple[float, float] | None:
    """Return the cell of 0 and that of 1 in a column; None if it has other values too."""
    cells = cells_of(column)
    places = [np.flatnonzero(values == value) for value in (0.0, 1.0)]
    if min(map(len, places)) == 0 or (~np.isnan(values)).sum() > sum(map(len, places)):
        return None
    return float(cells[places[0][0]]), float(cells[places[1][0]])


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


def _quartiles_apart(values: Floats) -> float:
    present = values[~np.isnan(values)]
    if not len(present):
        return 0.0
    low, high = np.quantile(present, [0.25, 0.75])
    return float(high - low)
