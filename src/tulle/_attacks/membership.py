"""Membership: was this person in the data at all?

The *insurer* has a candidate's record and wants to know whether it was among the data, say of a
clinic. They have a reference list of people who were surely not in the data, and look for what of
the candidate shows in the release and not in the list, each trace by the weight that it has earned:
in columns that were only shuffled, a person's own numbers tell everything and distances nothing.

The hold-out test has several turns: a part of the control are candidates who are not members, next
to as many members, and the rest of it is the reference list. Weights are learnt on the candidates
of the other turns, so that many traces do not help by themselves. The half of the candidates that
looks most like members is called so. The rate is over members; the control is how often a stranger
is called a member; their difference is what the literature calls the membership advantage. An
average hides the few who stand out: so there is also the share of members that are named while one
stranger in a hundred, or in a thousand, is named falsely.

A release is drawn from people, so it holds a little more of what they are like than of what others
are like. Each trace looks for that in its own way: are there more rows alike in two or three
columns at a time than the list has, is the nearest row nearer than in the list, does a simple model
of the release find the person more likely than one of the list does? None tells much alone. They
err in different ways, so their mean tells more than the best of them; and whoever knows some
members, or can make releases of their own, learns which to trust.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.records import Records, nearest
from tulle._attacks.result import AttackResult, Scene
from tulle._types import Flags, Floats, Ints
from tulle.errors import DataError

ALONE = ("own numbers", "nearest", "nearest of ranks")  # tell of copies; else they only add noise
_NEIGHBOURS = (1, 3, 10)
_COARSE, _FINE = 12, 40  # cells of a column of numbers
_SETS = 150  # of columns that are looked at together
_GIVEN = 4  # columns that another one is predicted from
_EACH = 10  # such predictions of a column, at most
_FAR = 5.0  # standard deviations: one trace is not to outvote all others
_SMALL = 0.01  # standard deviations: a distance of 0 is not infinitely telling

_Cells = Sequence[Ints]  # of candidates, release and reference


def traces(
    candidates: Records, release: Records, reference: Records, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return several traces of each candidate by name; the higher, the more like a member's."""
    tables = (candidates, release, reference)
    coarse, fine = (_in_cells(tables, count) for count in (_COARSE, _FINE))
    width = coarse[0].shape[1]
    pairs, triples = (_sets(width, size, rng) for size in (2, 3))
    found = {
        "own numbers": _own_numbers(candidates, release, reference),
        "two columns at a time": _surplus(coarse, pairs, 1.0, rng),
        "three columns at a time": _surplus(coarse, triples, 0.5, rng),
        "three columns in small cells": _surplus(fine, triples, 0.5, rng),
        "each column given others": _likelihood(coarse, rng),
    }
    for space, view in (("", None), (" of ranks", reference)):
        mine, theirs, usual = (_as_ranks(part, view) for part in tables)
        here = nearest(mine, theirs, max(_NEIGHBOURS)).distances + _SMALL
        there = nearest(mine, usual, max(_NEIGHBOURS)).distances + _SMALL
        found[f"nearest{space}"] = -here[:, 0]
        for count in _NEIGHBOURS:
            place = min(count, here.shape[1], there.shape[1]) - 1
            found[f"{count} nearest{space}"] = np.log(there[:, place] / here[:, place])
        if not candidates.numbers.shape[1]:
            break  # the ranks of no numbers are the same
    return found


def learnt(found: Mapping[str, Floats], member: Flags) -> dict[str, float]:
    """Return a weight for each trace, from candidates of whom it is known who was a member.

    One that tells twice as much counts four times as much, and what chance alone would give is
    added to each: learnt from few candidates, weights stay close to equal ones.
    """
    areas = {name: area_under_curve(trace[member], trace[~member]) for name, trace in found.items()}
    chance = 1 / (6 * min(member.sum(), (~member).sum()))  # the variance of an area
    return {
        name: max(0.0, area - 0.5) ** 2 + chance * (name not in ALONE)
        for name, area in areas.items()
    }


