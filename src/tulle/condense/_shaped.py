"""A table's shape and the rules between its columns, fitted together and drawn from together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._relations.language import Rule, parse_rule
from tulle._relations.plan import Plan, Planner
from tulle._relations.proposals import find_rules
from tulle._relations.values import as_released, writings_of
from tulle._shape.columns import CategoryColumn
from tulle._shape.diversity import Diversity
from tulle._shape.model import ShapeModel, fit_shape
from tulle._types import Ints
from tulle.condense._classes import Labels, LabelSchema, Unit
from tulle.errors import GateError, ParameterError
from tulle.table._encoder import TableEncoder

_LABEL = ""  # the classes, in a model of the columns
_LABEL_CODES = "\0class"


class RuleSummary(NamedTuple):
    """A rule that a release keeps, and how the table stood to it."""

    rule: str
    found: bool  # in the table, rather than given
    share_broken: float  # of the table's records; 0 where fewer than about k people break it


@dataclass(frozen=True)
class Classes:
    """The classes of a table, and the units that are condensed: a class, or a pool of small ones.

    The classes of a pool are one class of the model. Which of them a record of the pool gets is
    drawn later at their rates: of a class of fewer than ``k`` people nothing else is kept.
    """

    labels: LabelSchema
    rates: list[Ints]  # of the classes in each unit, drawn once unless exact

    def draw(self, units: Ints, rng: np.random.Generator) -> Ints:
        """Return a class for each record: that of its unit, or in a pool one by lot."""
        classes = np.zeros(len(units), dtype=np.int64)
        for place, rates in enumerate(self.rates):
            rows = np.flatnonzero(units == place)
            classes[rows] = rng.choice(len(rates), len(rows), p=rates / rates.sum())
        return classes


class ClassRows(NamedTuple):
    """The classes of a table with those of each record, while a model is fitted."""

    classes: Classes
    codes: Ints
    units: Ints


def classes_of(
    labels: Labels, units: Sequence[Unit], members: Ints, rng: np.random.Generator | None
) -> ClassRows:
    """Return the classes of the records that are in a group; without ``rng``, their exact rates."""
    inside, place_of = members >= 0, np.zeros(len(members), dtype=np.int64)
    rates = []
    for place, unit in enumerate(units):
        place_of[unit.rows] = place
        counts = np.bincount(labels.codes[unit.rows], minlength=len(labels.schema.classes))
        if rng is not None:
            counts = rng.multinomial(len(unit.rows), counts / len(unit.rows))
        rates.append(counts)
    classes = Classes(labels.schema, rates)
    return ClassRows(classes, labels.codes[inside], place_of[inside])


@dataclass(frozen=True)
class ShapedTable:
    """A model of the columns, and how rules between them are kept in what is drawn from it."""

    encoder: TableEncoder
    plan: Plan
    model: ShapeModel
    classes: Classes | None = None

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw records; their classes, if there are some, are the last column."""
        frame = self._draw_once(self.model.n_rows if n is None else n, rng)
        return self.plan.redraw(frame, lambda size: self._draw_once(size, rng))

    def draw_with_classes(
        self, n: int | None, rng: np.random.Generator
    ) -> tuple[pl.DataFrame, Ints]:
        """Draw records, and the class of each as its place among the labels."""
        frame = self.draw(n, rng)
        codes = frame[_LABEL_CODES].to_numpy()
        return frame.select(list(self.encoder.codecs)), codes

    def _draw_once(self, n: int, rng: np.random.Generator) -> pl.DataFrame:
        drawn: dict[str, Any] = dict(zip(self.model.names, self.model.sample(n, rng)))
        fixed = {}
        if self.classes is not None:
            codes = pl.Series(self.classes.draw(drawn.pop(_LABEL).astype(np.int64), rng))
            labels = self.classes.labels
            fixed[label_name(labels, self.encoder)] = labels.domain.gather(codes)
            fixed[_LABEL_CODES] = codes
        return self.plan.complete(drawn, self.encoder.codecs, fixed, rng)


def label_name(labels: LabelSchema, encoder: TableEncoder) -> str:
    """Return what rules call the classes: the name they came with, if no column has it."""
    name = labels.domain.name
    return f"{name} (class)" if name in encoder.codecs else name


def with_labels(
    frame: pl.DataFrame, labels: LabelSchema, codes: Ints, encoder: TableEncoder
) -> pl.DataFrame:
    """Return a table with the class of each record, as rules see it."""
    classes = labels.domain.gather(pl.Series(codes))
    return frame.with_columns(classes.alias(label_name(labels, encoder)))


