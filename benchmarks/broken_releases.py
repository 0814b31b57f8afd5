"""Releases that are broken in ways that audits must see, and people they are made of."""

from __future__ import annotations

import numpy as np
import polars as pl

from tulle._moments import GroupMoments
from tulle.condense._synthesis import synthesize
from tulle.condense.groupings import group_records

Floats = np.ndarray


def measured(rng: np.random.Generator, count: int, columns: int = 10) -> Floats:
    """Return numbers with two decimals that hang together, as measurements of people do."""
    mixing = np.random.default_rng(9).normal(size=(3, columns))
    noise = rng.normal(scale=0.5, size=(count, columns))
    return np.round(10 * (rng.normal(size=(count, 3)) @ mixing + noise), 2)


def own_planes(people: Floats, k: int, rng: np.random.Generator, *, exact: bool = False) -> Floats:
    """Return what the papers' synthesis draws, in groups that may be smaller than the dimensions.

    With ``exact``, groups keep their sums to the last digit.
    """
    scale = people.std(axis=0)
    levels = np.full(len(people), k)
    groups = group_records(people / scale, levels, rng, method="fast")
    moments = GroupMoments.of(people / scale, groups, levels)
    drawn, _ = synthesize(moments, rng, exact=exact)
    return rng.permutation(drawn) * scale


def from_leaves(people: Floats, leaf: int, rng: np.random.Generator) -> Floats:
    """Return rows whose numbers are drawn one by one from people alike: what plain CART does."""
    order = np.argsort(people[:, 0])
    drawn = people[rng.permutation(len(people))].copy()
    for column in range(1, people.shape[1]):
        place = np.searchsorted(people[order, 0], drawn[:, 0])
        near = np.clip(place + rng.integers(-leaf, leaf, len(drawn)), 0, len(people) - 1)
        drawn[:, column] = people[order[near], column]
    return drawn


def survey(rng: np.random.Generator, count: int) -> pl.DataFrame:
    """Return answers in categories."""
    return pl.DataFrame(
        {
            f"q{column}": rng.choice(list("abcde"), count, p=[0.4, 0.3, 0.15, 0.1, 0.05]).tolist()
            for column in range(8)
        }
    )


def with_exact_totals(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return rows whose columns have the exact counts of the original, and nothing else of it."""
    return pl.DataFrame(
        {name: people[name].to_numpy()[rng.permutation(people.height)] for name in people.columns}
    )


def of_one_secret(rng: np.random.Generator, groups: int, k: int) -> tuple[pl.DataFrame, ...]:
    """Return people in groups that share a secret, a release of the groups, and strangers.

    The release repeats the group's mean with its secret. Strangers live in the same places and
    have secrets of their own.
    """
    centres = 20 * rng.random((groups, 2))
    secrets = rng.choice(["well", "ill"], groups)
    place = np.repeat(np.arange(groups), k)
    spread = rng.normal(scale=0.01, size=(len(place), 2))

    def table(points: Floats, told: Floats) -> pl.DataFrame:
        return pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "secret": told.tolist()})

    people = table(centres[place] + spread, secrets[place])
    release = table(np.round(centres[place], 3), secrets[place])
    strangers = table(
        centres[place] + rng.normal(scale=0.01, size=spread.shape),
        rng.choice(["well", "ill"], len(place)),
    )
    return people, release, strangers
