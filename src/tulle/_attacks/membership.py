"""Membership: was this person in the data at all?

The *insurer* has a candidate's record and wants to know whether it was among the data, say of a
clinic. They have a reference list of people who were surely not in the data, and look for what of
the candidate shows in the release and not in the list (:mod:`tulle._attacks.traces`), each trace by
the weight that it has earned: in columns that were only shuffled, a person's own numbers tell
everything and distances nothing.

The hold-out test has two turns: one half of the control is the reference list, and the other half
are candidates who are not members; then the other way round. Weights are learnt on half of the
candidates and used on the other half, so that many traces do not help by themselves. The
half of the candidates that looks most like members is called so. The rate is over members; the
control is how often a stranger is called a member; their difference is what the literature calls
the membership advantage. An average hides the few who stand out: so there is also the share of
members that are named while one stranger in a hundred, or in a thousand, is named falsely.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult, Tries
from tulle._attacks.traces import area_under_curve, combined, learnt, traces
from tulle._types import Flags, Floats, Ints
from tulle.errors import DataError

LEAST = 20  # people in the control


class _Turn(NamedTuple):
    """Candidates that are tried together: their scores, and which of them are called members."""

    member: Flags
    score: Floats
    called: Flags
    people: Ints | None  # who they are, where something numbers them
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
    halves = control.halves(rng)
    tried = min(attempts, original.n_people, control.n_people)
    rows = rng.permutation(original.sample(tried, rng))
    turns: list[_Turn] = []
    for own, (reference, outside) in zip(np.array_split(rows, 2), (halves, halves[::-1])):
        strangers = outside.take(outside.sample(len(own), rng))
        if len(own) and len(strangers):
            members = original.take(own[: len(strangers)])
            found = traces(members.stacked(strangers), release, reference, rng)
            whose = None
            if members.people is not None and strangers.people is not None:
                whose = np.concatenate([members.people, strangers.people])
            turns += _tried_on_the_other_half(found, len(strangers), whose, rng)
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


def _tried_on_the_other_half(
    found: Mapping[str, Floats], members: int, people: Ints | None, rng: np.random.Generator
) -> Iterator[_Turn]:
    """Yield both halves of the candidates, scored by weights that were learnt on the other one."""
    member = np.arange(2 * members) < members
    half = np.concatenate([rng.permutation(members) % 2 for _ in range(2)])
    for turn in range(min(2, members)):
        some, others = half == turn, half != turn
        weights = None
        if others.any():
            weights = learnt({name: trace[others] for name, trace in found.items()}, member[others])
        score = combined({name: trace[some] for name, trace in found.items()}, weights)
        order = np.lexsort((rng.random(len(score)), -score))  # equal ones by lot
        called = np.zeros(len(score), dtype=bool)
        called[order[: len(score) // 2]] = True
        telling = [] if weights is None else [max(weights, key=weights.__getitem__)]
        whose = None if people is None else people[some]
        yield _Turn(member[some], score, called, whose, telling)


def _tries(turns: Sequence[_Turn], *, members: bool) -> Tries | None:
    """Return who was tried, and whether they were called members; None where nobody is numbered."""
    people, called = [], []
    for turn in turns:
        if turn.people is None:
            return None
        some = turn.member == members
        people.append(turn.people[some])
        called.append(turn.called[some])
    return Tries(np.concatenate(people), np.concatenate(called)) if turns else None


def _figures(turns: Sequence[_Turn]) -> dict[str, Any]:
    """Return the area under the curve and the shares named, the means of all turns."""
    parted = [(turn.score[turn.member], turn.score[~turn.member]) for turn in turns]
    named = {"1_percent": 0.01, "0.1_percent": 0.001}
    return {
        "membership_auc": float(np.mean([area_under_curve(*both) for both in parted])),
        **{
            f"membership_at_{words}": float(np.mean([named_at(*both, share) for both in parted]))
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
