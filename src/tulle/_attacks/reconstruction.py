"""Reconstruction: do released numbers give away the numbers of people?

*Exact values*: A release that hands out people's own numbers tells who was in the data, though no
record of theirs stands in it as a whole: trees with leaves of any size do, if they draw from the
values of a leaf. The *collector* looks for a number that only one person has. Guessing is what the
neighbourhood of the number says: of the other numbers there that the column could hold and nobody
has, the share that stands in the release.

*Sums on the grid*: Numbers are written with so many decimals, so the sum of a few people's lies on
the grid of these decimals. Rows drawn for a group with exactly the group's mean add up to that very
sum, though none of them lies on the grid itself: rows that do so together name a group, and in a
group of few people the originals follow. The *adder* takes a released row and looks among its
nearest rows for some that add up to a point of the grid in every column.

*Planes*: Pseudo-records drawn from the covariance of a group with fewer people than columns lie in
the plane that these people span, and each of the people lies in the plane of the group's released
rows. The *surveyor* knows half of a person's numbers, finds the few released rows whose plane comes
nearest to them, and reads the other half off that plane. In how many rows the plane is to be looked
for is chosen on one half of the people and tried on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.inference import CLOSE, best_guess
from tulle._attacks.records import Records, chosen, nearest
from tulle._attacks.result import AttackResult, Scene
from tulle._types import Flags, Floats, Ints

_ODD = 1_000_003
_ROOM = 4.0  # numbers nobody has, next to one's own: with fewer, finding the own one means little


def exact_values(
    original: Floats,
    release: Floats,
    units: Floats,
    rng: np.random.Generator,
    *,
    control: Floats | None = None,
    attempts: int = 1000,
    people: Sequence[Ints | None] = (None, None),
) -> AttackResult | None:
    """Look in the release for one number of each person that nobody else in the data has.

    ``original``, ``release``, ``control`` (n, p): numbers in their own units, NaN where missing.
    ``units`` (p,): what the numbers of each column are multiples of, or 0 where they are as fine as
    floats are. ``people`` (pair of (n,) or None): the person of each record of the original and of
    the control, where people have several. None if hardly anybody has a number of their own.
    """
    inside, outside = people
    columns = [
        _SharedNumbers(*column, inside) for column in zip(original.T, release.T, units.tolist())
    ]
    if not columns:
        return None
    right, guessed, whose = _found(columns, original, inside, rng, attempts, own=True)
    if not len(right):
        return None
    strange, strangers = None, None
    if control is not None:
        strange, _, strangers = _found(columns, control, outside, rng, attempts, own=False)
    return AttackResult.of(
        "exact_values",
        right,
        guessed.sum(),
        strange,
        people=whose,
        strangers=strangers,
        story="Anybody who reads the release and knows a number that only one person has. Right "
        "if that very number stands in its column; guessing is how many of the numbers next to "
        "it, which nobody has, stand there.",
    )


class _SharedNumbers:
    """The numbers of a column that the original and the release hold."""

    def __init__(self, original: Floats, release: Floats, unit: float, people: Ints | None) -> None:
        there = np.isfinite(original)
        if people is None:
            self.held, self.times = np.unique(original[there], return_counts=True)
        else:  # by how many people each is held
            pairs = np.unique(np.stack([original[there], people[there]], axis=1), axis=0)
            self.held, self.times = np.unique(pairs[:, 0], return_counts=True)
        self.released = np.unique(release[np.isfinite(release)])
        self.unit = unit

    def is_own(self, values: Floats, own: bool) -> np.ndarray:
        """Return who has a number that one person has (``own``), or that nobody has."""
        if len(self.held) < 3:
            return np.zeros(len(values), dtype=bool)
        place = np.clip(np.searchsorted(self.held, values), 0, len(self.held) - 1)
        there = self.held[place] == values
        fits = there & (self.times[place] == 1) if own else ~there
        # beyond the ends there is no neighbourhood to compare with
        inside = (values > self.held[0]) & (values < self.held[-1])
        return np.asarray(fits & inside & (self._room(values)[0] >= _ROOM))

    def look(self, values: Floats) -> tuple[np.ndarray, Floats]:
        """Return whether the release holds each number, and the share of its neighbours there."""
        room, released = self._room(values)
        there = np.isin(values, self.released)
        return there, np.clip((released - there) / np.maximum(room, 1.0), 0.0, 1.0)

    def _room(self, values: Floats) -> tuple[Floats, Ints]:
        """Return how many numbers lie between the neighbours, and how many of them are released."""
        last = len(self.held) - 1
        below = self.held[np.clip(np.searchsorted(self.held, values, "left") - 1, 0, last)]
        above = self.held[np.clip(np.searchsorted(self.held, values, "right"), 0, last)]
        width = above - below
        room = width / self.unit - 2.0 if self.unit else np.where(width > 0, 1e9, 0.0)
        first = np.searchsorted(self.released, below, "right")
        return room, np.maximum(np.searchsorted(self.released, above, "left") - first, 0)


def _found(
    columns: list[_SharedNumbers],
    numbers: Floats,
    people: Ints | None,
    rng: np.random.Generator,
    attempts: int,
    *,
    own: bool,
) -> tuple[Flags, Floats, Ints | None]:
    """Look for one number of some people: which are there, how many by chance, and which it is.

    Whether a number is there does not depend on who has it: where the same people are tried in
    several releases, the number is what counts once.
    """
    rows = Records.of_numbers(numbers, people=people).sample(attempts, rng)
    tried = numbers[rows]
    fit = np.stack([c.is_own(tried[:, place], own) for place, c in enumerate(columns)], axis=1)
    lots = np.where(fit, rng.random(fit.shape), -1.0).argmax(axis=1)
    right = np.zeros(len(rows), dtype=bool)
    chance = np.zeros(len(rows))
    for place, column in enumerate(columns):
        mine = fit.any(axis=1) & (lots == place)
        right[mine], chance[mine] = column.look(tried[mine, place])
    some = fit.any(axis=1)
    if people is None:
        return right[some], chance[some], None
    numbers = tried[np.flatnonzero(some), lots[some]] + 0.0
    return right[some], chance[some], numbers.view(np.int64) * _ODD + lots[some]


LARGEST = 9  # rows that are added up
_WINDOWS = {1: 100, 2: 80, 3: 28, 4: 20}  # nearest rows that half of them are taken from
_TOLERANCE = 1e-6  # of the last decimal
_CHANCE = 1e-3  # sums that lie on the grid by chance, for each row and number of rows


def sums_on_grid(
    release: Floats,
    records: Records,
    units: Floats,
    rng: np.random.Generator,
    *,
    attempts: int = 60,
) -> AttackResult | None:
    """Look for released rows that add up to a point of the grid, though none lies on it.

    ``release`` (n, p): numbers in their own units, NaN where missing. ``records``: the same
    release, for distances. ``units`` (p,): what the numbers of each column of the original are
    multiples of, or 0. None if no column of the original has a grid.
    """
    complete = np.isfinite(release).all(axis=1)
    if not (units > 0).any() or complete.sum() < 3:
        return None
    release, records = release[complete], records.take(np.flatnonzero(complete))
    rows = chosen(len(release), attempts, rng)
    parts = _fractions(release, units)
    hits = np.zeros(len(rows), dtype=bool)
    if parts.shape[1]:
        numbers = Records.of_numbers(records.numbers)
        near = nearest(numbers.take(rows), numbers, _WINDOWS[1] + 1).rows
        for place, row in enumerate(rows.tolist()):
            hits[place] = _adds_up(parts[row], parts[near[place][near[place] != row]])
    return AttackResult(
        "sums_on_grid",
        len(rows),
        int(hits.sum()),
        0.0,
        story=f"Someone adds a released row to up to {LARGEST - 1} of those next to it. Right if "
        "they add up to a number with as few decimals as people's numbers have, in every column, "
        "though the rows have more: they are one group then, and their sum is that of its people.",
        details={"columns finer than the original": int(parts.shape[1])},
    )


def _fractions(release: Floats, units: Floats) -> Floats:
    """Return what lies beyond the grid, in the columns that are finer and exact enough."""
    steps = release[:, units > 0] / units[units > 0]
    parts = steps - np.floor(steps)
    off = np.minimum(parts, 1 - parts) > 1e-3
    exact = np.abs(steps).max(axis=0) * np.finfo(float).eps * LARGEST < _TOLERANCE / 4
    # on a grid that is only finer, sums of any rows are often on the coarser one
    many = np.array([len(np.unique(part.round(6))) > len(part) / 2 for part in parts.T], dtype=bool)
    fine = parts[:, (off.mean(axis=0) > 0.5) & exact & many]
    return np.asarray(fine[:, :8])


def _adds_up(own: Floats, near: Floats) -> bool:
    """Tell whether a row and some of those near it add up to a point of the grid."""
    for size in range(2, min(LARGEST, len(near) + 1) + 1):
        first, second = (size - 1) // 2, size - 1 - (size - 1) // 2
        window = min(_WINDOWS[second], len(near))
        left, right = _choices(window, first), _choices(window, second)
        if len(left) * len(right) * (2 * _TOLERANCE) ** near.shape[1] > _CHANCE:
            return False
        if _matches(own, near, left, right):
            return True
    return False


def _matches(own: Floats, near: Floats, left: Ints, right: Ints) -> bool:
    """Meet in the middle: sums of the first half against what the second half lacks."""
    have = (own + near[left].sum(axis=1)) % 1.0
    lack = (-near[right].sum(axis=1)) % 1.0
    order = np.argsort(lack[:, 0], kind="stable")
    sorted_lack = lack[order, 0]
    for turn in (-1.0, 0.0, 1.0):  # fractions just below 1 are next to those just above 0
        low = np.searchsorted(sorted_lack, have[:, 0] + turn - _TOLERANCE)
        high = np.searchsorted(sorted_lack, have[:, 0] + turn + _TOLERANCE)
        counts = high - low
        if not counts.any():
            continue
        first = np.repeat(np.arange(len(have)), counts)
        within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        second = order[np.repeat(low, counts) + within]
        gaps = np.abs(have[first] - lack[second])
        fits = (np.minimum(gaps, 1 - gaps) <= _TOLERANCE).all(axis=1)
        for a, b in zip(left[first[fits]], right[second[fits]]):
            if not set(a.tolist()) & set(b.tolist()):
                return True
    return False


@cache
def _choices(count: int, size: int) -> Ints:
    chosen_rows = list(combinations(range(count), size))
    return np.array(chosen_rows, dtype=np.int64).reshape(len(chosen_rows), size)


_NEAREST = {2: 40, 3: 24, 4: 17, 5: 14}  # rows of a plane, and nearest rows they are taken from
_LEAST = 6  # columns of numbers, of which half are known
_ATTEMPTS = 400  # people, and as many strangers: each takes thousands of planes
_RIDGE = 1e-9


def affine_hull(scene: Scene, rng: np.random.Generator) -> AttackResult | None:
    """Read the unknown half of a person's numbers off the nearest plane of released rows.

    None if there are fewer than six columns of numbers without gaps that vary.
    """
    scene = replace(scene, attempts=min(scene.attempts, _ATTEMPTS))
    original, release = scene.original, scene.release
    names = [
        name
        for place, name in enumerate(original.number_names)
        if name not in original.code_names and np.ptp(original.numbers[:, place]) > 0
    ]
    if len(names) < _LEAST or len(release) < max(_NEAREST.values()):
        return None
    order = rng.permutation(len(names))
    known = [names[place] for place in np.sort(order[: (len(names) + 1) // 2])]
    hidden = [name for name in names if name not in known]
    people, outside = scene.people(rng)[1], scene.strangers(rng)
    mine = _read_off(people, release, known, hidden)
    others = None if outside is None else _read_off(outside, release, known, hidden)
    right, strange = _chosen_size(mine, others, rng)
    guesses = np.stack(
        [best_guess(people.only([name]), release.only([name])) for name in hidden], axis=1
    )
    return AttackResult.of(
        "affine_hull",
        _known_mostly(right),
        _known_mostly(guesses).sum(),
        None if strange is None else _known_mostly(strange),
        people=people,
        strangers=outside,
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
    sizes = [size for size in _NEAREST if size < len(known)]
    rows = nearest(people.only(known), release.only(known), max(_NEAREST.values())).rows
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
    combined = _taken(_NEAREST[size], size)
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
def _taken(count: int, size: int) -> Ints:
    return np.array(list(combinations(range(count), size)), dtype=np.int64)
