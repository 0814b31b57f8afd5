"""The newcomers that a snapshot shows for the first time.

The mean of half a split group is a guess, which can lie where no record ever was. What has joined a
family since it was last shown is none: splits conserve sums, so the difference of the family's sum
now and then is the sum of the newcomers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle.condense.stream.groups import Groups
from tulle.moments import Floats, Ints


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


def arrivals(groups: Groups, published: Groups | None) -> Arrivals:
    """Whom the next snapshot shows; groups that were never shown are one family, the last."""
    used = groups.view()
    before = (published or Groups(groups.dimensions)).view()
    known = len(before.counts)
    if published is None:
        families = np.zeros(len(groups), dtype=np.int64)
    else:
        families = np.where(used.families < 0, known, used.families)
    counts = np.bincount(families, used.counts, minlength=known + 1).astype(np.int64)
    counts[:known] -= before.counts
    levels = np.zeros(known + 1, dtype=np.int64)
    np.maximum.at(levels, families, used.levels)
    sums = np.zeros((known + 1, groups.dimensions))
    np.add.at(sums, families, used.counts[:, None] * used.means)
    sums[:known] -= before.counts[:, None] * before.means
    ripe = counts >= np.maximum(levels, 1)
    fresh = ripe[families]
    return Arrivals(
        Means(sums[ripe] / counts[ripe, None], counts[ripe], levels[ripe]),
        Means(used.means[fresh], used.counts[fresh], used.levels[fresh]),
        (np.cumsum(ripe) - 1)[families[fresh]],
    )
