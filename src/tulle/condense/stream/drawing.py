"""Pseudo-data of a stream, from the statistics that it may show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tulle.condense.joint import JointEncoder
from tulle.condense.stream.groups import Groups
from tulle.condense.synthesis import synthesize
from tulle.moments import Floats, GroupMoments, Ints
from tulle.tables.quotas import allot


def draw(
    encoder: JointEncoder,
    location: Floats,
    shown: list[Groups],
    rng: np.random.Generator,
    *,
    distribution: str,
    n_samples: int | None,
) -> tuple[Any, Ints]:
    """New records in random order, and for each the place of its groups in ``shown``."""
    moments = stacked([groups.moments() for groups in shown])
    sizes = moments.counts
    if n_samples is not None:
        shares = moments.counts[None, :].astype(float)
        sizes = allot(shares, np.array([n_samples]), rng)[0]
    matrix, groups = synthesize(_spread(moments), rng, distribution=distribution, sizes=sizes)
    order = rng.permutation(len(groups))
    matrix, groups = matrix[order], groups[order]
    scales = encoder.scales
    table = encoder.decode(
        matrix * scales + location, groups, rng, moments.means * scales + location, snap=True
    )
    owners = np.repeat(np.arange(len(shown)), [len(part) for part in shown])
    return table, owners[groups]


def stacked(parts: list[GroupMoments]) -> GroupMoments:
    """The groups of several states, side by side."""
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.stacked(part)
    return joined


def _spread(moments: GroupMoments) -> GroupMoments:
    """The same means and covariances, as of more members than dimensions.

    Half of a split group keeps the covariance of the whole, which n records alone could not
    have; the synthesis would take its smallest parts for rounding.
    """
    enough = np.maximum(moments.counts, moments.means.shape[1] + 1)
    factor = enough / moments.counts
    return replace(moments, counts=enough, scatters=moments.scatters * factor[:, None, None])
