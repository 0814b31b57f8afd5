"""What removals do to the rules that should stay.

The rules are those mined before, with one item in the consequent. A rule is lost when its support
or its confidence falls below the thresholds; its margin is how many baskets it can still lose.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tulle.rules.classes import Classes
from tulle.rules.implications import Implications
from tulle.rules.itemsets import Itemsets, Longs
from tulle.rules.window import Mask
from tulle.transactions import Transactions

Floats = npt.NDArray[np.float64]
_PRECIOUS = 10_000  # rules that an itemset to be kept is worth
_FEW_SETS = 2_000
_SMALL = 20_000_000  # sets times baskets: below, a matrix of truth values serves


class Impact:
    """Counts how itemsets and rules fare when cells are taken out of baskets.

    Parameters
    ----------
    rules
        The rules mined before.
    minimum, confidence
        The thresholds that they were mined with.
    spare
        Rules that may be lost: the sensitive ones.
    precious
        Nodes of itemsets that the user wants to stay frequent: each weighs like many rules.
    """

    def __init__(
        self,
        baskets: Transactions,
        rules: Implications,
        minimum: int,
        confidence: Fraction,
        spare: Mask,
        precious: Longs | None = None,
    ) -> None:
        self.baskets = baskets
        self.minimum = minimum
        self.confidence = confidence
        self.spare = spare
        n_sets = len(rules.itemsets)
        small = n_sets <= _FEW_SETS and n_sets * len(baskets) <= _SMALL
        self.tree: _Tree = (
            _Matrix(baskets, rules.itemsets) if small else _Walk(baskets, rules.itemsets)
        )
        self.whole = self.tree.place[rules.whole]
        self.antecedent = self.tree.place[rules.antecedent]
        self.support = rules.itemsets.support[self.tree.order].astype(np.int64)
        chosen = np.empty(0, dtype=np.int64) if precious is None else precious
        self.precious = self.tree.place[chosen]
        self.itemsets = rules.itemsets
        self.classes: Classes | None = None

    def expect(self, rows: Longs, items: Longs) -> None:
        """Prepares for costs of these items in these baskets, many times over."""
        self.classes = Classes.of(self.baskets, self.itemsets, rows, items)

    def lost(self, kept: Mask, rows: Longs) -> Longs:
        """How many of some baskets no longer support each set."""
        return self.tree.lost(kept, rows)

    def costs(self, kept: Mask, rows: Longs, weight: Floats, items: Longs) -> Floats:
        """For each of some baskets and items: the weight of the sets that go with the item."""
        if self.classes is None:
            return self.tree.costs(kept, rows, weight, items)
        gone = np.concatenate(([0], np.cumsum(~kept)))
        starts = self.baskets.indptr
        edited = gone[starts[rows + 1]] > gone[starts[rows]]
        costs = np.empty((len(rows), len(items)))
        costs[edited] = self.tree.costs(kept, rows[edited], weight, items)
        costs[~edited] = self.classes.costs(rows[~edited], weight[self.tree.place])
        return costs

    def n_lost(self, support: Longs) -> int:
        """Number of rules, sensitive ones aside, that supports like these lose."""
        broken = int(np.count_nonzero(support[self.precious] < self.minimum))
        lost = np.count_nonzero((self._margin(support)[0] < 0) & ~self.spare)
        return int(lost) + _PRECIOUS * broken

    def weight(self, support: Longs, reference: Longs, sharpness: float, dying: str) -> Floats:
        """What one basket less of each set costs, near a reference solution.

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

    def _margin(self, support: Longs) -> tuple[Floats, Mask]:
        over, under = self.confidence.numerator, self.confidence.denominator
        by_support = support[self.whole] - self.minimum
        by_confidence: Floats = (
            support[self.whole] * under - over * support[self.antecedent]
        ) / under
        margin = np.minimum(by_confidence, by_support.astype(np.float64))
        return margin, by_confidence < by_support


class _Walk:
    """Walks over the tree of itemsets, basket by basket (kernels)."""

    def __init__(self, baskets: Transactions, itemsets: Itemsets) -> None:
        from tulle.rules._impact_kernels import preorder

        self.baskets = baskets
        self.order, self.after = preorder(itemsets.parent)
        self.place = np.empty(len(itemsets), dtype=np.int64)
        self.place[self.order] = np.arange(len(itemsets))
        self.item = itemsets.item[self.order].astype(np.int64)
        roots = self.place[np.flatnonzero(itemsets.parent == 0)]
        self.single = np.full(len(baskets.names), -1, dtype=np.int64)
        self.single[self.item[roots]] = roots

    def lost(self, kept: Mask, rows: Longs) -> Longs:
        from tulle.rules._impact_kernels import lost_supports

        b = self.baskets
        return lost_supports(
            b.indptr, b.items, kept, rows, self.item, self.after, self.single, len(b.names)
        ).astype(np.int64)

    def costs(self, kept: Mask, rows: Longs, weight: Floats, items: Longs) -> Floats:
        from tulle.rules._impact_kernels import removal_costs

        b = self.baskets
        column = np.full(len(b.names), -1, dtype=np.int64)
        column[items] = np.arange(len(items))
        return removal_costs(
            b.indptr, b.items, kept, rows, self.item, self.after, self.single, len(b.names),
            weight, column, len(items),
        )  # fmt: skip


class _Matrix:
    """The same by a truth value for each itemset and basket: for small data, and the oracle."""

    def __init__(self, baskets: Transactions, itemsets: Itemsets) -> None:
        self.baskets = baskets
        self.itemsets = itemsets
        self.order = self.place = np.arange(len(itemsets))
        indptr, codes = itemsets.rows
        owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
        self.members = np.zeros((len(itemsets), len(baskets.names)), dtype=bool)
        self.members[owner, codes] = True

    def lost(self, kept: Mask, rows: Longs) -> Longs:
        before = self._holds(np.ones_like(kept), rows)
        return np.count_nonzero(before & ~self._holds(kept, rows), axis=1)

    def costs(self, kept: Mask, rows: Longs, weight: Floats, items: Longs) -> Floats:
        holds = self._holds(kept, rows)
        return holds.T.astype(np.float64) @ (weight[:, None] * self.members[:, items])

    def _holds(self, kept: Mask, rows: Longs) -> Mask:
        """Which set (rows of the result) each basket (columns) holds."""
        place = np.full(len(self.baskets), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        cells = np.flatnonzero(kept & (place[self.baskets.row_of] >= 0))
        has = np.zeros((len(self.baskets.names), len(rows)), dtype=bool)
        has[self.baskets.items[cells], place[self.baskets.row_of[cells]]] = True
        holds = np.ones((len(self.itemsets), len(rows)), dtype=bool)
        for node in range(1, len(self.itemsets)):
            holds[node] = holds[self.itemsets.parent[node]] & has[self.itemsets.item[node]]
        return holds


_Tree = _Walk | _Matrix
