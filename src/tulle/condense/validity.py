"""The invariant of condensation: no group is smaller than the level of a record in it."""

from __future__ import annotations

import numpy as np

from tulle.errors import PrivacyError
from tulle.moments import GroupMoments, Ints


def check_groups(groups: Ints, levels: Ints) -> None:
    """Refuses a grouping that breaks the invariant; counts groups, shows no record."""
    sizes = np.bincount(groups)
    demands = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(demands, groups, levels)
    small = int((sizes < demands).sum())
    if small:
        raise PrivacyError(
            f"{small} of {len(sizes)} groups are smaller than the level of a record in them: "
            "nothing is released"
        )


def check_moments(moments: GroupMoments) -> None:
    """Refuses statistics of groups that break the invariant: once more, before anything leaves."""
    small = int((moments.counts < moments.levels).sum())
    if small:
        raise PrivacyError(
            f"{small} groups are smaller than the level of a record in them: nothing is released. "
            "Fit again"
        )


def check_feasible(levels: Ints) -> None:
    """Refuses levels that no grouping of these records can meet."""
    if len(levels) and levels.max() > len(levels):
        asking = int((levels > len(levels)).sum())
        raise PrivacyError(
            f"{asking} of {len(levels)} records ask for a group of up to {levels.max()}, more than "
            "there are records: lower their level, add records, or suppress them"
        )
