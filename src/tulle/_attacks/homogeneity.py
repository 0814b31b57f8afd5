"""Homogeneity: do all released records like a person share one secret?

Groups of many people protect nobody whose group is all of one diagnosis. The *neighbour* knows a
person's other columns and looks at the nearest released records. If all of them say the same of the
secret, the neighbour believes it; otherwise they say nothing. Guessing is the commonest secret for
the same people: where nearly everybody has one value, all being alike says little. With an earlier
release of the same people, the neighbour keeps the answers that both give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.inference import CLOSE, best_guess
from tulle._attacks.nearest import nearest
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult

NEIGHBOURS = 5


def homogeneity(
    original: Records,
    release: Records,
    secret: str,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    control: Records | None = None,
    earlier: Sequence[Records] = (),
    attempts: int = 1000,
) -> AttackResult:
    """Read ``secret`` where the nearest released records all say the same.

    With ``earlier`` releases, where a single answer occurs near the person in all of them.
    """
    columns = tuple(name for name in known or original.columns if name != secret)
    people = original.take(original.sample(attempts, rng))
    releases = [release, *earlier]
    sure, right = _believed(people, releases, columns, secret)
    guess = best_guess(people.only([secret]), release.only([secret]))
    strange, outside = None, None
    if control is not None:
        outside = control.take(control.sample(attempts, rng))
        strange = _believed(outside, releases, columns, secret)[1]
    told = (
        f"the {NEIGHBOURS} nearest released records: if they all say the same of '{secret}'"
        if not earlier
        else f"the {NEIGHBOURS} nearest records of each release: if only one answer for "
        f"'{secret}' occurs in all"
    )
    return AttackResult.of(
        f"{'earlier_intersection' if earlier else 'homogeneity'}:{secret}",
        right,
        (guess & sure).sum(),
        strange,
        people=people.people,
        strangers=None if outside is None else outside.people,
        story=f"A neighbour who knows other columns of a person looks at {told}, they believe it. "
        "Right if it is true; guessing is the commonest answer for those of whom they are sure.",
        details={
            "people of whom the attacker is sure": int(sure.sum()),
            "of these, people of whom something false is believed": int((sure & ~right).sum()),
        },
    )


def _believed(
    people: Records, releases: list[Records], columns: tuple[str, ...], secret: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for whom the attacker is sure, and for whom they are sure and right."""
    truth = people.only([secret])
    shown = []
    for release in releases:
        rows = nearest(people.only(columns), release.only(columns), NEIGHBOURS).rows
        answers = release.only([secret])
        shown.append((answers.numbers[rows], answers.codes[rows]))
    if truth.numbers.shape[1]:
        return _sure_of_numbers(truth, shown)
    return _sure_of_codes(truth, [codes[:, :, 0] for _, codes in shown])


def _sure_of_codes(
    truth: Records, shown: list[NDArray[np.int32]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    own = truth.codes[:, 0]
    if len(shown) == 1:
        sure = (shown[0] == shown[0][:, :1]).all(axis=1)
        return np.asarray(sure), np.asarray(sure & (shown[0][:, 0] == own))
    sure, right = np.zeros(len(own), dtype=bool), np.zeros(len(own), dtype=bool)
    for person, answers in enumerate(zip(*shown)):
        common = reduce(np.intersect1d, answers)
        sure[person] = len(common) == 1
        right[person] = sure[person] and common[0] == own[person]
    return sure, right


def _sure_of_numbers(
    truth: Records, shown: list[tuple[NDArray[np.float64], NDArray[np.int32]]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Numbers are the same where they lie within a tenth of a standard deviation."""
    numbers = np.concatenate([values[:, :, 0] for values, _ in shown], axis=1)
    gone = np.concatenate([codes.any(axis=2) for _, codes in shown], axis=1)
    sure = (np.ptp(numbers, axis=1) <= 2 * CLOSE) & ~gone.any(axis=1)
    middle = np.median(numbers, axis=1)
    near = (np.abs(middle - truth.numbers[:, 0]) <= CLOSE) & ~truth.codes.any(axis=1)
    return sure, sure & near
