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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tulle._progress import bar
from tulle._types import Flags, Floats, Ints
from tulle.rules._classes import ItemsetClasses
from tulle.rules._classic import CLASSICAL, removals_needed
from tulle.rules._sensitive import Edits, MinedRules, SensitiveRules
from tulle.transactions import Transactions

# What removals do to the rules that should stay. The rules are those mined before, with one item
# in the consequent. A rule is lost when its support or its confidence falls below the thresholds;
# its margin is how many baskets it can still lose.

_PRECIOUS = 10_000  # rules that an itemset to be kept is worth


class Impact:
    """Counts how itemsets and rules fare when cells are taken out of baskets.

    Parameters
    ----------
    before
        The rules mined before, and the thresholds that they were mined with.
    spare
        Rules that may be lost: the sensitive ones.
    precious
        Nodes of itemsets that the user wants to stay frequent: each weighs like many rules.
    """

    def __init__(
        self, baskets: Transactions, before: MinedRules, spare: Flags, precious: Ints | None = None
    ) -> None:
        from tulle.rules._impact_kernels import preorder

        self.baskets, self.itemsets = baskets, before.rules.itemsets
        self.minimum, self.confidence, self.spare = before.minimum, before.confidence, spare
        order, self.after = preorder(self.itemsets.parent)
        self.place = np.empty(len(order), dtype=np.int64)  # of each node in the walk
        self.place[order] = np.arange(len(order))
        self.item = self.itemsets.item[order].astype(np.int64)
        roots = self.place[np.flatnonzero(self.itemsets.parent == 0)]
        self.single = np.full(len(baskets.names), -1, dtype=np.int64)
        self.single[self.item[roots]] = roots
        self.whole = self.place[before.rules.whole]
        self.antecedent = self.place[before.rules.antecedent]
        self.support = self.itemsets.support[order].astype(np.int64)
        chosen = np.empty(0, dtype=np.int64) if precious is None else precious
        self.precious = self.place[chosen]
        self.classes: ItemsetClasses | None = None

    def expect(self, rows: Ints, items: Ints) -> None:
        """Prepare to compute the costs of these items in these baskets many times."""
        self.classes = ItemsetClasses.of(self.baskets, self.itemsets, rows, items)

    def lost(self, kept: Flags, rows: Ints) -> Ints:
        """Count how many of some baskets no longer support each set."""
        from tulle.rules._impact_kernels import lost_supports

        b = self.baskets
        return lost_supports(
            b.indptr, b.items, kept, rows, self.item, self.after, self.single, len(b.names)
        ).astype(np.int64)

    def costs(self, kept: Flags, rows: Ints, weight: Floats, items: Ints) -> Floats:
        """Compute, for each of some baskets and items, the weight of the sets that go with it."""
        if self.classes is None:
            return self._walked(kept, rows, weight, items)
        gone = np.concatenate(([0], np.cumsum(~kept)))
        starts = self.baskets.indptr
        edited = gone[starts[rows + 1]] > gone[starts[rows]]
        costs = np.empty((len(rows), len(items)))
        costs[edited] = self._walked(kept, rows[edited], weight, items)
        costs[~edited] = self.classes.costs(rows[~edited], weight[self.place])
        return costs

    def _walked(self, kept: Flags, rows: Ints, weight: Floats, items: Ints) -> Floats:
        from tulle.rules._impact_kernels import removal_costs

        b = self.baskets
        column = np.full(len(b.names), -1, dtype=np.int64)
        column[items] = np.arange(len(items))
        return removal_costs(
            b.indptr, b.items, kept, rows, self.item, self.after, self.single, len(b.names),
            weight, column, len(items),
        )  # fmt: skip

    def n_lost(self, support: Ints) -> int:
        """Count the rules, without sensitive ones, that supports like these lose."""
        broken = int(np.count_nonzero(support[self.precious] < self.minimum))
        lost = np.count_nonzero((self._margin(support)[0] < 0) & ~self.spare)
        return int(lost) + _PRECIOUS * broken

    def weight(self, support: Ints, reference: Ints, sharpness: float, dying: str) -> Floats:
        """Compute what one basket less of each set costs, near a reference solution.

        A rule that survives the reference weighs more the less it can lose. One that dies there
        is given up (``give up``: weighs nothing), weighs like the others (``save``), or the
        cost of its death is spread over what it lost (``spread``). A basket less in the
        antecedent is a gain if confidence is what is short.
        """
        margin, by_confidence = self._margin(support)
        left, _ = self._margin(reference)
        length = np.maximum(margin, 0) + 1.0
        if dying == "spread":
            length = np.maximum(length, margin - left)
        weight = 1.0 / length**sharpness
        if dying == "give up":
            weight[left < 0] = 0.0
        weight[self.spare | (margin < 0)] = 0.0
        n_sets = len(self.support)
        total: Floats = np.bincount(self.whole, weight, n_sets).astype(np.float64)
        gain = float(self.confidence) * weight[by_confidence]
        total -= np.bincount(self.antecedent[by_confidence], gain, n_sets)
        room = np.maximum(support[self.precious] - self.minimum, 0)
        np.add.at(total, self.precious, _PRECIOUS / (room + 1.0))
        return total

    def _margin(self, support: Ints) -> tuple[Floats, Flags]:
        over, under = self.confidence.numerator, self.confidence.denominator
        by_support = support[self.whole] - self.minimum
        by_confidence: Floats = (
            support[self.whole] * under - over * support[self.antecedent]
        ) / under
        margin = np.minimum(by_confidence, by_support.astype(np.float64))
        return margin, by_confidence < by_support


