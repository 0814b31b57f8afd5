"""Families that enough newcomers have joined, as the next snapshot shows them.

A family is what has come of a group that was shown: it, and what has split off it. Its groups
cannot be shown as they are. The halves of a split are made from the statistics of that moment, and
whoever comes later joins one of them; if the first newcomer makes a group split and all others join
one half, the other half is what was shown before and that one newcomer. So the sum of all newcomers
is added to what was shown, and the result is split by the same rule. What a snapshot shows then
depends on what was shown before and on sums over valid groups of newcomers, and on nothing else.

The stream itself goes on with its own groups. Each is from now on behind the nearest of the groups
shown, which gets its next newcomers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tulle.condense.stream.engines import Engine
from tulle.condense.stream.groups import Groups
from tulle.condense.stream.published import Published
from tulle.moments import Floats, GroupMoments, Ints

FEW = 16  # groups shown of one family: up to here it is quicker to look at all


@dataclass(frozen=True)
class Renewed:
    """Families shown anew; ``published.shown`` says for each group of which of them it is."""

    newcomers: GroupMoments  # of each family
    published: Published
    rows: Ints  # the groups of the stream in these families
    places: Ints  # which group shown each of them is behind


def renew(
    groups: Groups, ripe: Published, owners: Ints, engine_of: Callable[[Groups], Engine]
) -> Renewed:
    """Shows families anew; ``owners`` numbers theirs for the groups of the stream, or is -1."""
    rows = np.flatnonzero(owners >= 0)
    live, owners = groups.taken(rows), owners[rows]
    moments = live.moments()
    number = np.arange(len(ripe))
    newcomers = moments.merged(owners).without(ripe.behind.moments())
    sums = ripe.shown.moments().stacked(newcomers).merged(np.concatenate([number, number]))
    shown = Groups(groups.dimensions, capacity=max(1, len(rows)))
    shown.append(sums)
    shown.view().families[:] = number
    _split_all(shown, engine_of(shown))
    places = _nearest(live, owners, shown)
    return Renewed(newcomers, Published(shown, _behind(moments, places, len(shown))), rows, places)


def _split_all(groups: Groups, engine: Engine) -> None:
    """Splits groups, and what has split off them, until none is due."""
    group = 0
    while group < len(groups):
        before = len(groups)
        engine.settle(group)
        if len(groups) == before:
            group += 1


def _nearest(live: Groups, owners: Ints, shown: Groups) -> Ints:
    """For each group of the stream the nearest group of its family that is shown."""
    families = shown.view().families
    order = np.argsort(families, kind="stable")
    sizes = np.bincount(families, minlength=1)
    starts = np.cumsum(sizes) - sizes
    points, means = live.view().means, shown.view().means
    places = np.empty(len(owners), dtype=np.int64)
    rows = np.flatnonzero(sizes[owners] <= FEW)
    places[rows] = order[_nearest_of_few(points[rows], means[order], starts, sizes, owners[rows])]
    for family in np.unique(owners[sizes[owners] > FEW]):
        rows = np.flatnonzero(owners == family)
        mine = order[starts[family] : starts[family] + sizes[family]]
        places[rows] = mine[_nearest_of_many(points[rows], means[mine])]
    return places


def _nearest_of_few(points: Floats, means: Floats, starts: Ints, sizes: Ints, owners: Ints) -> Ints:
    """For each point the nearest mean of its owner's, all pairs at once."""
    pairs = sizes[owners]
    point = np.repeat(np.arange(len(owners)), pairs)
    within = np.arange(len(point)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    candidate = starts[owners][point] + within
    offsets = points[point] - means[candidate]
    away = np.einsum("ij,ij->i", offsets, offsets)
    by_distance = np.lexsort((candidate, away, point))
    return candidate[by_distance[np.cumsum(pairs) - pairs]]


def _nearest_of_many(points: Floats, means: Floats) -> Ints:
    """The same for one owner: a stream that has grown a thousandfold has too many pairs."""
    from scipy.spatial import KDTree

    return np.asarray(KDTree(means).query(points)[1], dtype=np.int64)


def _behind(moments: GroupMoments, places: Ints, number: int) -> Groups:
    """The groups of the stream behind each group shown, added up; behind some there is none."""
    present, owners = np.unique(places, return_inverse=True)
    dimensions = moments.means.shape[1]
    sums = Groups(dimensions, capacity=max(1, len(present)))
    if len(present):
        sums.append(moments.merged(owners))
    behind = Groups(dimensions, capacity=max(1, number))
    behind.size = number
    for target, part in zip(behind.arrays, sums.view(), strict=True):
        target[present] = part
    return behind
