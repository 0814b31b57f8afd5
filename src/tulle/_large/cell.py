"""The work of one cell: its records grouped, checked, and replaced by pseudo-records.

A function of the set of its records and of the cell's own seed: it does not matter in which order
they came, nor on which thread, process or machine it runs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import polars as pl

from tulle._large.layout import Layout, Records, person_numbers, row_order
from tulle._shape.model import fit_coded, weigh_people
from tulle._types import Flags, Floats, Ints
from tulle.condense._levels import LevelSummary, check_moments, summarise_levels
from tulle.condense._people import count_people
from tulle.condense._synthesis import count_alike
from tulle.condense.condenser import Condenser, GroupedRecords
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, enter

_BORDER = Border(enter(pl.DataFrame({"x": [0]}))[1])  # frames of polars
_GROWN_ON = 50_000  # records that a tree is grown on


@dataclass(frozen=True)
class CellSummary:
    """What is known of a finished cell: counts and sums, no record."""

    cell: int
    records: int
    released: int
    sizes: Ints  # how many groups there are of each size, 0, 1, ...
    fewest_people: int
    highest_level: int
    lowest_level: int
    valid: bool
    levels: list[LevelSummary]
    first_sums: Floats  # (d,), on standardised columns
    squares: Floats  # (d,), sums of squares about zero
    within: Floats  # (d,), sums of squares about the groups' means
    degenerate: int
    verbatim: int
    singular: int
    suppressed: int


def condense_cell(
    records: Records,
    layout: Layout,
    condenser: Condenser,
    seed: tuple[int, ...],
    cell: int,
    *,
    size: int,
    persons: bool,
    levelled: bool,
) -> tuple[pl.DataFrame, CellSummary]:
    """Return the pseudo-records of a cell and its summary.

    Parameters
    ----------
    records : structured ndarray
        All records of the cell, in any order.
    layout : Layout
    condenser : Condenser
        An unfitted one of its own, which says how to group and draw.
    seed : tuple of int
        The secret of the release; together with the number of the cell it is the cell's seed.
    size : int
        How many pseudo-records to draw; the papers' synthesis draws as many as there are records.
    persons : bool
        Whether people have several rows.
    levelled : bool
        Whether records have levels of their own in place of the condenser's ``k``.
    """
    order = row_order(records, seed[0])
    rng = np.random.default_rng([*seed, cell])
    people = person_numbers(records["person"][order]) if persons else None
    levels = records["level"][order] if levelled else None
    codes = records["cells"][order]
    # ranges are widened by groups: each cell has a code of its own
    encoder = layout.encoder.with_codecs([copy(one) for one in layout.encoder.codecs.values()])
    found = condenser._group_encoded(records["point"][order], levels, encoder, people, rng)
    del records, order  # a cell is as large as memory allows
    groups = _Groups.of(found)
    kept = found.kept
    if condenser._keeps_shape:  # without the covariances of groups, which wide tables cannot hold
        encoder.reach(groups.means * encoder.scales_)
        codes, members, people = codes[kept], found.groups, found.people
        del found
        size = round(size * kept.mean())
        drawn = _drawn(codes, members, people, layout, encoder, groups.highest, size, rng)
    else:
        condenser._keep(found, encoder, _BORDER, rng)
        check_moments(condenser.moments_)
        drawn = condenser._draw(None)
    return drawn, _summary(groups, condenser, cell, kept, drawn.height)


@dataclass(frozen=True)
class _Groups:
    """Summaries of ``g`` groups in ``d`` dimensions, without what columns say of each other."""

    counts: Ints  # (g,)
    people: Ints  # (g,)
    asked: Ints  # (g,), the largest level in each
    means: Floats  # (g, d)
    squares: Floats  # (g, d), sums about the means
    levels: list[LevelSummary]

    @classmethod
    def of(cls, found: GroupedRecords) -> _Groups:
        """Summarise groups column by column: copies of all records would take more memory."""
        groups = found.groups
        counts, people = np.bincount(groups), count_people(groups, found.people)
        asked = np.zeros(len(counts), dtype=np.int64)
        np.maximum.at(asked, groups, found.demands)
        means = np.empty((len(counts), found.matrix.shape[1]))
        squares = np.empty_like(means)
        for place, column in enumerate(found.matrix.T):
            means[:, place] = np.bincount(groups, column) / counts
            squares[:, place] = np.bincount(groups, (column - means[groups, place]) ** 2)
        levels = summarise_levels(found.demands, groups, people)
        return cls(counts, people, asked, means, squares, levels)

    @property
    def highest(self) -> int:
        """Return the highest level of all."""
        return int(self.asked.max())


def _drawn(
    codes: Ints,
    groups: Ints,
    people: Ints | None,
    layout: Layout,
    encoder: TableEncoder,
    k: int,
    size: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Draw pseudo-records that keep the shape of the cell's own records."""
    model = fit_coded(
        layout.names,
        layout.models,
        layout.cells_of(codes, rng),
        k,
        weigh_people(people, len(codes)),
        rng,
        dependencies=layout.dependencies,
        members=groups,
        most=_GROWN_ON,
    )
    return encoder.restore(model.sample(size, rng))


def _summary(
    groups: _Groups, condenser: Condenser, cell: int, kept: Flags, released: int
) -> CellSummary:
    sums, within = groups.means * groups.counts[:, None], groups.squares.sum(axis=0)
    shaped = condenser._keeps_shape
    return CellSummary(
        cell=cell,
        records=len(kept),
        released=released,
        sizes=np.bincount(groups.counts),
        fewest_people=int(groups.people.min()),
        highest_level=groups.highest,
        lowest_level=int(groups.asked.min()),
        valid=bool((groups.people >= groups.asked).all()),
        levels=groups.levels,
        first_sums=sums.sum(axis=0),
        squares=within + (sums * groups.means).sum(axis=0),
        within=within,
        degenerate=count_alike(groups.counts, groups.means, groups.squares),
        verbatim=0 if shaped else condenser.n_verbatim_,
        singular=0 if shaped else condenser.n_singular_,
        suppressed=int((~kept).sum()),
    )
