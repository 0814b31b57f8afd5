"""The synthesis that keeps the shape: fitted once on a table, sampled from as often as one likes.

1. Columns that follow from others are left out, and restored at the end through a map.
2. Every column is cut into cells of at least ``k`` people: categories, states, common values and
   stretches of neighbouring ones.
3. Records, as cells, are condensed: groups of at least ``k`` people, their counts and means, and
   the covariance within groups.
4. A tree for each column, with leaves of at least ``k`` people (``2 k`` by default), says how its
   cells are distributed given the columns before.
   How often, in a leaf and in a group, is drawn once when the model is fitted: many draws from it
   do not average to the true totals.
5. A pseudo-record belongs to a group, chosen at random, and is a point drawn about its mean.
   Column by column, the tree's leaf says which cells the pseudo-records in it get, and the order
   of their points says who gets which.
6. A cell becomes a value of the smoothed quantile function.

Without trees (one leaf) this is condensation with the columns' own distributions, without groups
it is a chain of trees. The model holds no row and no row's number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._random import spawn
from tulle._shape.cells import Cells, fit_cells
from tulle._shape.columns import Column, cells_of
from tulle._shape.dependencies import Dependency, find_dependencies
from tulle._shape.diversity import Diversity
from tulle._shape.trees import FEW, MOST_CELLS, Tree, fit_tree
from tulle._threads import cores, in_order, on_all_cores
from tulle._types import Floats, Ints
from tulle.errors import PrivacyError

_LEAF = 2  # times k people in a leaf: as many as the blocks of a random half rest on


# Condensed groups as the synthesis keeps them: a count and a mean each, and one covariance.
# Records are points: the coordinates of their cells. Pseudo-records are drawn about the mean of
# their group with a covariance that is shrunk towards the pooled one within groups, here all the
# way: a group of ``n`` records has only ``n - 1`` directions of its own, and anyone who knows the
# plane that these span knows its records. The pooled covariance rests on everybody.


@dataclass(frozen=True)
class CondensedGroups:
    """Groups of at least ``k`` people each, by their statistics."""

    counts: Ints  # (g,), how often pseudo-records belong to each
    means: Floats  # (g, d)
    factor: Floats  # (d, d), its square is the pooled covariance within groups

    def choose(self, n: int, rng: np.random.Generator) -> Ints:
        """Return the group of each of ``n`` pseudo-records, in random order, by their counts."""
        shares = self.counts / self.counts.sum()
        wanted = np.floor(np.cumsum(shares) * n + rng.random())
        wanted[-1] = n
        sizes = np.diff(np.minimum(wanted, n), prepend=0).astype(np.int64)
        return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))

    def draw(self, groups: Ints, rng: np.random.Generator) -> Floats:
        """Return a point for each pseudo-record about the mean of its group."""
        noise = rng.standard_normal((len(groups), len(self.factor)))
        return np.asarray(self.means[groups] + noise @ self.factor)


def condense(
    points: Floats, groups: Ints, rng: np.random.Generator | None = None
) -> CondensedGroups:
    """Keep the statistics of groups; with ``rng``, counts drawn once from the true ones."""
    counts = np.bincount(groups)
    sums = on_all_cores(lambda part: np.bincount(groups, weights=part), points.T, points.size)
    means: Floats = np.stack(sums, axis=1) / counts[:, None]
    inner = points - means[groups]
    values, vectors = np.linalg.eigh(inner.T @ inner / len(points))
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    if rng is not None:
        counts = rng.multinomial(len(points), counts / len(points))
    return CondensedGroups(counts, means, factor)


@dataclass(frozen=True)
class ShapeModel:
    """What is kept of a table: statistics of at least ``k`` people each."""

    k: int
    n_rows: int
    names: list[str]
    columns: list[Cells]  # those that are not restored, in the order they are drawn
    trees: list[Tree]
    coordinates: list[Floats]  # of the cells of each column; empty without groups
    groups: CondensedGroups | None
    labels: Ints | None  # the first column's cell in each group, if no group mixes them
    dependencies: list[Dependency]
    leaf: int  # people in every leaf

    def rests_on(self) -> dict[str, int]:
        """Return what a release shows, and of how many people at least each piece is."""
        shown = {"a category, a shared value, missing values": self.k}
        if any(column.ordered for column in self.columns):
            shown["a stretch of numbers"] = self.k
        if self.dependencies:
            shown["a value that follows from another column's"] = self.k
        return shown | {"how a column depends on others (a leaf)": self.leaf}

    def sample(self, n: int | None, rng: np.random.Generator) -> list[Floats | Ints]:
        """Draw ``n`` rows and return their columns in the order of the table that was fitted."""
        n = self.n_rows if n is None else n
        cells, own = self._draw_cells(n, rng), spawn(rng, len(self.columns))
        values: list[Floats | Ints] = on_all_cores(
            lambda place: self.columns[place].decode(cells[place], own[place]),
            range(len(cells)),
            n * len(cells),
        )
        drawn = {column.name: found for column, found in zip(self.columns, values)}
        for dependency in self.dependencies:
            drawn[dependency.target] = dependency.restore(drawn[dependency.source], rng)
        return [drawn[name] for name in self.names]

    def _draw_cells(self, n: int, rng: np.random.Generator) -> list[Ints]:
        groups, points = None, None
        if self.groups is not None:
            groups = self.groups.choose(n, rng)
            points = self.groups.draw(groups, rng)
        features = np.empty((n, len(self.columns)), dtype=np.uint8)
        cells: list[Ints] = []
        parts = self._parts(points)
        for place, (column, tree, part) in enumerate(zip(self.columns, self.trees, parts)):
            if place == 0 and self.labels is not None and groups is not None:
                drawn = self.labels[groups]
            else:
                leaves = tree.leaves(features[:, :place])
                drawn = tree.draw(leaves, rng)
                if part is not None:
                    drawn = hand_out(drawn, leaves, *part, column, self.coordinates[place], rng)
            cells.append(drawn)
            features[:, place] = as_feature(drawn, column)
        return cells

    def _parts(self, points: Floats | None) -> Iterator[tuple[Floats, Ints] | None]:
        """Yield the coordinates of each column and the order of the first, sorted ahead of need."""
        if points is None:
            return iter([None] * len(self.columns))
        widths = [coordinates.shape[1] for coordinates in self.coordinates]
        if self.labels is not None:
            widths[0] = 0  # a class that is known from the group has no point
        ends = np.cumsum(widths).tolist()

        def part(place: int) -> tuple[Floats, Ints]:
            own = points[:, ends[place] - widths[place] : ends[place]]
            sorts = self.columns[place].ordered and widths[place]
            return own, np.argsort(own[:, 0], kind="stable") if sorts else np.arange(0)

        return in_order(part, range(len(widths)), cores() if len(points) > FEW else 1)


def fit_shape(
    columns: Sequence[Column],
    k: int,
    rng: np.random.Generator,
    *,
    label: str | None = None,
    members: Ints | None = None,
    people: Ints | None = None,
    exact: bool = False,
    dependent: bool = True,
    demands: Sequence[Diversity] = (),
) -> ShapeModel:
    """Fit the model of a table.

    Parameters
    ----------
    columns : sequence of NumberColumn and CategoryColumn
    k : int
        The fewest people that anything kept rests on.
    label : str, optional
        The column of classes, which is drawn first.
    members : ndarray (n,) of int, optional
        The group of each row (0, 1, ... without gaps), each of at least ``k`` people. Without it
        there are no groups.
    people : ndarray (n,) of int, optional
        The person of each row, if people have several rows.
    exact : bool
        Keep the totals, make blocks of everybody and leaves of ``k`` people, instead of drawing
        totals at random (once: they are part of the model), using a random half and leaves of
        ``2 k``. Closer to the table, but who knows all others can tell whether one person was
        in it.
    dependent : bool
        Look for columns that follow from others.
    demands : sequence of Diversity
        What the values of sensitive columns must look like in every leaf of their trees. Such a
        column is never restored from another: a value that gives it away would reveal it.
    """
    asked = {demand.name: demand for demand in demands}
    weights = weigh_people(people, len(cells_of(columns[0])))
    lots = None if exact else rng
    found = find_dependencies(columns, k, weights, keep=label, rng=lots) if dependent else []
    found = [dependency for dependency in found if dependency.target not in asked]
    left_out = {dependency.target for dependency in found}
    kept = [column for column in columns if column.name not in left_out]
    kept.sort(key=lambda column: column.name != label)
    own = spawn(rng, len(kept))
    coded = on_all_cores(
        lambda place: fit_cells(kept[place], k, weights, own[place], exact=exact),
        range(len(kept)),
        len(weights) * len(kept),
    )
    models, cells = [model for model, _ in coded], [codes for _, codes in coded]
    names = [column.name for column in columns]
    return fit_coded(
        names, models, cells, k, weights, lots,
        dependencies=found, labelled=label is not None, members=members, demands=demands,
    )  # fmt: skip


def fit_coded(
    names: list[str],
    models: list[Cells],
    cells: list[Ints],
    k: int,
    weights: Floats,
    rng: np.random.Generator | None,
    *,
    dependencies: Sequence[Dependency] = (),
    labelled: bool = False,
    members: Ints | None = None,
    demands: Sequence[Diversity] = (),
    most: int | None = None,
) -> ShapeModel:
    """Fit the model of a table that is in cells already.

    Parameters
    ----------
    names : list of str
        All columns, also those that ``dependencies`` restore.
    models, cells : list
        The columns in the order they are drawn, and the cell of each row.
    weights : ndarray (n,)
        What each row counts: 1 over the rows of its person.
    rng : numpy Generator, optional
        Draws totals, once; without it they are those of the table, and leaves hold ``k`` people.
    labelled : bool
        Whether the first column is that of classes.
    members : ndarray (n,) of int, optional
        The group of each row.
    most : int, optional
        Rows that trees are grown on; the counts of their leaves are those of all rows.
    """
    asked = {demand.name: demand for demand in demands}
    least = k if rng is None else _LEAF * k
    trees = _fit_trees(models, cells, weights, least, rng, asked, most)
    groups, labels, coordinates = None, None, [np.zeros((model.size, 0)) for model in models]
    if members is not None and len(models) > int(labelled):
        labels = _labels(members, cells[0]) if labelled else None
        coordinates = [model.coordinates() for model in models]
        first = int(labels is not None)  # a class that is known from the group needs no point
        points = np.hstack([c[codes] for c, codes in zip(coordinates[first:], cells[first:])])
        groups = condense(points, members, rng)
    least = min(least, len(weights))  # one leaf holds all of a small table
    if any(tree.smallest < least for tree in trees):
        raise PrivacyError("a leaf holds fewer people than it must: nothing is kept")
    for tree, model, codes in zip(trees, models, cells):
        if model.name in asked:
            _check_demand(asked[model.name], tree, codes, model.size)
    return ShapeModel(
        k, len(weights), names, models, trees, coordinates, groups, labels, list(dependencies),
        least,
    )  # fmt: skip


def _check_demand(demand: Diversity, tree: Tree, cells: Ints, size: int) -> None:
    """Refuse a tree one of whose leaves does not meet a demand; one leaf is the whole table."""
    counts, whole = tree.tallied(size), np.bincount(cells, minlength=size).astype(np.float64)
    short = int(demand.falls_short(counts, whole).sum())
    if short and len(counts) > 1:
        raise PrivacyError(
            f"column '{demand.name}': {short} of {len(counts)} leaves do not have "
            f"{demand.describe()}: nothing is released",
            subject=demand.name,
        )


def weigh_people(people: Ints | None, n: int) -> Floats:
    """Return what each row counts: 1 over the rows of its person.

    The sum over any rows is at most the number of different people among them.
    """
    if people is None:
        return np.ones(n)
    _, person, rows = np.unique(people, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / rows[person])


def as_feature(cells: Ints, column: Cells) -> NDArray[np.uint8]:
    """Return cells as trees see them: of categories beyond 256, the rarest as one."""
    if column.size <= MOST_CELLS:
        return cells.astype(np.uint8)
    place = np.empty(column.size, dtype=np.int64)
    place[np.argsort(-column.shares, kind="stable")] = np.arange(column.size)
    return np.minimum(place, MOST_CELLS - 1)[cells].astype(np.uint8)


def hand_out(
    drawn: Ints,
    leaves: Ints,
    points: Floats,
    by_point: Ints,
    column: Cells,
    coordinates: Floats,
    rng: np.random.Generator,
) -> Ints:
    """Give the cells drawn for each leaf to its rows in the order of their points.

    Ordered cells: the smallest to the smallest. Categories: each to the rows nearest to it, the
    rarest category first.
    """
    if column.ordered:
        if len(drawn) <= FEW:
            return match_small(drawn, leaves, by_point)
        from tulle._shape._kernels import match

        given: Ints = match(drawn, column.size, leaves, int(leaves.max(initial=0)) + 1, by_point)
        return given
    return _nearest_first(drawn, leaves, points @ coordinates.T, rng)


def match_small(drawn: Ints, leaves: Ints, by_point: Ints) -> Ints:
    """Return what the kernel ``match`` returns, without compiling."""
    rows = by_point[np.argsort(leaves[by_point], kind="stable")]
    given = np.empty_like(drawn)
    given[rows] = drawn[np.lexsort((drawn, leaves))]
    return given


def _nearest_first(drawn: Ints, leaves: Ints, scores: Floats, rng: np.random.Generator) -> Ints:
    _, leaf = np.unique(leaves, return_inverse=True)
    counts = np.bincount(
        leaf * scores.shape[1] + drawn, minlength=(leaf.max() + 1) * scores.shape[1]
    ).reshape(-1, scores.shape[1])
    commonest = counts.argmax(axis=1)
    given: Ints = commonest[leaf]
    free = np.ones(len(drawn), dtype=bool)
    for cell in np.argsort(counts.sum(axis=0), kind="stable").tolist():
        quota = np.where(commonest == cell, 0, counts[:, cell])
        rows = np.flatnonzero(free & (quota[leaf] > 0))
        if not len(rows):
            continue
        rng.shuffle(rows)
        rows = rows[np.lexsort((-scores[rows, cell], leaf[rows]))]
        begins = np.flatnonzero(np.r_[True, leaf[rows][1:] != leaf[rows][:-1]])
        place = np.arange(len(rows)) - np.repeat(begins, np.diff(np.r_[begins, len(rows)]))
        chosen = rows[place < quota[leaf[rows]]]
        given[chosen] = cell
        free[chosen] = False
    return given


def _fit_trees(
    models: list[Cells],
    cells: list[Ints],
    people: Floats,
    least: int,
    rng: np.random.Generator | None,
    asked: Mapping[str, Diversity],
    most: int | None,
) -> list[Tree]:
    features = np.stack([as_feature(c, m) for c, m in zip(cells, models)], axis=1)
    sizes = np.array([min(model.size, MOST_CELLS) for model in models])
    ordered = np.array([model.ordered for model in models])
    own = [None] * len(models) if rng is None else spawn(rng, len(models))

    def grown(place: int) -> Tree:
        return fit_tree(
            features[:, :place],
            sizes[:place],
            ordered[:place],
            models[place],
            cells[place],
            people,
            least,
            own[place],
            asked.get(models[place].name),
            most,
        )

    largest_first = range(len(models))[::-1]
    return on_all_cores(grown, largest_first, features.size)[::-1]


def _labels(members: Ints, cells: Ints) -> Ints | None:
    """Return the class of each group, or None if one mixes classes."""
    labels = np.zeros(int(members.max()) + 1, dtype=np.int64)
    labels[members] = cells
    return labels if (labels[members] == cells).all() else None
