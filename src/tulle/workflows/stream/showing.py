"""What may be told of the groups: of those that snapshots show, not of the stream's own.

One newcomer can make a group split while snapshots still hold it back: the bytes of the next one
stay the same, and what is said beside them must stay the same, too.
"""

from __future__ import annotations

import numpy as np

from tulle.condense.stream import StreamCondenser
from tulle.moments import Ints


def sizes_told(counts: Ints) -> dict[str, int]:
    """How many groups there are, and how large."""
    return {
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "largest_group": int(counts.max()),
    }


def shown_sizes(condenser: StreamCondenser, policy: str) -> dict[str, int]:
    """The same of the groups that the last snapshot shows."""
    return sizes_told(_shown(condenser, policy)[0])


def shown_small(condenser: StreamCondenser, policy: str) -> int:
    """Groups shown with fewer members than a level in them."""
    counts, levels = _shown(condenser, policy)
    return int((counts < levels).sum())


def _shown(condenser: StreamCondenser, policy: str) -> tuple[Ints, Ints]:
    """Sizes and largest levels of the groups shown; with the policy "all", of all groups."""
    if policy != "bounded":
        return condenser.counts_, condenser.levels_
    published = [state.published for state in condenser._states.values()]
    views = [part.shown.view() for part in published if part is not None]
    return (
        np.concatenate([view.counts for view in views]),
        np.concatenate([view.levels for view in views]),
    )
