"""k-variance as the paper prints it, and with each of its two repairs apart: slow and obvious."""

from __future__ import annotations

import numpy as np


def printed_lengths(
    neighbours, limits, order, most, *, passes=20, both_directions=False, own_cap=False
):
    """Lengths by passes over ``order``; ``most`` stands for infinity.

    As printed: a pair (i, j) counts for i only, and nothing else limits m(i). The paper stops when
    the lengths change little, which is a small number of ``passes``.
    """
    n = len(neighbours)
    pairs = [list(zip(neighbours[i], limits[i])) for i in range(n)]
    if both_directions:
        for i in range(n):
            for j, limit in zip(neighbours[i], limits[i]):
                pairs[j].append((i, limit))
    # a pair without a limit (equal directions) caps nothing
    caps = [max((int(limit) for limit in row if limit < 2**31 - 1), default=most) for row in limits]
    cap = [min(most, caps[i]) if own_cap else most for i in range(n)]
    m = np.array(cap)
    for _ in range(passes):
        before = m.copy()
        for i in order:
            m[i] = min([cap[i], *(limit for j, limit in pairs[i] if m[j] > limit)])
        if np.array_equal(before, m):
            break
    return m
