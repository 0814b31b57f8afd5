"""The papers' synthesis: records drawn from the mean and covariance of their group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tulle._moments import GroupMoments
from tulle._relations.plan import Plan
from tulle._shape.model import GROUP_PIECE
from tulle._types import Floats, Ints
from tulle.condense._grouping import Grouper, GroupFacts
from tulle.condense._shaped import (
    BOUNDS,
    LABEL_CODES,
    Block,
    Classes,
    fewest_of,
    plan_checks,
    with_labels,
)
from tulle.condense._synthesis import leave_grid, synthesize
from tulle.errors import DataError, PrivacyError
from tulle.table._drawing import allot
from tulle.table._encoder import TableEncoder

_LARGEST = 1e140  # deviation whose square is far from overflowing


class Papers:
    """The count, mean and covariance of each group, and records drawn along its eigenvectors."""

    moments: GroupMoments  # on standardised columns
    encoder: TableEncoder
    classes: Classes | None = None
    units: Ints  # of classes, that of each group

    def __init__(self, rules: Sequence[str] | None, distribution: str, *, exact: bool) -> None:
        self.rules = rules
        self.distribution = "uniform" if distribution == "shape" else distribution
        self.exact = exact  # whether each group's records have its very mean and covariance
        self.plan = Plan()
        self.shown: dict[str, int] = {}  # what a release shows, and of how many people at least
        self.notes: list[str] = []  # what a reader should know of this synthesis

    def fit(self, block: Block, encoder: TableEncoder, grouper: Grouper) -> GroupFacts:
        """Keep the statistics of the groups of a block, and return what is known of them."""
        matrix = encoder.encode(block.frame)
        self.encoder, classes = encoder, block.classes
        self._grid = encoder.grid(matrix) if self.exact else {}
        matrix /= encoder.scales_
        groups = grouper(matrix, block.levels)
        refuse_beyond_memory(int(groups.max()) + 1, matrix.shape[1])
        self.moments = GroupMoments.of(matrix, groups, block.levels)
        if classes is not None:  # no group mixes units of them
            self.classes = classes.classes
            self.units = np.zeros(len(self.moments.counts), dtype=np.int64)
            self.units[groups] = classes.units
        encoder.reach(self.means)
        facts = self._described(grouper.finish())
        least = int(block.levels.max())
        self.plan = plan_checks(block, encoder, self.rules, least, grouper.rng)
        return facts

    def _described(self, facts: GroupFacts) -> GroupFacts:
        """Add what drawing from these statistics reveals."""
        dimensions = self.moments.means.shape[1]
        singular = int((self.moments.counts <= dimensions).sum())
        if self.exact and singular:
            raise PrivacyError(
                f"exact_moments would reveal the records of {singular} of "
                f"{len(self.moments.counts)} groups: they have no more records than the "
                f"{dimensions} dimensions. Ask for larger groups, leave columns out, or set "
                "exact_moments=False",
                parameter="exact_moments",
            )
        self.shown = {
            "a category": int(self.moments.levels.max()),
            GROUP_PIECE: int(facts.people.min()),
        }
        return replace(facts, verbatim=int((self.moments.counts == 1).sum()), singular=singular)

    @property
    def means(self) -> Floats:
        return self.moments.means * self.encoder.scales_

    @property
    def covariances(self) -> Floats:
        scales = self.encoder.scales_
        return self.moments.covariances * scales[:, None] * scales

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw records, as many as were condensed by default."""
        sizes: Ints | None = None
        if n is not None:
            counts = self.moments.counts[None, :].astype(float)
            sizes = allot(counts, np.array([n]), rng)[0]
        matrix, groups = synthesize(
            self.moments, rng, distribution=self.distribution, exact=self.exact, sizes=sizes
        )
        order = rng.permutation(len(groups))
        matrix, groups = matrix[order], groups[order]
        matrix *= self.encoder.scales_
        for name, unit in self._grid.items():
            leave_grid(matrix[:, self.encoder.slices_[name].start], groups, unit, rng)
        drawn = self.encoder.decode(matrix, groups, rng, means=self.means, snap=not self.exact)
        if self.classes is None:
            return drawn
        codes = self.classes.draw(self.units[groups], rng)
        drawn = with_labels(drawn, self.classes.labels, codes, self.encoder)
        return drawn.with_columns(pl.Series(LABEL_CODES, codes))

    def merged(self, other: Papers) -> Papers:
        scales = self.encoder.scales_, other.encoder.scales_
        refuse_beyond_floats(*scales)
        encoder, *ways = self.encoder.merge(other.encoder)
        mine, theirs = (
            way.moved(rescaled(part.moments, units))
            for way, part, units in zip(ways, (self, other), scales)
        )
        moments = mine.stacked(theirs)
        encoder.rescale(np.diagonal(moments.pooled().covariances[0]))
        both = Papers(self.rules, self.distribution, exact=self.exact or other.exact)
        both.encoder, both.plan = encoder, self.plan.joined(other.plan)
        both.shown = fewest_of([self.shown, other.shown])
        both.moments = rescaled(moments, 1 / encoder.scales_)
        both._grid = {
            name: min(part._grid.get(name, np.inf) for part in (self, other))
            for name in {**self._grid, **other._grid}
        }
        return both

    def rests_on(self) -> dict[str, int]:
        return self.shown

    def sentence(self, *, sizes: bool = True) -> str:
        """Return in words what every released record was drawn from.

        Without ``sizes``, which levels of single people may have set.
        """
        kept = "count and mean" if self.distribution == "mean" else "count, mean and covariance"
        fewest = self.shown[GROUP_PIECE]
        people = "1 person" if fewest == 1 else f"{fewest} people"
        smallest = f", the smallest of {people}" if sizes else ""
        return (
            f"Every released record was drawn from the {kept} of a group at least as large as each "
            f"of its members requires{smallest}."
        )

    def limits(self) -> list[str]:
        return [
            "What all members of a group share: it shows in the group's mean.",
            "The last member of a group, to someone who knows all the others.",
            BOUNDS,
        ]


def rescaled(moments: GroupMoments, ratio: Floats) -> GroupMoments:
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
