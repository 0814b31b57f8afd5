"""What a hiding method decided: cells that go, cells that come, cells left open."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tulle.rules.itemsets import Longs
from tulle.rules.window import Mask
from tulle.transactions import Transactions


def _none() -> Longs:
    return np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Edits:
    """Edits of baskets: lives only while a release is made, and is never written.

    ``kept`` and ``blocked`` are masks over the cells of the baskets (blocked ones become
    unknown); the added cells are pairs of row and item, as are the blocked cells where the
    basket did not hold the item.
    """

    kept: Mask
    added_rows: Longs = field(default_factory=_none)
    added_items: Longs = field(default_factory=_none)
    blocked: Mask | None = None
    open_rows: Longs = field(default_factory=_none)
    open_items: Longs = field(default_factory=_none)

    @classmethod
    def none(cls, baskets: Transactions) -> Edits:
        """No edit yet."""
        return cls(np.ones(len(baskets.items), dtype=bool))

    def apply(self, baskets: Transactions) -> Transactions:
        """The edited baskets."""
        if self.blocked is not None:
            return self._with_unknown(baskets)
        released = baskets.keeping(self.kept)
        if len(self.added_rows):
            released = released.adding(self.added_rows, self.added_items)
        return released

    def _with_unknown(self, baskets: Transactions) -> Transactions:
        assert self.blocked is not None
        sure = baskets.keeping(self.kept & ~self.blocked)
        unknown = baskets.keeping(self.blocked).adding(self.open_rows, self.open_items)
        return Transactions(sure.indptr, sure.items, sure.names, unknown)

    def n_touched(self, baskets: Transactions) -> int:
        """Baskets in which any cell changed."""
        touched = np.zeros(len(baskets), dtype=bool)
        changed = ~self.kept if self.blocked is None else ~self.kept | self.blocked
        touched[baskets.row_of[changed]] = True
        touched[self.added_rows] = True
        touched[self.open_rows] = True
        return int(np.count_nonzero(touched))
