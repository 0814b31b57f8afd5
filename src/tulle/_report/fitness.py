"""Fitness for use: one sentence on what a miner can do with the release, and the next step.

Each measure that says something about use has limits in ``words.toml``: from where on it asks for
caution, from where on the release is not fit, the sentence, and what to do about it. A measure
that a result does not have is not judged; the worst measure decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tulle._plurals import counted
from tulle._report.model import Judgement, Level, Result
from tulle._report.words import WRITTEN, number

# the words of advice that costs privacy
SMALLER = ("take a smaller k", "a smaller --margin", "ask for less protection")
_SMALLER_GROUPS = f"{SMALLER[0]} if the privacy verdict allows it (tulle explore shows both)"
_ADVICE = {
    "smaller groups": _SMALLER_GROUPS,
    "look": "look at this column in the report; declare it a category, or give it bounds in the "
    "policy",
}


class Limit(NamedTuple):
    """From where on a measure is fair or poor, and what is said then.

    ``text`` may use ``{value}`` and ``{where}``: the column or pair that the measure names. Two
    samples of the same people differ, too: ``noise`` over the root of their size is about what
    other people instead of the release reach, measured in ``benchmarks/results/verdicts.md``.
    """

    measure: str
    fair: float
    poor: float
    text: str
    after: str
    style: str = "plain"
    noise: float = 0.0

    @property
    def falls(self) -> bool:
        """Whether small values are the bad ones."""
        return self.poor < self.fair

    def by_chance(self, compared: int | None, own: float) -> float:
        """Return what is allowed for, of tables with so many records."""
        return max(own, self.noise / math.sqrt(compared) if compared else 0.0)


LIMITS = tuple(
    Limit(measure, **{**row, "after": _ADVICE.get(row["after"], row["after"])})
    for measure, row in WRITTEN["limits"].items()
)
HEADLINES: Mapping[Level, str] = WRITTEN["headlines"]["use"]
_RANKS: Mapping[Level, int] = {"bad": 0, "caution": 1, "good": 2}


def graded(
    measure: str, value: float, compared: int | None, own: float = 0.0
) -> tuple[Level, str] | None:
    """Return how good a value is, and what to do about it; None for a measure without limits.

    ``own`` is what people of this table reach who are only drawn again, where that was measured.
    """
    limit = next((limit for limit in LIMITS if limit.measure == measure), None)
    return None if limit is None else (_level(limit, value, compared, own), limit.after)


def strain(measure: str, value: float, compared: int | None, own: float = 0.0) -> float | None:
    """Return how much of the way from perfect to its limit a measure has gone, at most 3 times.

    >>> strain("propensity_auc", 0.6, None)
    0.5
    """
    limit = next((limit for limit in LIMITS if limit.measure == measure), None)
    if limit is None or not math.isfinite(value):
        return None
    best = 1.0 if limit.falls else 0.5 if measure == "propensity_auc" else 0.0
    way = abs(limit.fair - best) + limit.by_chance(compared, own)
    gone = best - value if limit.falls else value - best
    return round(min(3.0, max(0.0, gone / way)), 3)


def fitness(result: Result) -> Judgement:
    """Return the judgement on fitness for use."""
    judged = _measured(result)
    if not judged:
        reason = f"{HEADLINES['undecided']}: nothing was measured that says what is left to mine."
        after = "Measure it: tulle audit ORIGINAL RELEASE."
        return {"level": "undecided", "reason": reason, "next": after, "details": []}
    level, worst, _ = judged[0]
    poor = [_told(row[1], row[2], result["where"]) for row in judged if row[0] != "good"]
    if level == "good":
        reason = f"{HEADLINES[level]}: {counted(len(judged), 'measure', 'lie')} within the limits."
        after = "Check on your own task: measures are averages."
    else:
        reason = f"{HEADLINES[level]}: {poor[0]}."
        after = f"{worst.after[:1].upper()}{worst.after[1:]}."
    details = [f"{text[:1].upper()}{text[1:]}." for text in poor]
    return {"level": level, "reason": reason, "next": after, "details": details}


def lost_in(result: Result) -> str | None:
    """Return the column or pair in which use is poor, where smaller groups would mend it."""
    poor = [limit for level, limit, _ in _measured(result) if level != "good"]
    places = [result["where"].get(x.measure) for x in poor if x.after is _SMALLER_GROUPS]
    # an effect of one column on another cannot be left out
    return next((place for place in places if place and place.startswith("column")), None)


def _measured(result: Result) -> list[tuple[Level, Limit, float]]:
    """Return the measures that have limits, the worst first."""
    judged = [
        (level, limit, value)
        for limit in LIMITS
        for value in [result["metrics"].get(limit.measure)]
        if value is not None and math.isfinite(value)
        # whoever keeps labels next to sketches wants them learnt, and not single neighbours found
        if limit.measure != "neighbour_recall" or "classes_kept" not in result["metrics"]
        for own in [result["chance"].get(limit.measure, 0.0)]
        for level in [_level(limit, value, result["compared"], own)]
    ]
    return sorted(judged, key=lambda row: _RANKS[row[0]])


def _level(limit: Limit, value: float, compared: int | None, own: float) -> Level:
    """Return the level of a value, of tables with so many records."""
    sign = -1 if limit.falls else 1
    chance = limit.by_chance(compared, own)
    if sign * value >= sign * limit.poor + chance:
        return "bad"
    return "caution" if sign * value >= sign * limit.fair + chance else "good"


def _told(limit: Limit, value: Any, where: Mapping[str, str]) -> str:
    named = where.get(limit.measure, "the worst column or pair")
    return limit.text.format(value=number(value, limit.style), where=named)
