"""Membership: was this person in the data at all?

The *insurer* has a candidate's record and wants to know whether it was among the data, say of a
clinic. They have a reference list of people who were surely not in the data, and several ways to
weigh what the release says where the candidate lives against what the list says: the nearest
record, the nearest over that of the list, the mean of the five nearest, the density by the tenth
(in the manner of DOMIAS), each on numbers as they are and on their ranks; whether the release
holds the candidate's own numbers; and how often it holds what the candidate is like in three
columns at a time. Which one serves best is chosen on one half of the candidates and tried on the
other, so that having many ways is no advantage by itself.

The hold-out test: half of the control serves as the reference list, the other half as candidates
who are not members. The half of the candidates that looks most like members is called so. The rate
is over members; the control is how often a stranger is called a member; their difference is what
the literature calls the membership advantage. An average hides the few who stand out: so there is
also the share of members that are named while one stranger in a hundred, or in a thousand, is
named falsely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.nearest import nearest
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult, tries_of
from tulle._types import Floats, Ints
from tulle.errors import DataError

LEAST = 20  # people in the control
_NEIGHBOURS = 10
_CELLS = 20  # of a column of numbers
_COMBINATIONS = 150  # of three columns
_SMALL = 1e-6  # standard deviations: a distance of 0 is not infinitely telling


def membership(
    original: Records,
    release: Records,
    control: Records,
    rng: np.random.Generator,
    *,
    attempts: int = 1000,
) -> AttackResult:
    """Tell members from strangers, as many of each, by the best of several scores.

    The details hold the area under the curve and the shares named at few false alarms, by the
    names that measures have.
    """
    if control.n_people < LEAST:
        raise DataError(
            f"membership needs a control of at least {LEAST} people, but there are "
            f"{control.n_people}: keep more people out of the release"
        )
    reference, outside = control.halves(rng)
    tried = min(attempts, original.n_people, outside.n_people)
    members = original.take(original.sample(tried, rng))
    strangers = outside.take(outside.sample(tried, rng))
    scores = _scores(members.stacked(strangers), original, release, reference, rng)
    member = np.repeat([True, False], tried)
    called, figures = _tried_on_the_other_half(scores, member, rng)
    return AttackResult(
        "membership",
        tried,
        int(called[:tried].sum()),
        tried / 2,
        int(called[tried:].sum()),
        tried,
        story="Someone who has a candidate's record, the release, and a list of people who were "
        "not in the data, says whether the candidate was, by the best of several measures of "
        "nearness. Right if a member is called a member; the control is how often a stranger is.",
        details=figures,
        inside=tries_of(members.people, called[:tried]),
        outside=tries_of(strangers.people, called[tried:]),
    )


def area_under_curve(members: Floats, strangers: Floats) -> float:
    """Return how often a member's score is above a stranger's; equal ones count half."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([members, strangers]))[: len(members)]
    above = ranks.sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(strangers)))


def named_at(members: Floats, strangers: Floats, false_alarms: float) -> float:
    """Return the share of members above all but this share of strangers.

    Where that is less than one stranger, none may be named falsely.
    """
    allowed = int(false_alarms * len(strangers))
    limit = np.sort(strangers)[-1 - allowed]
    return float((members > limit).mean())


