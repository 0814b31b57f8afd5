"""The page of an exploration: the frontier, the curves over k, and each point with its attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tulle._report.model import Block, Result, Section, chart, sentences, table
from tulle._report.words import attack_label
from tulle.exploring._choice import passes
from tulle.exploring._points import Point

if TYPE_CHECKING:
    from tulle.exploring.explore import Exploration

_SCORES = {
    "columns": "what each column gains from the others over guessing, on average",
    "roc_auc": "area under the ROC curve for the target",
    "balanced_accuracy": "balanced accuracy for the target",
    "r2": "R2 for the target",
    "clusters": "agreement of clusters found in the release with those of the original (adjusted "
    "Rand index: 1 the same, 0 chance)",
}
_MEASURES = {  # the curves over k
    "risk": "risk: worst excess over the control",
    "utility": "utility",
    "k_marginal": "k-marginal score",
    "distinguishability": "distinguishability (AUC)",
    "cluster_error": "error of clusters (1: as good as the original's own)",
}
_NO_USE = {
    "level": "undecided",
    "reason": "Not decided: no release was named. The table of all points has the use of each.",
    "next": "Choose a release by its privacy first.",
    "details": [],
}
LIMITS = [
    "The risk is the worst of the attacks that were tried, on average over people. It is not a "
    "probability that somebody is recognised, and a failed attack is not evidence of safety.",
    "The named k was found with one control. Check the release that you send with people who were "
    "not used here: tulle audit ORIGINAL RELEASE --control FRESH.",
    "Subsamples and the records themselves are shown for their scale only: they are people's own "
    "records.",
]


def page_of(found: Exploration) -> Result:
    """Return the page as a report."""
    choice, points = found.choice, found.latest
    shown = [point for point in points if point.risk is not None and point.utility is not None]
    quick = all(point.spec.round == "quick" for point in points)
    records = points[0].records if points else 0
    on = f"on a sample of {records:,} records" if quick else f"on {records:,} records"
    level: Any = choice.level
    use: Any = choice.point.verdict["use"] if choice.point and choice.point.verdict else _NO_USE
    return {
        "title": found.title,
        "summary": f"{sum(p.spec.is_release for p in points)} releases {on}. {choice.reason}",
        "verdict": {
            "privacy": {
                "level": level,
                "reason": choice.reason,
                "next": choice.next,
                "details": [],
            },
            "use": use,
        },
        "k": choice.point.spec.k if choice.point else None,
        "attacks": choice.point.attacks if choice.point else {},
        "sections": [
            _frontier(found, shown),
            _table(found),
            *(_details(found, point) for point in shown if point.spec.is_release),
        ],
        "limits": LIMITS,
        "command": found.command,
        "provenance": {
            "points": len(found.points),
            "seconds of computing": round(sum(point.seconds for point in found.points), 1),
        },
    }


def _frontier(found: Exploration, shown: list[Point]) -> Section:
    scoring = next((point.scoring for point in shown), "columns")
    meaning = _SCORES.get(scoring, f"{scoring} for the target")
    over = [
        {"curve": point.spec.curve, "k": point.spec.k, "measure": words, "value": value}
        for point in shown
        if point.spec.is_release
        for measure, words in _MEASURES.items()
        for value in [_value(point, measure)]
        if value is not None
    ]
    picture = chart(
        "frontier", frontier_rows(found, shown),
        title="Risk and utility of each release: up and to the left is better",
        help="Risk: the worst excess over people who were kept out among all attacks, with its "
        f"95 % interval. Utility: {meaning}. Grey: the records themselves, subsamples and shuffled "
        "columns, for the scale. Click on a release for its attacks.",
    )  # fmt: skip
    told = "The same releases over the size of their groups."
    curves = [chart("over_k", over, title="Over k", help=told)] if over else []
    return {"id": "frontier", "title": "The frontier", "blocks": [picture, *curves]}


def frontier_rows(found: Exploration, points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the rows of the picture of risk and utility."""
    named = found.choice.point
    return [
        {
            "label": point.spec.label,
            "curve": point.spec.curve if point.spec.is_release else "",
            "k": point.spec.k,
            "risk": point.risk,
            "low": max(0.0, point.risk_low or 0.0),
            "high": point.risk_high,
            "utility": point.utility,
            "privacy": point.level if point.spec.is_release else None,
            "passes": point.level == "good" and passes(point, found.points),
            "chosen": point is named,
            "link": f"#{anchor(point)}" if point.spec.is_release else "#points",
        }
        for point in points
        if point.risk is not None and point.utility is not None
    ]


def _value(point: Point, measure: str) -> float | None:
    if measure in ("risk", "utility"):
        return point.risk if measure == "risk" else point.utility
    name = "propensity_auc" if measure == "distinguishability" else measure
    return point.metrics.get(name)


def _table(found: Exploration) -> Section:
    names = {
        "release": "release",
        "risk": "risk",
        "worst_attack": "worst attack",
        "utility": "utility",
        "k_marginal": "k-marginal",
        "distinguishability": "told apart (AUC)",
        "cluster_error": "error of clusters",
        "as_useful_as": "as useful as",
        "as_risky_as": "as risky as",
        "privacy": "privacy",
        "use": "use",
        "error": "not possible",
    }
    rows = [
        [
            f"{row['release']} (named)" if row["chosen"] else row["release"],
            *(_cell(name, row[name]) for name in list(names)[1:]),
        ]
        for row in found.rows()
    ]
    text = (
        "As useful as, as risky as: the share of the records themselves that a release of plain "
        "records would hold."
    )
    blocks: list[Block] = [table(names.values(), rows)]
    return {"id": "points", "title": "All points", "text": text, "blocks": blocks}


def share_words(share: float) -> str:
    """Return a share in per cent, with two digits that count.

    >>> share_words(1.0), share_words(0.184), share_words(0.0125)
    ('100 %', '18 %', '1.2 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"


def _cell(name: str, value: Any) -> Any:
    if name in ("as_useful_as", "as_risky_as") and value is not None:
        return share_words(value)
    return attack_label(value) if name == "worst_attack" and value else value


def _details(found: Exploration, point: Point) -> Section:
    """One release: its verdict, and its attacks next to the control."""
    scale = found.scale(point)
    told = []
    if scale.useful is not None and scale.risky is not None:
        told.append(
            f"As useful as {share_words(scale.useful)} of the records, as risky as "
            f"{share_words(scale.risky)}."
        )
    if point.verdict is not None:
        told += [point.verdict["privacy"]["reason"], point.verdict["use"]["reason"]]
    figures = "rate", "control", "risk", "risk_low", "risk_high"
    rows = [
        [attack_label(name), *(one[figure] for figure in figures)]  # type: ignore[literal-required]
        for name, one in sorted(point.attacks.items(), key=lambda pair: -pair[1]["risk"])
    ]
    columns = "attack", "rate", "control", "excess", "at least", "at most"
    attacks = table(columns, rows, folded=f"Attacks on {point.spec.label}, next to the control")
    title = point.spec.label[:1].upper() + point.spec.label[1:]
    return {"id": anchor(point), "title": title, "blocks": [sentences(told), attacks]}


def anchor(point: Point) -> str:
    """Return the place of a point on the page."""
    return f"point-{point.id}"
