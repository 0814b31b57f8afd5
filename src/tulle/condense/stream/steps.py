"""One step of the stream at a time, in NumPy: find the group, add the record, split the group.

Small streams run on these functions and never wait for a compiler; the kernels do the same
operations in the same order, so that both give the same bits.

*Nearest* means: the smallest squared distance between the record and a group's mean, in
standardised units. Groups within ``COINCIDENT * d`` of the record count as equally near, and
the oldest of equally near groups takes the record. Without that rule a stream with many
identical records compares thousands of equal distances, to no one's gain.
"""

from __future__ import annotations

import math

import numpy as np

from tulle.condense.stream.groups import GroupArrays, Groups, triangle, unpack
from tulle.moments import Floats

COINCIDENT = 1e-8
SQUARINGS = 32  # enough for eigenvalues that differ by a billionth
CONVERGED = 1.0 - 1e-8  # the other eigenvalues are below 1e-8 now, 1e-16 after this squaring


def nearest(groups: Groups, record: Floats, level: int) -> int:
    """The closest group that may take a record of this level, or -1.

    A record of level p may join a group of at least p - 1 members: with it they are p.
    """
    used = groups.view()
    admissible = np.flatnonzero(used.counts >= level - 1)
    if not len(admissible):
        return -1
    distances = np.zeros(len(admissible))
    # dimension after dimension: the kernel adds in this order too
    for dimension in range(groups.dimensions):
        offsets = record[dimension] - used.means[admissible, dimension]
        distances += offsets * offsets
    distances[distances <= COINCIDENT * groups.dimensions] = 0.0
    return int(admissible[np.argmin(distances)])


def add(groups: Groups, group: int, record: Floats, level: int) -> None:
    """Updates a group's statistics by one record (Welford)."""
    arrays = groups.arrays
    arrays.counts[group] += 1
    count = float(arrays.counts[group])
    offset = record - arrays.means[group]
    arrays.means[group] += offset / count
    rows, columns = triangle(groups.dimensions)
    arrays.scatters[group] += offset[rows] * offset[columns] * ((count - 1.0) / count)
    arrays.levels[group] = max(arrays.levels[group], level)
    arrays.level_sums[group] += level


def splits(arrays: GroupArrays, group: int, strict: bool) -> bool:
    """Whether a group is due: n >= 2 Ps / n; strict: and both halves can hold its largest level."""
    count = int(arrays.counts[group])
    due = count * count >= 2 * int(arrays.level_sums[group])
    return due and (not strict or count // 2 >= int(arrays.levels[group]))


def split(groups: Groups, group: int) -> int:
    """Halves a group along its longest axis, as if it were uniform there; the new group's number.

    With fractions f and 1 - f, the parts are uniform on neighbouring intervals of length f a and
    (1 - f) a, a = sqrt(12 lambda_1). Total n, Fs, Sc and Ps stay what they were; both parts keep
    the largest level. The paper's case is f = 1/2.
    """
    groups.reserve(groups.size + 1)
    arrays, new = groups.arrays, groups.size
    groups.size += 1
    count = int(arrays.counts[group])
    larger = (count + 1) // 2
    fraction = larger / count
    covariance = arrays.scatters[group] / float(count)
    variance, axis = longest_axis(covariance, groups.dimensions)
    width = math.sqrt(12.0 * variance)
    rows, columns = triangle(groups.dimensions)
    outer = axis[rows] * axis[columns] * variance
    rest = 1.0 - fraction
    arrays.counts[new] = count - larger
    arrays.counts[group] = larger
    arrays.means[new] = arrays.means[group] + axis * (fraction * 0.5 * width)
    arrays.means[group] -= axis * (rest * 0.5 * width)
    arrays.scatters[new] = (covariance - outer * (1.0 - rest * rest)) * float(count - larger)
    arrays.scatters[group] = (covariance - outer * (1.0 - fraction * fraction)) * float(larger)
    arrays.levels[new] = arrays.levels[group]
    total = int(arrays.level_sums[group])
    share = (2 * total * larger + count) // (2 * count)  # to the nearest whole level
    arrays.level_sums[group] = share
    arrays.level_sums[new] = total - share
    arrays.families[new] = arrays.families[group]
    return new


def longest_axis(covariance: Floats, dimensions: int) -> tuple[float, Floats]:
    """The largest eigenvalue of a packed covariance, and its eigenvector with a settled sign.

    A matrix that is squared again and again becomes the outer product of its first eigenvector
    with itself. Only that vector is wanted, so this is quicker than all eigenvectors; and it
    does not depend on whose linear algebra is installed: the kernel gives the same bits.
    """
    full = unpack(covariance, dimensions)
    trace = _sum(np.diagonal(full))
    if not trace > 0.0:
        return 0.0, np.eye(dimensions)[0]
    power = full / trace
    for _ in range(SQUARINGS):
        square = np.zeros_like(power)
        for row in power:  # the order of the kernel
            square += row[:, None] * row
        trace = _sum(np.diagonal(square))
        power = square / trace
        if trace > CONVERGED:
            break
    axis = power[np.argmax(np.diagonal(power))]
    axis = axis / math.sqrt(_sum(axis * axis))
    along = np.cumsum(full * axis, axis=1)[:, -1]
    return max(_sum(along * axis), 0.0), axis


def _sum(values: Floats) -> float:
    """Adds from first to last, as a loop does."""
    return float(np.cumsum(values)[-1])
