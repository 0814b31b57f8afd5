"""Two condensed tables as one: their groups side by side, on the scales of both together."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tulle.condense.levels import join_summaries
from tulle.condense.statistics import refuse_beyond_floats, rescaled
from tulle.errors import ParameterError
from tulle.random import spawn

if TYPE_CHECKING:
    from tulle.condense.condenser import Condenser


def merge(first: Condenser, second: Condenser) -> Condenser:
    """A condenser with the groups of both; both stay as they are."""
    if not isinstance(second, type(first)):
        raise ParameterError(f"a Condenser merges with another, not with a {type(second).__name__}")
    if second is first:
        raise ParameterError(
            "a condenser does not merge with itself: every record would count twice"
        )
    check_is_fitted(first, "moments_")
    check_is_fitted(second, "moments_")
    scales = first._encoder.scales, second._encoder.scales
    refuse_beyond_floats(*scales)
    encoder, *ways = first._encoder.united(second._encoder)
    mine, theirs = (
        way.moved(rescaled(part.moments_, units))
        for way, part, units in zip(ways, (first, second), scales)
    )
    moments = mine.stacked(theirs)
    encoder.rescale(np.diagonal(moments.pooled().covariances[0]))

    merged = copy.deepcopy(first)
    merged._rng = spawn(first._rng, 1)[0]  # what one of them draws, the other must not draw again
    merged._encoder = encoder
    merged.level_summary_ = join_summaries(first.level_summary_, second.level_summary_)
    merged.n_suppressed_ = first.n_suppressed_ + second.n_suppressed_
    merged._store(rescaled(moments, 1 / encoder.scales))
    return merged
