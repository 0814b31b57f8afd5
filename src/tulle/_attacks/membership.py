"""Membership: was this person in the data at all?

The *insurer* has a candidate's record and wants to know whether it was among the data, say of a
clinic. They have a reference list of people who were surely not in the data, and look for what of
the candidate shows in the release and not in the list (:mod:`tulle._attacks.traces`), each trace by
the weight that it has earned: in columns that were only shuffled, a person's own numbers tell
everything and distances nothing.

The hold-out test has several turns: a part of the control are candidates who are not members, next
to as many members, and the rest of it is the reference list. Weights are learnt on the candidates
of the other turns, so that many traces do not help by themselves. The
half of the candidates that looks most like members is called so. The rate is over members; the
control is how often a stranger is called a member; their difference is what the literature calls
the membership advantage. An average hides the few who stand out: so there is also the share of
members that are named while one stranger in a hundred, or in a thousand, is named falsely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult, Tries
from tulle._attacks.traces import area_under_curve, combined, learnt, standardized, traces
from tulle._types import Flags, Floats, Ints
from tulle.errors import DataError

LEAST = 20  # people in the control
_TURNS = 5


class _Turn(NamedTuple):
    """Candidates that are tried together, and their traces."""

    member: Flags
    found: Mapping[str, Floats]
    people: Ints | None  # who they are, where something numbers them


class _Called(NamedTuple):
    """What is said of the candidates of a turn: their scores, and who is called a member."""

    member: Flags
    score: Floats
    called: Flags
    people: Ints | None
    telling: list[str]  # the traces with most weight


def membership(
    original: Records,
    release: Records,
    control: Records,
    rng: np.random.Generator,
    *,
    attempts: int = 1000,
) -> AttackResult:
    """Tell members from strangers, as many of each, by their traces in the release.

    The details hold the area under the curve and the shares named at few false alarms, by the
    names that measures have.
    """
    if control.n_people < LEAST:
        raise DataError(
            f"membership needs a control of at least {LEAST} people, but there are "
            f"{control.n_people}: keep more people out of the release"
        )
    tried = min(attempts, original.n_people, control.n_people)
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
    tried = sum(int(turn.member.sum()) for turn in turns)
    return AttackResult(
        "membership",
        tried,
        sum(int(turn.called[turn.member].sum()) for turn in turns),
        tried / 2,
        sum(int(turn.called[~turn.member].sum()) for turn in turns),
        tried,
        story="Someone who has a candidate's record, the release, and a list of people who were "
        "not in the data, says whether the candidate was, by what of the candidate shows in the "
        "release and not in the list. Right if a member is called a member; the control is how "
        "often a stranger is.",
        details=_figures(turns),
        inside=_tries(turns, members=True),
        outside=_tries(turns, members=False),
    )


def _told(turn: _Turn, others: Sequence[_Turn], rng: np.random.Generator) -> _Called:
    """Score the candidates of a turn by weights that were learnt on those of others."""
    weights = None
    if others:
        known = {name: np.concatenate([one.found[name] for one in others]) for name in turn.found}
        weights = learnt(known, np.concatenate([one.member for one in others]))
    score = combined(turn.found, weights)
    order = np.lexsort((rng.random(len(score)), -score))  # equal ones by lot
    called = np.zeros(len(score), dtype=bool)
    called[order[: len(score) // 2]] = True
    telling = [] if weights is None else [max(weights, key=weights.__getitem__)]
    return _Called(turn.member, score, called, turn.people, telling)


def _tries(turns: Sequence[_Called], *, members: bool) -> Tries | None:
    """Return who was tried, and whether they were called members; None where nobody is numbered."""
    people, called = [], []
    for turn in turns:
        if turn.people is None:
            return None
        some = turn.member == members
        people.append(turn.people[some])
        called.append(turn.called[some])
    return Tries(np.concatenate(people), np.concatenate(called)) if turns else None


def _figures(turns: Sequence[_Called]) -> dict[str, Any]:
    """Return the area under the curve, the mean of all turns, and the shares named in all."""
    parted = [(turn.score[turn.member], turn.score[~turn.member]) for turn in turns]
    inside, outside = (np.concatenate(side) for side in zip(*parted))
    named = {"1_percent": 0.01, "0.1_percent": 0.001}
    return {
        "membership_auc": float(np.mean([area_under_curve(*pair) for pair in parted])),
        **{
            f"membership_at_{words}": named_at(inside, outside, share)
            for words, share in named.items()
        },
        "most telling": ", ".join(dict.fromkeys(name for turn in turns for name in turn.telling)),
    }


def named_at(members: Floats, strangers: Floats, false_alarms: float) -> float:
    """Return the share of members above all but this share of strangers.

    Where that is less than one stranger, none may be named falsely.
    """
    allowed = int(false_alarms * len(strangers))
    limit = np.sort(strangers)[-1 - allowed]
    return float((members > limit).mean())
