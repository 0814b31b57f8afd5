"""Supports of sensitive rules in edited baskets, kept up to date from the inverted file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tulle.rules.edits import Edits
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.transactions import Transactions
from tulle.transactions.baskets import _among


class EditedCounts:
    """Counts sets in baskets of which some cells are gone or were added."""

    def __init__(self, sensitive: Sensitive, edits: Edits) -> None:
        self.baskets = sensitive.baskets
        self.edits = edits

    def rows(self, items: Iterable[int]) -> Longs:
        """Baskets that hold all of some items, ascending."""
        lists = sorted((self._rows_of(item) for item in items), key=len)
        found = lists[0]
        for other in lists[1:]:
            found = found[_among(found, other)]
        return found

    def _rows_of(self, item: int) -> Longs:
        cells = self.baskets.cells(item)
        rows = self.baskets.row_of[cells[self.edits.kept[cells]]]
        more = self.edits.added_rows[self.edits.added_items == item]
        return np.union1d(rows, more) if len(more) else rows

    def visible(self, sensitive: Sensitive, r: int) -> bool:
        """Whether a rule can still be mined."""
        support = len(self.rows(sensitive.whole[r]))
        return not sensitive.hidden(r, support, len(self.rows(sensitive.antecedent[r])))


def count_sets(baskets: Transactions, itemsets: Sequence[Sequence[int]]) -> list[int]:
    """Supports of some itemsets, counted afresh on the rows; one pass over the cells."""
    wanted = sorted({item for items in itemsets for item in items})
    wide = len(wanted) >= 2**16  # 16 bits are sorted by counting
    table: Any = np.full(len(baskets.names), len(wanted), dtype=np.int64 if wide else np.uint16)
    table[wanted] = np.arange(len(wanted))
    local = table[baskets.items]
    cells = np.flatnonzero(local < len(wanted))
    rows = baskets.row_of[cells]
    order = np.argsort(local[cells], kind="stable")
    borders = np.searchsorted(local[cells[order]], np.arange(len(wanted) + 1))
    held: list[npt.NDArray[np.uint8]] = []
    for begin, end in pairwise(borders.tolist()):
        mask = np.zeros(len(baskets), dtype=bool)
        mask[rows[order[begin:end]]] = True
        held.append(np.packbits(mask))
    return [
        int(np.bitwise_count(_common(held, table[list(items)].tolist())).sum())
        for items in itemsets
    ]


def _common(held: list[npt.NDArray[np.uint8]], places: list[int]) -> npt.NDArray[np.uint8]:
    common = held[places[0]]
    for place in places[1:]:
        common = common & held[place]
    return common
