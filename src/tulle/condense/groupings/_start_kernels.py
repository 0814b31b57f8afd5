"""Kernels that make the first groups of large inputs: peel, cut into blocks, MDAV in each.

Distances are summed one coordinate at a time over many records: the loop over the records is
then one of independent sums, which the compiler turns into vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import inlined, int64, kernel, part
from tulle._types import Floats, Ints

SAMPLE = 256  # records of a block that show its principal direction
CHUNK = 512  # records that are looked at before the search asks whether it may stop


@inlined
def random_unit(state: Any) -> float:
    """Return the next number in [0, 1) of a xorshift generator with one word of state."""
    word = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    mixed = word * np.uint64(2685821657736338717)
    return float(mixed >> np.uint64(11)) / 9007199254740992.0


@part
def select(keys: Floats, rows: Ints, low: int, high: int, middle: int) -> None:
    """Reorder ``[low, high)`` so that no key before ``middle`` is above one after it."""
    high -= 1
    while low < high:
        pivot = keys[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@part
def spread_axis(
    points: Floats, rows: Ints, low: int, high: int, axis: Floats, turned: Floats
) -> None:
    """Do one step of power iteration towards the direction of largest spread of a sample."""
    step = max(1, (high - low) // SAMPLE)
    d = len(axis)
    centre, norm = 0.0, 0.0
    for i in range(low, high, step):
        for j in range(d):
            centre += points[rows[i], j] * axis[j]
    centre /= (high - low - 1) // step + 1
    for j in range(d):
        turned[j] = 0.0
    for i in range(low, high, step):
        dot = -centre
        for j in range(d):
            dot += points[rows[i], j] * axis[j]
        for j in range(d):
            turned[j] += points[rows[i], j] * dot
    for j in range(d):
        norm += turned[j] * turned[j]
    if norm > 0.0:
        for j in range(d):
            axis[j] = turned[j] / np.sqrt(norm)


@kernel
def cut_blocks(
    points: Floats, rows: Ints, leaf: int, unit: int, rounds: int, state: Any, bounds: Ints
) -> int:
    """Halve the rows again and again; write the ends of blocks of ``leaf`` to 2 ``leaf``.

    A cut lies across the direction of large spread, at a multiple of ``unit`` records. Few
    rounds of power iteration from a random start give other cuts each time. Returns how many
    blocks there are.
    """
    d = points.shape[1]
    keys, axis, turned, pending = np.empty(len(rows)), np.empty(d), np.empty(d), np.empty(64, int64)
    pending[0] = len(rows)
    waiting, low, found = 1, int64(0), 0
    while waiting > 0:
        high = pending[waiting - 1]
        middle = low + (high - low) // (2 * unit) * unit
        if high - low < 2 * leaf or middle == low:
            bounds[found] = high
            found += 1
            waiting -= 1
            low = high
            continue
        for j in range(d):
            axis[j] = random_unit(state) - 0.5
        for _ in range(rounds):
            spread_axis(points, rows, low, high, axis, turned)
        for i in range(low, high):
            dot = 0.0
            for j in range(d):
                dot += points[rows[i], j] * axis[j]
            keys[i] = dot
        select(keys, rows, low, high, middle)
        pending[waiting] = middle
        waiting += 1
    return found


@inlined
def push(heap: Floats, places: Ints, size: int, value: float, place: int) -> None:
    """Replace the root of a full max-heap by a smaller value."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[parent] = heap[child]
        places[parent] = places[child]
        parent = child
    heap[parent] = value
    places[parent] = place


@inlined
def distances(columns: Floats, point: Floats, low: int, high: int, out: Floats) -> None:
    """Compute squared distances of the records ``low..high`` (columns of the array) to a point."""
    for i in range(low, high):
        out[i] = 0.0
    for j in range(len(point)):
        row = columns[j]
        at = point[j]
        for i in range(low, high):
            difference = row[i] - at
            out[i] += difference * difference


