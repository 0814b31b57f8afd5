"""Which groups a snapshot may show anew.

Whoever holds two snapshots can subtract them. If one record arrived in between and its group's
new statistics are shown, the difference *is* that record. So a published group, with all that has
split off it since (its family), keeps showing its old statistics until at least as many records
have joined the family as the largest level in it asks for. Then the difference of two snapshots
is a sum over a valid group of newcomers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle.condense.stream.groups import UNPUBLISHED, GroupArrays, Groups
from tulle.errors import PrivacyError
from tulle.moments import Ints


class Change(NamedTuple):
    """What a snapshot shows beyond the one before; the first shows everything."""

    changed: int  # published groups that are shown anew
    fewest: int | None  # the fewest newcomers behind such a change
    held_back: int  # condensed records that are not shown yet
    fresh: int  # groups whose statistics were never shown before

    @classmethod
    def total(cls, parts: list[Change]) -> Change:
        """The changes of several classes together."""
        fewest = [part.fewest for part in parts if part.fewest is not None]
        return cls(
            sum(part.changed for part in parts),
            min(fewest, default=None),
            sum(part.held_back for part in parts),
            sum(part.fresh for part in parts),
        )


def publish(groups: Groups, published: Groups | None) -> tuple[Groups, Change]:
    """What the next snapshot shows; ``groups`` remember which published group they come from."""
    used = groups.view()
    if published is None:
        used.families[:] = UNPUBLISHED
        published = Groups(groups.dimensions)
    newcomers, levels = _newcomers(used, published)
    ripe = newcomers >= np.maximum(levels, 1)
    kept = np.flatnonzero(~ripe)
    places = np.full(len(published) + 1, UNPUBLISHED)  # the last entry serves family -1
    places[kept] = np.arange(len(kept))
    used.families[:] = places[used.families]
    fresh = np.flatnonzero(used.families == UNPUBLISHED)
    used.families[fresh] = len(kept) + np.arange(len(fresh))
    shown = _joined(groups.dimensions, published.view(), kept, used, fresh)
    held_back = int(used.counts.sum() - shown.view().counts.sum())
    if held_back != newcomers[kept].sum():
        raise PrivacyError("the snapshot does not add up to the groups: nothing is released")
    changed = newcomers[ripe]
    fewest = int(changed.min()) if len(changed) else None
    return shown, Change(len(changed), fewest, held_back, len(fresh))


def _newcomers(used: GroupArrays, published: Groups) -> tuple[Ints, Ints]:
    """For each published group, who joined its family since, and the largest level in it."""
    families = len(published)
    known = used.families >= 0
    totals = np.bincount(
        used.families[known], weights=used.counts[known], minlength=families
    ).astype(np.int64)
    levels = np.zeros(families, dtype=np.int64)
    np.maximum.at(levels, used.families[known], used.levels[known])
    return totals - published.view().counts, levels


def _joined(dimensions: int, old: GroupArrays, kept: Ints, new: GroupArrays, fresh: Ints) -> Groups:
    joined = Groups(dimensions, capacity=max(1, len(kept) + len(fresh)))
    joined.size = len(kept) + len(fresh)
    for target, before, now in zip(joined.arrays, old, new, strict=True):
        target[: len(kept)] = before[kept]
        target[len(kept) : joined.size] = now[fresh]
    return joined
