"""Which of the evaluated sizes to take, and why, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tulle.errors import PrivacyError
from tulle.tuning.strategies import trade_off


@dataclass(frozen=True)
class Point:
    """The averages of one size over its repeated releases."""

    k: int
    utility: float
    utility_std: float
    ratio: float  # utility over that of the original
    privacy: float
    risk: float
    seconds: float


@dataclass(frozen=True)
class Limits:
    """What the user will not go beyond."""

    max_risk: float | None = None
    min_accuracy_ratio: float | None = None

    @property
    def given(self) -> bool:
        return self.max_risk is not None or self.min_accuracy_ratio is not None

    def excess(self, point: Point) -> float:
        """By how much a point misses the limits; 0 inside."""
        risk = 0.0 if self.max_risk is None else _beyond(point.risk - self.max_risk)
        asked = self.min_accuracy_ratio
        return risk + (0.0 if asked is None else _beyond(asked - point.ratio))

    def words(self) -> str:
        parts = []
        if self.max_risk is not None:
            parts.append(f"risk at most {self.max_risk:g}")
        if self.min_accuracy_ratio is not None:
            parts.append(f"at least {self.min_accuracy_ratio:g} of the original's utility")
        return " and ".join(parts)


def _beyond(excess: float) -> float:
    """What is beyond a limit; what could not be measured is beyond every limit."""
    return math.inf if math.isnan(excess) else max(0.0, excess)


def choose(
    points: Sequence[Point], settled: int | None, gap: float, limits: Limits
) -> tuple[int, str]:
    """The size and the reason. ``settled`` is where a strategy ended, None for a grid."""
    if limits.given:
        return _inside(points, gap, limits)
    if len(points) == 1:
        return points[0].k, _sentence(points[0], "it is the only size that was tried")
    # the rule compares neighbours only: noise may lead it to a size that has lost too much
    upto = [point for point in points if settled is None or point.k <= settled]
    k = trade_off([p.k for p in upto], [p.utility for p in upto], gap)
    how = "tried" if settled is None else f"tried up to {settled}, where the rule ended,"
    why = f"it is the largest size {how} whose utility is within {gap:.0%} of the best"
    return k, _sentence(_at(points, k), why)


def _inside(points: Sequence[Point], gap: float, limits: Limits) -> tuple[int, str]:
    allowed = [point for point in points if limits.excess(point) == 0]
    if not allowed:
        nearest = min(points, key=limits.excess)
        raise PrivacyError(
            f"none of the {len(points)} group sizes tried satisfies {limits.words()}: the nearest "
            f"is k={nearest.k} with risk {nearest.risk:.3f} and {nearest.ratio:.3f} of the "
            "original's utility. Loosen a limit, or try more sizes"
        )
    k = trade_off([p.k for p in allowed], [p.utility for p in allowed], gap)
    why = (
        f"of the {len(allowed)} sizes (of {len(points)} tried) with {limits.words()} it is the "
        f"largest whose utility is within {gap:.0%} of the best"
    )
    return k, _sentence(_at(points, k), why)


def _at(points: Sequence[Point], k: int) -> Point:
    return next(point for point in points if point.k == k)


def _sentence(point: Point, why: str) -> str:
    share = (
        "the original's is 0" if math.isnan(point.ratio) else f"{point.ratio:.0%} of the original's"
    )
    return (
        f"k={point.k} because {why}: utility {point.utility:.3f} ({share}), "
        f"interval privacy {point.privacy:.2f}, linkage risk {point.risk:.3f}."
    )
