"""Small functions of the statistics of groups."""

from __future__ import annotations

from tulle.moments import Floats, GroupMoments


def information_loss(moments: GroupMoments) -> float:
    """100 SSQ / SST: the share of the variation that groups do not keep."""
    total = float(moments.pooled().within.sum())
    return 100.0 * float(moments.within.sum()) / total if total > 0 else 0.0


def rescaled(moments: GroupMoments, ratio: Floats) -> GroupMoments:
    """The same statistics with each dimension multiplied."""
    return GroupMoments(
        moments.counts,
        moments.means * ratio,
        moments.scatters * ratio[:, None] * ratio,
        moments.levels,
        moments.level_sums,
    )
