"""The ladder: group sizes from below, until one passes on releases that did not choose it.

A few releases say which k is worth a closer look; others, of other parts of the people, then judge
it. So the verdict is not the luckiest of several. If it does not hold, the next larger k is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Unpack

from tulle._report.model import Changes
from tulle.auditing.audit import Audit
from tulle.exploring._choice import LEVELS, doubt
from tulle.exploring._points import Point, Round, audit_of

SIZES = (10, 15, 20, 30, 50, 100)
_GROUPS = 10  # that a table should have at least
Measure = Callable[[int, Round], Point]


class Climbed(NamedTuple):
    """The point to release, or the safest if none passes, and all that were measured."""

    point: Point
    points: list[Point]

    @property
    def passed(self) -> bool:
        """Whether the verdict on privacy is good."""
        return self.point.level == "good"

    def audit(self, **parts: Unpack[Changes]) -> Audit:
        """Return the audit of the point, with further parts."""
        return audit_of(self.point).extended(**parts)

    def rows(self) -> list[dict[str, Any]]:
        """Return the points as rows: k, what it was judged for, and how."""
        return [
            {
                "k": point.spec.k,
                "for": "choosing" if point.spec.round == "quick" else "confirming",
                "privacy": point.level,
                "use": _use(point),
                "worst_attack": point.attack or None,
                "excess": point.risk,
            }
            for point in self.points
        ]

    @property
    def why(self) -> str:
        """Say why it is this k."""
        tried = sorted({point.spec.k or 0 for point in self.points})
        smaller = [k for k in tried if k < (self.point.spec.k or 0)]
        told = ", ".join(map(str, smaller))
        if self.passed and not smaller:
            return f"k = {tried[0]}, the smallest that is tried, passes"
        if self.passed:
            return f"k = {self.point.spec.k} is the smallest that passes; k = {told} did not"
        return f"no k passes: {', '.join(map(str, tried))}; the best is k = {self.point.spec.k}"


def sizes_for(people: int, *, quick: bool = False) -> list[int]:
    """Return the sizes to try: those that leave several groups, fewer of them quickly."""
    sizes = [k for k in SIZES if k * _GROUPS <= people] or [SIZES[0]]
    return [*sizes[:-1:2], sizes[-1]] if quick else sizes


def climb(sizes: Sequence[int], measure: Measure, *, fresh: bool = True) -> Climbed:
    """Find the smallest k whose release passes, and confirm it.

    ``measure`` makes and judges releases of a k: in the round "quick" a few, to choose by; in the
    round "whole" others, which judge. Without ``fresh`` people to judge by, one k is judged only.
    """
    points: list[Point] = []
    confirming = False
    for k in sizes:
        if not confirming:
            points.append(measure(k, "quick"))
            confirming = _promising(points[-1])
        if confirming:
            points.append(measure(k, "whole"))
            if points[-1].level == "good" or not fresh:
                return Climbed(points[-1], points)
        if points[-1].verdict is None or _use(points[-1]) == "bad":
            break  # groups that are larger still are of no more use
    while True:
        best = min(_last(points), key=_rank)
        if best.spec.round == "whole" or best.verdict is None:
            return Climbed(best, points)
        points.append(measure(best.spec.k or 0, "whole"))


def _promising(point: Point) -> bool:
    """Return whether nothing speaks against a release, though few attempts may decide nothing."""
    return point.level in ("good", "undecided") and _use(point) != "bad"


def _use(point: Point) -> str:
    return "none" if point.verdict is None else point.verdict["use"]["level"]


def _last(points: Sequence[Point]) -> list[Point]:
    """Return what was measured last of each k."""
    return list({point.spec.k: point for point in points}.values())


def _rank(point: Point) -> tuple[int, int, float]:
    """Return a key by which safe releases that are of use come first."""
    if point.verdict is None:
        return len(LEVELS) + 1, 0, 0.0
    useless = _use(point) == "bad" and point.level != "bad"
    reserved = doubt(point)
    place = LEVELS.index("bad") if useless else LEVELS.index(point.level) + (point.level == "bad")
    # of releases that nothing was found in, the smallest k; else the one in which least was found
    last = point.spec.k if point.level in ("good", "undecided") else point.risk
    return place, 9 if reserved is None else reserved, last or 0.0
