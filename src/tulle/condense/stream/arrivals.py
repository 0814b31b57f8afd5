"""The newcomers that a snapshot shows for the first time.

The mean of half a split group is a guess, which can lie where no record ever was. What has joined a
family since it was last shown is none: splits conserve sums, so the difference of the family's sum
now and then is the sum of the newcomers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle.condense.stream.groups import Groups
from tulle.moments import Floats, GroupMoments, Ints


class Means(NamedTuple):
    """Means over some records each, and the largest level that they must satisfy."""

    means: Floats  # (m, d)
    counts: Ints  # (m,)
    levels: Ints  # (m,)

    def natural(self, scales: Floats, location: Floats) -> Means:
        """The same in the units of the encoded columns."""
        return self._replace(means=self.means * scales + location)


class Arrivals(NamedTuple):
    """Families that enough newcomers have joined, and the groups that are shown anew for them."""

    newcomers: Means  # of each family, without those who were shown before
    groups: Means
    families: Ints  # the place of each group's family

    def natural(self, scales: Floats, location: Floats) -> Arrivals:
        """The same in the units of the encoded columns."""
        newcomers, groups = (part.natural(scales, location) for part in self[:2])
        return Arrivals(newcomers, groups, self.families)


def arrivals(newcomers: GroupMoments, shown: Groups, first: Groups) -> Arrivals:
    """Whom a snapshot shows: families with their groups, and groups never shown as one more."""
    families = shown.view().families
    parts = [Means(newcomers.means, newcomers.counts, newcomers.levels)]
    groups = [_means(shown)]
    if len(first):
        whole = first.moments().pooled()
        parts.append(Means(whole.means, whole.counts, whole.levels))
        groups.append(_means(first))
        families = np.concatenate([families, np.full(len(first), len(newcomers.counts))])
    return Arrivals(_stacked(parts), _stacked(groups), families)


def _means(groups: Groups) -> Means:
    used = groups.view()
    return Means(used.means, used.counts, used.levels)


def _stacked(parts: list[Means]) -> Means:
    return Means._make(np.concatenate(part) for part in zip(*parts, strict=True))
