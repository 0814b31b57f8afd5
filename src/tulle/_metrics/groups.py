"""Groups by size and level: the guarantee in figures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def group_facts(sizes: ArrayLike, levels: ArrayLike | None = None) -> dict[str, int]:
    """Count the groups: how many, the smallest, the median, how many are smaller than their level.

    >>> group_facts([5, 7, 3], [5, 5, 4])
    {'groups': 3, 'smallest_group': 3, 'median_group': 5, 'undersized_groups': 1}
    """
    counts = np.asarray(sizes, dtype=np.int64)
    needed = np.ones_like(counts) if levels is None else np.asarray(levels, dtype=np.int64)
    return {
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "median_group": int(np.median(counts)),
        "undersized_groups": int((counts < needed).sum()),
    }


def group_rows(sizes: ArrayLike, levels: ArrayLike | None = None) -> list[dict[str, Any]]:
    """Return rows for the chart 'groups' of a report: size, level, number of groups, records."""
    counts = np.asarray(sizes, dtype=np.int64)
    needed = np.ones_like(counts) if levels is None else np.asarray(levels, dtype=np.int64)
    kinds, times = np.unique(np.column_stack([counts, needed]), axis=0, return_counts=True)
    return [
        {"size": int(size), "level": int(level), "groups": int(n), "count": int(size * n)}
        for (size, level), n in zip(kinds, times)
    ]