def _scores(
    candidates: Records,
    original: Records,
    release: Records,
    reference: Records,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Return several scores of each candidate; the higher, the more like a member."""
    found = {
        "own numbers": _own_numbers(candidates, release, reference),
        "three columns at a time": _combinations(candidates, release, reference, rng),
    }
    for space, view in (("", None), (" of ranks", original)):
        tables = [_as_ranks(part, view) for part in (candidates, release, reference)]
        here = nearest(tables[0], tables[1], _NEIGHBOURS).distances + _SMALL
        usual = nearest(tables[0], tables[2], _NEIGHBOURS).distances + _SMALL
        found |= {
            f"nearest{space}": -here[:, 0],
            f"nearest against the list{space}": np.log(usual[:, 0] / here[:, 0]),
            f"five nearest{space}": np.log(usual[:, :5].mean(axis=1) / here[:, :5].mean(axis=1)),
            f"density{space}": np.log(usual[:, -1] / here[:, -1]),
        }
        if not original.numbers.shape[1]:
            break  # the ranks of no numbers are the same
    return found


def _as_ranks(records: Records, view: Records | None) -> Records:
    """Return records with numbers as ranks among the original's, about as far apart as before."""
    if view is None:
        return records
    numbers = np.empty_like(records.numbers)
    for place, column in enumerate(view.numbers.T):
        ordered = np.sort(column)
        values = records.numbers[:, place]
        ranks = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")
        numbers[:, place] = ranks * (np.sqrt(3.0) / len(ordered))
    return Records(numbers, records.codes, records.number_names, records.code_names)


def _own_numbers(candidates: Records, release: Records, reference: Records) -> Floats:
    """Return how much more often the release holds a candidate's very numbers than the list."""
    score = np.zeros(len(candidates))
    for place in range(candidates.numbers.shape[1]):
        values = candidates.numbers[:, place]
        score += _log_rate(values, release.numbers[:, place])
        score -= _log_rate(values, reference.numbers[:, place])
    return score


def _combinations(
    candidates: Records, release: Records, reference: Records, rng: np.random.Generator
) -> Floats:
    """Return how much more often the release than the list has people who are alike in a few ways.

    Trees that draw a column given others copy the combinations of the people in their leaves; a
    distance over all columns hardly sees it.
    """
    levels = np.linspace(0, 1, _CELLS + 1)[1:-1]
    edges = [np.unique(np.quantile(column, levels)) for column in release.numbers.T]
    tables = [_in_cells(part, edges) for part in (candidates, release, reference)]
    sizes = np.max([table.max(axis=0, initial=0) for table in tables], axis=0) + 1
    score = np.zeros(len(candidates))
    width = len(sizes)
    for _ in range(_COMBINATIONS):
        some = rng.choice(width, min(3, width), replace=False)
        steps = np.cumprod(np.r_[1, sizes[some][:-1]])
        asked, held, usual = (table[:, some] @ steps for table in tables)
        score += _log_rate(asked, held) - _log_rate(asked, usual)
    return score


def _in_cells(records: Records, edges: list[Floats]) -> Ints:
    """Return records as cells: stretches of numbers, and categories."""
    numbers = [
        np.searchsorted(borders, values, side="right")
        for values, borders in zip(records.numbers.T, edges)
    ]
    return np.column_stack([*numbers, *records.codes.T]).astype(np.int64)


def _log_rate(values: NDArray[Any], table: NDArray[Any]) -> Floats:
    """Return the logarithm of how often a table holds each value; never is half a time."""
    held, times = np.unique(table, return_counts=True)
    at = np.clip(np.searchsorted(held, values), 0, len(held) - 1)
    return np.log((np.where(held[at] == values, times[at], 0) + 0.5) / len(table))


def _tried_on_the_other_half(
    scores: dict[str, Floats], member: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Call members by the score that serves best on the other half; equal scores by lot."""
    lots = rng.random(len(member))
    half = np.empty(len(member), dtype=np.int64)
    for kind in (True, False):
        half[member == kind] = rng.permutation(int((member == kind).sum())) % 2
    called = np.zeros(len(member), dtype=bool)
    areas: list[float] = []
    named: dict[float, list[float]] = {0.01: [], 0.001: []}
    best = []
    for turn in (0, 1):
        learn, test = half != turn, half == turn
        names = list(scores)
        gains = [area_under_curve(*_parted(scores[name], member, learn)) for name in names]
        best.append(names[int(np.argmax(gains))])
        score = scores[best[-1]]
        order = np.lexsort((lots[test], -score[test]))
        called[np.flatnonzero(test)[order[: len(order) // 2]]] = True
        mine, theirs = _parted(score, member, test)
        areas.append(area_under_curve(mine, theirs))
        for alarms, shares in named.items():
            shares.append(named_at(mine, theirs, alarms))
    return called, {
        "membership_auc": float(np.mean(areas)),
        "membership_at_1_percent": float(np.mean(named[0.01])),
        "membership_at_0.1_percent": float(np.mean(named[0.001])),
        "best score": ", ".join(dict.fromkeys(best)),
    }


def _parted(
    score: Floats, member: NDArray[np.bool_], rows: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    return score[member & rows], score[~member & rows]