# Hiding as a covering problem: which removals hide all rules at the least cost. A rule that falls
# by support needs so many of its baskets broken. A rule that falls by confidence c needs
# ``support - c * antecedent`` below zero, so a removal counts 1 if it takes an item of the
# consequent, 1 - c if it takes one of the antecedent, and -c if it takes one of the antecedent
# from a basket that does not hold the consequent. Both are linear: a linear program chooses. Its
# basic solutions have at most as many fractional removals as there are rules; they are rounded
# up.

_PARCELS = 50


@dataclass(eq=False)
class CandidateBaskets:
    """Baskets from which items of sensitive rules may go, as small matrices of booleans.

    Matrices over (basket, item) speak of ``rows`` and ``items``, the items of all rules.
    ``antecedents`` is the support of each rule's antecedent in all baskets, as they came.
    """

    sensitive: SensitiveRules
    rows: Ints
    items: Ints
    cell: Ints  # place of each (basket, item) among the cells, -1 if the basket lacks the item
    in_rule: Flags  # [rule, item]
    in_antecedent: Flags
    antecedents: Ints

    @classmethod
    def of(cls, sensitive: SensitiveRules, most: int = 60_000) -> CandidateBaskets:
        """Return all supporting baskets; of very many, the shortest, which take least with them."""
        rows = np.unique(np.concatenate(sensitive.rows))
        if len(rows) > most:
            share, lengths = most // len(sensitive), sensitive.baskets.lengths
            few = [
                own[np.argsort(lengths[own], kind="stable")][: max(share, 2 * int(quota))]
                for own, quota in zip(sensitive.rows, sensitive.quota)
            ]
            rows = np.unique(np.concatenate(few))
        items = np.array(sorted({item for whole in sensitive.whole for item in whole}))
        baskets = sensitive.baskets
        cell = np.full((len(rows), len(items)), -1, dtype=np.int64)
        for column, item in enumerate(items.tolist()):
            cells = baskets.cells(item)
            place = np.searchsorted(rows, baskets.row_of[cells])
            inside = np.minimum(place, len(rows) - 1)
            found = rows[inside] == baskets.row_of[cells]
            cell[inside[found], column] = cells[found]
        return cls(
            sensitive,
            rows,
            items,
            cell,
            np.array([np.isin(items, whole) for whole in sensitive.whole]),
            np.array([np.isin(items, left) for left in sensitive.antecedent]),
            np.array([len(baskets.rows_with(left)) for left in sensitive.antecedent]),
        )

    @cached_property
    def has(self) -> Flags:
        return self.cell >= 0

    def count(self, left: Flags, r: int) -> tuple[int, int]:
        """Count supports of a rule and of its antecedent where these items are left."""
        whole = left[:, self.in_rule[r]].all(axis=1)
        head = left[:, self.in_antecedent[r]].all(axis=1)
        return (
            int(self._outside[0][r] + np.count_nonzero(whole)),
            int(self._outside[1][r] + np.count_nonzero(head)),
        )

    @cached_property
    def _outside(self) -> tuple[Ints, Ints]:
        """Count supports of rules and antecedents among all baskets that are not candidates."""
        inside = np.count_nonzero(holds(self.has, self.in_rule), axis=0)
        heads = np.count_nonzero(holds(self.has, self.in_antecedent), axis=0)
        return self.supports - inside, self.antecedents - heads

    @cached_property
    def supports(self) -> Ints:
        return np.array([len(rows) for rows in self.sensitive.rows], dtype=np.int64)


