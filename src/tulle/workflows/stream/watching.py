"""What two releases of this stream tell of the one record that arrives between them, measured.

No record of the stream is kept, so people are drawn from its groups: one arrives, nine do not, and
a watcher who holds the releases before and after picks one of the ten. The stream is played
with a few of its groups only, which makes the watcher's work easier than it is.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tulle.attacks.result import AttackResult
from tulle.attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals
from tulle.condense.stream import StreamCondenser
from tulle.condense.stream.groups import Groups
from tulle.condense.stream.snapshots import publish
from tulle.condense.stream.state import StreamState
from tulle.condense.synthesis import synthesize
from tulle.moments import Floats, GroupMoments

TRIALS = 200
CANDIDATES = 10
GROUPS = 20


def watch(condenser: StreamCondenser, policy: str, rng: np.random.Generator) -> list[AttackResult]:
    """Both ways to look for the newcomer, for snapshots made by a policy (bounded or all)."""
    states = [state for state in condenser._states.values() if len(state.groups)]
    sizes = np.array([len(state.groups) for state in states])
    pairs = []
    for _ in range(TRIALS):
        state = states[rng.choice(len(states), p=sizes / sizes.sum())]
        pairs.append(_arrival(state, condenser.synthesis, policy, rng))
    return [snapshots_by_totals(pairs, rng), snapshots_by_fresh_rows(pairs, rng)]


def _arrival(
    state: StreamState, distribution: str, policy: str, rng: np.random.Generator
) -> Snapshots:
    moments = state.groups.moments()
    few = _some(moments, rng.permutation(len(moments.counts))[:GROUPS])
    played = StreamState(state.groups.dimensions, strict=state.strict)
    played.start(few)
    people, groups = synthesize(few, rng, distribution="normal")
    chosen = rng.permutation(len(people))[:CANDIDATES]
    level = int(min(few.levels[groups[chosen[0]]], few.counts.max() + 1))
    shown, before = _release(played, None, distribution, policy, rng)
    played.absorb(people[chosen[:1]], np.array([level]), np.array([played.seen]))
    _, after = _release(played, shown, distribution, policy, rng)
    return Snapshots(
        before, after, (len(before), len(after)), people[chosen[0]], people[chosen[1:]]
    )


def _release(
    state: StreamState,
    shown: Groups | None,
    distribution: str,
    policy: str,
    rng: np.random.Generator,
) -> tuple[Groups, Floats]:
    groups = state.groups
    if policy == "bounded":
        groups, _ = publish(state.groups, shown)
    matrix, _ = synthesize(groups.moments(), rng, distribution=distribution)
    return groups, matrix


def _some(moments: GroupMoments, places: np.ndarray) -> GroupMoments:
    return GroupMoments(*(getattr(moments, part.name)[places] for part in fields(moments)))