def fit_shaped(
    frame: pl.DataFrame,
    encoder: TableEncoder,
    rules: Sequence[str] | None,
    k: int,
    rng: np.random.Generator,
    members: Ints,
    people: Ints | None,
    classes: ClassRows | None = None,
    demands: Sequence[Diversity] = (),
    *,
    exact: bool = False,
) -> ShapedTable:
    """Fit a model of the released columns of a table, its groups given.

    Rules that are not given are looked for; ``classes`` are the labels and that of each record.
    A sensitive column with a demand follows from no rule that was not asked for.
    """
    planner = _planner(frame, encoder, k, rng, people, classes)
    if rules is None:
        writings = writings_of(encoder.codecs)
        found = find_rules(planner.frame, planner.columns, k, people, writings, rng)
        asked = {demand.name for demand in demands}
        found = [rule for rule in found if asked.isdisjoint(rule.columns)]
        plan, columns = planner.plan([(rule, True) for rule in found])
    else:
        plan, columns = planner.plan(_given(rules, frame, planner))
    label = None
    if classes is not None:
        label = _LABEL
        columns.append(CategoryColumn(_LABEL, classes.units, len(classes.classes.rates)))
    given: dict[str, Any] = {"label": label, "members": members, "people": people}
    model = fit_shape(columns, k, rng, demands=demands, exact=exact, **given)
    return ShapedTable(encoder, plan, model, None if classes is None else classes.classes)


def plan_checks(
    frame: pl.DataFrame,
    encoder: TableEncoder,
    rules: Sequence[str] | None,
    k: int,
    rng: np.random.Generator,
    people: Ints | None,
    classes: ClassRows | None = None,
) -> Plan:
    """Return a plan that only checks given rules, for the papers' synthesis."""
    if not rules:
        return Plan()
    planner = _planner(frame, encoder, k, rng, people, classes)
    return replace(planner.plan(_given(rules, frame, planner))[0], steps=(), merged={})


def _planner(
    frame: pl.DataFrame,
    encoder: TableEncoder,
    k: int,
    rng: np.random.Generator,
    people: Ints | None,
    classes: ClassRows | None,
) -> Planner:
    columns = {column.name: column for column in encoder.plain(frame, k, rng, people)}
    table = as_released(frame, encoder.codecs, columns)
    if classes is not None:
        table = with_labels(table, classes.classes.labels, classes.codes, encoder)
    return Planner(table, encoder.codecs, columns, k, people, rng)


def _given(rules: Sequence[str], frame: pl.DataFrame, planner: Planner) -> list[tuple[Rule, bool]]:
    """Read the rules that were given; those about columns that are not released say nothing."""
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        raise ParameterError(
            f"'rules' must be a list of texts. Got a {type(rules).__name__}.", parameter="rules"
        )
    released = planner.frame.columns
    names = dict.fromkeys([*released, *frame.columns])
    parsed = [parse_rule(text, names) for text in rules]
    return [(rule, False) for rule in parsed if {*rule.columns} <= {*released}]


def rests_on(condenser: Any, shapes: Sequence[ShapedTable]) -> dict[str, int]:
    """Return what a release shows, and of how many people at least each piece of it is.

    Without shapes, in the papers' synthesis, that is the groups, and the values that are not rare.
    """
    found = {"a category": int(condenser.levels_.max())} if not shapes else {}
    for shaped in shapes:
        for piece, people in shaped.model.rests_on().items():
            found[piece] = min(people, found.get(piece, people))
    return found | {"which records are alike (a group)": int(condenser.people_.min())}


def summarise_rules(plan: Plan) -> list[RuleSummary]:
    """Return the rules of a plan, and how the table stood to them."""
    return [RuleSummary(kept.rule.text, kept.found, kept.share) for kept in plan.rules]


def refuse_broken(plan: Plan, released: pl.DataFrame, *, accept: bool) -> dict[str, int]:
    """Return how many released records break rules that the table follows.

    Refuses them unless they are accepted, or the rule was not asked for.
    """
    counts = zip(plan.rules, plan.count_broken(released))
    wrong = {kept: count for kept, count in counts if count}
    asked = [(kept, count) for kept, count in wrong.items() if not kept.found]
    if asked and not accept:
        kept, count = asked[0]
        more = f" (and {counted(len(asked) - 1, 'more rule')})" if asked[1:] else ""
        raise GateError(
            f"{count:,} of {counted(released.height, 'released record')} would break the rule "
            f"'{kept.rule.text}'{more}: correct or leave out the rule, ask for smaller groups, or "
            "accept it (accept_broken_rules)",
            parameter="accept_broken_rules",
        )
    return {kept.rule.text: count for kept, count in wrong.items()}


def rule_notes(given: Sequence[str] | None, kept: Sequence[RuleSummary]) -> list[str]:
    """Return what a reader should know of the rules."""
    texts = {one.rule for one in kept}
    notes = [
        f"the rule '{text}' is about a column that is not released"
        for text in given or ()
        if text.strip() not in texts
    ]
    return notes + [
        f"the rule '{one.rule}' is broken in {one.share_broken:.1%} of the table's records: leave "
        "it out if the release need not follow it"
        for one in kept
        if one.share_broken
    ]