def holds(left: Flags, members: Flags) -> Flags:
    return np.stack([left[:, wanted].all(axis=1) for wanted in members], axis=1)


def cheaper_modes(candidates: CandidateBaskets, costs: Floats) -> Flags:
    """Return, for each rule, whether hiding by confidence costs less than hiding by support."""
    sensitive = candidates.sensitive
    modes = np.zeros(len(sensitive), dtype=bool)
    whole = holds(candidates.has, candidates.in_rule)
    for r in range(len(sensitive)):
        sure = sensitive.confidence[r]
        if sure is None:
            continue
        own = costs[whole[:, r]]
        tail = candidates.in_rule[r] & ~candidates.in_antecedent[r]
        need = max(0, int(candidates.supports[r] - sure * int(candidates.antecedents[r])) + 1)
        by_support = np.sort(own[:, candidates.in_rule[r]].min(axis=1))[: sensitive.quota[r]]
        by_confidence = np.sort(own[:, tail].min(axis=1))[:need]
        modes[r] = by_confidence.sum() < by_support.sum()
    return modes


def cover(
    candidates: CandidateBaskets,
    left: Flags,
    part: Ints,
    costs: Floats,
    modes: Flags,
    needs: Floats,
) -> tuple[Ints, Ints]:
    """Return the removals (basket, column) that meet all needs at least cost.

    Baskets are places among the candidates' rows, of which only those of ``part`` may change;
    ``costs`` has a row for each of them. Needs that they cannot meet are met as far as they
    can; the caller repairs the rest.
    """
    whole = holds(left[part], candidates.in_rule)
    useful = whole[:, needs > 0].astype(np.int32) @ candidates.in_rule[needs > 0].astype(np.int32)
    place, column = np.nonzero(useful)
    if len(place) == 0:
        return place, column
    effect = _effects(candidates, left[part], whole, place, column, modes)
    cost = np.maximum(costs[place, column], 0.0) + 1e-6
    mixed = effect @ np.random.default_rng(0).standard_normal(effect.shape[1])
    kind = np.unique(mixed, return_inverse=True)[1].reshape(-1)  # a number for each effect
    order = np.lexsort((cost, kind, place))
    same = (place[order][1:] == place[order][:-1]) & (kind[order][1:] == kind[order][:-1])
    first = order[np.concatenate(([True], ~same))]  # of equal ones the cheapest
    open_ = np.flatnonzero(needs > 0)
    chosen = first[_solve(cost[first], effect[np.ix_(first, open_)], kind[first], needs[open_])]
    return part[place[chosen]], column[chosen]


