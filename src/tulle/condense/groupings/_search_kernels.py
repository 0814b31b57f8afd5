"""Kernels of the search for the best groups: ruin and recreate, with cooling.

A few groups near each other are taken apart; their records are grouped again around random seeds,
improved by swaps and moves to a local optimum, and kept if the squared error falls, or by chance
while the temperature is high.

A group's error is the sum of the squared distances D between its members over twice its size, so
that with S(i, g), the sum of D from i to the members of g, every swap or move is judged in
constant time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tulle._jit import kernel, part
from tulle._types import Floats, Ints
from tulle.condense.groupings._start_kernels import random_unit

MOST = 8  # groups that are taken apart together, and made
RETURN = 0.5  # chance that a walk begins again where it began
FEWER = 0.02  # chance that one group fewer is made than was taken apart
TRIES = 10  # failed attempts for a step, at most: seeds whose groups would be too small


class Chains(NamedTuple):
    """Groups as chains of records: ``first[g]``, then ``after[row]`` until -1."""

    first: Ints
    after: Ints
    size: Ints
    group: Ints  # of each record


class Bench(NamedTuple):
    """Room for the records that are taken apart."""

    rows: Ints
    levels: Ints
    before: Ints  # the group each came from, counted 0, 1, ...
    label: Ints  # the group each goes to
    points: Floats  # coordinate by record
    apart: Floats  # D
    sums: Floats  # S, group by record
    size: Ints  # of the groups that are made
    need: Ints
    total: Floats  # the sum of S(i, g) over the members of g
    chosen: Ints  # numbers of the groups taken apart


@part
def unpack(points: Floats, levels: Ints, chains: Chains, bench: Bench, groups: int) -> int:
    """Copy the records of the chosen groups to the bench and measure their distances."""
    d = points.shape[1]
    count = 0
    for g in range(groups):
        row = chains.first[bench.chosen[g]]
        while row >= 0:
            bench.rows[count] = row
            bench.levels[count] = levels[row]
            bench.before[count] = g
            for j in range(d):
                bench.points[j, count] = points[row, j]
            count += 1
            row = chains.after[row]
    for i in range(count):
        for k in range(count):
            bench.apart[i, k] = 0.0
        for j in range(d):
            at = bench.points[j, i]
            for k in range(count):
                difference = bench.points[j, k] - at
                bench.apart[i, k] += difference * difference
    return count


@part
def error_before(bench: Bench, count: int, groups: int, chains: Chains) -> float:
    """Return the squared error of the groups as they were."""
    error = 0.0
    for i in range(count):
        g = bench.before[i]
        total = 0.0
        for k in range(count):
            if bench.before[k] == g:
                total += bench.apart[i, k]
        error += total / chains.size[bench.chosen[g]]
    return 0.5 * error


@part
def recreate(bench: Bench, count: int, groups: int, state: Any) -> bool:
    """Group the records around random seeds; return false if some group would be too small.

    A seed takes its nearest until its group is as large as every level in it. Records left over
    join the seed nearest to them.
    """
    for i in range(count):
        bench.label[i] = -1
    left = count
    for g in range(groups):
        if left == 0:
            return False
        skip = int(random_unit(state) * left)
        seed = 0
        while bench.label[seed] >= 0 or skip > 0:
            if bench.label[seed] < 0:
                skip -= 1
            seed += 1
        bench.chosen[MOST + g] = seed
        bench.label[seed] = g
        bench.need[g] = bench.levels[seed]
        bench.size[g] = 1
        left -= 1
        while bench.size[g] < bench.need[g] and left > 0:
            nearest, least = -1, np.inf
            for i in range(count):
                if bench.label[i] < 0 and bench.apart[seed, i] < least:
                    nearest, least = i, bench.apart[seed, i]
            bench.label[nearest] = g
            bench.need[g] = max(bench.need[g], bench.levels[nearest])
            bench.size[g] += 1
            left -= 1
    for i in range(count):
        if bench.label[i] >= 0:
            continue
        best, least = 0, np.inf
        for g in range(groups):
            if bench.apart[bench.chosen[MOST + g], i] < least:
                best, least = g, bench.apart[bench.chosen[MOST + g], i]
        bench.label[i] = best
        bench.need[best] = max(bench.need[best], bench.levels[i])
        bench.size[best] += 1
    valid = True
    for g in range(groups):
        valid = valid and bench.size[g] >= bench.need[g]
    return valid


@part
def sum_up(bench: Bench, count: int, groups: int) -> None:
    """Compute S and the totals of the new groups."""
    for g in range(groups):
        bench.total[g] = 0.0
        for i in range(count):
            bench.sums[g, i] = 0.0
    for k in range(count):
        g = bench.label[k]
        for i in range(count):
            bench.sums[g, i] += bench.apart[k, i]
    for i in range(count):
        bench.total[bench.label[i]] += bench.sums[bench.label[i], i]


@part
def shift(bench: Bench, count: int, i: int, g: int) -> None:
    """Move record i from its group to group g."""
    a = bench.label[i]
    bench.total[a] -= 2.0 * bench.sums[a, i]
    bench.total[g] += 2.0 * bench.sums[g, i]
    for k in range(count):
        bench.sums[a, k] -= bench.apart[i, k]
        bench.sums[g, k] += bench.apart[i, k]
    bench.label[i] = g
    bench.size[a] -= 1
    bench.size[g] += 1
    for group in (a, g):
        highest = 0
        for k in range(count):
            if bench.label[k] == group and bench.levels[k] > highest:
                highest = bench.levels[k]
        bench.need[group] = highest


@part
def can_go(bench: Bench, count: int, i: int) -> bool:
    """Return whether the group of record i stays valid without it."""
    a = bench.label[i]
    left = bench.size[a] - 1
    if bench.need[a] <= left:
        return left > 0
    if bench.levels[i] < bench.need[a] or left == 0:
        return False
    for k in range(count):
        if k != i and bench.label[k] == a and bench.levels[k] > left:
            return False
    return True


@part
def improve(bench: Bench, count: int, groups: int, i: int, least: float) -> bool:
    """Find the best swap or move of one record, if it lowers the error."""
    a = bench.label[i]
    n_a = bench.size[a]
    own = bench.sums[a, i]
    best, partner, target = -least, -1, -1
    for k in range(count):
        b = bench.label[k]
        if b == a or bench.levels[i] > bench.size[b] or bench.levels[k] > n_a:
            continue
        between = bench.apart[i, k]
        change = (bench.sums[a, k] - own - between) / n_a
        change += (bench.sums[b, i] - bench.sums[b, k] - between) / bench.size[b]
        if change < best:
            best, partner = change, k
    if can_go(bench, count, i):
        freed = bench.total[a] / n_a - (bench.total[a] - 2.0 * own) / (n_a - 1)
        for b in range(groups):
            n_b = bench.size[b]
            if b == a or bench.levels[i] > n_b + 1:
                continue
            added = (bench.total[b] + 2.0 * bench.sums[b, i]) / (n_b + 1) - bench.total[b] / n_b
            if 0.5 * (added - freed) < best:
                best, target = 0.5 * (added - freed), b
    if target >= 0:
        shift(bench, count, i, target)
    elif partner >= 0:
        b = bench.label[partner]
        shift(bench, count, i, b)
        shift(bench, count, partner, a)
    return target >= 0 or partner >= 0


@part
def descend(bench: Bench, count: int, groups: int, least: float) -> float:
    """Swap and move records until nothing lowers the error; return the error."""
    quiet, i = 0, 0
    while quiet < count:
        quiet = 0 if improve(bench, count, groups, i, least) else quiet + 1
        i = (i + 1) % count
    error = 0.0
    for g in range(groups):
        error += bench.total[g] / bench.size[g]
    return 0.5 * error


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
