"""Small functions of the statistics of groups."""

from __future__ import annotations

import os

from tulle._moments import GroupMoments
from tulle._types import Floats
from tulle.errors import DataError

_LARGEST = 1e140  # deviation whose square is far from overflowing


def information_loss(moments: GroupMoments) -> float:
    """Return 100 SSQ / SST: the share of the variation that groups do not keep."""
    total = float(moments.pooled().within.sum())
    return 100.0 * float(moments.within.sum()) / total if total > 0 else 0.0


def rescaled(moments: GroupMoments, ratio: Floats) -> GroupMoments:
    """Return the same statistics with each dimension multiplied."""
    return GroupMoments(
        moments.counts,
        moments.means * ratio,
        moments.scatters * ratio[:, None] * ratio,
        moments.levels,
        moments.level_sums,
    )


def refuse_beyond_floats(*scales: Floats) -> None:
    """Refuse columns whose squares overflow floating point."""
    beyond = sum(int(((part > _LARGEST) | (part < 1 / _LARGEST)).sum()) for part in scales)
    if beyond:
        raise DataError(
            f"the numbers of {beyond} columns are too far apart, or too close together, for their "
            "squares to be computed: change their unit"
        )


def refuse_beyond_memory(n_groups: int, dimensions: int) -> None:
    """Refuse covariances that would fill most of the machine's memory, before they do."""
    needed = 8 * n_groups * dimensions**2
    if needed > 0.6 * _memory():
        raise DataError(
            f"the covariances of {n_groups} groups in {dimensions} dimensions need "
            f"{needed / 1e9:.1f} GB, more than this machine has to spare: raise k, or leave out "
            "columns with many categories"
        )


def _memory() -> float:
    """Return the bytes of memory, or infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")