def _effects(
    candidates: CandidateBaskets, left: Flags, whole: Flags, place: Ints, column: Ints, modes: Flags
) -> Floats:
    """Compute how far each removal brings each rule; see the head of this file."""
    effect = (whole[place] & candidates.in_rule[:, column].T).astype(np.float64)
    head = holds(left, candidates.in_antecedent)[place] & candidates.in_antecedent[:, column].T
    for r in np.flatnonzero(modes).tolist():
        effect[head[:, r], r] -= float(candidates.sensitive.confidence[r] or 0)
    return effect


def _solve(cost: Floats, effect: Floats, kind: Ints, needs: Floats) -> Ints:
    """Return which removals to choose.

    Removals of one effect differ in cost only, so the cheapest go first; the program need not
    see each of them, only some dozen parcels of about equal cost for each effect.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    order = np.lexsort((cost, kind))
    counts, kinds = np.bincount(kind), kind[order]
    rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
    pieces = np.minimum(counts, _PARCELS)
    parcel = (np.cumsum(pieces) - pieces)[kinds] + rank * pieces[kinds] // counts[kinds]
    sizes = np.bincount(parcel)
    starts = np.cumsum(sizes) - sizes
    mean = np.bincount(parcel, cost[order]) / sizes
    parcels = effect[order][starts] * sizes[:, None]
    found = linprog(
        mean * sizes,
        A_ub=csr_array(-parcels.T),
        b_ub=-np.minimum(needs, np.maximum(parcels, 0).sum(axis=0)),
        bounds=(0, 1),
        method="highs",
    )
    # negative effects may stand in the way of any solution: then repair does all
    taken = np.zeros(len(sizes)) if found.x is None else np.asarray(found.x)
    wanted = np.ceil(taken * sizes - 1e-7).astype(np.int64)
    rank = np.arange(len(order)) - starts[parcel]
    return order[rank < wanted[parcel]]


# Plans: which items are left in which baskets, and what each plan costs in other rules.


@dataclass(frozen=True, eq=False)
class RemovalPlan:
    """What is left of the candidates' baskets, and what it costs."""

    left: Flags  # which items of sensitive rules are left in the candidates' baskets
    lost: Ints  # how many baskets each itemset lost
    n_lost: int  # how many rules are lost
    n_left: int  # how many cells are left: fewer edits break ties

    @property
    def badness(self) -> tuple[int, int]:
        """A key that sorts by fewest lost rules, then fewest edits."""
        return self.n_lost, -self.n_left


