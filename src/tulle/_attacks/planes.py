"""Planes: is a person an affine combination of a few released rows?

Pseudo-records drawn from the covariance of a group with fewer people than columns lie in the plane
that these people span, and each of the people lies in the plane of the group's released rows. The
*surveyor* knows half of a person's numbers, finds the few released rows whose plane comes nearest
to them, and reads the other half off that plane. In how many rows the plane is to be looked for is
chosen on one half of the people and tried on the other.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.inference import CLOSE, best_guess
from tulle._attacks.nearest import nearest
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult
from tulle._types import Floats, Ints

_WINDOWS = {2: 40, 3: 24, 4: 17, 5: 14}  # rows of a plane, and nearest rows they are taken from
_LEAST = 6  # columns of numbers, of which half are known
_ATTEMPTS = 400  # people, and as many strangers: each takes thousands of planes
_RIDGE = 1e-9


def affine_hull(
    original: Records,
    release: Records,
    rng: np.random.Generator,
    *,
    control: Records | None = None,
    attempts: int = _ATTEMPTS,
) -> AttackResult | None:
    """Read the unknown half of a person's numbers off the nearest plane of released rows.

    None if there are fewer than six columns of numbers without gaps that vary.
    """
    attempts = min(attempts, _ATTEMPTS)
    names = [
        name
        for place, name in enumerate(original.number_names)
        if name not in original.code_names and np.ptp(original.numbers[:, place]) > 0
    ]
    if len(names) < _LEAST or len(release) < max(_WINDOWS.values()):
        return None
    order = rng.permutation(len(names))
    known = [names[place] for place in np.sort(order[: (len(names) + 1) // 2])]
    hidden = [name for name in names if name not in known]
    people = original.take(original.sample(attempts, rng))
    mine = _read_off(people, release, known, hidden)
    others, outside = None, None
    if control is not None:
        outside = control.take(control.sample(attempts, rng))
        others = _read_off(outside, release, known, hidden)
    right, strange = _chosen_size(mine, others, rng)
    guesses = np.stack(
        [best_guess(people.only([name]), release.only([name])) for name in hidden], axis=1
    )
    return AttackResult.of(
        "affine_hull",
        _known_mostly(right),
        _known_mostly(guesses).sum(),
        None if strange is None else _known_mostly(strange),
        people=people.people,
        strangers=None if outside is None else outside.people,
        story=f"Someone who knows {len(known)} numbers of a person finds the two to five released "
        f"rows whose plane comes nearest to them, and reads the other {len(hidden)} numbers off "
        f"it. Right if more than half of these are within {CLOSE:g} standard deviations.",
        details={
            "numbers read, of members": float(right.mean()),
            **({} if strange is None else {"numbers read, of strangers": float(strange.mean())}),
        },
    )


def _known_mostly(right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(right.mean(axis=1) > 0.5)


def _read_off(
    people: Records, release: Records, known: list[str], hidden: list[str]
) -> dict[int, NDArray[np.bool_]]:
    """Return for each number of rows which hidden numbers of whom were right, (m, hidden)."""
    sizes = [size for size in _WINDOWS if size < len(known)]
    rows = nearest(people.only(known), release.only(known), max(_WINDOWS.values())).rows
    # Records.only keeps the order of the table, which is that of the names
    seen, secret = people.only(known).numbers, people.only(hidden).numbers
    shown, answers = release.only(known).numbers, release.only(hidden).numbers
    found = {size: np.zeros(secret.shape, dtype=bool) for size in sizes}
    for person in range(len(people)):
        near = rows[person]
        gaps = shown[near] - seen[person]
        products = gaps @ gaps.T
        for size in sizes:
            members, weights = _nearest_plane(products, size)
            read = weights @ answers[near[members]]
            found[size][person] = np.abs(read - secret[person]) <= CLOSE
    return found


def _nearest_plane(products: Floats, size: int) -> tuple[Ints, Floats]:
    """Return which rows span the plane nearest to the origin, and the weights of its point there.

    ``products`` are the scalar products of the rows. Of a plane with Gram matrix G the nearest
    point has the weights G^-1 1 over their sum, and the squared distance 1 over that sum.
    """
    combined = _choices(_WINDOWS[size], size)
    gram = products[combined[:, :, None], combined[:, None, :]]
    ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(size)
    weights = np.linalg.solve(gram + ridge + 1e-300 * np.eye(size), np.ones((len(gram), size, 1)))
    totals = weights[:, :, 0].sum(axis=1)
    best = int(np.argmax(np.where(np.isfinite(totals), totals, -np.inf)))
    return combined[best], weights[best, :, 0] / totals[best]


def _chosen_size(
    mine: dict[int, NDArray[np.bool_]],
    others: dict[int, NDArray[np.bool_]] | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return what each half of the people gives with the number of rows best on the other."""
    sizes = list(mine)
    half = rng.permutation(len(mine[sizes[0]])) % 2
    outside = None if others is None else rng.permutation(len(others[sizes[0]])) % 2
    right = np.zeros_like(mine[sizes[0]])
    strange = None if others is None else np.zeros_like(others[sizes[0]])
    for turn in (0, 1):
        gains = []
        for size in sizes:
            gain = mine[size][half != turn].mean() if (half != turn).any() else 0.0
            if others is not None and outside is not None and (outside != turn).any():
                gain -= others[size][outside != turn].mean()
            gains.append(gain)
        best = sizes[int(np.argmax(gains))]
        right[half == turn] = mine[best][half == turn]
        if others is not None and outside is not None and strange is not None:
            strange[outside == turn] = others[best][outside == turn]
    return right, strange


@cache
def _choices(count: int, size: int) -> Ints:
    return np.array(list(combinations(range(count), size)), dtype=np.int64)
