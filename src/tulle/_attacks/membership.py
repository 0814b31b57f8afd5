"""Membership: was this person in the data at all?

The *insurer* has a candidate's record and wants to know whether it was among the data, say of a
clinic. They compare how near the closest released record is, relative to what is usual where the
candidate lives: the distance to the closest of a reference list of people who were surely not in
the data. The half of the candidates with the smaller ratio is called members. The hold-out test:
half of the control serves as the reference list, the other half as candidates who are not members.
The rate is over members; the control is how often a stranger is called a member; their
difference is what the literature calls the membership advantage.
"""

from __future__ import annotations

import numpy as np

from tulle._attacks.nearest import nearest
from tulle._attacks.records import Records, chosen
from tulle._attacks.result import AttackResult
from tulle._types import Floats
from tulle.errors import DataError

LEAST = 20  # records of the control


def membership(
    original: Records,
    release: Records,
    control: Records,
    rng: np.random.Generator,
    *,
    attempts: int = 1000,
) -> AttackResult:
    """Tell members from as many strangers by their nearest released record."""
    if len(control) < LEAST:
        raise DataError(
            f"membership needs a control of at least {LEAST} records, but there are "
            f"{len(control)}: keep more records out of the release"
        )
    order = rng.permutation(len(control))
    reference, outside = (control.take(np.sort(part)) for part in np.array_split(order, 2))
    tried = min(attempts, len(original), len(outside))
    members = original.take(chosen(len(original), tried, rng))
    strangers = outside.take(chosen(len(outside), tried, rng))
    ratios = np.concatenate(
        [_nearness(members, release, reference), _nearness(strangers, release, reference)]
    )
    called = _smaller_half(ratios, rng)
    return AttackResult(
        "membership",
        tried,
        int(called[:tried].sum()),
        tried / 2,
        int(called[tried:].sum()),
        tried,
        story="Someone who has a candidate's record, the release, and a list of people who were "
        "not in the data, says whether the candidate was. Right if a member is called a "
        "member; the control is how often a stranger is.",
    )


def _nearness(people: Records, release: Records, reference: Records) -> Floats:
    released = nearest(people, release).distances[:, 0]
    usual = nearest(people, reference).distances[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        # 0/0: on the spot in both, which says nothing
        return np.nan_to_num(released / usual, nan=1.0)


def _smaller_half(ratios: Floats, rng: np.random.Generator) -> np.ndarray:
    """Call half of the candidates members; ties are broken at random."""
    order = np.lexsort((rng.random(len(ratios)), ratios))
    called = np.zeros(len(ratios), dtype=bool)
    called[order[: len(ratios) // 2]] = True
    return called
