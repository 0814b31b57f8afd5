"""Which groups a snapshot may update.

Anyone who has two snapshots can subtract them. If one record arrived in between and its group's
new statistics are shown, the difference *is* that record. So a group that was shown keeps showing
its old statistics until at least as many records (of different people) have joined its family (it,
and what has split off it) as the largest level in it requires. Then the difference of two snapshots
is a sum over a valid group of newcomers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.condense._synthesis import count_degenerate
from tulle.errors import PrivacyError
from tulle.stream._engines import Engine
from tulle.stream._groups import UNPUBLISHED, GroupArrays, StreamGroups
from tulle.stream._people import GroupMembers
from tulle.table._codecs import Affine

# What the snapshots of a stream have shown.


@dataclass(frozen=True)
class Published:
    """Groups that were shown, and behind each of them the groups of the stream, added up then.

    Both hold the same records in all, but divide them differently. The family of a group shown is
    that group of the snapshot before from which it comes.
    """

    shown: StreamGroups
    behind: StreamGroups

    @classmethod
    def nothing(cls, dimensions: int) -> Published:
        """Return the state before the first snapshot."""
        return cls(StreamGroups(dimensions), StreamGroups(dimensions))

    def __len__(self) -> int:
        return len(self.shown)

    def taken(self, rows: Ints) -> Published:
        """Return a copy of some of them."""
        return Published(self.shown.taken(rows), self.behind.taken(rows))

    def extend(self, other: Published) -> None:
        """Add others."""
        self.shown.extend(other.shown)
        self.behind.extend(other.behind)

    def moved(self, way: Affine) -> Published:
        """Return the same in other dimensions."""
        return Published(self.shown.moved(way), self.behind.moved(way))


# Families that enough newcomers have joined, as the next snapshot shows them. A family is a
# group that was shown and what has split off it since. Its current groups cannot be shown: the
# halves of a split are made from the statistics of that moment, and records that arrive later
# join one of them; if the first newcomer makes a group split and all others join one half,
# the other half is what was shown before and that one newcomer. So the sum of all newcomers is
# added to what was shown, and the result is split by the same rule. What a snapshot shows then
# depends on what was shown before and on sums over valid groups of newcomers, and on nothing
# else. The stream itself continues with its own groups. Each is from now on behind the nearest of
# the groups shown, which gets its next newcomers.

FEW = 16  # groups shown of one family: up to here it is quicker to look at all


@dataclass(frozen=True)
class Renewed:
    """Updated families; ``published.shown`` says for each group of which of them it is."""

    newcomers: GroupMoments  # of each family
    people: Ints  # behind the newcomers
    published: Published
    rows: Ints  # the groups of the stream in these families
    places: Ints  # which group shown each of them is behind


def renew(
    groups: StreamGroups,
    ripe: Published,
    owners: Ints,
    engine_of: Callable[[StreamGroups], Engine],
    joined: Ints | None = None,
) -> Renewed:
    """Show families again; ``owners`` holds the family number of each stream group, or -1.

    ``joined`` are the people behind the newcomers of each, where people have several records.
    """
    rows = np.flatnonzero(owners >= 0)
    live, owners = groups.taken(rows), owners[rows]
    moments = live.moments()
    number = np.arange(len(ripe))
    newcomers = moments.merged(owners).without(ripe.behind.moments())
    sums = ripe.shown.moments().stacked(newcomers).merged(np.concatenate([number, number]))
    shown = StreamGroups(groups.dimensions, capacity=max(1, len(rows)))
    # everybody counts once in the groups of a family, and all of them are in what is shown
    counted = np.bincount(owners, live.view().people, len(ripe)).astype(np.int64)
    shown.append(sums, None if joined is None else np.maximum(counted, joined))
    shown.view().families[:] = number
    _split_all(shown, engine_of(shown))
    places = _nearest(live, owners, shown)
    published = Published(shown, _behind(moments, places, len(shown)))
    people = newcomers.counts if joined is None else joined
    return Renewed(newcomers, people, published, rows, places)


def _split_all(groups: StreamGroups, engine: Engine) -> None:
    """Split groups, and the groups that split off them, until none is due."""
    group = 0
    while group < len(groups):
        before = len(groups)
        engine.settle(group)
        if len(groups) == before:
            group += 1


def _nearest(live: StreamGroups, owners: Ints, shown: StreamGroups) -> Ints:
    """Return, for each group of the stream, the nearest group of its family that is shown."""
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
    """Return the nearest of its owner's means for each point, all pairs at once."""
    pairs = sizes[owners]
    point = np.repeat(np.arange(len(owners)), pairs)
    within = np.arange(len(point)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    candidate = starts[owners][point] + within
    offsets = points[point] - means[candidate]
    away = np.einsum("ij,ij->i", offsets, offsets)
    by_distance = np.lexsort((candidate, away, point))
    return candidate[by_distance[np.cumsum(pairs) - pairs]]


def _nearest_of_many(points: Floats, means: Floats) -> Ints:
    """Do the same for one owner: a stream that grew a thousandfold has too many pairs."""
    from scipy.spatial import KDTree

    return np.asarray(KDTree(means).query(points)[1], dtype=np.int64)


def _behind(moments: GroupMoments, places: Ints, number: int) -> StreamGroups:
    """Add up the groups of the stream behind each group shown; there may be none."""
    present, owners = np.unique(places, return_inverse=True)
    dimensions = moments.means.shape[1]
    sums = StreamGroups(dimensions, capacity=max(1, len(present)))
    if len(present):
        sums.append(moments.merged(owners))
    behind = StreamGroups(dimensions, capacity=max(1, number))
    behind.size = number
    for target, part in zip(behind.arrays, sums.view(), strict=True):
        target[present] = part
    return behind


# The newcomers that a snapshot shows for the first time. The mean of half a split group is a
# guess, which can lie where no record ever was. What has joined a family since it was last shown
# is none: splits conserve sums, so the difference of the family's sum now and then is the sum of
# the newcomers.


class Means(NamedTuple):
    """Means over some records each, and the largest level that they must satisfy."""

    means: Floats  # (m, d)
    counts: Ints  # (m,)
    levels: Ints  # (m,)
    people: Ints  # (m,), at least so many

    def natural(self, scales: Floats, location: Floats) -> Means:
        """Return the same in the units of the encoded columns."""
        return self._replace(means=self.means * scales + location)


class Arrivals(NamedTuple):
    """Families that enough newcomers have joined, and the groups shown for them now."""

    newcomers: Means  # of each family, without those who were shown before
    groups: Means
    families: Ints  # the place of each group's family

    def natural(self, scales: Floats, location: Floats) -> Arrivals:
        """Return the same in the units of the encoded columns."""
        newcomers, groups = (part.natural(scales, location) for part in self[:2])
        return Arrivals(newcomers, groups, self.families)


def arrivals(renewed: Renewed, first: StreamGroups, *, alone: bool) -> Arrivals:
    """Return whom a snapshot shows: families with their groups, groups never shown as one more.

    ``alone``: each record is a person of its own; else somebody may be in several groups.
    """
    newcomers, shown = renewed.newcomers, renewed.published.shown
    families = shown.view().families
    parts = [Means(newcomers.means, newcomers.counts, newcomers.levels, renewed.people)]
    groups = [_means(shown)]
    if len(first):
        whole = first.moments().pooled()
        people = whole.counts if alone else first.view().people.max(keepdims=True)
        parts.append(Means(whole.means, whole.counts, whole.levels, people))
        groups.append(_means(first))
        families = np.concatenate([families, np.full(len(first), len(newcomers.counts))])
    return Arrivals(_stacked(parts), _stacked(groups), families)


def _means(groups: StreamGroups) -> Means:
    used = groups.view()
    return Means(used.means, used.counts, used.levels, used.people)


def _stacked(parts: list[Means]) -> Means:
    return Means._make(np.concatenate(part) for part in zip(*parts, strict=True))


class Change(NamedTuple):
    """What a snapshot shows beyond the one before (the first shows everything), and in all."""

    changed: int  # published groups that are updated
    fewest: int | None  # the fewest newcomers (people) behind such a change
    held_back: int  # condensed records that are not shown yet
    fresh: int  # groups whose statistics were never shown before
    smallest: int | None  # people in the smallest group shown
    small: int  # groups shown with fewer people than a level in them: they were split
    verbatim: int  # groups shown of one person, of level 1
    degenerate: int  # groups shown whose records are all alike

    @classmethod
    def total(cls, parts: list[Change]) -> Change:
        """Add up the changes of several classes."""
        fewest, smallest = (
            min((value for value in values if value is not None), default=None)
            for values in zip(*((part.fewest, part.smallest) for part in parts), strict=True)
        )
        sums = {
            name: sum(getattr(part, name) for part in parts)
            for name in cls._fields
            if name not in ("fewest", "smallest")
        }
        return cls(**sums, fewest=fewest, smallest=smallest)


def publish(
    groups: StreamGroups,
    published: Published | None,
    engine_of: Callable[[StreamGroups], Engine],
    people: GroupMembers | None = None,
) -> tuple[Published, Arrivals, Change]:
    """Return what the next snapshot shows; ``groups`` remember the shown group each belongs to."""
    used = groups.view()
    if published is None:
        used.families[:] = UNPUBLISHED
        published = Published.nothing(groups.dimensions)
    newcomers, levels = _newcomers(used, published)
    joined = None if people is None else people.joined(len(published))
    ripe = (newcomers if joined is None else joined) >= levels
    renewed = renew(
        groups,
        published.taken(np.flatnonzero(ripe)),
        _numbered(ripe)[used.families],
        engine_of,
        None if joined is None else joined[ripe],
    )
    new = np.flatnonzero(used.families == UNPUBLISHED)
    kept = published.taken(np.flatnonzero(~ripe))
    used.families[:] = _numbered(~ripe)[used.families]
    if people is not None:
        people.show(_numbered(~ripe))
    used.families[renewed.rows] = len(kept) + renewed.places
    used.families[new] = len(kept) + len(renewed.published) + np.arange(len(new))
    first = groups.taken(new)
    arrived = arrivals(renewed, first, alone=people is None)
    descent = [np.flatnonzero(~ripe), np.flatnonzero(ripe)[renewed.published.shown.view().families]]
    kept.extend(renewed.published)
    kept.extend(Published(first, first))
    kept.shown.view().families[:] = np.concatenate([*descent, np.full(len(new), UNPUBLISHED)])
    fresh = len(renewed.published) + len(new)
    change = _change(renewed, newcomers[~ripe], fresh, kept.shown)
    if used.counts.sum() - kept.shown.view().counts.sum() != change.held_back:
        raise PrivacyError("the snapshot does not add up to the groups: nothing is released")
    return kept, arrived, change


def _newcomers(used: GroupArrays, published: Published) -> tuple[Ints, Ints]:
    """Return who joined the family of each shown group since, and the largest level among them."""
    families = len(published)
    known = used.families >= 0
    totals = np.bincount(
        used.families[known], weights=used.counts[known], minlength=families
    ).astype(np.int64)
    levels = np.ones(families, dtype=np.int64)
    np.maximum.at(levels, used.families[known], used.levels[known])
    return totals - published.behind.view().counts, levels


def _numbered(chosen: np.ndarray) -> Ints:
    """Map the chosen ones to 0, 1, ..., all others to -1; one extra entry serves family -1."""
    numbers = np.full(len(chosen) + 1, UNPUBLISHED)
    numbers[:-1][chosen] = np.arange(np.count_nonzero(chosen))
    return numbers


def _change(renewed: Renewed, held_back: Ints, fresh: int, shown: StreamGroups) -> Change:
    joined, used = renewed.people, shown.view()
    return Change(
        changed=len(joined),
        fewest=int(joined.min()) if len(joined) else None,
        held_back=int(held_back.sum()),
        fresh=fresh,
        smallest=int(used.people.min()) if len(shown) else None,
        small=int((used.people < used.levels).sum()),
        verbatim=int((used.people == 1).sum()),
        degenerate=count_degenerate(shown.moments()),
    )
