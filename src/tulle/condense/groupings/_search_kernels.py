"""Kernels of the search for the best groups: ruin and recreate, with cooling.

A few groups near each other are taken apart; their records are grouped again around random
seeds, improved by swaps and moves to a local optimum, and kept if the squared error falls, or by
chance while the temperature is high.
"""

from __future__ import annotations

import math
from typing import Any

from tulle._jit import kernel, part
from tulle._types import Floats, Ints
from tulle.condense.groupings._bench_kernels import (
    MOST,
    Bench,
    Chains,
    descend,
    error_before,
    recreate,
    sum_up,
    unpack,
)
from tulle.condense.groupings._start_kernels import random_unit

RETURN = 0.5  # chance that a walk begins again where it began
FEWER = 0.02  # chance that one group fewer is made than was taken apart
TRIES = 10  # failed attempts for a step, at most: seeds whose groups would be too small


@part
def choose(chains: Chains, near: Ints, bench: Bench, wanted: int, state: Any) -> int:
    """Choose the groups of a random record and of records on short walks from it."""
    room = len(bench.rows)
    home = int(random_unit(state) * len(near))
    here = home
    bench.chosen[0] = chains.group[home]
    found, count = 1, chains.size[chains.group[home]]
    if count > room:
        return 0
    for _ in range(4 * wanted):
        if found == wanted:
            break
        here = near[here, int(random_unit(state) * near.shape[1])]
        if here < 0:
            here = home
            continue
        g = chains.group[here]
        known = count + chains.size[g] > room
        for k in range(found):
            known = known or bench.chosen[k] == g
        if not known:
            bench.chosen[found] = g
            found += 1
            count += chains.size[g]
        if not known or random_unit(state) < RETURN:
            here = home
    return found


@part
def store(chains: Chains, bench: Bench, count: int, groups: int) -> None:
    """Chain the records of the new groups."""
    for g in range(groups):
        chains.first[bench.chosen[g]] = -1
        chains.size[bench.chosen[g]] = 0
    for i in range(count):
        if bench.label[i] >= 0:
            g = bench.chosen[bench.label[i]]
            chains.group[bench.rows[i]] = g
            chains.after[bench.rows[i]] = chains.first[g]
            chains.first[g] = bench.rows[i]
            chains.size[g] += 1


@part
def how_many(bench: Bench, count: int, groups: int, empty: int, state: Any) -> int:
    """Return how many groups to make: as many as there were, seldom one fewer, at times one
    more.
    """
    dice = random_unit(state)
    if dice < FEWER:
        return groups - 1
    lowest = bench.levels[0]
    for i in range(1, count):
        lowest = min(lowest, bench.levels[i])
    return groups + 1 if dice > 0.5 and empty > 0 and count >= (groups + 1) * lowest else groups


@kernel
def search(
    points: Floats,
    levels: Ints,
    chains: Chains,
    near: Ints,
    bench: Bench,
    free: Ints,
    empty: int,
    steps: int,
    hot: float,
    cold: float,
    least: float,
    state: Any,
) -> int:
    """Run some steps of ruin and recreate while the temperature falls; cheap failures do not count.

    ``free`` holds ``empty`` numbers of groups without members and has room for all; returns how
    many there are at the end.
    """
    done = 0
    for _ in range(TRIES * steps):
        if done == steps:
            break
        wanted = 3 + int(random_unit(state) * (MOST - 4))
        groups = choose(chains, near, bench, wanted, state)
        if groups < 2:
            continue
        count = unpack(points, levels, chains, bench, groups)
        made = how_many(bench, count, groups, empty, state)
        if not recreate(bench, count, made, state):
            continue
        temperature = hot * (cold / hot) ** (done / steps)
        done += 1
        before = error_before(bench, count, groups, chains)
        sum_up(bench, count, made)
        gain = before - descend(bench, count, made, least)
        if gain < 0.0 and random_unit(state) >= math.exp(gain / temperature):
            continue
        if made > groups:
            empty -= 1
            bench.chosen[groups] = free[empty]
        elif made < groups:
            free[empty] = bench.chosen[groups - 1]
            empty += 1
        store(chains, bench, count, max(made, groups))
    return empty
