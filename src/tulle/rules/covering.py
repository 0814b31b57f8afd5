"""Hiding as a covering problem: which removals hide all rules at the least cost.

A rule that falls by support needs so many of its baskets broken. A rule that falls by confidence
c needs ``support - c * antecedent`` below zero, so a removal counts 1 if it takes an item of the
consequent, 1 - c if it takes one of the antecedent, and -c if it takes one of the antecedent
from a basket that does not hold the consequent. Both are linear: a linear program chooses. Its
basic solutions have at most as many fractional removals as there are rules; they are rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tulle.rules.impact import Floats
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.rules.window import Mask

_PARCELS = 50


@dataclass(eq=False)
class Candidates:
    """Baskets from which items of sensitive rules may go, as small matrices of truth values.

    Matrices over (basket, item) speak of ``rows`` and ``items``, the items of all rules.
    ``antecedents`` is the support of each rule's antecedent in all baskets, as they came.
    """

    sensitive: Sensitive
    rows: Longs
    items: Longs
    cell: Longs  # place of each (basket, item) among the cells, -1 if the basket lacks the item
    in_rule: Mask  # [rule, item]
    in_antecedent: Mask
    antecedents: Longs

    @classmethod
    def of(cls, sensitive: Sensitive, most: int = 60_000) -> Candidates:
        """All supporting baskets; of very many, the shortest, which take least with them."""
        rows = _supporting(sensitive, most)
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
    def has(self) -> Mask:
        """Which basket holds which item, as they came."""
        return self.cell >= 0

    def count(self, left: Mask, r: int) -> tuple[int, int]:
        """Supports of a rule and of its antecedent, given which items are left in the baskets."""
        whole = left[:, self.in_rule[r]].all(axis=1)
        head = left[:, self.in_antecedent[r]].all(axis=1)
        return (
            int(self._outside[0][r] + np.count_nonzero(whole)),
            int(self._outside[1][r] + np.count_nonzero(head)),
        )

    @cached_property
    def _outside(self) -> tuple[Longs, Longs]:
        """Supports of rules and antecedents among all baskets that are no candidates."""
        inside = np.count_nonzero(holds(self.has, self.in_rule), axis=0)
        heads = np.count_nonzero(holds(self.has, self.in_antecedent), axis=0)
        return self.supports - inside, self.antecedents - heads

    @cached_property
    def supports(self) -> Longs:
        """Support of each rule, as the baskets came."""
        return np.array([len(rows) for rows in self.sensitive.rows], dtype=np.int64)


def holds(left: Mask, members: Mask) -> Mask:
    """Which basket holds all items of which set."""
    return np.stack([left[:, wanted].all(axis=1) for wanted in members], axis=1)


def cheaper_modes(candidates: Candidates, costs: Floats) -> Mask:
    """For each rule, whether falling by confidence costs less than falling by support."""
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
    candidates: Candidates, left: Mask, part: Longs, costs: Floats, modes: Mask, needs: Floats
) -> tuple[Longs, Longs]:
    """The removals (basket, column) that meet all needs at least cost.

    Baskets are places among the candidates' rows, of which only those of ``part`` may change;
    ``costs`` has a row for each of them. Needs that they cannot meet are met as far as they
    can; whoever calls repairs the rest.
    """
    whole = holds(left[part], candidates.in_rule)
    useful = whole[:, needs > 0].astype(np.int32) @ candidates.in_rule[needs > 0].astype(np.int32)
    place, column = np.nonzero(useful)
    if len(place) == 0:
        return place, column
    effect = _effects(candidates, left[part], whole, place, column, modes)
    cost = np.maximum(costs[place, column], 0.0) + 1e-6
    kind = _kinds(effect)
    first = _cheapest_of_equal(place, kind, cost)
    open_ = np.flatnonzero(needs > 0)
    chosen = first[_solve(cost[first], effect[np.ix_(first, open_)], kind[first], needs[open_])]
    return part[place[chosen]], column[chosen]


def _effects(
    candidates: Candidates, left: Mask, whole: Mask, place: Longs, column: Longs, modes: Mask
) -> Floats:
    """How far each removal brings each rule; see the head of this file."""
    effect = (whole[place] & candidates.in_rule[:, column].T).astype(np.float64)
    head = holds(left, candidates.in_antecedent)[place] & candidates.in_antecedent[:, column].T
    for r in np.flatnonzero(modes).tolist():
        effect[head[:, r], r] -= float(candidates.sensitive.confidence[r] or 0)
    return effect


def _cheapest_of_equal(place: Longs, kind: Longs, cost: Floats) -> Longs:
    """Of removals from the same basket with the same effect, only the cheapest is of use."""
    order = np.lexsort((cost, kind, place))
    same = (place[order][1:] == place[order][:-1]) & (kind[order][1:] == kind[order][:-1])
    return order[np.concatenate(([True], ~same))] if len(order) else order


def _kinds(effect: Floats) -> Longs:
    """Numbers the different effects."""
    mixed = effect @ np.random.default_rng(0).standard_normal(effect.shape[1])
    return np.unique(mixed, return_inverse=True)[1].reshape(-1)


def _solve(cost: Floats, effect: Floats, kind: Longs, needs: Floats) -> Longs:
    """Which removals to choose.

    Removals of one effect differ in cost only, so the cheapest go first; the program need not
    see each of them, only some dozen parcels of about equal cost for each effect.
    """
    order = np.lexsort((cost, kind))
    parcel = _parcels(kind[order])
    sizes = np.bincount(parcel)
    starts = np.cumsum(sizes) - sizes
    mean = np.bincount(parcel, cost[order]) / sizes
    taken = _program(mean * sizes, effect[order][starts] * sizes[:, None], needs)
    wanted = np.ceil(taken * sizes - 1e-7).astype(np.int64)
    rank = np.arange(len(order)) - starts[parcel]
    return order[rank < wanted[parcel]]


def _parcels(kind: Longs) -> Longs:
    """Cuts each run of one kind into at most so many parcels; numbers them in order."""
    counts = np.bincount(kind)
    rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
    pieces = np.minimum(counts, _PARCELS)
    within = rank * pieces[kind] // counts[kind]
    return (np.cumsum(pieces) - pieces)[kind] + within


def _program(cost: Floats, effect: Floats, needs: Floats) -> Floats:
    """The share of each parcel to take: least cost such that all needs are met."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    most = np.maximum(effect, 0).sum(axis=0)
    found = linprog(
        cost,
        A_ub=csr_array(-effect.T),
        b_ub=-np.minimum(needs, most),
        bounds=(0, 1),
        method="highs",
    )
    # negative effects may stand in the way of any solution: then repair does all
    return np.zeros(len(cost)) if found.x is None else np.asarray(found.x)


def _supporting(sensitive: Sensitive, most: int) -> Longs:
    rows = np.unique(np.concatenate(sensitive.rows))
    if len(rows) <= most:
        return rows
    lengths = sensitive.baskets.lengths
    share = most // len(sensitive)
    few = []
    for own, quota in zip(sensitive.rows, sensitive.quota):
        order = np.argsort(lengths[own], kind="stable")
        few.append(own[order][: max(share, 2 * int(quota))])
    return np.unique(np.concatenate(few))
