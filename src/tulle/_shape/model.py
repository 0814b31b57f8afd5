"""The synthesis that keeps the shape: fitted once on a table, sampled from as often as one likes.

1. Columns that follow from others are left out, and restored at the end through a map.
2. Every column is cut into cells of at least ``k`` people: categories, states, common values and
   stretches of neighbouring ones.
3. Records are points: the coordinates of their cells. Who asks for more than ``k`` is replaced
   first: in each column by the cell of somebody of a group as large as they ask for, by lot.
4. The points are condensed: groups of at least ``5 k`` people (and eight times as many as there are
   columns), their counts and means, and the covariance within groups.
5. A forest for each column, with leaves of at least ``2 k`` people, says how its cells are
   distributed given the columns before, which are those it has most in common with. A split must
   explain several times what noise would. How often, in a leaf and in a group, is drawn once when
   the model is fitted: many draws from it do not average to the true totals. Who holds a rare
   category counts by lot, never or twice.
6. A pseudo-record belongs to a group, chosen at random, and is a point drawn about its mean.
   Column by column, the forest's leaf says which cells the pseudo-records in it get, and the order
   of their points says who gets which.
7. A cell becomes a value of the smoothed quantile function, in the order of the points.

Without forests (one leaf) this is condensation with the columns' own distributions, without groups
it is a chain of forests. The model holds no row and no row's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tulle._columns import Column, cells_of, take_rows
from tulle._people import Owners, weigh_people
from tulle._random import spawn
from tulle._shape.cells import Cells, fit_cells
from tulle._shape.dependencies import Dependency, find_dependencies
from tulle._shape.diversity import Diversity
from tulle._shape.trees import FEW, MOST_CELLS, TREES, Forest, capped, fit_forest
from tulle._threads import cores, in_order, on_all_cores
from tulle._types import Flags, Floats, Ints, Singles
from tulle.errors import PrivacyError

_LEAF = 2  # times k people in a leaf: as many as the blocks of a random half rest on
_GROUP = 5  # times k people in a group,
# and so many for each column: a mean of g people moves by 1/g with one of them, against noise of
# 1/sqrt(g) in the g records drawn about it; over p columns the squared signal is p/g, at most 1/8
_GROUP_BY_COLUMN = 8

LEAF_PIECE = "how a column depends on others (a leaf)"
GROUP_PIECE = "which records are alike (a group)"

# puts points into groups of at least as many people as each row asks for
Group = Callable[[Floats, Ints], Ints]
_MOST_COLUMNS = 32  # that trees of one column split on
_ORDERED_BY = 2 / 3  # of the people, by lot: nobody is to tip which column is drawn first
_FEWEST_DRAWN = 1000  # rows at once: less costs more time than it is worth


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
    fewest: int  # people in a group, at least

    def choose(self, n: int, rng: np.random.Generator) -> Ints:
        shares = self.counts / self.counts.sum()
        wanted = np.floor(np.cumsum(shares) * n + rng.random())
        wanted[-1] = n
        sizes = np.diff(np.minimum(wanted, n), prepend=0).astype(np.int64)
        return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))

    def draw(self, groups: Ints, rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((len(groups), len(self.factor)))
        return np.asarray(self.means[groups] + noise @ self.factor)


def condense(
    points: Floats, groups: Ints, owners: Owners, k: int, rng: np.random.Generator | None = None
) -> CondensedGroups:
    """Keep the statistics of groups; with ``rng``, counts drawn once from the true ones.

    A person with many rows is at most one part in ``k`` of a mean.
    """
    counts = np.bincount(groups)
    fewest = int(owners.holders(groups, len(counts)).min())
    shares = capped(groups, len(counts), owners.people, k)
    sums = on_all_cores(
        lambda part: np.bincount(groups, weights=part * shares), points.T, points.size
    )
    means: Floats = np.stack(sums, axis=1) / np.bincount(groups, weights=shares)[:, None]
    inner = (points - means[groups]) * np.sqrt(shares)[:, None]
    values, vectors = np.linalg.eigh(inner.T @ inner / shares.sum())
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    if rng is not None:
        counts = rng.multinomial(len(points), counts / len(points))
    return CondensedGroups(counts, means, factor, fewest)


@dataclass(frozen=True)
class ShapeModel:
    """What is kept of a table: statistics of at least ``k`` people each."""

    k: int
    n_rows: int
    names: list[str]
    columns: list[Cells]  # those that are not restored, in the order they are drawn
    forests: list[Forest]
    known: list[Ints]  # the columns that the forest of each column splits on
    coordinates: list[Floats]  # of the cells of each column
    groups: CondensedGroups | None
    labels: Ints | None  # the first column's cell in each group, if no group mixes them
    dependencies: list[Dependency]
    leaf: int  # people in every leaf

    def rests_on(self) -> dict[str, int]:
        shown = {"a category, a shared value, missing values": self.k}
        if any(column.ordered for column in self.columns):
            shown["a stretch of numbers"] = self.k
        if self.dependencies:
            shown["a value that follows from another column's"] = self.k
        shown[LEAF_PIECE] = self.leaf
        return shown if self.groups is None else shown | {GROUP_PIECE: self.groups.fewest}

    def verify(self) -> None:
        """Raise unless every leaf and every group holds as many people as it must."""
        small = sum(forest.fewest < self.leaf for forest in self.forests)
        if small:
            raise PrivacyError(
                f"{small} of {len(self.forests)} columns have a leaf with fewer than {self.leaf} "
                "people: nothing is released"
            )
        if self.groups is not None and self.groups.fewest < min(self.k, self.leaf):
            raise PrivacyError(
                f"a group holds {self.groups.fewest} people, fewer than {self.k}: nothing is "
                "released"
            )

    def sample(self, n: int | None, rng: np.random.Generator) -> list[Floats | Ints]:
        """Draw ``n`` rows and return their columns in the order of the table that was fitted."""
        self.verify()
        n = self.n_rows if n is None else n
        most = max(self.n_rows, _FEWEST_DRAWN)
        if n > most:  # points are handed out finer the more there are: outliers would differ
            parts = [self.sample(min(most, n - start), rng) for start in range(0, n, most)]
            return [np.concatenate(column) for column in zip(*parts)]
        drawn, own = self._draw_cells(n, rng), spawn(rng, len(self.columns))
        values: list[Floats | Ints] = on_all_cores(
            lambda place: self.columns[place].decode(drawn[place][0], own[place], drawn[place][1]),
            range(len(drawn)),
            n * len(drawn),
        )
        table = {column.name: found for column, found in zip(self.columns, values)}
        for dependency in self.dependencies:
            table[dependency.target] = dependency.restore(table[dependency.source], rng)
        return [table[name] for name in self.names]

    def _draw_cells(self, n: int, rng: np.random.Generator) -> list[tuple[Ints, Singles | None]]:
        """Return the cells of each column, and the points that their values rise with."""
        groups, points = None, None
        if self.groups is not None:
            groups = self.groups.choose(n, rng)
            points = self.groups.draw(groups, rng)
        features = np.empty((n, len(self.columns)), dtype=np.uint8)
        drawn: list[tuple[Ints, Singles | None]] = []
        for place, (column, part) in enumerate(zip(self.columns, self._parts(points))):
            if place == 0 and self.labels is not None and groups is not None:
                cells = self.labels[groups]
            else:
                cells, leaves = self.forests[place].draw(features[:, self.known[place]], rng)
                if part is not None:
                    cells = hand_out(cells, leaves, *part, column, self.coordinates[place], rng)
            rises = column.ordered and part is not None and part[0].shape[1] > 0
            drawn.append((cells, part[0][:, 0].astype(np.float32) if rises and part else None))
            features[:, place] = as_feature(cells, column)
        return drawn

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
    group: Group | None = None,
    people: Ints | None = None,
    levels: Ints | None = None,
    weights: Mapping[str, float] = MappingProxyType({}),
    exact: bool = False,
    dependent: bool = True,
    demands: Sequence[Diversity] = (),
    settled: bool = False,
    most: int | None = None,
    trees: int = TREES,
) -> ShapeModel:
    """Fit the model of a table of which anything that is kept rests on at least ``k`` people.

    ``label`` is the column of classes, which is drawn first; ``group`` puts points into groups of
    at least as many people as each row asks for, and there are none without it. ``people`` are the
    person of each row, where they have several; ``levels`` how many people each row asks for,
    where that is more than ``k``; ``weights`` how much columns count when groups are formed.

    ``exact`` keeps totals, with blocks of everybody and leaves of ``k`` people, in place of totals
    drawn once, by lot, a random half and leaves of ``2 k``. Closer to the table, but who knows all
    others can tell whether one person was in it. A column with one of the ``demands`` is never
    restored from another: a value that gives it away would reveal it. Which categories there are
    is ``settled`` by a larger table. ``most`` are the rows that each tree is grown on, whose
    leaves count all.
    """
    asked = {demand.name: demand for demand in demands}
    n = len(cells_of(columns[0]))
    owners = Owners.of(people, n, None if levels is None else levels <= k)
    lots = None if exact else rng
    found: list[Dependency] = []
    if dependent:
        rows = np.flatnonzero(owners.counted)
        ordinary = [take_rows(column, rows) for column in columns]
        found = find_dependencies(ordinary, k, owners.weights[rows], keep=label, rng=lots)
    found = [dependency for dependency in found if dependency.target not in asked]
    left_out = {dependency.target for dependency in found}
    kept = [column for column in columns if column.name not in left_out]
    kept.sort(key=lambda column: column.name != label)
    own = spawn(rng, len(kept))
    coded = on_all_cores(
        lambda place: fit_cells(kept[place], k, owners, own[place], exact=exact, settled=settled),
        range(len(kept)),
        n * len(kept),
    )
    coordinates = [model.coordinates(len(kept)) for model, _ in coded]
    some = np.flatnonzero(owners.counted & (exact | (owners.turns(rng) < _ORDERED_BY)))
    shared = in_common(coordinates, [codes[some] for _, codes in coded], owners.take(some).people)
    drawn = drawing_order(shared, kept[0].name == label)
    # what is drawn after a column with a demand could give it away: leaves are checked of its own
    drawn.sort(key=lambda place: kept[place].name in asked and kept[place].name != label)
    known = telling_columns(shared[np.ix_(drawn, drawn)])
    kept, coordinates = [kept[place] for place in drawn], [coordinates[place] for place in drawn]
    models, cells = [coded[place][0] for place in drawn], [coded[place][1] for place in drawn]
    least = k if exact else _LEAF * k
    points, ends = _points(models, cells, kept)
    scale = np.repeat([weights.get(m.name, 1.0) for m in models], np.diff(ends, prepend=0))
    if group is not None and levels is not None and (levels > k).any():
        cells = _blur(points, cells, ends, group(_weighted(points, scale), levels), levels > k, rng)
    forests = _fit_forests(models, cells, owners, known, least, rng, asked, most, trees, k, exact)
    groups, labels = None, None
    if group is not None:
        size = max(_GROUP * k, _GROUP_BY_COLUMN * len(models))
        members = group(_weighted(points, scale), np.full(len(points), size))
        labels = _labels(members, cells[0]) if label is not None else None
        # a class that is known from the group needs no point
        first = int(ends[0]) if labels is not None and len(models) > 1 else 0
        groups = condense(points[:, first:], members, owners, k, None if exact else rng)
    least = min(least, int(owners.weights.sum() + 0.5))  # one leaf holds all of a small table
    for forest, model, codes in zip(forests, models, cells):
        if model.name in asked:
            _check_demand(asked[model.name], forest, codes, model.size)
    fitted = ShapeModel(
        k, n, [column.name for column in columns], models, forests, known, coordinates,
        groups, labels, found, least,
    )  # fmt: skip
    fitted.verify()
    return fitted


def _points(
    models: list[Cells], cells: list[Ints], columns: Sequence[Column]
) -> tuple[Floats, Ints]:
    """Return the rows as points, and where the dimensions of each column end."""
    parts = [
        model.points(column, codes, len(models))  # type: ignore[arg-type]
        for model, column, codes in zip(models, columns, cells)
    ]
    return np.hstack(parts), np.cumsum([part.shape[1] for part in parts])


def _weighted(points: Floats, scale: Floats) -> Floats:
    """Return points times a weight for each dimension, without a copy where all are 1."""
    return points if (scale == 1.0).all() else points * scale


def _blur(
    points: Floats,
    cells: list[Ints],
    ends: Ints,
    groups: Ints,
    high: Flags,
    rng: np.random.Generator,
) -> list[Ints]:
    """Replace rows, in each column by the cell of a row of the same group, by lot.

    The groups are as large as these rows ask for. Points are replaced in place.
    """
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    begin = np.cumsum(counts) - counts
    rows = np.flatnonzero(high)
    own = groups[rows]
    starts, original, replaced = np.r_[0, ends[:-1]], points.copy(), []
    for codes, start, end in zip(cells, starts, ends):
        donors = order[begin[own] + np.floor(rng.random(len(rows)) * counts[own]).astype(np.int64)]
        points[rows, start:end] = original[donors, start:end]
        changed = codes.copy()
        changed[rows] = codes[donors]
        replaced.append(changed)
    return replaced


def _check_demand(demand: Diversity, forest: Forest, cells: Ints, size: int) -> None:
    """Refuse a tree one of whose leaves does not meet a demand; one leaf is the whole table."""
    whole = np.bincount(cells, minlength=size).astype(np.float64)
    for tree in forest.trees:
        counts = tree.tallied(size)
        short = int(demand.falls_short(counts, whole).sum())
        if short and len(counts) > 1:
            raise PrivacyError(
                f"column '{demand.name}': {short} of {len(counts)} leaves do not have "
                f"{demand.describe()}: nothing is released",
                subject=demand.name,
            )


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
        from tulle._shape._kernels import match

        given: Ints = match(drawn, column.size, leaves, int(leaves.max(initial=0)) + 1, by_point)
        return given
    return _nearest_first(drawn, leaves, points @ coordinates.T, rng)


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


def _fit_forests(
    models: list[Cells],
    cells: list[Ints],
    owners: Owners,
    known: list[Ints],
    least: int,
    rng: np.random.Generator,
    asked: Mapping[str, Diversity],
    most: int | None,
    trees: int,
    k: int,
    exact: bool,
) -> list[Forest]:
    features = np.stack([as_feature(c, m) for c, m in zip(cells, models)], axis=1)
    sizes = np.array([min(model.size, MOST_CELLS) for model in models])
    ordered = np.array([model.ordered for model in models])
    own = spawn(rng, len(models))

    def grown(place: int) -> Forest:
        some = known[place]
        return fit_forest(
            features[:, some],
            sizes[some],
            ordered[some],
            models[place],
            cells[place],
            owners,
            least,
            own[place],
            k=k,
            exact=exact,
            demand=asked.get(models[place].name),
            most=most,
            trees=trees,
        )

    largest_first = range(len(models))[::-1]
    return on_all_cores(grown, largest_first, features.size)[::-1]


def _labels(members: Ints, cells: Ints) -> Ints | None:
    """Return the class of each group, or None if one mixes classes."""
    labels = np.zeros(int(members.max()) + 1, dtype=np.int64)
    labels[members] = cells
    return labels if (labels[members] == cells).all() else None


def in_common(
    coordinates: Sequence[Floats], cells: Sequence[Ints], people: Ints | None = None
) -> Floats:
    """Return how much each two columns have in common: their squared correlations, by size.

    Everybody counts once.
    """
    points = np.hstack([one[codes] for one, codes in zip(coordinates, cells)])
    if people is not None:
        points *= np.sqrt(weigh_people(people, len(points)))[:, None]
    starts = np.cumsum([0, *(one.shape[1] for one in coordinates)])[:-1]
    moments = points.T @ points
    shared = np.add.reduceat(np.add.reduceat(moments**2, starts, axis=0), starts, axis=1)
    own = np.sqrt(np.maximum(np.diag(shared), 1e-12))
    return np.asarray(shared / own[:, None] / own)


def drawing_order(shared: Floats, settled: bool) -> list[int]:
    """Return the columns in the order in which a table is drawn, by what they have in common.

    The first is the one that has most in common with all others, if that is not ``settled``, and
    each next one has most in common with those before it: what follows from many is drawn when
    these are known, and what has nothing to say comes last, where it is in nobody's way.
    """
    shared = shared - np.diag(np.diag(shared))
    order = [0 if settled else int(shared.sum(axis=0).argmax())]
    known = shared[order[0]].copy()
    for _ in range(len(shared) - 1):
        known[order] = -1.0
        order.append(int(known.argmax()))
        known += shared[order[-1]]
    return order


def telling_columns(shared: Floats) -> list[Ints]:
    """Return for each column the columns before it that say most about it, a few dozen at most."""
    return [
        np.sort(np.argsort(-row[:place], kind="stable")[:_MOST_COLUMNS])
        for place, row in enumerate(shared)
    ]