def standardized(found: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the traces in standard deviations of these candidates, none of them too far."""
    return {
        name: np.clip((trace - trace.mean()) / (trace.std() or 1.0), -_FAR, _FAR)
        for name, trace in found.items()
    }


def combined(found: Mapping[str, Floats], weights: Mapping[str, float] | None = None) -> Floats:
    """Return one score: the mean of the standardized traces, by weights if any were learnt."""
    if weights is None:
        weights = {name: float(name not in ALONE) for name in found}
    score = np.zeros(len(next(iter(found.values()))))
    for name, trace in standardized(found).items():
        score += weights[name] * trace
    return score / sum(weights.values())


def area_under_curve(members: Floats, strangers: Floats) -> float:
    """Return how often a member's score is above a stranger's; equal ones count half."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([members, strangers]))[: len(members)]
    above = ranks.sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(strangers)))


def _sets(width: int, size: int, rng: np.random.Generator) -> list[Ints]:
    """Return some sets of columns."""
    return [rng.choice(width, min(size, width), replace=False) for _ in range(_SETS)]


def _surplus(cells: _Cells, sets: Sequence[Ints], never: float, rng: np.random.Generator) -> Floats:
    """Return how much more often the release than the list has people who are alike in a few ways.

    Trees that draw a column given others copy the combinations of the people in their leaves; a
    distance over all columns hardly sees it. ``never`` is what a count of 0 is worth.
    """
    scale = len(cells[1]) / len(cells[2])
    score = np.zeros(len(cells[0]))
    for some in sets:
        asked, held, usual = _keys(cells, some, rng)
        score += np.log((_times(asked, held) + never) / (_times(asked, usual) * scale + never))
    return score / len(sets)


