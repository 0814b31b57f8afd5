"""Plans: which items are left in which baskets, and what each plan costs in other rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle.rules.covering import Candidates, cover
from tulle.rules.impact import Floats, Impact
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.rules.verykios import removals_needed
from tulle.rules.window import Mask


@dataclass(frozen=True, eq=False)
class Plan:
    """What is left of the candidates' baskets, and what it costs."""

    left: Mask  # which items of sensitive rules are left in the candidates' baskets
    lost: Longs  # how many baskets each itemset lost
    n_lost: int  # how many rules are lost
    n_left: int  # how many cells are left: fewer edits break ties

    @property
    def badness(self) -> tuple[int, int]:
        """Fewest lost rules first, then fewest edits."""
        return self.n_lost, -self.n_left


class Planner:
    """Makes plans that hide all rules, and counts exactly what they lose."""

    def __init__(self, sensitive: Sensitive, impact: Impact) -> None:
        self.sensitive = sensitive
        self.impact = impact
        self.candidates = Candidates.of(sensitive)
        self.everywhere = np.arange(len(self.candidates.rows))
        impact.expect(self.candidates.rows, self.candidates.items)
        has = self.candidates.has
        self.untouched = Plan(has, np.zeros_like(impact.support), 0, int(np.count_nonzero(has)))

    def solved(self, base: Plan, part: Longs, costs: Floats, modes: Mask) -> Plan:
        """The plan that hides all rules by the cheapest removals from a part of the baskets."""
        left = base.left.copy()
        left[self.chosen(base, part, costs, modes)] = False
        self._repair(left, part, costs)
        return self.measured(left, base)

    def chosen(self, base: Plan, part: Longs, costs: Floats, modes: Mask) -> tuple[Longs, Longs]:
        """The cheapest removals, as places and columns, that bring all rules down."""
        needs = self._needs(base.left, modes)
        return cover(self.candidates, base.left, part, costs, modes, needs)

    def measured(self, left: Mask, near: Plan) -> Plan:
        """Counts what is lost, from a plan that differs in some baskets only."""
        changed = self.candidates.rows[(left != near.left).any(axis=1)]
        lost = near.lost - self.impact.lost(self.kept(near.left), changed)
        lost += self.impact.lost(self.kept(left), changed)
        n_lost = self.impact.n_lost(self.impact.support - lost)
        return Plan(left, lost, n_lost, int(np.count_nonzero(left)))

    def costs(self, base: Plan, near: Plan, part: Longs, sharpness: float, dying: str) -> Floats:
        """What each removal from a part of the baskets costs, near another plan."""
        support = self.impact.support
        weight = self.impact.weight(support - base.lost, support - near.lost, sharpness, dying)
        rows = self.candidates.rows[part]
        return self.impact.costs(self.kept(base.left), rows, weight, self.candidates.items)

    def by_confidence(self, left: Mask) -> Mask:
        """Which rules are hidden by confidence and not by support."""
        support = [self.candidates.count(left, r)[0] for r in range(len(self.sensitive))]
        return np.array(support) >= self.sensitive.limit

    def kept(self, left: Mask) -> Mask:
        """The same as a mask over all cells of the baskets."""
        kept = np.ones(len(self.sensitive.baskets.items), dtype=bool)
        kept[self.candidates.cell[self.candidates.has & ~left]] = False
        return kept

    def _needs(self, left: Mask, modes: Mask) -> Floats:
        """How far each rule still is from being hidden in its way."""
        needs = np.zeros(len(self.sensitive))
        for r in range(len(self.sensitive)):
            support, antecedent = self.candidates.count(left, r)
            sure = self.sensitive.confidence[r]
            if self.sensitive.hidden(r, support, antecedent):
                continue
            if modes[r] and sure is not None:
                needs[r] = float(support - sure * antecedent) + 1 / sure.denominator
            else:
                needs[r] = support - self.sensitive.limit[r] + 1
        return needs

    def _repair(self, left: Mask, part: Longs, costs: Floats) -> None:
        """Takes an item of the consequent away, cheapest first, until every rule is hidden."""
        price = np.full(left.shape, np.inf)
        price[part] = costs
        while visible := self._visible(left):
            for r in visible:
                need = removals_needed(
                    *self.candidates.count(left, r),
                    int(self.sensitive.limit[r]),
                    self.sensitive.confidence[r],
                    lowers_antecedent=False,
                )
                column = int(self.candidates.items.searchsorted(self.sensitive.consequent[r][0]))
                holders = np.flatnonzero(left[:, self.candidates.in_rule[r]].all(axis=1))
                order = np.argsort(price[holders, column], kind="stable")
                left[holders[order][:need], column] = False

    def _visible(self, left: Mask) -> list[int]:
        counts = [self.candidates.count(left, r) for r in range(len(self.sensitive))]
        return [r for r, pair in enumerate(counts) if not self.sensitive.hidden(r, *pair)]
