"""Shadow attackers: learn from many releases, made with and without a person, what gives them away.

Each *round* is a release of half of the people, drawn at random, and the traces of the same targets
in it. An attacker learns on some rounds, of which it knows who was in, and is tried on others.
There are four: one that learns nothing and takes the mean of the traces; one that learns the same
weights for everybody; one that first takes off what is usual for each target; and one that adjusts
these weights to each target. The best of them counts. Choosing the best flatters it, so the control
is the best of the same four where who was in has been shuffled: what luck alone would achieve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tulle._attacks.membership import named_at
from tulle._attacks.result import AttackResult
from tulle._types import Flags, Floats

_FOLDS = 4
_FEW = 0.01  # false alarms at which the share named is reported
_COMMON, _OWN = 10.0, 100.0  # how strongly weights are held back: everybody's, and each target's
_STRAY = 1.96  # standard errors

Attacker = Callable[[Floats, Flags, Floats], Floats]  # traces and truth learnt from, traces asked


class Achieved(NamedTuple):
    """What the best attacker achieves after so many releases of their own."""

    releases: int
    seconds: float  # of CPU time, for making and reading them
    attacker: str
    area: float  # under the curve, the mean over targets, with its 95 % interval by targets
    low: float
    high: float
    named: float  # share of those who are in, at one false alarm in a hundred
    control: float  # the area where who was in was shuffled


def steps(
    seen: Floats, inside: Flags, seconds: Floats, rng: np.random.Generator
) -> Iterator[tuple[Achieved, Floats]]:
    """Yield the curve: what is achieved with 0, 2, 4, ... releases, and the scores behind it.

    ``seen`` holds the traces (rounds, targets, traces), ``inside`` who was in (rounds, targets).
    """
    count = len(seen)
    seen = _standardized(seen)
    shuffled = np.stack([rng.permutation(column) for column in inside.T], axis=1)
    learnt = [0] + [2**power for power in range(1, 64) if 2**power < _most(count)]
    for releases in dict.fromkeys([*learnt, _most(count)]):
        name, scores = _best(seen, inside, releases)
        _, by_luck = _best(seen, shuffled, releases)
        areas = _areas(scores, inside)
        spread = _STRAY * float(areas.std()) / math.sqrt(max(1, len(areas) - 1))
        area = float(areas.mean())
        named = named_at(scores[inside], scores[~inside], _FEW)
        spent = float(seconds.mean()) * (releases + 1)  # the release under attack is read too
        luck = float(_areas(by_luck, shuffled).mean())
        yield (
            Achieved(releases, spent, name, area, area - spread, area + spread, named, luck),
            scores,
        )


def challenge_result(scores: Floats, inside: Flags, rounds: int) -> AttackResult:
    """Return the outcome in people: of each, the half of the rounds that look most like in."""
    called = scores > np.median(scores, axis=0)
    told = _tried(inside)
    right, wrong = (
        float((called & those).sum(axis=0)[told] @ (1 / those.sum(axis=0)[told]))
        for those in (inside, ~inside)
    )
    people = int(told.sum())
    return AttackResult(
        "challenge",
        people,
        round(right),
        people / 2,
        round(wrong),
        people,
        story="Someone who holds people of the same kind and the program makes releases by the "
        "hundred, learns from them what gives a person away, and says of other releases whether "
        "the person was in. Right if a release with the person is called so; the control are "
        "releases without.",
        details={"releases": rounds, "area under the curve": float(_areas(scores, inside).mean())},
    )


def _most(count: int) -> int:
    """Return how many rounds an attacker can learn from: all but one fold."""
    return count - math.ceil(count / _FOLDS)


def _standardized(seen: Floats) -> Floats:
    """Return traces in standard deviations, of all targets in each round."""
    middle, spread = seen.mean(axis=1, keepdims=True), seen.std(axis=1, keepdims=True)
    return np.clip((seen - middle) / np.where(spread > 0, spread, 1.0), -5, 5)


def _best(seen: Floats, inside: Flags, releases: int) -> tuple[str, Floats]:
    """Return the best attacker's name and scores, each round's learnt from others."""
    attackers = _ATTACKERS if releases else dict(list(_ATTACKERS.items())[:1])
    found = {}
    for name, attacker in attackers.items():
        scores = np.empty(inside.shape)
        for fold in range(_FOLDS):
            asked = np.arange(len(seen)) % _FOLDS == fold
            known = np.flatnonzero(~asked)[:releases]
            scores[asked] = attacker(seen[known], inside[known], seen[asked])
        found[name] = scores
    best = max(found, key=lambda name: _areas(found[name], inside).mean())
    return best, found[best]


def _areas(scores: Floats, inside: Flags) -> Floats:
    """Return the area under each target's curve, over the rounds."""
    from scipy.stats import rankdata

    told = _tried(inside)
    scores, inside = scores[:, told], inside[:, told]
    within = inside.sum(axis=0)
    above = (rankdata(scores, axis=0) * inside).sum(axis=0) - within * (within + 1) / 2
    areas = above / (within * (len(inside) - within))
    return np.asarray(areas) if len(areas) else np.array([0.5])


def _tried(inside: Flags) -> Flags:
    """Return which targets were in at times, and out at others."""
    return np.asarray(inside.any(axis=0) & ~inside.all(axis=0))


# The attackers.


def _mean(known: Floats, inside: Flags, asked: Floats) -> Floats:
    return np.asarray(asked.mean(axis=2))


def _same_for_all(known: Floats, inside: Flags, asked: Floats) -> Floats:
    width = known.shape[2]
    return asked @ _weights(known.reshape(-1, width), _sides(inside).ravel(), _COMMON)


def _from_usual(known: Floats, inside: Flags, asked: Floats) -> Floats:
    usual = known.mean(axis=0)
    return _same_for_all(known - usual, inside, asked - usual)


def _for_each(known: Floats, inside: Flags, asked: Floats) -> Floats:
    usual = known.mean(axis=0)
    known, asked, sides = known - usual, asked - usual, _sides(inside)
    common = _weights(known.reshape(-1, known.shape[2]), sides.ravel(), _COMMON)
    scores = asked @ common
    for target in range(known.shape[1]):
        left = sides[:, target] - known[:, target] @ common
        scores[:, target] += asked[:, target] @ _weights(known[:, target], left, _OWN)
    return scores


_ATTACKERS: dict[str, Attacker] = {
    "mean of the traces": _mean,
    "learnt weights": _same_for_all,
    "learnt, from one's usual": _from_usual,
    "learnt for each": _for_each,
}


def _sides(inside: Flags) -> Floats:
    return np.where(inside, 1.0, -1.0)


def _weights(traces: Floats, wanted: Floats, held_back: float) -> Floats:
    """Regress what is wanted on traces, with weights held back towards 0."""
    square = traces.T @ traces + held_back * np.eye(traces.shape[1])
    return np.asarray(np.linalg.solve(square, traces.T @ wanted), dtype=np.float64)
