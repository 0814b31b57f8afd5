"""The dynamic maintenance of papers/000, section 3, as slowly and plainly as possible.

Groups are raw sums (n, Fs, Sc, Ps) as the paper has them; every search is linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tulle._moments import GroupMoments

COINCIDENT = 1e-8


def second_sums(groups: GroupMoments) -> np.ndarray:
    """Return the paper's Sc of each group."""
    outer = groups.means[:, :, None] * groups.means[:, None, :]
    return groups.scatters + groups.counts[:, None, None] * outer


@dataclass
class Group:
    n: int
    Fs: np.ndarray
    Sc: np.ndarray
    Ps: int
    level: int

    @classmethod
    def of(cls, records: np.ndarray, levels: np.ndarray) -> Group:
        return cls(
            len(records), records.sum(0), records.T @ records, int(levels.sum()), int(levels.max())
        )

    @property
    def mean(self) -> np.ndarray:
        return self.Fs / self.n

    @property
    def covariance(self) -> np.ndarray:
        return self.Sc / self.n - np.outer(self.mean, self.mean)

    def add(self, record: np.ndarray, level: int) -> None:
        self.n += 1
        self.Fs = self.Fs + record
        self.Sc = self.Sc + np.outer(record, record)
        self.Ps += level
        self.level = max(self.level, level)


class Stream:
    def __init__(self, groups: list[Group], *, strict: bool = False) -> None:
        self.groups = groups
        self.strict = strict
        self.waiting: list[tuple[np.ndarray, int]] = []

    def insert(self, record: np.ndarray, level: int) -> None:
        place = self.nearest(record, level)
        if place is None:
            self.waiting.append((record, level))
            self.form_group()
        else:
            self.join(place, record, level)

    def nearest(self, record: np.ndarray, level: int) -> int | None:
        best, best_distance = None, math.inf
        for place, group in enumerate(self.groups):
            distance = float(((record - group.mean) ** 2).sum())
            if distance <= COINCIDENT * len(record):
                distance = 0.0
            if group.n >= level - 1 and distance < best_distance:
                best, best_distance = place, distance
        return best

    def join(self, place: int, record: np.ndarray, level: int) -> None:
        self.groups[place].add(record, level)
        self.wake(place)

    def wake(self, place: int) -> None:
        group = self.groups[place]
        while True:
            fitting = [i for i, (_, level) in enumerate(self.waiting) if level - 1 <= group.n]
            if not fitting:
                break
            group.add(*self.waiting.pop(fitting[0]))
        due = group.n >= 2 * group.Ps / group.n
        if due and (not self.strict or group.n // 2 >= group.level):
            first, second = halves(group)
            self.groups[place] = first
            self.groups.append(second)

    def form_group(self) -> None:
        for size in range(1, max(level for _, level in self.waiting) + 1):
            members = [pair for pair in self.waiting if pair[1] <= size]
            if len(members) >= size:
                self.waiting = [pair for pair in self.waiting if pair[1] > size]
                records = np.array([record for record, _ in members])
                self.groups.append(Group.of(records, np.array([level for _, level in members])))
                self.wake(len(self.groups) - 1)
                return


def halves(group: Group) -> tuple[Group, Group]:
    values, vectors = np.linalg.eigh(group.covariance)
    variance, axis = max(values[-1], 0.0), vectors[:, -1]
    if axis[np.argmax(np.abs(axis))] < 0:
        axis = -axis
    n = math.ceil(group.n / 2)
    f = n / group.n
    a = math.sqrt(12 * variance)
    Ps = math.floor(group.Ps * f + 0.5)
    low = _part(group, n, f, group.mean - (1 - f) * a / 2 * axis, variance, axis, Ps)
    high = _part(
        group, group.n - n, 1 - f, group.mean + f * a / 2 * axis, variance, axis, group.Ps - Ps
    )
    return low, high


def _part(
    group: Group, n: int, f: float, mean: np.ndarray, variance: float, axis: np.ndarray, Ps: int
) -> Group:
    covariance = group.covariance - (1 - f**2) * variance * np.outer(axis, axis)
    return Group(n, n * mean, n * (covariance + np.outer(mean, mean)), Ps, group.level)
