"""Which point to take: the smallest k that passes, what it compares to, what to change if none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tulle.exploring._points import Point

PASSES = ("good", "caution")


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
    """Name the release with the smallest k whose verdict is best, the most useful of its k."""
    releases = [p for p in points if p.spec.is_release and p.verdict is not None]
    if not releases:
        errors = [point.error for point in points if point.error]
        why = errors[0] if errors else "no release was measured"
        return Choice(None, "undecided", f"Nothing can be named: {why}.", "Change that first.")
    for level in PASSES:
        passing = [point for point in releases if point.level == level]
        if passing:
            best = min(passing, key=lambda p: (p.spec.k or 0, -(p.utility or 0.0)))
            return Choice(best, level, _said(best, level, releases), _command(best))
    undecided = [point for point in releases if point.level == "undecided"]
    safest = min(undecided or releases, key=lambda p: (p.risk or 0.0, -(p.spec.k or 0)))
    after = "" if safest.verdict is None else safest.verdict["privacy"]["next"]
    if undecided:
        reason = (
            f"No k can be named: the attacks on {len(undecided)} of {len(releases)} releases had "
            "too few people to decide anything."
        )
        return Choice(None, "undecided", reason, after)
    reason = (
        f"No k passes: the safest release, {safest.spec.label}, still fails. "
        f"{safest.verdict['privacy']['reason'] if safest.verdict else ''}"
    )
    largest = max(point.spec.k or 0 for point in releases)
    return Choice(None, "bad", reason, f"Try a larger k than {largest}. {after}")


def _said(best: Point, level: str, releases: Sequence[Point]) -> str:
    smaller = [
        p for p in releases if p.level not in PASSES and (p.spec.k or 0) < (best.spec.k or 0)
    ]
    before = "" if smaller else " It is the smallest k that was tried."
    doubt = ""
    if level == "caution" and best.verdict is not None:
        doubt = f" With a reservation: {best.verdict['privacy']['reason']}"
    return f"{best.spec.label} is the smallest k that passes all gates.{before}{doubt}"


def _command(best: Point) -> str:
    words = [f"tulle condense TABLE -o RELEASE --k {best.spec.k} --holdout 10%"]
    words += [f"--synthesis {best.spec.method}"] if best.spec.method != "shape" else []
    words += ["--target COLUMN"] if best.spec.by_class else []
    return f"Make the release with: {' '.join(words)}"


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
