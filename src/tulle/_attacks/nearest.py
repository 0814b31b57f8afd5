"""The nearest records of a table, by brute force over all of them.

Exact, because an approximate search could miss the one copy that the attacker would find. The
distance adds squared differences of numbers (in standard deviations) and 1 for each category
that differs. Ties go to the record that comes first. Cost: targets x records x columns, about a
second for 2,000 x 30,000 x 14.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tulle._attacks.records import Records
from tulle._types import Floats, Ints

MISMATCH = 1.0  # squared: another category is as far as one standard deviation
_SMALL = 30_000_000  # cell comparisons that NumPy does before a compiler would have started


class Nearest(NamedTuple):
    """The ``k`` nearest records of each target, nearest first."""

    rows: Ints  # (m, k)
    distances: Floats  # (m, k)


def nearest(targets: Records, reference: Records, count: int = 1) -> Nearest:
    """Find the ``count`` nearest records of ``reference`` for each target (or all it has)."""
    count = min(count, len(reference))
    cells = len(targets) * len(reference) * (targets.numbers.shape[1] + targets.codes.shape[1])
    search = _by_blocks if cells <= _SMALL else _by_kernel
    rows, squares = search(targets, reference, count)
    return Nearest(rows, np.sqrt(squares))


def between(left: Records, right: Records) -> Floats:
    """Compute the distance of each record to the one in the same place."""
    squares = ((left.numbers - right.numbers) ** 2).sum(axis=1)
    return np.sqrt(squares + MISMATCH * (left.codes != right.codes).sum(axis=1))


def spacing(rows: Ints, records: Records) -> Floats:
    """Compute how far each record is from the nearest of *another* person; 0 for a duplicate."""
    if records.people is not None:
        return _spacing_of_people(rows, records, records.people)
    found = nearest(records.take(rows), records, 2)
    if found.rows.shape[1] < 2:
        return np.full(len(rows), np.inf)
    # a twin that comes first may stand in its place: then both distances are 0
    return np.asarray(found.distances[:, 1])


def _spacing_of_people(rows: Ints, records: Records, people: Ints) -> Floats:
    """Look at more and more neighbours, until one is of another person."""
    apart = np.full(len(rows), np.inf)
    left, count = np.arange(len(rows)), 2
    while len(left):
        found = nearest(records.take(rows[left]), records, count)
        other = people[found.rows] != people[rows[left]][:, None]
        some = other.any(axis=1)
        apart[left[some]] = found.distances[some, other[some].argmax(axis=1)]
        if count >= len(records):
            break
        left, count = left[~some], 2 * count
    return apart


def _by_blocks(targets: Records, reference: Records, count: int) -> tuple[Ints, Floats]:
    rows = np.empty((len(targets), count), np.int64)
    squares = np.empty((len(targets), count))
    block = max(1, 2_000_000 // max(1, len(reference)))
    for start in range(0, len(targets), block):
        part = slice(start, start + block)
        found = np.zeros((len(targets.numbers[part]), len(reference)))
        for i in range(targets.numbers.shape[1]):
            found += (targets.numbers[part, i, None] - reference.numbers[:, i]) ** 2
        for i in range(targets.codes.shape[1]):
            found += MISMATCH * (targets.codes[part, i, None] != reference.codes[:, i])
        everyone = np.arange(len(found))
        for place in range(count):  # so few that sorting would cost more
            best = found.argmin(axis=1)
            rows[part, place], squares[part, place] = best, found[everyone, best]
            found[everyone, best] = np.inf
    return rows, squares


def _by_kernel(targets: Records, reference: Records, count: int) -> tuple[Ints, Floats]:
    from tulle._attacks._kernels import scan

    rows = np.zeros((len(targets), count), np.int64)
    squares = np.empty((len(targets), count))

    def work(part: slice) -> None:
        scan(
            targets.numbers[part],
            targets.codes[part],
            reference.numbers,
            reference.codes,
            MISMATCH,
            rows[part],
            squares[part],
        )

    threads = max(1, min(os.cpu_count() or 1, len(targets)))
    edges = np.linspace(0, len(targets), threads + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))
    return rows, squares
