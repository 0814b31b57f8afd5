"""Fitness for use: one sentence on what a miner can do with the release, and the next step.

Each measure that says something about use has a row in :data:`LIMITS`: from where on it asks for
caution, from where on the release is not fit, the sentence, and what to do about it. A measure
that a result does not have is not judged; the worst measure decides. A new measure needs a row
here, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tulle._plurals import counted
from tulle._report.model import Judgement, Level, Whole
from tulle._report.words import number

# the words of advice that costs privacy
SMALLER = ("take a smaller k", "a smaller --margin", "ask for less protection")
_SMALLER_GROUPS = f"{SMALLER[0]} if the privacy verdict allows it (tulle explore shows both)"
_LOOK = "look at this column in the report; declare it a category, or give it bounds in the policy"


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


LIMITS = (
    Limit(
        "accuracy_ratio",
        0.95,
        0.80,
        "a model trained on the release reaches {value} of the score of one trained on the "
        "original",
        _SMALLER_GROUPS,
        "share",
    ),
    Limit(
        "stated_rules_broken",
        0.0001,
        0.05,
        "rules between columns that the policy states are broken in {value} of the rows",
        "make the release with the rules in its policy: tulle condense keeps them",
        "share",
    ),
    Limit(
        "rules_broken",
        0.005,
        0.05,
        "relations between columns that hold for every original are broken in {value} of the rows, "
        "most often between {where}",
        "state the relation under [rules] in the policy, or leave one of the columns out",
        "share",
    ),
    Limit(
        "heaps_kept_min",
        0.80,
        0.40,
        "of the values that many people share in {where}, {value} are left",
        _LOOK,
        "share",
    ),
    Limit(
        "heaps_piled",
        0.02,
        0.10,
        "{where} has an impossible heap: {value} of the records on one value that was not common",
        _LOOK,
        "share",
    ),
    Limit(
        "odd_values",
        0.01,
        0.10,
        "{value} of the values in {where} are of a kind that the original does not have",
        _LOOK,
        "share",
    ),
    Limit(
        "propensity_auc",
        0.70,
        0.90,
        "a classifier tells released records from people with an AUC of {value}, mostly by {where}",
        _SMALLER_GROUPS,
    ),
    Limit(
        "effects_lost",
        0.20,
        0.50,
        "{value} of the effects that are significant in the original are gone, such as {where}",
        _SMALLER_GROUPS,
        "share",
    ),
    Limit(
        "marginal_distance_max",
        0.15,
        0.40,
        "the distribution of {where} moved by {value}",
        _LOOK,
        noise=3.5,
    ),
    Limit(
        "correlation_difference_max",
        0.20,
        0.45,
        "the association of {where} changed by {value}",
        _SMALLER_GROUPS,
        noise=6.0,
    ),
    Limit(
        "correlation_difference",
        0.05,
        0.12,
        "associations between columns changed by {value} on average",
        _SMALLER_GROUPS,
        noise=1.3,
    ),
    Limit(
        "covariance_compatibility",
        0.95,
        0.80,
        "covariances agree with those of the original by {value} only, where 1 is perfect",
        _SMALLER_GROUPS,
        noise=1.0,
    ),
    Limit(
        "misses_cost",
        0.10,
        0.40,
        "{value} of the rules that should stay were lost",
        f"hide fewer rules, or try {SMALLER[1]}",
        "share",
    ),
    Limit(
        "artifactual_patterns",
        0.05,
        0.20,
        "{value} of the rules in the release are not in the data",
        "choose a method that only takes items away",
        "share",
    ),
    Limit(
        "neighbour_recall",
        0.80,
        0.40,
        "the sketches find {value} of the true nearest neighbours",
        f"allow more components (--max-components) or {SMALLER[2]}",
        "share",
    ),
    Limit(
        "suppressed_share",
        0.05,
        0.30,
        "{value} of the records were left out",
        f"{SMALLER[2]}, or say in the release which records are missing",
        "share",
    ),
    *(
        Limit(
            name,
            0.95,
            0.80,
            f"{miner} give the same answer on the codes for {{value}} of the records",
            "code fewer columns, or split fewer values",
            "share",
        )
        for name, miner in (
            ("same_tree", "decision trees"),
            ("same_bayes", "naive Bayes models"),
            ("same_neighbours", "nearest neighbours"),
            ("same_clusters", "clusterings"),
        )
    ),
)
HEADLINES: Mapping[Level, str] = {
    "bad": "Not fit for use",
    "caution": "Fit for some uses only",
    "undecided": "Not decided",
    "good": "Fit for use",
}
_RANKS: Mapping[Level, int] = {"bad": 0, "caution": 1, "good": 2}


def graded(measure: str, value: float, compared: int | None) -> tuple[Level, str] | None:
    """Return how good a value is, and what to do about it; None for a measure without limits."""
    limit = next((limit for limit in LIMITS if limit.measure == measure), None)
    return None if limit is None else (_level(limit, value, compared), limit.after)


def strain(measure: str, value: float, compared: int | None) -> float | None:
    """Return how much of the way from perfect to its limit a measure has gone, at most 3 times.

    >>> strain("propensity_auc", 0.6, None)
    0.5
    """
    limit = next((limit for limit in LIMITS if limit.measure == measure), None)
    if limit is None or not math.isfinite(value):
        return None
    best = 1.0 if limit.falls else 0.5 if measure == "propensity_auc" else 0.0
    way = abs(limit.fair - best) + (limit.noise / math.sqrt(compared) if compared else 0.0)
    gone = best - value if limit.falls else value - best
    return round(min(3.0, max(0.0, gone / way)), 3)


def fitness(result: Whole) -> Judgement:
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


def lost_in(result: Whole) -> str | None:
    """Return the column or pair in which use is poor, where smaller groups would mend it."""
    poor = [limit for level, limit, _ in _measured(result) if level != "good"]
    places = [result["where"].get(x.measure) for x in poor if x.after is _SMALLER_GROUPS]
    # an effect of one column on another cannot be left out
    return next((place for place in places if place and place.startswith("column")), None)


def _measured(result: Whole) -> list[tuple[Level, Limit, float]]:
    """Return the measures that have limits, the worst first."""
    judged = [
        (level, limit, value)
        for limit in LIMITS
        for value in [result["metrics"].get(limit.measure)]
        if value is not None and math.isfinite(value)
        for level in [_level(limit, value, result["compared"])]
    ]
    return sorted(judged, key=lambda row: _RANKS[row[0]])


def _level(limit: Limit, value: float, compared: int | None) -> Level:
    """Return the level of a value, of tables with so many records."""
    sign = -1 if limit.falls else 1
    chance = limit.noise / math.sqrt(compared) if compared else 0.0
    if sign * value >= sign * limit.poor + chance:
        return "bad"
    return "caution" if sign * value >= sign * limit.fair + chance else "good"


def _told(limit: Limit, value: Any, where: Mapping[str, str]) -> str:
    named = where.get(limit.measure, "the worst column or pair")
    return limit.text.format(value=number(value, limit.style), where=named)
