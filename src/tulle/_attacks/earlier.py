"""Several releases: what do they tell together that none tells alone?

The *archivist* kept earlier releases of much the same people. Totals first: where a release keeps
the exact count of every category, the difference of two releases is the categories of those who
came and went between them, however large the groups are. A column gives its newcomers away if its
counts changed by no more than people came (or one was replaced): counts drawn at random change by
far more. Guessing is how often that happens to counts drawn at random from the same shares. Then
the attacks of a single release on all together: they are tried on so many more rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from tulle._attacks.inference import inference
from tulle._attacks.membership import membership
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult, Scene
from tulle._types import Floats, Ints

_VALUES = 64  # different numbers up to which a column of numbers is counted by value
_DRAWS = 40  # of random counts, for guessing
_REPLACED = 2  # counts that one person changes who takes another's place


def earlier_totals(
    scene: Scene, earlier: Sequence[Records], rng: np.random.Generator
) -> AttackResult | None:
    """Subtract the counts of each column's values; None if no column is counted by value."""
    original, release = scene.original, scene.release
    columns = [
        counts
        for before in earlier
        for name in original.columns
        if (counts := _counts(name, original, release, before)) is not None
    ]
    if not columns:
        return None
    chance = float(np.mean([_by_chance(counts, rng) for counts in columns]))
    right = sum(_gives_away(now, before) for now, before in columns)
    return AttackResult(
        "earlier_totals",
        len(columns),
        right,
        chance * len(columns),
        story="Someone who kept an earlier release subtracts the counts of a column's values. "
        "Right if they changed by no more than people came or left (or one was replaced): then "
        "the difference is the newcomers' values. Guessing is counts drawn at random.",
    )


def earlier_membership(
    scene: Scene, earlier: Sequence[Records], rng: np.random.Generator
) -> AttackResult:
    """Tell members from strangers by all releases at once."""
    found = membership(_of_all(scene, earlier), rng)
    return replace(
        found,
        name="earlier_membership",
        story="The attack on membership with the rows of all releases.",
        details={"area under the curve": found.details["membership_auc"]},
    )


def earlier_inference(
    scene: Scene,
    earlier: Sequence[Records],
    secret: str,
    rng: np.random.Generator,
    *,
    known: list[str] | None = None,
) -> AttackResult:
    """Read a secret off the nearest record of all releases."""
    return replace(
        inference(_of_all(scene, earlier), secret, rng, known=known),
        name=f"earlier_inference:{secret}",
        story=f"The inference of '{secret}' with the rows of all releases.",
    )


def _of_all(scene: Scene, earlier: Sequence[Records]) -> Scene:
    return replace(scene, release=reduce(Records.stacked, earlier, scene.release))


def _counts(
    name: str, original: Records, release: Records, before: Records
) -> tuple[Ints, Ints] | None:
    """Return how often each value of a column occurs in both releases; None if they are many."""
    parts = [table.only([name]) for table in (original, release, before)]
    if parts[0].numbers.shape[1] and len(np.unique(parts[0].numbers[:, 0])) > _VALUES:
        return None
    cells = [np.hstack([part.numbers, part.codes]) for part in parts[1:]]
    _, values = np.unique(np.vstack(cells), axis=0, return_inverse=True)
    values = values.ravel()
    if not values.max():
        return None  # one value only: nothing can change
    size = int(values.max()) + 1
    now, then = (np.bincount(part, minlength=size) for part in np.split(values, [len(release)]))
    return now, then


def _gives_away(now: Ints, before: Ints) -> bool:
    came = abs(int(now.sum()) - int(before.sum()))
    return bool(np.abs(now - before).sum() <= came + _REPLACED)


def _by_chance(counts: tuple[Ints, Ints], rng: np.random.Generator) -> float:
    """Return how often random counts of the same shares would look as if they gave people away."""
    both = counts[0] + counts[1]
    shares: Floats = both / both.sum()
    drawn = [rng.multinomial(part.sum(), shares, _DRAWS) for part in counts]
    return float(np.mean([_gives_away(now, before) for now, before in zip(*drawn)]))
