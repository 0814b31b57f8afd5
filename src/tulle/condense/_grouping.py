"""Groups of a table as it is condensed: formed, checked, and what is known of them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from tulle._moments import GroupMoments
from tulle._types import Flags, Floats, Ints
from tulle.condense._diversity import Sensitive, check_sensitive
from tulle.condense._levels import (
    LevelSummary,
    check_people,
    count_people,
    join_summaries,
    summarise_levels,
    too_few_people,
)
from tulle.condense._synthesis import count_alike
from tulle.condense.groupings import group_records
from tulle.errors import PrivacyError

# sees points, their groups and the groups' statistics while a fit runs
Watcher = Callable[[Floats, Ints, GroupMoments], None]
_CELLS = 1_000_000  # distances at a time


@dataclass(frozen=True)
class GroupFacts:
    """What is known of the groups of a release: counts and sums, no record.

    Every synthesis makes them, for a table, a class or a cell, and they add up; summary,
    manifest, notes and report are made of them.
    """

    counts: Ints  # (g,), records of each group
    people: Ints  # (g,), different people
    levels: Ints  # (g,), the largest level in each
    level_summary: list[LevelSummary]
    sums: Floats  # (d,), of the points
    squares: Floats  # (d,), of the points, about zero
    within: Floats  # (d,), about the groups' means
    degenerate: int  # groups of identical records
    diversity_loss: float = 0.0  # what demands on sensitive columns cost, in points of the loss
    suppressed: int = 0  # records that are withheld
    verbatim: int = 0  # records that are released as they are
    singular: int = 0  # groups from whose pseudo-records members can be computed
    everybody: int = 0  # different people in all groups

    @classmethod
    def of(cls, points: Floats, groups: Ints, levels: Ints, people: Ints | None) -> GroupFacts:
        """Summarise groups dimension by dimension: a copy of all points would take more memory."""
        counts, holders = np.bincount(groups), count_people(groups, people)
        highest = np.zeros(len(counts), dtype=np.int64)
        np.maximum.at(highest, groups, levels)
        means = np.empty((len(counts), points.shape[1]))
        squares = np.empty_like(means)
        for place, column in enumerate(points.T):
            means[:, place] = np.bincount(groups, column) / counts
            squares[:, place] = np.bincount(groups, (column - means[groups, place]) ** 2)
        sums, within = means * counts[:, None], squares.sum(axis=0)
        return cls(
            counts,
            holders,
            highest,
            summarise_levels(levels, groups, holders),
            sums.sum(axis=0),
            within + (sums * means).sum(axis=0),
            within,
            count_alike(counts, means, squares),
            everybody=len(groups) if people is None else len(np.unique(people)),
        )

    @classmethod
    def joined(cls, parts: Sequence[GroupFacts]) -> GroupFacts:
        width = min(len(part.sums) for part in parts)  # a pool of classes has additional ones
        records = [int(part.counts.sum()) for part in parts]
        loss = float(np.average([part.diversity_loss for part in parts], weights=records))
        return cls(
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.people for part in parts]),
            np.concatenate([part.levels for part in parts]),
            join_summaries(*(part.level_summary for part in parts)),
            np.sum([part.sums[:width] for part in parts], axis=0),
            np.sum([part.squares[:width] for part in parts], axis=0),
            np.sum([part.within[:width] for part in parts], axis=0),
            sum(part.degenerate for part in parts),
            loss,
            sum(part.suppressed for part in parts),
            sum(part.verbatim for part in parts),
            sum(part.singular for part in parts),
            sum(part.everybody for part in parts),
        )

    @property
    def loss(self) -> float:
        """100 SSQ / SST: the share of the variation that groups do not keep."""
        total = float((self.squares - self.sums**2 / max(int(self.counts.sum()), 1)).sum())
        return 100.0 * float(self.within.sum()) / total if total > 1e-12 else 0.0

    @property
    def valid(self) -> bool:
        return bool((self.people >= self.levels).all())


def _fact(name: str) -> Any:
    return property(attrgetter(f"groups_.{name}"))


class GroupAttributes:
    """The attributes of a fitted condenser that are facts of its groups."""

    groups_: GroupFacts
    counts_: Ints = _fact("counts")
    people_: Ints = _fact("people")
    levels_: Ints = _fact("levels")
    information_loss_: float = _fact("loss")
    diversity_loss_: float = _fact("diversity_loss")
    level_summary_: list[LevelSummary] = _fact("level_summary")
    n_suppressed_: int = _fact("suppressed")
    n_verbatim_: int = _fact("verbatim")
    n_degenerate_: int = _fact("degenerate")
    n_singular_: int = _fact("singular")


def check_facts(facts: GroupFacts) -> None:
    """Refuse groups that break the invariant: once more, before anything leaves."""
    small = int((facts.people < facts.levels).sum())
    if small:
        raise PrivacyError(
            f"{small} of {len(facts.people)} groups hold fewer people than the level of a record "
            "in them: nothing is released. Fit again"
        )


@dataclass
class Grouper:
    """Puts points into groups, class by class, while a table is condensed."""

    rng: np.random.Generator
    levels: Ints  # the smallest group that each record accepts
    people: Ints | None = None
    sensitive: Sequence[Sensitive] = ()
    units: Ints | None = None  # the class of each record; no group mixes them
    method: str = "fast"
    time_budget: float | None = None
    watch: Watcher | None = None
    _asked: list[LevelSummary] = field(default_factory=list)
    _facts: GroupFacts | None = None
    _watched: tuple[Floats, Ints, Ints] | None = None  # points, groups and levels, if anyone looks

    def finish(self) -> GroupFacts:
        """Show the groups that were formed last to the watcher; return what is known of them."""
        if self._facts is None:
            raise AssertionError("no groups were formed yet")
        if self.watch is not None and self._watched is not None:
            points, groups, levels = self._watched
            self.watch(points, groups, GroupMoments.of(points, groups, levels))
        return self._facts

    def __call__(self, points: Floats, demands: Ints) -> Ints:
        """Return the group of each point: as many people as it demands, or all of its class."""
        groups, first = np.zeros(len(points), dtype=np.int64), 0
        before = after = 0.0
        for rows in self._units(len(points)):
            own = self._formed(points[rows], demands[rows], rows)
            joined = self._diverse(points[rows], own, rows)
            if joined is not own:
                before += _within(points[rows], own)
                after += _within(points[rows], joined)
            groups[rows] = first + joined
            first += int(joined.max()) + 1
        self._remember(points, groups, demands, after - before)
        return groups

    def _units(self, n: int) -> Iterable[Ints]:
        if self.units is None:
            return [np.arange(n)]
        return [np.flatnonzero(self.units == unit) for unit in np.unique(self.units)]

    def _formed(self, points: Floats, demands: Ints, rows: Ints) -> Ints:
        people = None if self.people is None else self.people[rows]
        held = len(rows) if people is None else len(np.unique(people))
        demands = np.minimum(demands, held)
        if 2 * int(demands.min()) > held:
            return np.zeros(len(rows), dtype=np.int64)
        budget = self.time_budget
        if budget is not None:  # for all classes together
            budget *= len(rows) / len(self.levels)
        groups = group_records(points, demands, self.rng, method=self.method, time_budget=budget)
        if people is not None:
            short = partial(too_few_people, demands=demands, people=people)
            groups = join_groups(points, groups, short)
        return groups

    def _diverse(self, points: Floats, groups: Ints, rows: Ints) -> Ints:
        """Join groups until they meet the demands on sensitive columns."""
        sensitive = [column.at(rows) for column in self.sensitive]
        for column in sensitive:
            groups = join_groups(points, groups, column.falls_short)
        check_sensitive(groups, sensitive)
        return groups

    def _remember(self, points: Floats, groups: Ints, demands: Ints, cost: float) -> None:
        """Check the groups against the levels, and keep what is known of them.

        Groups for the most demanding records come first: they say what those records got. What
        is grouped later stands for them.
        """
        levels = np.minimum(self.levels, demands)
        check_people(groups, levels, self.people)
        facts = GroupFacts.of(points, groups, levels, self.people)
        asked = summarise_levels(self.levels, groups, facts.people)
        met = [one for one in asked if one.level <= int(levels.max())]
        self._asked = [one for one in self._asked if one.level > int(levels.max())]
        self._asked = join_summaries(met, self._asked)
        total = float((facts.squares - facts.sums**2 / len(points)).sum())
        loss = 100.0 * cost / total if total > 1e-12 else 0.0
        self._facts = replace(facts, level_summary=self._asked, diversity_loss=loss)
        if self.watch is not None:
            self._watched = points, groups, levels


def _within(points: Floats, groups: Ints) -> float:
    counts = np.bincount(groups)
    sums = np.stack([np.bincount(groups, column) for column in points.T], axis=1)
    means = sums / counts[:, None]
    return float(((points - means[groups]) ** 2).sum())


def join_groups(matrix: Floats, groups: Ints, short: Callable[[Ints], Flags]) -> Ints:
    """Join groups that fall short to their nearest ones, until none does or one is left.

    Every round joins all such groups at once, so there are few rounds.
    """
    while True:
        lacking = np.flatnonzero(short(groups))
        if not len(lacking) or int(groups.max()) == 0:
            return groups
        groups = _joined(groups, lacking, _nearest(matrix, groups, lacking))


def _nearest(matrix: Floats, groups: Ints, some: Ints) -> Ints:
    """Return, for some groups, the other group with the nearest mean."""
    counts = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in matrix.T]
    means = np.stack(sums, axis=1) / counts[:, None]
    squares = (means**2).sum(axis=1)
    nearest = np.empty(len(some), dtype=np.int64)
    step = max(1, _CELLS // len(means))
    for first in range(0, len(some), step):
        part = some[first : first + step]
        away = squares - 2 * means[part] @ means.T  # the own square is the same in a row
        away[np.arange(len(part)), part] = np.inf
        nearest[first : first + step] = away.argmin(axis=1)
    return nearest


def _joined(groups: Ints, first: Ints, second: Ints) -> Ints:
    """Return the groups with each of the first joined to its second, numbered without gaps."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(groups.max()) + 1
    links = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    _, parts = connected_components(links, directed=False)
    return np.asarray(parts, dtype=np.int64)[groups]
