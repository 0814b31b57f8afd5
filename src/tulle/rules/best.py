"""``best``: hides all rules with the fewest other rules lost.

1. Every removal has a cost: the rules near their end that lose a basket by it. A linear program
   (``covering``) chooses removals, each rule falling by support or by confidence, what looks
   cheaper; it is run again with costs from the margins that the last solution left, and with
   items made dear or cheap at random. The methods of the literature are starts too, so that none
   of them loses fewer rules.
2. The solution with the fewest lost rules is improved: a part of its baskets is given back, costs
   are taken afresh from what is left of every rule's margin, and the part is solved again; the
   change stays if it loses no more rules.
3. Every candidate is repaired until each rule is hidden by count, and trimmed of removals that
   are not needed.

The number of improvements follows from the size of the work and not from a clock: the same seed
gives the same release on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tulle.progress import bar
from tulle.rules.covering import Candidates, cheaper_modes, cover
from tulle.rules.edits import Edits
from tulle.rules.impact import Floats, Impact
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.rules.swa import swa
from tulle.rules.verykios import algo1b, algo2a, algo2b, removals_needed
from tulle.rules.victims import iga, maxfia, minfia, naive, ra, rra
from tulle.rules.window import Mask

_SHARPNESS = (1.0, 0.5, 2.0)
_TILTS = (0.0, 0.2, 0.5)
_DYING = ("give up", "spread", "save")
_CLASSICAL = (algo1b, algo2a, algo2b, minfia, maxfia, iga, naive, rra, ra, swa)
_PATIENCE = 100  # improvements without success
_WORK = 1.6e10  # steps of a whole search: less than a minute


def best(sensitive: Sensitive, impact: Impact, rng: np.random.Generator) -> Edits:
    """Edits that hide all rules and lose as few others as the search finds."""
    search = Search(sensitive, impact, rng)
    starts, rounds = search.plan()
    return search.run(starts, rounds)


@dataclass(eq=False)
class _Solution:
    left: Mask  # which items of sensitive rules are left in the candidates' baskets
    lost: Longs  # how many baskets each itemset lost
    n_lost: int  # how many rules are lost
    n_left: int = 0  # how many cells are left: fewer edits break ties

    @property
    def badness(self) -> tuple[int, int]:
        return self.n_lost, -self.n_left


class Search:
    """The search for the removals that lose the fewest rules."""

    def __init__(self, sensitive: Sensitive, impact: Impact, rng: np.random.Generator) -> None:
        self.sensitive = sensitive
        self.impact = impact
        self.rng = rng
        self.candidates = Candidates.of(sensitive)
        self.everywhere = np.arange(len(self.candidates.rows))

    def plan(self) -> tuple[int, int]:
        """Numbers of starts and of improvements, from the work that one evaluation takes."""
        share = len(self.candidates.rows) / len(self.sensitive.baskets)
        walk = float(self.impact.support.sum()) * share
        program = 60.0 * np.count_nonzero(self.candidates.has)
        once = 2 * walk + program + 1e6
        starts = int(np.clip(0.25 * _WORK / (3 * once), 4, 12))
        return starts, int(np.clip(0.75 * _WORK / (0.5 * once), 40, 1000))

    def run(self, starts: int, rounds: int) -> Edits:
        """The best edits after so many starts and improvements of the best of them."""
        with bar("hiding rules", starts + rounds) as advance:
            found = [self._start(n, advance) for n in range(starts)] + self._classical()
            best = min(found, key=lambda one: one.badness)
            share, idle = 0.3, 0
            for _ in range(rounds):
                if idle == _PATIENCE or best.n_left == np.count_nonzero(self.candidates.has):
                    break  # nothing more is found, or nothing need be done
                other = self._improve(best, share)
                gained = other.badness < best.badness
                idle = 0 if gained else idle + 1
                share = min(0.5, share * 1.1) if gained else max(0.05, share * 0.95)
                best = other if other.badness <= best.badness else best
                advance(1, note=f"{best.n_lost} rules lost")
        return Edits(self._kept(best.left))

    def _start(self, number: int, advance: Callable[..., None]) -> _Solution:
        """A solution from nothing: three times, each with weights near the one before."""
        found = []
        untouched = _Solution(self.candidates.has, np.zeros_like(self.impact.support), 0)
        reference = untouched
        tilt = self._tilt(0.0 if number < len(_SHARPNESS) else 1.0)
        sharpness = _SHARPNESS[number % len(_SHARPNESS)]
        for dying in ("save", "spread", "give up"):
            weight = self._weight(untouched, reference, sharpness, dying)
            costs = self._costs(untouched.left, self.everywhere, weight) * tilt
            modes = cheaper_modes(self.candidates, costs)
            reference = self._solved(untouched, self.everywhere, costs, modes)
            found.append(reference)
        advance(1)
        return min(found, key=lambda one: one.badness)

    def _classical(self) -> list[_Solution]:
        """The solutions of the literature, as far as they touch candidates only."""
        untouched = _Solution(self.candidates.has, np.zeros_like(self.impact.support), 0)
        found = []
        for method in _CLASSICAL:
            kept = method(self.sensitive, self.rng).kept
            left = self.candidates.has & kept[self.candidates.cell]
            if np.array_equal(self._kept(left), kept):
                found.append(self._measured(left, untouched))
        return found

    def _improve(self, best: _Solution, share: float) -> _Solution:
        """Gives a random part of the baskets back and solves it again."""
        part = np.flatnonzero(self.rng.random(len(self.everywhere)) < share)
        left = best.left.copy()
        left[part] = self.candidates.has[part]
        freed = self._measured(left, best)
        sharpness = float(self.rng.choice(_SHARPNESS))
        weight = self._weight(freed, best, sharpness, str(self.rng.choice(_DYING)))
        costs = self._costs(left, part, weight) * self._tilt(float(self.rng.choice(_TILTS)))
        return self._solved(freed, part, costs, self._by_confidence(best.left))

    def _solved(self, base: _Solution, part: Longs, costs: Floats, modes: Mask) -> _Solution:
        needs = self._needs(base.left, modes)
        place, column = cover(self.candidates, base.left, part, costs, modes, needs)
        left = base.left.copy()
        left[place, column] = False
        self._repair(left, part, costs)
        return self._measured(left, base)

    def _measured(self, left: Mask, near: _Solution) -> _Solution:
        """Counts what is lost, from a solution that differs in some baskets only."""
        changed = self.candidates.rows[(left != near.left).any(axis=1)]
        lost = near.lost - self.impact.lost(self._kept(near.left), changed)
        lost += self.impact.lost(self._kept(left), changed)
        n_lost = self.impact.n_lost(self.impact.support - lost)
        return _Solution(left, lost, n_lost, int(np.count_nonzero(left)))

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

    def _by_confidence(self, left: Mask) -> Mask:
        """Which rules are hidden by confidence and not by support."""
        support = [self.candidates.count(left, r)[0] for r in range(len(self.sensitive))]
        return np.array(support) >= self.sensitive.limit

    def _visible(self, left: Mask) -> list[int]:
        counts = [self.candidates.count(left, r) for r in range(len(self.sensitive))]
        return [r for r, pair in enumerate(counts) if not self.sensitive.hidden(r, *pair)]

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

    def _weight(self, base: _Solution, near: _Solution, sharpness: float, dying: str) -> Floats:
        support = self.impact.support
        return self.impact.weight(support - base.lost, support - near.lost, sharpness, dying)

    def _tilt(self, strength: float) -> Floats:
        """Random factors for the items: whole items are given up or spared together."""
        return np.exp(strength * self.rng.standard_normal(len(self.candidates.items)))

    def _costs(self, left: Mask, part: Longs, weight: Floats) -> Floats:
        rows = self.candidates.rows[part]
        return self.impact.costs(self._kept(left), rows, weight, self.candidates.items)

    def _kept(self, left: Mask) -> Mask:
        kept = np.ones(len(self.sensitive.baskets.items), dtype=bool)
        kept[self.candidates.cell[self.candidates.has & ~left]] = False
        return kept
