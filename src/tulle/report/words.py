"""Plain words for the names of measures and attacks, and for numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Words(NamedTuple):
    """How a measure is called, what it says, and how its number is written."""

    label: str
    help: str
    style: str = "plain"  # or share, percent (a number that is per cent already)


METRICS = {
    "information_loss": Words(
        "Information loss",
        "Squared distance of each record to what stands for it (the mean of its group; the nearest "
        "released record if groups are not known), in per cent of the total variance; 0 is a copy.",
        "percent",
    ),
    "covariance_compatibility": Words(
        "Covariance compatibility",
        "Correlation between the entries of the two covariance matrices; 1 is perfect.",
    ),
    "correlation_difference": Words(
        "Mean difference of correlations",
        "Average absolute difference between the association of two columns in original and "
        "release; 0 is perfect.",
    ),
    "correlation_difference_max": Words(
        "Largest difference of correlations", "The pair of columns that suffered most."
    ),
    "marginal_distance": Words(
        "Mean distance of marginals",
        "Average over the columns: Wasserstein distance in standard deviations, or total "
        "variation for categories; 0 is perfect.",
    ),
    "marginal_distance_max": Words(
        "Largest distance of a marginal", "The column that suffered most."
    ),
    "accuracy_original": Words(
        "Score, trained on the original",
        "Accuracy (or R2) on originals that were kept apart.",
    ),
    "accuracy_release": Words(
        "Score, trained on the release", "The same model and test records, trained on the release."
    ),
    "accuracy_ratio": Words(
        "Score ratio", "Trained on the release over trained on the original; 1 is no loss."
    ),
    "propensity_auc": Words(
        "Distinguishability (AUC)",
        "How well a classifier tells released from original records: 0.5 not at all, 1 perfectly.",
    ),
    "propensity_pmse": Words(
        "Propensity mean squared error", "0: indistinguishable; 0.25: perfectly told apart."
    ),
    "interval_width": Words(
        "Interval width at 95 %",
        "Width of the central 95 % interval of (original - nearest released value) over the "
        "range of the column, averaged over the numeric columns.",
    ),
    "closest_original": Words(
        "Distance to the closest released record, people in the data",
        "Median, in standard deviations over all columns.",
    ),
    "closest_control": Words(
        "Distance to the closest released record, people not in the data",
        "The same for the control; if it is clearly larger, the release remembers people.",
    ),
    "hiding_failure": Words("Hiding failure", "Share of the sensitive rules that still show."),
    "misses_cost": Words("Misses cost", "Share of the other rules that were lost on the way."),
    "artifactual_patterns": Words(
        "Artifactual patterns", "Share of the rules in the release that the data do not hold."
    ),
    "dif": Words("Difference", "Share of item occurrences that were changed."),
    "neighbour_recall": Words(
        "Neighbour recall", "Share of true nearest neighbours that the sketches find."
    ),
    "groups": Words("Groups", "How many groups the records were condensed into."),
    "smallest_group": Words("Smallest group", "Records in the smallest group."),
    "median_group": Words("Median group", "Records in the group of median size."),
}

ATTACKS = {
    "exact_copies": "Exact copies",
    "near_copies": "Near copies",
    "linkage": "Linkage, nearest record",
    "linkage_one_to_one": "Linkage, one to one",
    "inference": "Inference",
    "membership": "Membership",
    "singling_out": "Singling out",
    "snapshots": "Successive snapshots",
}


def metric_words(name: str) -> Words:
    """What a report says of a measure; an unknown one keeps its own name."""
    return METRICS.get(name, Words(_spaced(name), ""))


def attack_label(name: str) -> str:
    """The label of an attack; ``inference:income`` reads 'Inference: income'.

    >>> attack_label("inference:income")
    'Inference: income'
    """
    kind, colon, column = name.partition(":")
    label = ATTACKS.get(kind, _spaced(kind))
    return f"{label}: {column}" if colon else label


def number(value: Any, style: str = "plain") -> str:
    r"""A number as people write it; words pass through.

    >>> number(32561), number(0.98765), number(0.0512, "share"), number(None), number(True)
    ('32,561', '0.988', '5.1\xa0%', '-', 'yes')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(number(entry) for entry in value)
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "-"
    if style == "share":
        return _share(float(value))
    if style == "percent":
        return f"{value:.3g}\N{NO-BREAK SPACE}%"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _share(value: float) -> str:
    percent = 100 * value
    if 0 < percent < 0.05:
        return "<\N{NO-BREAK SPACE}0.1\N{NO-BREAK SPACE}%"
    digits = 0 if percent >= 99.95 or percent == 0 else 1
    return f"{percent:.{digits}f}\N{NO-BREAK SPACE}%"


def _spaced(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]
