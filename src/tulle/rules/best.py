"""``best``: hides all rules with the fewest other rules lost.

1. Every removal has a cost: the rules near their end that lose a basket by it. A linear program
   (``covering``) chooses removals, each rule falling by support or by confidence, what looks
   cheaper. A rule that is lost costs nothing more, so a plan is made in steps: a part of the
   removals is made, costs are taken afresh from what is left of every rule's margin, and the rest
   is chosen again. Other plans come from costs near the plan before, and from the methods of the
   literature, so that none of them loses fewer rules.
2. The plan with the fewest lost rules is improved: some baskets, any or those of some sensitive
   rules, get their items back, and that part is planned again; the change stays if it loses no
   more rules.
3. Every plan is repaired until each rule is hidden by count.

The number of improvements follows from the size of the work and not from a clock: the same seed
gives the same release on any machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tulle.progress import bar
from tulle.rules.covering import cheaper_modes, holds
from tulle.rules.edits import Edits
from tulle.rules.impact import Floats, Impact
from tulle.rules.itemsets import Longs
from tulle.rules.plans import Plan, Planner
from tulle.rules.sensitive import Sensitive
from tulle.rules.swa import swa
from tulle.rules.verykios import algo1b, algo2a, algo2b
from tulle.rules.victims import iga, maxfia, minfia, naive, ra, rra
from tulle.rules.window import Mask

_SHARPNESS = (1.0, 2.0)
_TILTS = (0.0, 0.2, 0.5)
_DYING = ("give up", "spread", "save")
_STEPS = 20
_CLASSICAL = (algo1b, algo2a, algo2b, minfia, maxfia, iga, naive, rra, ra, swa)
_PATIENCE = 60  # improvements without success
_WORK = 4e10  # nanoseconds, about, of a whole search: less than a minute


def best(sensitive: Sensitive, impact: Impact, rng: np.random.Generator) -> Edits:
    """Edits that hide all rules and lose as few others as the search finds."""
    search = Search(sensitive, impact, rng)
    starts, rounds = search.plan()
    return search.run(starts, rounds)


class Search:
    """The search for the removals that lose the fewest rules."""

    def __init__(self, sensitive: Sensitive, impact: Impact, rng: np.random.Generator) -> None:
        self.sensitive = sensitive
        self.planner = Planner(sensitive, impact)
        self.candidates = self.planner.candidates
        self.rng = rng

    def plan(self) -> tuple[int, int]:
        """Numbers of starts and of improvements, from the work that one evaluation takes."""
        impact = self.planner.impact
        share = len(self.candidates.rows) / len(self.sensitive.baskets)
        walk = float(impact.support.sum()) * share
        program = 500.0 * np.count_nonzero(self.candidates.has)
        once = walk + program + 25.0 * len(impact.whole) + 2e7
        starts = int(np.clip(0.55 * _WORK / (_STEPS * once), 3, 4))
        return starts, int(np.clip(0.45 * _WORK / (1.6 * once), 80, 400))

    def run(self, starts: int, rounds: int) -> Edits:
        """The best edits after so many starts and improvements of the best of both kinds."""
        with bar("hiding rules", starts + rounds) as advance:
            stepwise = self._classical()
            for number in range(starts):
                stepwise.append(self._stepwise(number))
                advance(1)
            near = [self._near(sharpness) for sharpness in (*_SHARPNESS, 0.5)]
            best = min(
                (self._improved(plans, rounds // 2, advance) for plans in (stepwise, near)),
                key=lambda plan: plan.badness,
            )
        return Edits(self.planner.kept(best.left))

    def _improved(self, plans: list[Plan], rounds: int, advance: Callable[..., None]) -> Plan:
        """The best of some plans, improved until nothing more is found."""
        best = min(plans, key=lambda plan: plan.badness)
        idle = 0
        for _ in range(rounds):
            if idle == _PATIENCE or best.n_left == self.planner.untouched.n_left:
                break  # nothing more is found, or nothing need be done
            other = self._improve(best)
            idle = 0 if other.badness < best.badness else idle + 1
            best = other if other.badness <= best.badness else best
            advance(1, note=f"{best.n_lost} rules lost")
        return best

    def _near(self, sharpness: float) -> Plan:
        """A plan from nothing: three times at once, each with costs near the one before."""
        everywhere, untouched, found = self.planner.everywhere, self.planner.untouched, []
        reference = untouched
        for dying in ("save", "spread", "give up"):
            costs = self.planner.costs(untouched, reference, everywhere, sharpness, dying)
            modes = cheaper_modes(self.candidates, costs)
            reference = self.planner.solved(untouched, everywhere, costs, modes)
            found.append(reference)
        return min(found, key=lambda plan: plan.badness)

    def _stepwise(self, number: int) -> Plan:
        """A plan from nothing in steps."""
        everywhere, untouched = self.planner.everywhere, self.planner.untouched
        sharpness = _SHARPNESS[number % len(_SHARPNESS)]
        tilt = self._tilt(0.0 if number < 2 * len(_SHARPNESS) else 0.3)
        costs = self.planner.costs(untouched, untouched, everywhere, sharpness, "save") * tilt
        modes = cheaper_modes(self.candidates, costs)
        return self._steps(untouched, everywhere, modes, _STEPS, sharpness, tilt)

    def _steps(
        self, base: Plan, part: Longs, modes: Mask, steps: int, sharpness: float, tilt: Floats
    ) -> Plan:
        """Chooses all removals, makes some, and chooses the rest anew, until all is done."""
        for step in range(steps, 1, -1):
            costs = self.planner.costs(base, base, part, sharpness, "save") * tilt
            place, column = self.planner.chosen(base, part, costs, modes)
            some = self.rng.permutation(len(place))[: -(-len(place) // step)]
            left = base.left.copy()
            left[place[some], column[some]] = False
            base = self.planner.measured(left, base)
        costs = self.planner.costs(base, base, part, sharpness, "save") * tilt
        return self.planner.solved(base, part, costs, modes)

    def _classical(self) -> list[Plan]:
        """The plans of the literature, as far as they touch candidates only."""
        found = []
        for method in _CLASSICAL:
            kept = method(self.sensitive, self.rng).kept
            left = self.candidates.has & kept[self.candidates.cell]
            if np.array_equal(self.planner.kept(left), kept):
                found.append(self.planner.measured(left, self.planner.untouched))
        return found

    def _improve(self, best: Plan) -> Plan:
        """Gives a part of the baskets their items back and plans it again."""
        modes = self.planner.by_confidence(best.left)
        tilt = self._tilt(float(self.rng.choice(_TILTS)))
        if self.rng.random() < 0.3:
            part = self._some(np.ones(len(best.left), dtype=bool), (0.1, 0.2, 0.4))
        else:
            part, modes, tilt = self._around_rules(modes, tilt)
        left = best.left.copy()
        left[part] = self.candidates.has[part]
        freed = self.planner.measured(left, best)
        sharpness = float(self.rng.choice(_SHARPNESS))
        if self.rng.random() < 0.3:
            return self._steps(freed, part, modes, 3, sharpness, tilt)
        dying = str(self.rng.choice(_DYING))
        costs = self.planner.costs(freed, best, part, sharpness, dying) * tilt
        return self.planner.solved(freed, part, costs, modes)

    def _around_rules(self, modes: Mask, tilt: Floats) -> tuple[Longs, Mask, Floats]:
        """Baskets of one to three rules, perhaps to fall in the other way or by other items."""
        count = min(len(self.sensitive), int(self.rng.integers(1, 4)))
        rules = self.rng.choice(len(self.sensitive), size=count, replace=False)
        supporting: Mask = np.any(
            holds(self.candidates.has, self.candidates.in_rule[rules]), axis=1
        )
        if self.rng.random() < 0.3:
            modes[rules] = ~modes[rules]
        if self.rng.random() < 0.5:
            own = self.candidates.in_rule[rules].any(axis=0)
            tilt = np.where(own, self._tilt(2.0), tilt)
        return self._some(supporting, (0.2, 0.5, 1.0)), modes, tilt

    def _some(self, which: Mask, shares: tuple[float, ...]) -> Longs:
        return np.flatnonzero(which & (self.rng.random(len(which)) < self.rng.choice(shares)))

    def _tilt(self, strength: float) -> Floats:
        """Random factors for the items: whole items are given up or spared together."""
        return np.exp(strength * self.rng.standard_normal(len(self.candidates.items)))
