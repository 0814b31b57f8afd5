"""Rules between the columns of a stream: given, or found in its initial records.

They are planned as those of a table are. A column that follows from others by arithmetic is
computed from them in what is drawn, and records that break an order or a condition are drawn again.
A stream cannot know what later categories follow from, so it looks nothing up. Later records that
break a rule are counted: snapshots keep it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._relations.language import ColumnRule, Name, Node, parse_rule
from tulle._relations.plan import Kept, Plan
from tulle._relations.steps import Computed
from tulle._relations.values import writings_of
from tulle.condense._shaped import Block, planner_of, settled_rules
from tulle.table._encoder import TableEncoder
from tulle.table._numbers import NumberCodec
from tulle.table._states import Writing

_LOOKED_UP = ("->", "known", "one_of", "at_most_one_of")


class StreamRule(NamedTuple):
    """A rule in its words, the column that is computed by it, and who broke it later."""

    text: str
    found: bool  # proposed from the initial records, not given
    target: str | None
    unit: float | None  # of the target
    rounding: str
    broken: int


@dataclass
class Relations:
    rules: list[StreamRule] = field(default_factory=list)
    units: dict[str, float | None] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        block: Block,
        encoder: TableEncoder,
        rules: Sequence[str] | None,
        k: int,
        rng: np.random.Generator,
    ) -> Relations:
        """Plan rules that were given, else those that the initial records follow."""
        planner = planner_of(block, encoder, k, rng)
        settled = [
            (rule, found)
            for rule, found in settled_rules(planner, block, encoder, rules)
            if not found or not any(part.op in _LOOKED_UP for part in rule.parts)
        ]
        plan, _ = planner.plan(settled)
        computed = [step for step in plan.steps if isinstance(step, Computed)]
        steps = {step.target: step for step in computed if _is_plain(step)}
        kept = [_kept(rule, found, steps) for rule, found in settled]
        return cls([rule for rule in kept if rule is not None], dict(plan.units))

    def plan(self, encoder: TableEncoder, names: Sequence[str]) -> Plan:
        parsed = [parse_rule(rule.text, names) for rule in self.rules]
        steps = [
            Computed(rule.target, _formula(read, rule.target), rule.unit, None, rule.rounding)
            for rule, read in zip(self.rules, parsed)
            if rule.target is not None
        ]
        kept = tuple(Kept(read, rule.found, 0.0) for rule, read in zip(self.rules, parsed))
        return Plan(kept, tuple(steps), self.units, writings=_declared(encoder))

    def count(self, frame: pl.DataFrame, plan: Plan) -> None:
        wrong = plan.count_broken(frame)
        self.rules = [
            rule._replace(broken=rule.broken + more) for rule, more in zip(self.rules, wrong)
        ]

    def notes(self, least: int) -> list[str]:
        return [
            f"{counted(rule.broken, 'later record', 'break')} the rule '{rule.text}', which "
            "snapshots keep: leave it out of a new stream if it no longer holds"
            for rule in self.rules
            if rule.broken >= least
        ]


def complete(
    plan: Plan,
    encoder: TableEncoder,
    draw: Callable[[int | None], pl.DataFrame],
    size: int | None,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Draw records that keep the rules: some columns are computed, bad records drawn again."""
    targets = {name: encoder.codecs[name] for name in plan.made}

    def once(number: int | None) -> pl.DataFrame:
        frame = draw(number)
        fixed = {name: frame[name] for name in frame.columns}
        return plan.complete({}, targets, fixed, rng).select(frame.columns)

    return plan.redraw(once(size), once)


def _declared(encoder: TableEncoder) -> dict[str, Writing]:
    """Return how columns are written, without their heaps, which are numbers."""
    writings = {}
    for name, writing in writings_of(encoder.codecs).items():
        codec = encoder.codecs[name]
        assert isinstance(codec, NumberCodec)
        special = writing.special[: len(writing.special) - len(codec.heaps)]
        if special or not codec.heaps:
            writings[name] = replace(writing, special=special)
    return writings


def _is_plain(step: Computed) -> bool:
    """Tell whether a column is computed from others alone, wherever they have values."""
    drawn = (step.distance, step.own, step.gone, step.clock, step.written)
    return all(part is None for part in drawn)


def _kept(rule: ColumnRule, found: bool, steps: dict[str, Computed]) -> StreamRule | None:
    """Return a rule as a stream keeps it; None for an equation of which nothing is computed."""
    for part in rule.parts:
        if part.op != "=":
            continue
        names = [side.column for side in part.args if isinstance(side, Name)]
        target = next((name for name in names if name in steps), None)
        if target is None or len(rule.parts) > 1:
            return None
        return StreamRule(rule.text, found, target, steps[target].unit, steps[target].rounding, 0)
    return StreamRule(rule.text, found, None, None, "nearest", 0)


def _formula(rule: ColumnRule, target: str) -> Node:
    left, right = rule.parts[0].args
    return right if left == Name(target) else left