@part
def farthest_of_top(away: Floats, levels: Ints, count: int) -> int:
    """Return the farthest of the records with the highest level."""
    best = 0
    for i in range(1, count):
        if levels[i] > levels[best] or (levels[i] == levels[best] and away[i] > away[best]):
            best = i
    return best


@part
def take(
    columns: Floats,
    levels: Ints,
    rows: Ints,
    count: int,
    seed: Floats,
    size: int,
    number: int,
    groups: Ints,
    heap: Floats,
    places: Ints,
    away: Floats,
) -> int:
    """Group the ``size`` records nearest to the seed and close the gap they leave.

    When the rest could not stand alone it joins the group. Returns how many are left.
    """
    distances(columns, seed, int64(0), count, away)
    for i in range(size):
        heap[i] = np.inf
    for i in range(count):
        if away[i] < heap[0]:
            push(heap, places, size, away[i], i)
    for i in range(size):
        away[places[i]] = -1.0
    highest = 0
    for i in range(count):
        if away[i] >= 0.0 and levels[i] > highest:
            highest = levels[i]
    left = count - size
    if left < highest:
        for i in range(count):
            groups[rows[i]] = number
        return 0
    last = count - 1
    for i in range(size):
        place = places[i]
        groups[rows[place]] = number
    for place in range(left):
        if away[place] < 0.0:
            while away[last] < 0.0:
                last -= 1
            for j in range(len(columns)):
                columns[j, place] = columns[j, last]
            levels[place] = levels[last]
            rows[place] = rows[last]
            last -= 1
    return left


@kernel
def mdav_block(columns: Floats, levels: Ints, rows: Ints, number: int, groups: Ints) -> int:
    """Run MDAV on the records in the columns; destroy the input and return the next free number.

    With levels the seed is the farthest record of those with the highest level left, and takes
    as many as it asks for: all others ask for less, so that every group is valid at once.
    """
    d, count = columns.shape
    heap, places = np.empty(count), np.empty(count, int64)
    away, point = np.empty(count), np.empty(d)
    while count > 0:
        for j in range(d):
            total = 0.0
            for i in range(count):
                total += columns[j, i]
            point[j] = total / count
        distances(columns, point, int64(0), count, away)
        seed = farthest_of_top(away, levels, count)
        size = levels[seed]
        for j in range(d):
            point[j] = columns[j, seed]
        twice = count >= 3 * size
        count = take(columns, levels, rows, count, point, size, number, groups, heap, places, away)
        number += 1
        if twice and count > 0:
            distances(columns, point, int64(0), count, away)
            seed = farthest_of_top(away, levels, count)
            size = levels[seed]
            for j in range(d):
                point[j] = columns[j, seed]
            count = take(
                columns, levels, rows, count, point, size, number, groups, heap, places, away
            )
            number += 1
    return number


@kernel
def peel(columns: Floats, radii: Floats, levels: Ints, most: int, work: int, groups: Ints) -> int:
    """Group the outermost records, each with its nearest of those that ask for no more.

    Columns come with falling radius (distance to the mean), so that the search around an outer
    record ends where the radii alone are too different. ``groups`` is -1 where nothing was
    grouped; stops after ``most`` records or ``work`` distances. Returns the number of groups.
    """
    d, n = columns.shape
    heap, places, away, point = np.empty(n), np.empty(n, int64), np.empty(n), np.empty(d)
    number = 0
    done = 0
    for first in range(n):
        if done >= most or work <= 0:
            break
        if groups[first] >= 0:
            continue
        size = levels[first]
        for i in range(size):
            heap[i] = np.inf
        for j in range(d):
            point[j] = columns[j, first]
        low = first
        while low < n:
            high = min(n, low + CHUNK)
            distances(columns, point, low, high, away)
            for i in range(low, high):
                if away[i] < heap[0] and groups[i] < 0 and levels[i] <= size:
                    push(heap, places, size, away[i], i)
            work -= high - low
            gap = radii[first] - radii[high - 1]
            if gap * gap >= heap[0]:
                break
            low = high
        if heap[0] == np.inf:
            break
        for i in range(size):
            groups[places[i]] = number
        number += 1
        done += size
    return number