class RemovalPlanner:
    """Makes plans that hide all rules, and counts exactly what they lose."""

    def __init__(self, sensitive: SensitiveRules, impact: Impact) -> None:
        self.sensitive = sensitive
        self.impact = impact
        self.candidates = CandidateBaskets.of(sensitive)
        self.everywhere = np.arange(len(self.candidates.rows))
        impact.expect(self.candidates.rows, self.candidates.items)
        has = self.candidates.has
        self.untouched = RemovalPlan(
            has, np.zeros_like(impact.support), 0, int(np.count_nonzero(has))
        )

    def solved(self, base: RemovalPlan, part: Ints, costs: Floats, modes: Flags) -> RemovalPlan:
        """Hide all rules by the cheapest removals from a part of the baskets."""
        left = base.left.copy()
        left[self.chosen(base, part, costs, modes)] = False
        self._repair(left, part, costs)
        return self.measured(left, base)

    def chosen(
        self, base: RemovalPlan, part: Ints, costs: Floats, modes: Flags
    ) -> tuple[Ints, Ints]:
        """Return the cheapest removals, as places and columns, that bring all rules down."""
        needs = self._needs(base.left, modes)
        return cover(self.candidates, base.left, part, costs, modes, needs)

    def measured(self, left: Flags, near: RemovalPlan) -> RemovalPlan:
        """Count what is lost, starting from a plan that differs only in some baskets."""
        changed = self.candidates.rows[(left != near.left).any(axis=1)]
        lost = near.lost - self.impact.lost(self.kept(near.left), changed)
        lost += self.impact.lost(self.kept(left), changed)
        n_lost = self.impact.n_lost(self.impact.support - lost)
        return RemovalPlan(left, lost, n_lost, int(np.count_nonzero(left)))

    def costs(
        self, base: RemovalPlan, near: RemovalPlan, part: Ints, sharpness: float, dying: str
    ) -> Floats:
        """Compute what each removal from a part of the baskets costs, near another plan."""
        support = self.impact.support
        weight = self.impact.weight(support - base.lost, support - near.lost, sharpness, dying)
        rows = self.candidates.rows[part]
        return self.impact.costs(self.kept(base.left), rows, weight, self.candidates.items)

    def by_confidence(self, left: Flags) -> Flags:
        support = [self.candidates.count(left, r)[0] for r in range(len(self.sensitive))]
        return np.array(support) >= self.sensitive.limit

    def kept(self, left: Flags) -> Flags:
        """Return the same as a mask over all cells of the baskets."""
        kept = np.ones(len(self.sensitive.baskets.items), dtype=bool)
        kept[self.candidates.cell[self.candidates.has & ~left]] = False
        return kept

    def _needs(self, left: Flags, modes: Flags) -> Floats:
        """Return how far each rule still is from being hidden in its way."""
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

    def _repair(self, left: Flags, part: Ints, costs: Floats) -> None:
        """Remove an item of the consequent, cheapest first, until every rule is hidden."""
        price = np.full(left.shape, np.inf)
        price[part] = costs
        rules = range(len(self.sensitive))
        while visible := [
            r for r in rules if not self.sensitive.hidden(r, *self.candidates.count(left, r))
        ]:
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


_SHARPNESS = (1.0, 2.0)
_TILTS = (0.0, 0.2, 0.5)
_DYING = ("give up", "spread", "save")
_STEPS = 20
_PATIENCE = 60  # improvements without success
_WORK = 4e10  # nanoseconds, about, of a whole search: less than a minute


def best(sensitive: SensitiveRules, impact: Impact, rng: np.random.Generator) -> Edits:
    """Return edits that hide all rules and lose as few others as the search finds."""
    search = RemovalSearch(sensitive, impact, rng)
    starts, rounds = search.plan()
    return search.run(starts, rounds)


