"""How much likelier somebody is among the people of the data than among drawn ones.

A sum of small trees that tell both apart, each of whose leaves holds at least so many people of the
data; how often these occur in a leaf is drawn by lot. Of several histories that were drawn for the
same person, one is chosen by these odds: what the steps from row to row lose of a history as a
whole, the choice gives back. How many trees there are is decided on people whom none was grown on;
where trees do not help these, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._columns import Column, NumberColumn, cells_of
from tulle._people import Owners
from tulle._shape.cells import Cells, fit_cells
from tulle._shape.sequence import as_byte
from tulle._shape.trees import MOST_CELLS, leaves_of
from tulle._types import Floats, Ints
from tulle.errors import PrivacyError

_MOST_TREES = 60
_PATIENCE = 6  # trees that may be no help before no more are grown
_APART = 0.2  # of the people: they decide how many trees there are
_RATE = 0.2  # of what a tree says that is believed
_EVIDENCE = 4.0  # times what a split of noise explains
_FAR = 2.0  # that a leaf moves the odds, at most
_SHOWN = 6  # categories whose shares among somebody's rows are a trait


class OddsTree(NamedTuple):
    """One tree, and what is added to the odds in each of its nodes."""

    split: Ints
    goes_left: NDArray[np.uint8]
    left: Ints
    values: Floats
    fewest: int  # people of the data in a leaf, at least


class Odds(NamedTuple):
    """The logarithm of the odds, as a sum of trees over cells."""

    coders: list[Cells]
    trees: list[OddsTree]

    def verify(self, least: int) -> None:
        """Raise unless every leaf holds as many people as it must."""
        if any(tree.fewest < least for tree in self.trees):
            raise PrivacyError(
                f"a history would be chosen by fewer than {least} people: nothing is released"
            )

    def of(self, traits: Sequence[Column]) -> Floats:
        """Return the odds of each person with such traits."""
        features = _coded(self.coders, traits)
        parts = (tree.values[leaves_of(features, *tree[:3])] for tree in self.trees)
        return np.asarray(sum(parts, np.zeros(len(features))))

    def choose(self, traits: Sequence[Column], times: int, rng: np.random.Generator) -> Ints:
        """Return one of ``times`` drawings of each person by lot, the likelier the more often."""
        odds = self.of(traits).reshape(times, -1)
        best = (odds + rng.gumbel(size=odds.shape)).argmax(axis=0)
        return best * odds.shape[1] + np.arange(odds.shape[1])


def traits_of(
    columns: Sequence[Column], people: Ints, n: int, shown: Mapping[str, Ints]
) -> list[Column]:
    """Return what the rows of each of ``n`` people, which stand together in order, are like."""
    counts = np.bincount(people, minlength=n)
    begin = np.minimum(np.cumsum(counts) - counts, max(len(people) - 1, 0))
    end = np.maximum(np.cumsum(counts) - 1, 0)
    found: dict[str, Any] = {}
    for column in columns if len(people) else ():
        values, name = cells_of(column), column.name
        if not isinstance(column, NumberColumn):
            pairs = np.unique(people * (column.size + 1) + values + 1)
            found[f"different {name}"] = np.bincount(pairs // (column.size + 1), minlength=n) + 0.0
            for code in shown[name].tolist():
                held = np.bincount(people, weights=values == code, minlength=n)
                found[f"{code} {name}"] = held / np.maximum(counts, 1)
            continue
        there = np.isfinite(values) & ~np.isin(values, column.specials)  # states are not numbers
        values = np.where(there, values, np.nan)
        known = np.bincount(people, weights=there, minlength=n)
        mean, square = (
            np.bincount(people, weights=np.where(there, values, 0.0) ** power, minlength=n)
            / np.where(known > 0, known, np.nan)
            for power in (1, 2)
        )
        found |= {f"mean {name}": mean, f"gone {name}": counts - known}
        found[f"spread {name}"] = np.sqrt(np.maximum(square - mean**2, 0.0))
        for word, at in (("first", begin), ("last", end)):
            found[f"{word} {name}"] = np.where(counts > 0, values[at], np.nan)
    return [NumberColumn(name, np.round(values, 9)) for name, values in found.items()]


def shown_of(columns: Sequence[Column], people: Ints) -> dict[str, Ints]:
    """Return the categories of each column that the most people hold."""
    owners = Owners.of(people, len(people))
    return {
        c.name: np.argsort(-owners.holders(c.codes, c.size), kind="stable")[:_SHOWN]
        for c in columns
        if not isinstance(c, NumberColumn)
    }


def fit_odds(
    own: Sequence[Column],
    drawn: Sequence[Column],
    times: int,
    k: int,
    least: int,
    rng: np.random.Generator,
) -> Odds:
    """Grow trees after which chosen histories are like those of the people of the data.

    Own and drawn people have the same traits, one row each; of the drawn, ``times`` drawings stand
    one after the other. A cell of a trait rests on at least ``k`` people of the data, and a leaf
    holds at least ``least``.
    """
    owners = Owners.of(None, len(cells_of(own[0])))
    coders = [fit_cells(column, k, owners, rng, exact=False)[0] for column in own]
    growing = _Growing(_coded(coders, own), _coded(coders, drawn), times, coders, least, rng)
    while len(growing.trees) < min(_MOST_TREES, growing.best + _PATIENCE) and growing.grow():
        pass
    return Odds(coders, growing.trees[: growing.best])


class _Growing:
    """Trees while they are grown, on some of the people; the others say when to stop.

    What is grown on is the difference between the people of the data and the drawings that would
    be chosen by the trees so far: the likelihood of the choice rises along it.
    """

    def __init__(
        self,
        own: NDArray[np.uint8],
        drawn: NDArray[np.uint8],
        times: int,
        coders: Sequence[Cells],
        least: int,
        rng: np.random.Generator,
    ) -> None:
        self.features, self.n, self.least, self.rng = np.vstack([own, drawn]), len(own), least, rng
        self.sizes = np.array([min(cells.size, MOST_CELLS) for cells in coders], dtype=np.int64)
        self.ordered = np.array([cells.ordered for cells in coders], dtype=bool)
        self.times, sets = times, len(drawn) // times
        self.apart, self.sets_apart = (
            rng.permutation(size) < max(1, round(_APART * size)) for size in (self.n, sets)
        )
        self.odds, self.gains = np.zeros(len(self.features)), [0.0]
        self.trees: list[OddsTree] = []

    @property
    def best(self) -> int:
        """How many trees the people apart are served best by."""
        return int(np.argmax(self.gains))

    def grow(self) -> bool:
        """Grow one more tree, and see what it does for the people apart; say if there was one."""
        tree = self._tree()
        if len(tree.split) == 1:
            return False
        self.trees.append(tree)
        self.odds = self.odds + tree.values[leaves_of(self.features, *tree[:3])]
        drawn = self.odds[self.n :].reshape(self.times, -1)[:, self.sets_apart]
        chances = np.log(np.exp(drawn).mean(axis=0))
        self.gains.append(float(self.odds[: self.n][self.apart].mean() - chances.mean()))
        return True

    def _tree(self) -> OddsTree:
        from tulle._shape._kernels import grow

        chances = np.exp(self.odds[self.n :].reshape(self.times, -1))
        chances = chances / chances.sum(axis=0) / (~self.sets_apart).sum()
        shares = np.r_[np.full(self.n, 1 / (~self.apart).sum()), chances.ravel()]
        apart = np.r_[self.apart, np.tile(self.sets_apart, self.times)]
        some = np.flatnonzero(~apart)
        people = np.where(some < self.n, some, -1)
        wanted = np.where(people < 0, -shares[some], shares[some])
        (split, left), goes_left, leaf = grow(
            self.features[some], self.sizes, self.ordered, np.zeros(len(some), np.int64), 1,
            wanted / max(float(wanted.std()), 1e-300), people, float(self.least), _EVIDENCE,
        )  # fmt: skip
        lots = np.where(people < 0, 1, self.rng.poisson(1.0, len(some)))
        own, drawn = (
            np.bincount(leaf, weights=part * lots * shares[some], minlength=len(split))
            for part in (people >= 0, people < 0)
        )
        few = 1 / (~self.apart).sum()
        values = _RATE * np.clip(np.log((own + few) / (drawn + few)), -_FAR, _FAR)
        held = np.bincount(leaf[people >= 0], minlength=len(split))
        fewest = int(held[np.unique(leaf)].min())
        return OddsTree(split, np.packbits(goes_left, axis=1), left, values, fewest)


def _coded(coders: Sequence[Cells], traits: Sequence[Column]) -> NDArray[np.uint8]:
    return np.stack([as_byte(cells, column) for cells, column in zip(coders, traits)], axis=1)
