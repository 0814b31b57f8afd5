"""Kernels that find the groups near a group: the candidates for an exchange of members.

Lists are sorted by distance; -1 marks a place not filled.
"""

from __future__ import annotations

import numpy as np

from tulle._jit import inlined, int64, kernel
from tulle._types import Floats, Ints


@inlined
def apart(centres: Floats, a: int, b: int) -> float:
    """Compute the squared distance of two centroids, in four sums that do not wait for each
    other.
    """
    d = centres.shape[1]
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = d - d % 4
    for j in range(0, whole, 4):
        d0, d1 = centres[a, j] - centres[b, j], centres[a, j + 1] - centres[b, j + 1]
        d2, d3 = centres[a, j + 2] - centres[b, j + 2], centres[a, j + 3] - centres[b, j + 3]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    for j in range(whole, d):
        d0 = centres[a, j] - centres[b, j]
        s0 += d0 * d0
    return (s0 + s1) + (s2 + s3)


@inlined
def insert(near: Ints, far: Floats, a: int, b: int, value: float) -> None:
    """Put b into the list of a if it is nearer than the last one there."""
    last = near.shape[1] - 1
    if value >= far[a, last]:
        return
    for i in range(last + 1):
        if near[a, i] == b:
            return
    i = last
    while i > 0 and far[a, i - 1] > value:
        far[a, i] = far[a, i - 1]
        near[a, i] = near[a, i - 1]
        i -= 1
    far[a, i] = value
    near[a, i] = b


@kernel
def compare_blocks(centres: Floats, rows: Ints, ends: Ints, near: Ints, far: Floats) -> None:
    """Compare all pairs inside each block of rows."""
    low = 0
    for high in ends:
        for i in range(low, high):
            for j in range(low, i):
                value = apart(centres, rows[i], rows[j])
                insert(near, far, rows[i], rows[j], value)
                insert(near, far, rows[j], rows[i], value)
        low = high


@kernel
def explore(centres: Floats, near: Ints, far: Floats, depth: int) -> None:
    """Adopt the first neighbours of first neighbours where they are nearer."""
    for a in range(len(near)):
        for i in range(depth):
            b = near[a, i]
            if b < 0:
                break
            for j in range(depth):
                c = near[b, j]
                if c < 0:
                    break
                if c != a:
                    value = apart(centres, a, c)
                    insert(near, far, a, c, value)
                    insert(near, far, c, a, value)


@kernel
def relist(centres: Floats, sizes: Ints, near: Ints, far: Floats) -> None:
    """Correct the lists after centroids have moved and groups have gone."""
    width = near.shape[1]
    old = np.empty(width, int64)
    for a in range(len(near)):
        for i in range(width):
            old[i] = near[a, i]
            near[a, i] = -1
            far[a, i] = np.inf
        if sizes[a] == 0:
            continue
        for i in range(width):
            if old[i] >= 0 and sizes[old[i]] > 0:
                insert(near, far, a, old[i], apart(centres, a, old[i]))