class RemovalSearch:
    """The search for the removals that lose the fewest rules."""

    def __init__(self, sensitive: SensitiveRules, impact: Impact, rng: np.random.Generator) -> None:
        self.sensitive = sensitive
        self.planner = RemovalPlanner(sensitive, impact)
        self.candidates = self.planner.candidates
        self.rng = rng

    def plan(self) -> tuple[int, int]:
        """Return the numbers of starts and improvements, from the work of one evaluation."""
        impact = self.planner.impact
        share = len(self.candidates.rows) / len(self.sensitive.baskets)
        walk = float(impact.support.sum()) * share
        program = 500.0 * np.count_nonzero(self.candidates.has)
        once = walk + program + 25.0 * len(impact.whole) + 2e7
        starts = int(np.clip(0.55 * _WORK / (_STEPS * once), 3, 4))
        return starts, int(np.clip(0.45 * _WORK / (1.6 * once), 80, 400))

    def run(self, starts: int, rounds: int) -> Edits:
        """Find the best edits by so many starts, and improvements of the best of both kinds."""
        with bar("hiding rules", starts + rounds) as advance:
            stepwise = []  # the plans of the literature, as far as they touch candidates only
            for method in CLASSICAL.values():
                kept = method(self.sensitive, self.rng).kept
                left = self.candidates.has & kept[self.candidates.cell]
                if np.array_equal(self.planner.kept(left), kept):
                    stepwise.append(self.planner.measured(left, self.planner.untouched))
            for number in range(starts):
                stepwise.append(self._stepwise(number))
                advance(1)
            near = [self._near(sharpness) for sharpness in (*_SHARPNESS, 0.5)]
            best = min(
                (self._improved(plans, rounds // 2, advance) for plans in (stepwise, near)),
                key=lambda plan: plan.badness,
            )
        return Edits(self.planner.kept(best.left))

    def _improved(
        self, plans: list[RemovalPlan], rounds: int, advance: Callable[..., None]
    ) -> RemovalPlan:
        """Return the best of some plans, improved until nothing more is found."""
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

    def _near(self, sharpness: float) -> RemovalPlan:
        """Make a plan from scratch: three times at once, each with costs near the one before."""
        everywhere, untouched, found = self.planner.everywhere, self.planner.untouched, []
        reference = untouched
        for dying in ("save", "spread", "give up"):
            costs = self.planner.costs(untouched, reference, everywhere, sharpness, dying)
            modes = cheaper_modes(self.candidates, costs)
            reference = self.planner.solved(untouched, everywhere, costs, modes)
            found.append(reference)
        return min(found, key=lambda plan: plan.badness)

    def _stepwise(self, number: int) -> RemovalPlan:
        everywhere, untouched = self.planner.everywhere, self.planner.untouched
        sharpness = _SHARPNESS[number % len(_SHARPNESS)]
        tilt = self._tilt(0.0 if number < 2 * len(_SHARPNESS) else 0.3)
        costs = self.planner.costs(untouched, untouched, everywhere, sharpness, "save") * tilt
        modes = cheaper_modes(self.candidates, costs)
        return self._steps(untouched, everywhere, modes, _STEPS, sharpness, tilt)

    def _steps(
        self,
        base: RemovalPlan,
        part: Ints,
        modes: Flags,
        steps: int,
        sharpness: float,
        tilt: Floats,
    ) -> RemovalPlan:
        """Choose all removals, make some, and choose the rest again, until all is done."""
        for step in range(steps, 1, -1):
            costs = self.planner.costs(base, base, part, sharpness, "save") * tilt
            place, column = self.planner.chosen(base, part, costs, modes)
            some = self.rng.permutation(len(place))[: -(-len(place) // step)]
            left = base.left.copy()
            left[place[some], column[some]] = False
            base = self.planner.measured(left, base)
        costs = self.planner.costs(base, base, part, sharpness, "save") * tilt
        return self.planner.solved(base, part, costs, modes)

    def _improve(self, best: RemovalPlan) -> RemovalPlan:
        """Restore the items of a part of the baskets and plan it again."""
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

    def _around_rules(self, modes: Flags, tilt: Floats) -> tuple[Ints, Flags, Floats]:
        """Choose baskets of one to three rules, perhaps to fall in another way."""
        count = min(len(self.sensitive), int(self.rng.integers(1, 4)))
        rules = self.rng.choice(len(self.sensitive), size=count, replace=False)
        supporting: Flags = np.any(
            holds(self.candidates.has, self.candidates.in_rule[rules]), axis=1
        )
        if self.rng.random() < 0.3:
            modes[rules] = ~modes[rules]
        if self.rng.random() < 0.5:
            own = self.candidates.in_rule[rules].any(axis=0)
            tilt = np.where(own, self._tilt(2.0), tilt)
        return self._some(supporting, (0.2, 0.5, 1.0)), modes, tilt

    def _some(self, which: Flags, shares: tuple[float, ...]) -> Ints:
        return np.flatnonzero(which & (self.rng.random(len(which)) < self.rng.choice(shares)))

    def _tilt(self, strength: float) -> Floats:
        """Draw random factors for the items: whole items are given up or spared together."""
        return np.exp(strength * self.rng.standard_normal(len(self.candidates.items)))
