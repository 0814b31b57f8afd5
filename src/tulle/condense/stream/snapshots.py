"""Which groups a snapshot may show anew.

Whoever holds two snapshots can subtract them. If one record arrived in between and its group's
new statistics are shown, the difference *is* that record. So a published group, with all that has
split off it since (its family), keeps showing its old statistics until at least as many records
have joined the family as the largest level in it asks for. Then the difference of two snapshots
is a sum over a valid group of newcomers.
"""

from __future__ import annotations

import numpy as np

from tulle.condense.stream.groups import UNPUBLISHED, GroupArrays, Groups
from tulle.moments import Ints


def publish(groups: Groups, published: Groups | None) -> Groups:
    """What the next snapshot shows; ``groups`` remember which published group they come from."""
    used = groups.view()
    if published is None:
        used.families[:] = UNPUBLISHED
        published = Groups(groups.dimensions)
    kept = np.flatnonzero(~_ripe(used, published))
    places = np.full(len(published) + 1, UNPUBLISHED)  # the last entry serves family -1
    places[kept] = np.arange(len(kept))
    used.families[:] = places[used.families]
    fresh = np.flatnonzero(used.families == UNPUBLISHED)
    used.families[fresh] = len(kept) + np.arange(len(fresh))
    return _joined(groups.dimensions, published.view(), kept, used, fresh)


def held_back(groups: Groups, published: Groups) -> int:
    """How many condensed records the published statistics do not show yet."""
    return int(groups.view().counts.sum() - published.view().counts.sum())


def _ripe(used: GroupArrays, published: Groups) -> np.ndarray:
    """Families that received at least their level of new records."""
    families = len(published)
    known = used.families >= 0
    totals = np.bincount(
        used.families[known], weights=used.counts[known], minlength=families
    ).astype(np.int64)
    levels = np.zeros(families, dtype=np.int64)
    np.maximum.at(levels, used.families[known], used.levels[known])
    newcomers: Ints = totals - published.view().counts
    return newcomers >= np.maximum(levels, 1)


def _joined(dimensions: int, old: GroupArrays, kept: Ints, new: GroupArrays, fresh: Ints) -> Groups:
    joined = Groups(dimensions, capacity=max(1, len(kept) + len(fresh)))
    joined.size = len(kept) + len(fresh)
    for target, before, now in zip(joined.arrays, old, new, strict=True):
        target[: len(kept)] = before[kept]
        target[len(kept) : joined.size] = now[fresh]
    return joined