def _likelihood(cells: _Cells, rng: np.random.Generator) -> Floats:
    """Return how much likelier a model of the release finds each candidate than one of the list.

    The model predicts each column from a few others, by counts, and takes the mean of several such
    predictions.
    """
    width = cells[0].shape[1]
    each = max(1, min(_EACH, _SETS // width))
    score = np.zeros(len(cells[0]))
    for column in range(width):
        others = np.delete(np.arange(width), column)
        chances = np.zeros((2, len(cells[0])))
        alone = _keys(cells, np.array([column]), rng)
        for _ in range(each):
            given = rng.choice(others, min(_GIVEN, len(others)), replace=False)
            known = _keys(cells, given, rng)
            both = [one + other for one, other in zip(known, alone)]
            for place, table in enumerate((1, 2)):
                usual = (_times(alone[0], alone[table]) + 0.5) / (len(alone[table]) + 1)
                alike = _times(known[0], known[table])
                chances[place] += (_times(both[0], both[table]) + usual) / (alike + 1)
        score += np.log(chances[0] / chances[1])
    return score


def _keys(cells: _Cells, columns: Ints, rng: np.random.Generator) -> list[Ints]:
    """Return one number for each combination of cells; large factors keep combinations apart."""
    factors = rng.integers(1, 2**62, len(columns)) | 1
    return [table[:, columns] @ factors for table in cells]


def _times(values: NDArray[Any], table: NDArray[Any]) -> Ints:
    """Return how often a table holds each value."""
    ordered = np.sort(table)
    return np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")


def _own_numbers(candidates: Records, release: Records, reference: Records) -> Floats:
    """Return how much more often the release holds a candidate's very numbers than the list."""
    score = np.zeros(len(candidates))
    for mine, held, usual in zip(candidates.numbers.T, release.numbers.T, reference.numbers.T):
        score += np.log((_times(mine, held) + 0.5) / len(held))
        score -= np.log((_times(mine, usual) + 0.5) / len(usual))
    return score


def _in_cells(tables: Sequence[Records], count: int) -> list[Ints]:
    """Return records as cells: categories, and stretches of as many of the list's numbers each."""
    levels = np.linspace(0, 1, count + 1)[1:-1]
    edges = [np.unique(np.quantile(column, levels)) for column in tables[-1].numbers.T]
    cut = [
        [np.searchsorted(borders, v, side="right") for v, borders in zip(part.numbers.T, edges)]
        for part in tables
    ]
    return [
        np.column_stack([*numbers, *part.codes.T]).astype(np.int64)
        for numbers, part in zip(cut, tables)
    ]


def _as_ranks(records: Records, view: Records | None) -> Records:
    """Return records with numbers as ranks in the list, about as far apart as before."""
    if view is None:
        return records
    numbers = np.empty_like(records.numbers)
    for place, column in enumerate(view.numbers.T):
        ordered = np.sort(column)
        values = records.numbers[:, place]
        ranks = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")
        numbers[:, place] = ranks * (np.sqrt(3.0) / len(ordered))
    return Records(numbers, records.codes, records.number_names, records.code_names)


LEAST = 20  # people in the control
_TURNS = 5


class _Turn(NamedTuple):
    """Candidates that are tried together, their traces, and what is said of them."""

    member: Flags
    found: Mapping[str, Floats]
    people: Ints | None  # who they are, where something numbers them
    score: Floats = np.empty(0)
    called: Flags = np.empty(0, bool)  # members, as the attacker says
    telling: str = ""  # the trace with most weight


def membership(scene: Scene, rng: np.random.Generator) -> AttackResult:
    """Tell members from strangers, as many of each, by their traces in the release.

    The details hold the area under the curve and the shares named at few false alarms, by the
    names that measures have.
    """
    original, release, control = scene.original, scene.release, scene.control
    if control is None or control.n_people < LEAST:
        raise DataError(
            f"membership needs a control of at least {LEAST} people, but there are "
            f"{0 if control is None else control.n_people}: keep more people out of the release"
        )
    tried = min(scene.attempts, original.n_people, control.n_people)
    rows = rng.permutation(original.sample(tried, rng))
    count = min(_TURNS, max(2, control.n_people // LEAST))
    asked: list[_Turn] = []
    for own, (outside, reference) in zip(np.array_split(rows, count), control.parted(count, rng)):
        strangers = outside.take(outside.sample(len(own), rng))
        if len(own) and len(strangers):
            members = original.take(own[: len(strangers)])
            found = traces(members.stacked(strangers), release, reference, rng)
            whose = None
            if members.people is not None and strangers.people is not None:
                whose = np.concatenate([members.people, strangers.people])
            member = np.arange(len(members) + len(strangers)) < len(members)
            asked.append(_Turn(member, standardized(found), whose))
    turns = [_told(one, [other for other in asked if other is not one], rng) for one in asked]
    member, called = (np.concatenate(part) for part in zip(*((t.member, t.called) for t in turns)))
    numbered = [turn.people for turn in turns if turn.people is not None]
    people = np.concatenate(numbered) if len(numbered) == len(turns) else None
    return AttackResult.of(
        "membership",
        called[member],
        member.sum() / 2,
        called[~member],
        people=None if people is None else people[member],
        strangers=None if people is None else people[~member],
        story="Someone who has a candidate's record, the release, and a list of people who were "
        "not in the data, says whether the candidate was, by what of the candidate shows in the "
        "release and not in the list. Right if a member is called a member; the control is how "
        "often a stranger is.",
        details=_figures(turns),
    )


def _told(turn: _Turn, others: Sequence[_Turn], rng: np.random.Generator) -> _Turn:
    """Score the candidates of a turn by weights that were learnt on those of others."""
    weights = None
    if others:
        known = {name: np.concatenate([one.found[name] for one in others]) for name in turn.found}
        weights = learnt(known, np.concatenate([one.member for one in others]))
    score = combined(turn.found, weights)
    order = np.lexsort((rng.random(len(score)), -score))  # equal ones by lot
    called = np.zeros(len(score), dtype=bool)
    called[order[: len(score) // 2]] = True
    telling = "" if weights is None else max(weights, key=weights.__getitem__)
    return turn._replace(score=score, called=called, telling=telling)


def _figures(turns: Sequence[_Turn]) -> dict[str, Any]:
    """Return the area under the curve, the mean of all turns, and the shares named in all."""
    parted = [(turn.score[turn.member], turn.score[~turn.member]) for turn in turns]
    inside, outside = (np.concatenate(side) for side in zip(*parted))
    return {
        "membership_auc": float(np.mean([area_under_curve(*pair) for pair in parted])),
        "membership_at_1_percent": named_at(inside, outside, 0.01),
        "membership_at_0.1_percent": named_at(inside, outside, 0.001),
        "most telling": ", ".join(dict.fromkeys(turn.telling for turn in turns if turn.telling)),
    }


def named_at(members: Floats, strangers: Floats, false_alarms: float) -> float:
    """Return the share of members above all but this share of strangers.

    Where that is less than one stranger, none may be named falsely.
    """
    allowed = int(false_alarms * len(strangers))
    limit = np.sort(strangers)[-1 - allowed]
    return float((members > limit).mean())
