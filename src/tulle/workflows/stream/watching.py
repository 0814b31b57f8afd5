"""What two releases of this stream tell of who arrived between them, measured.

No record of the stream is kept, so people are drawn from its groups: some arrive, nine do not, and
a watcher who holds the releases before and after picks one of ten. Either one arrives alone, or as
many arrive together as its level asks for, all of one group: then the policy shows them, and the
nine are their neighbours. The stream is played with a few of its groups only, which makes the
watcher's work easier than it is.
"""

from __future__ import annotations

import numpy as np

from tulle.attacks.result import AttackResult
from tulle.attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals
from tulle.condense.stream import StreamCondenser
from tulle.condense.stream.state import StreamState
from tulle.condense.synthesis import synthesize
from tulle.moments import Floats, GroupMoments

TRIALS = 200
CANDIDATES = 10
GROUPS = 20


def watch(
    condenser: StreamCondenser, policy: str, rng: np.random.Generator, *, together: bool = False
) -> list[AttackResult]:
    """Both ways to look for a newcomer, for snapshots made by a policy (bounded or all)."""
    states = [state for state in condenser._states.values() if len(state.groups)]
    sizes = np.array([len(state.groups) for state in states])
    arrive = _together if together else _alone
    pairs = []
    for _ in range(TRIALS):
        state = states[rng.choice(len(states), p=sizes / sizes.sum())]
        few = state.groups.taken(rng.permutation(len(state.groups))[:GROUPS]).moments()
        came, decoys, level = arrive(few, rng)
        pairs.append(_watched(few, came, decoys, level, condenser, policy, rng))
    return [snapshots_by_totals(pairs, rng), snapshots_by_fresh_rows(pairs, rng)]


def _alone(few: GroupMoments, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """One newcomer, others from all groups, and the newcomer's level."""
    people, groups = synthesize(few, rng, distribution="normal")
    chosen = rng.permutation(len(people))[:CANDIDATES]
    return people[chosen[:1]], people[chosen[1:]], int(few.levels[groups[chosen[0]]])


def _together(few: GroupMoments, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """As many newcomers as a group's level, others of the same group, and that level."""
    home = int(rng.choice(len(few.counts), p=few.counts / few.counts.sum()))
    level = int(few.levels[home])
    sizes = np.zeros(len(few.counts), dtype=np.int64)
    sizes[home] = level + CANDIDATES - 1
    people = rng.permutation(synthesize(few, rng, distribution="normal", sizes=sizes)[0])
    return people[:level], people[level:], level


def _watched(
    few: GroupMoments,
    came: Floats,
    decoys: Floats,
    level: int,
    condenser: StreamCondenser,
    policy: str,
    rng: np.random.Generator,
) -> Snapshots:
    """The releases before and after some people came to a stream of few groups."""
    played = StreamState(few.means.shape[1], strict=condenser.split == "strict")
    played.start(few)
    levels = np.full(len(came), min(level, int(few.counts.max()) + 1))
    before = _release(played, condenser.synthesis, policy, rng)
    played.absorb(came, levels, played.seen + np.arange(len(came)))
    after = _release(played, condenser.synthesis, policy, rng)
    return Snapshots(before, after, (len(before), len(after)), came[0], decoys)


def _release(
    state: StreamState, distribution: str, policy: str, rng: np.random.Generator
) -> Floats:
    groups = state.publish()[0] if policy == "bounded" else state.groups
    return synthesize(groups.moments(), rng, distribution=distribution)[0]
