"""Inference: what is this person's secret?

The *acquaintance* knows a person's other columns, takes the nearest released record, and reads the
secret from it; of several that are alike in what is known, the commonest secret (the median of
numbers). Right if the category is the same, or the number within a tenth of a standard deviation.
Guessing is the single best answer for everyone that the release suggests. A release that mines well
teaches how columns are related, so the rate may be high for anyone: the control separates that from
what the release reveals about its members.

*Homogeneity*: groups of many people protect nobody whose group is all of one diagnosis. The
*neighbour* knows a person's other columns and looks at the nearest released records. If all of them
say the same of the secret, the neighbour believes it; otherwise they say nothing. Guessing is the
commonest secret for the same people: where nearly everybody has one value, all being alike says
little. With an earlier release of the same people, the neighbour keeps the answers that both give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.linkage import as_bytes
from tulle._attacks.records import Records, nearest
from tulle._attacks.result import AttackResult, Scene
from tulle._types import Codes, Floats, Ints

CLOSE = 0.1  # standard deviations: a number that near is known


def inference(
    scene: Scene,
    secret: str,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    who: str = "An acquaintance",
) -> AttackResult:
    """Read the column ``secret`` from the released record nearest in the columns ``known``.

    All other columns are known, unless said.
    """
    original, release = scene.original, scene.release
    columns = tuple(name for name in known or original.columns if name != secret)
    people, outside = scene.people(rng)[1], scene.strangers(rng)
    seen, answers = _answers(release.only(columns), release.only([secret]))
    guess = best_guess(people.only([secret]), release.only([secret]))
    return AttackResult.of(
        f"inference:{secret}",
        _read_off(people, seen, answers),
        guess.sum(),
        None if outside is None else _read_off(outside, seen, answers),
        people=people,
        strangers=outside,
        story=_story(who, columns, original, secret),
    )


def _story(who: str, columns: tuple[str, ...], people: Records, secret: str) -> str:
    """Return who reads a secret, from what, and when they are right."""
    numeric = secret in people.number_names
    right_if = f"within {CLOSE:g} standard deviations" if numeric else "the same"
    return (
        f"{who} who knows {_listed(columns, people)} about a person takes the nearest released "
        f"record and reads '{secret}' from it. Right if it is {right_if}."
    )


def _answers(known: Records, secret: Records) -> tuple[Records, Records]:
    """Return each combination of known values in the release, once, and the secret to read off."""
    _, first, kinds = np.unique(as_bytes(known), return_index=True, return_inverse=True)
    return known.take(first), _told(kinds.ravel(), secret)


def _told(kinds: Ints, secret: Records) -> Records:
    """Return the secret to read off for each kind, 0, 1, ..."""
    if secret.numbers.shape[1]:
        gone = np.asarray(secret.codes.any(axis=1))
        order = np.lexsort((secret.numbers[:, 0], gone, kinds))
        picks = _middles(kinds, gone)
    else:
        order = np.lexsort((secret.codes[:, 0], kinds))
        picks = _commonest(kinds[order], secret.codes[order, 0])
    return secret.take(order[picks])


def _middles(kinds: Ints, gone: NDArray[np.bool_]) -> Ints:
    """Return where the answer of each kind stands if known numbers are sorted, missing ones last.

    The lower median of the known ones; a missing one if most are missing.
    """
    sizes, lost = np.bincount(kinds), np.bincount(kinds, weights=gone).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    present = sizes - lost
    return np.asarray(starts + np.where(lost > present, sizes - 1, np.maximum(present - 1, 0) // 2))


def _commonest(kinds: Ints, codes: Codes) -> Ints:
    """Return where the commonest code of each kind stands first, in rows sorted by both."""
    new = np.ones(len(kinds), dtype=bool)
    new[1:] = (kinds[1:] != kinds[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(new)
    runs = np.diff(np.append(starts, len(kinds)))
    ranked = np.lexsort((-runs, kinds[starts]))
    _, best = np.unique(kinds[starts][ranked], return_index=True)
    return np.asarray(starts[ranked[best]])


def _read_off(people: Records, seen: Records, answers: Records) -> NDArray[np.bool_]:
    links = nearest(people.only(seen.columns), seen).rows[:, 0]
    return agree(people.only(answers.columns), answers.take(links))


def agree(truth: Records, answer: Records) -> NDArray[np.bool_]:
    """Return where numbers are close and codes equal; a missing value must be missing in both."""
    close = (np.abs(truth.numbers - answer.numbers) <= CLOSE).all(axis=1)
    return np.asarray(close & (truth.codes == answer.codes).all(axis=1))


def best_guess(truth: Records, released: Records) -> NDArray[np.bool_]:
    """Return who the single best answer for everybody is right for."""
    if not released.numbers.shape[1]:
        states, counts = np.unique(released.codes, axis=0, return_counts=True)
        return np.asarray((truth.codes == states[np.argmax(counts)]).all(axis=1))
    # a code other than 0 in a column of numbers marks a missing one
    present, known = ~released.codes.any(axis=1), ~truth.codes.any(axis=1)
    low, high, covered = _fullest_window(released.numbers[present, 0])
    if covered < (~present).sum():
        return np.asarray(~known)
    values = truth.numbers[:, 0]
    return np.asarray(known & (low <= values) & (values <= high))


def _fullest_window(values: Floats) -> tuple[float, float, int]:
    """Find the window around one answer with most values: its ends, and how many they are.

    Ends, not the middle: of a value at an end, rounding decides whether it is close to the middle.
    """
    if not len(values):
        return 0.0, 0.0, 0
    ordered = np.sort(values)
    highest = ordered + 2 * CLOSE
    inside = np.searchsorted(ordered, highest, side="right") - np.arange(len(ordered))
    start = int(np.argmax(inside))
    return float(ordered[start]), float(highest[start]), int(inside[start])


def _listed(columns: tuple[str, ...], original: Records) -> str:
    return "all other columns" if len(columns) == len(original.columns) - 1 else ", ".join(columns)


NEIGHBOURS = 5


def homogeneity(
    scene: Scene,
    secret: str,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    earlier: Sequence[Records] = (),
) -> AttackResult:
    """Read ``secret`` where the nearest released records all say the same.

    With ``earlier`` releases, where a single answer occurs near the person in all of them.
    """
    columns = tuple(name for name in known or scene.original.columns if name != secret)
    people, outside = scene.people(rng)[1], scene.strangers(rng)
    releases = [scene.release, *earlier]
    sure, right = _believed(people, releases, columns, secret)
    guess = best_guess(people.only([secret]), scene.release.only([secret]))
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
        None if outside is None else _believed(outside, releases, columns, secret)[1],
        people=people,
        strangers=outside,
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
