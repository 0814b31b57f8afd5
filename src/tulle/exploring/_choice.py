"""Which point to take: the smallest k that passes, what it compares to, what to change if none.

The ladder: group sizes from below, until one passes on releases that did not choose it. A few
releases say which k is worth a closer look; others, of other parts of the people, then judge it. So
the verdict is not the luckiest of several. If it does not hold, the next larger k is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from tulle._report.model import Changes, Judgement
from tulle._report.verdict import LARGER, grave_from
from tulle.auditing.audit import Audit
from tulle.exploring._points import Point, Round, audit_of

LEVELS = ("good", "undecided", "caution", "bad")  # the safest first
_COLUMNS = "Leave out or coarsen the columns that give people away."
_CLEAR = 0.5  # of what would be grave: an excess below that leaves room for chance


class Choice(NamedTuple):
    """The point that is named, if one passes, and the sentences that say so."""

    point: Point | None
    level: str  # good, caution, undecided or bad
    reason: str
    next: str


class Scale(NamedTuple):
    """What share of the records themselves a point is as useful and as risky as."""

    useful: float | None
    risky: float | None


def latest(points: Sequence[Point]) -> list[Point]:
    """Return the points of the last round that has releases."""
    whole = [point for point in points if point.spec.round == "whole"]
    return whole if any(point.spec.is_release for point in whole) else list(points)


def choose(points: Sequence[Point]) -> Choice:
    """Name the release with the smallest k that passes; of one k, the most useful.

    A release whose verdict is good goes before one with a reservation. One with a reservation
    passes if no interval of an attack reaches what would be grave, else if all attacks stay below
    half of that. Chance must not pick it: the next larger k of its curve has to pass too, or,
    next to a good verdict, at least not to fail.
    """
    releases = [p for p in points if p.spec.is_release and p.verdict is not None]
    if not releases:
        errors = [point.error for point in points if point.error]
        why = errors[0] if errors else "no release was measured"
        return Choice(None, "undecided", f"Nothing can be named: {why}.", "Change that first.")
    passing = _passing(releases)
    if passing:
        _, best = min(passing, key=lambda e: (e[0], e[1].spec.k or 0, -(e[1].utility or 0.0)))
        return Choice(best, best.level, _said(best, releases), _command(best))
    return _none(releases)


def passes(point: Point, points: Sequence[Point]) -> bool:
    """Return whether a release passes among those of its round, the smallest k or not."""
    releases = [p for p in points if p.spec.is_release and p.verdict is not None]
    same = [p for p in releases if p.spec.round == point.spec.round]
    return any(one.id == point.id for _, one in _passing(same))


def _passing(releases: Sequence[Point]) -> list[tuple[int, Point]]:
    """Return the releases that pass, each with its doubt."""
    doubts = {point.id: doubt(point) for point in releases}
    return [
        (own, point)
        for point in releases
        for own in [doubts[point.id]]
        if own is not None
        and all(
            doubts[p.id] is not None or (own == 0 and p.level == "undecided")
            for p in _next(point, releases)
        )
    ]


def _next(point: Point, releases: Sequence[Point]) -> list[Point]:
    """Return the release with the next larger k on the same curve, if there is one."""
    larger = [
        other
        for other in releases
        if other.spec.curve == point.spec.curve and (other.spec.k or 0) > (point.spec.k or 0)
    ]
    return sorted(larger, key=lambda other: other.spec.k or 0)[:1]


def _none(releases: Sequence[Point]) -> Choice:
    """Say that no release passes: why the safest does not, and what to change.

    The level is that of the safest release: its row must not say otherwise.
    """
    safest = min(releases, key=lambda p: (LEVELS.index(p.level), p.risk or 0.0, -(p.spec.k or 0)))
    level = safest.level
    if doubt(safest) is not None:
        level = "caution" if level == "good" else level
        why = "would pass, but the next larger k does not: chance may have picked it"
    else:
        why = {"undecided": "is not decided", "bad": "is bad"}.get(
            level, "comes close to being bad"
        )
    none = "No k can be named" if level == "undecided" else "No k passes"
    said = _judgement(safest, "privacy")["reason"]
    reason = f"{none}: the safest release, {safest.spec.label}, {why}. {said}"
    return Choice(None, level, reason, _beyond(safest, releases))


def _beyond(safest: Point, releases: Sequence[Point]) -> str:
    """Return what may help where no k passes: a larger one only if that would still be of use."""
    after = _judgement(safest, "privacy")["next"]
    if safest.level == "undecided" or after == _judgement(safest, "use")["next"]:
        return after  # more people, or other columns: no k
    largest = max(releases, key=lambda point: point.spec.k or 0)
    useless = any(_judgement(p, "use")["level"] == "bad" for p in (safest, largest))
    larger = "" if useless else f"Try a larger k than {largest.spec.k}. "
    return larger + (_COLUMNS if LARGER in after.lower() else after)


def _judgement(point: Point, about: Literal["privacy", "use"]) -> Judgement:
    """Return a judgement of a release; one that could not be made has none."""
    none: Judgement = {"level": "undecided", "reason": point.error, "next": "", "details": []}
    return none if point.verdict is None else point.verdict[about]


def doubt(point: Point) -> int | None:
    """Return 0 for a good verdict, 1 or 2 for a reservation that passes, None for the others."""
    if point.level == "good":
        return 0
    if point.level not in ("caution", "undecided"):
        return None
    attacks = [(one, grave_from(name, one)) for name, one in point.attacks.items()]
    if all(one["risk_high"] < grave for one, grave in attacks):
        return 1
    return 2 if all(one["risk"] < _CLEAR * grave for one, grave in attacks) else None


def _said(best: Point, releases: Sequence[Point]) -> str:
    smaller = [p for p in releases if (p.spec.k or 0) < (best.spec.k or 0)]
    why = "" if smaller else " It is the smallest k that was tried."
    said = f"{best.spec.label} is the smallest k that passes all gates.{why}"
    if best.level != "good":
        said += f" With a reservation: {_judgement(best, 'privacy')['reason']}"
    use = _judgement(best, "use")
    told = use["level"] in ("good", "undecided") or use["reason"] in said
    return said if told else f"{said} For use: {use['reason']}"


def _command(best: Point) -> str:
    words = [f"tulle condense TABLE -o RELEASE --k {best.spec.k}"]
    words += [f"--synthesis {best.spec.method}"] if best.spec.method != "shape" else []
    words += ["--target COLUMN"] if best.spec.by_class else []
    made = f"Make the release with: {' '.join(words)}"
    if _judgement(best, "use")["level"] != "bad":
        return made
    return f"No smaller k passes, and this one is not fit for use. {_COLUMNS} Else: {made}"


def scaled(point: Point, points: Sequence[Point]) -> Scale:
    """Compare a point with subsamples of the same round: as useful, and as risky, as which?"""
    references = [
        (p.spec.share or 1.0, p)
        for p in points
        if p.spec.round == point.spec.round
        and (p.spec.share is not None or p.spec.method == "copy")
        and p.risk is not None
        and p.utility is not None
    ]
    references.sort(key=lambda pair: pair[0])
    if len(references) < 2 or point.risk is None or point.utility is None:
        return Scale(None, None)
    shares = [share for share, _ in references]
    useful = np.maximum.accumulate([p.utility or 0.0 for _, p in references])
    risky = np.maximum.accumulate([p.risk or 0.0 for _, p in references])
    return Scale(
        _share(point.utility, np.asarray(useful), shares),
        _share(point.risk, np.asarray(risky), shares),
    )


def _share(value: float, rising: np.ndarray, shares: Sequence[float]) -> float:
    """Interpolate between shares on a logarithmic scale; below the smallest it is that one."""
    place = float(np.interp(value, rising, np.log(shares)))
    return float(np.exp(place))


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
        best = min(list({point.spec.k: point for point in points}.values()), key=_rank)
        if best.spec.round == "whole" or best.verdict is None:
            return Climbed(best, points)
        points.append(measure(best.spec.k or 0, "whole"))


def _promising(point: Point) -> bool:
    """Return whether nothing speaks against a release, though few attempts may decide nothing."""
    return point.level in ("good", "undecided") and _use(point) != "bad"


def _use(point: Point) -> str:
    return "none" if point.verdict is None else point.verdict["use"]["level"]


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
