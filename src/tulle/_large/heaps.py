"""Records that are too much alike to be cut apart, and too many for memory: divided at random.

Which part a record goes to follows from what it is, so that the order in which records came does
not matter; those that are equal in everything are dealt out, and it does not matter which goes
where. All records of a person go to one part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tulle._large.facts import Keys, mixed
from tulle._large.layout import Records, record_keys
from tulle._large.plan import CellPlan, JoinedLeaves
from tulle._large.spill import Spill
from tulle._types import Ints

_TOO_MANY = 1.5  # times as many records as fit: a leaf may have so many more than it should
_ROOM = 8  # times the highest level: the fewest people in a part
_ROWS = 50_000  # read at a time


def divided(
    plan: CellPlan, found: list[JoinedLeaves], spill: Spill, most: int
) -> list[JoinedLeaves]:
    """Return what is condensed together: about ``most`` records or fewer, if levels allow it."""
    cells = []
    for one in found:
        parts = min(round(one.records / most), one.people // (_ROOM * one.level))
        if one.records > _TOO_MANY * most and parts > 1:
            cells += _dealt_out(plan, one, parts, spill)
        else:
            cells.append(one)
    return cells


def _dealt_out(plan: CellPlan, heap: JoinedLeaves, parts: int, spill: Spill) -> list[JoinedLeaves]:
    """Write the records of a heap once more, each to its part."""
    persons = plan.person is not None

    def pieces() -> Iterator[tuple[Records, Keys]]:
        for records in spill.pieces(heap.leaves, _ROWS):
            if persons:
                yield records, records["person"]
            else:  # equal keys: equal in everything
                words = record_keys(records, plan.seed[0]) ^ records["level"].astype(np.uint64)
                yield records, mixed(words, plan.seed[1])

    keys = np.concatenate([found for _, found in pieces()])
    deal = Deal(np.unique(keys) if persons else np.sort(keys), parts)
    leaves, sizes = spill.more(parts), np.zeros(parts, dtype=np.int64)
    for records, found in pieces():
        places = deal.parts_of(found)
        spill.add(records, leaves[places])
        sizes += np.bincount(places, minlength=parts)
    spill.flush()
    people = heap.people // parts
    return [
        JoinedLeaves(heap.unit, leaves[part : part + 1], size, people, heap.level)
        for part, size in enumerate(sizes.tolist())
    ]


class Deal:
    """Which part a record goes to, by its key: equally many keys to each.

    Parameters
    ----------
    keys : ndarray of uint64
        In order. A key that is there several times can be in two parts or more.
    parts : int
        How many parts there are.
    """

    def __init__(self, keys: Keys, parts: int) -> None:
        self._keys = keys
        self._ends = len(keys) * np.arange(1, parts) // parts
        across = keys[self._ends][keys[self._ends] == keys[self._ends - 1]]
        self._seen = dict.fromkeys(across.tolist(), 0)  # how many records with such a key

    def parts_of(self, keys: Keys) -> Ints:
        """Return the part of each record; those with equal keys fill one part after the other."""
        ranks = np.searchsorted(self._keys, keys)
        for key, seen in self._seen.items():
            equal = np.flatnonzero(keys == np.uint64(key))
            ranks[equal] += seen + np.arange(len(equal))
            self._seen[key] += len(equal)
        return np.searchsorted(self._ends, ranks, side="right")
