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
    about: str = "mining"  # what is left to mine; or people: how near it stays to them; or peers


METRICS = {  # in the order of a report
    "accuracy_original": Words(
        "Score of a model trained on the original",
        "On held-out originals: the share of correct predictions for classes, R2 for numbers.",
    ),
    "accuracy_release": Words(
        "Score of a model trained on the release", "The same model, tested on the same originals."
    ),
    "accuracy_ratio": Words(
        "Score ratio", "Trained on the release over trained on the original; 1 means no loss."
    ),
    "information_loss": Words(
        "Information loss",
        "Squared distance of each record to the mean of its group, in percent of the total "
        "variance; 0 is a copy.",
        "percent",
    ),
    "nearest_record_loss": Words(
        "Distance to the nearest released record",
        "Squared distance of each person to the nearest released record, in percent of the total "
        "variance; 0 is a copy.",
        "percent",
    ),
    "covariance_compatibility": Words(
        "Covariance compatibility",
        "Correlation between the entries of the two covariance matrices, every column scaled to "
        "the same variance; 1 is perfect.",
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
        "Mean distance of columns",
        "How far the distribution of a column moved, on average: Wasserstein distance in standard "
        "deviations for numbers, total variation for categories; 0 is perfect.",
    ),
    "marginal_distance_max": Words(
        "Largest distance of a column", "The column that suffered most."
    ),
    "weighted_difference": Words(
        "Largest difference as weighted",
        "With the survey weights: how far the total, the share of a value that k people hold, or "
        "the mean of a number in standard deviations is from the original's, at most; 0 is "
        "perfect.",
    ),
    "k_marginal": Words(
        "k-marginal score (NIST), pairs of columns",
        "Do combinations of two columns occur as often as they did? 1000 is perfect, 0 nothing in "
        "common.",
    ),
    "k_marginal_3": Words(
        "k-marginal score (NIST), three columns", "The same for combinations of three columns."
    ),
    "equivalent_subsample": Words(
        "Equivalent subsample",
        "The release keeps pairs of columns as well as this share of the original records, drawn "
        "at random, would.",
        "share",
    ),
    "propensity_auc": Words(
        "Distinguishability (AUC)",
        "How well a classifier tells released records from people who were kept out (from the "
        "original, if nobody was): 0.5 not at all, 1 perfectly.",
    ),
    "propensity_pmse": Words(
        "Propensity mean squared error",
        "The same by another measure: 0 is indistinguishable, 0.25 perfectly separable.",
    ),
    "heaps_kept": Words(
        "Heaps kept",
        "Of the numbers that many people share (40 hours, an income of 0): how much of these heaps "
        "is still there.",
        "share",
    ),
    "heaps_kept_min": Words("Heaps kept, worst column", "The column that suffered most.", "share"),
    "heaps_piled": Words(
        "Piled up",
        "The most that a single number gained from nowhere, as a share of all records.",
        "share",
    ),
    "effects_lost": Words(
        "Effects lost",
        "Of the effects of one column on another that a regression clearly finds in the original, "
        "by standard errors that count people: the share that it no longer finds in the release.",
        "share",
    ),
    "stated_rules_broken": Words(
        "Rows that break a rule of the policy",
        "Share of released rows that break at least one rule between columns that was stated.",
        "share",
    ),
    "rules_broken": Words(
        "Rows that break a relation",
        "Share of released rows that break what every original keeps: a column that follows from "
        "another, or is never larger.",
        "share",
    ),
    "rules_broken_control": Words(
        "Rows that break a relation, people kept out",
        "The same share of real people: relations may hold in the original by chance.",
        "share",
    ),
    "unseen_pairs": Words(
        "Rows with a pair of categories that nobody has",
        "Share of released rows with two categories that no original record combines.",
        "share",
    ),
    "unseen_pairs_control": Words(
        "Rows with a new pair of categories, people kept out",
        "The same share of real people.",
        "share",
    ),
    "odd_values": Words(
        "Odd values, worst column",
        "Share of released values of a kind that the original does not have: fractions of whole "
        "numbers, numbers below 0, unknown words.",
        "share",
    ),
    "missing_patterns": Words(
        "Distance of missing patterns",
        "Total variation between what is missing together; 0 is perfect.",
    ),
    "subgroup_distance": Words(
        "Mean distance within subgroups",
        "How far the other columns moved within each category: mean total variation; 0 is perfect.",
    ),
    "subgroup_distance_max": Words(
        "Largest distance within a subgroup", "The subgroup that suffered most, beyond chance."
    ),
    "regression_kept": Words(
        "Regressions kept",
        "Share of subgroups in which the slope of one number over another agrees with the "
        "original's.",
        "share",
    ),
    "cluster_agreement": Words(
        "Agreement of clusters",
        "Originals in five clusters found in the release and in the original itself: adjusted Rand "
        "index; 1 is the same clusters, 0 is chance.",
    ),
    "cluster_error": Words(
        "Error of clusters",
        "Squared distance of originals to the release's five centres over that to their own; 1 is "
        "perfect.",
    ),
    "dcr_share": Words(
        "DCR share",
        "Share of released records that are nearer to a person in the data than to one kept out; "
        "0.5 is best, and a usual limit is 0.52.",
        about="peers",
    ),
    "nnaa": Words(
        "Nearest neighbour adversarial accuracy (NNAA)",
        "How often the nearest neighbour of a record is of its own table: 0.5 where release and "
        "original cannot be told apart, less where records are copied.",
        about="peers",
    ),
    "nnaa_privacy_loss": Words(
        "Privacy loss (NNAA)",
        "That of people kept out less that of people in the data: 0 is best.",
        about="peers",
    ),
    "epsilon_risk": Words(
        "Epsilon identifiability risk",
        "Share of people who are nearer to a released record than to any other person; here "
        "columns count alike, others weigh them by entropy.",
        "share",
        about="peers",
    ),
    "copied_combinations": Words(
        "Copied combinations",
        "Share of released records that are, in every column, those of somebody in the data.",
        "share",
        about="peers",
    ),
    "unique_matches": Words(
        "Unique exact matches",
        "Share of the people with a record of their own whose record stands in the release.",
        "share",
        about="peers",
    ),
    "unique_matches_control": Words(
        "Unique exact matches, people kept out",
        "The same share of strangers: what chance alone puts there.",
        "share",
        about="peers",
    ),
    "replicated_uniques": Words(
        "Replicated uniques (repU)",
        "Share of people who are unique by what an intruder knows, in the original and in the "
        "release.",
        "share",
        about="peers",
    ),
    "disco": Words(
        "DiSCO, worst column",
        "Disclosive in synthetic, correct in original: share of people for whom the released "
        "records that agree with what is known of them all have one value, which is theirs.",
        "share",
        about="peers",
    ),
    "disco_control": Words(
        "DiSCO of the same column, people kept out",
        "The same share of strangers.",
        "share",
        about="peers",
    ),
    "proximity_breach": Words(
        "Proximity breach, worst column",
        "Of the released records that agree with what is known of a person, the mean share whose "
        "number is within a tenth of a standard deviation of theirs: how surely a short interval "
        "is known.",
        "share",
        about="people",
    ),
    "proximity_breach_control": Words(
        "Proximity breach of the same column, people kept out",
        "The same share of strangers: what the shape of the data tells of anybody.",
        "share",
        about="people",
    ),
    "divergence_breach": Words(
        "Divergence breach, worst column",
        "Of the released records that agree with what is known of a person, the mean share that "
        "have the commonest wrong value: how surely something false is believed of them.",
        "share",
        about="people",
    ),
    "divergence_breach_control": Words(
        "Divergence breach of the same column, people kept out",
        "The same share of strangers.",
        "share",
        about="people",
    ),
    "nearer_excess": Words(
        "Nearer than anybody, excess",
        "How much more often a released record is nearer to a person than any other person in the "
        "data is, than to people who were kept out.",
        "share",
        about="people",
    ),
    "nearer_excess_apart": Words(
        "Nearer than anybody, excess of those who stand apart",
        "The same for the tenth of people who are farthest from all others.",
        "share",
        about="people",
    ),
    "interval_width": Words(
        "Interval width at 95 %, nearest record",
        "How far a person's value may be from the one in the nearest released record: the "
        "central 95 % of the differences, over the range of the column, averaged over the "
        "numbers. Larger is safer. It is a lower bound on what tulle tune shows, which compares "
        "with any record of the person's own group.",
        about="people",
    ),
    "closest_original": Words(
        "Distance to the closest released record, people in the data",
        "Median, in standard deviations over all columns. A distance is not evidence of privacy: "
        "read the attacks.",
        about="people",
    ),
    "closest_control": Words(
        "Distance to the closest released record, people not in the data",
        "The same for the control. If it is clearly larger, the release has memorized people; if "
        "it is not, that shows nothing.",
        about="people",
    ),
    "hiding_failure": Words(
        "Hiding failure", "Share of the sensitive rules that can still be found.", "share"
    ),
    "misses_cost": Words(
        "Misses cost", "Share of the other rules that were lost as a side effect.", "share"
    ),
    "misses_cost_avoidable": Words(
        "Misses cost, avoidable",
        "The same, among rules that need not be lost with a hidden one.",
        "share",
    ),
    "artifactual_patterns": Words(
        "Artifactual patterns",
        "Share of the rules in the release that do not hold in the data.",
        "share",
    ),
    "dif": Words("Difference", "Share of item occurrences that were changed.", "share"),
    "error_of_dot_products_over_prediction": Words(
        "Error of dot products over prediction",
        "Measured error of the similarities over the error that theory predicts; 1 is a match.",
    ),
    "neighbour_recall": Words(
        "Neighbour recall", "Share of true nearest neighbours that the sketches find.", "share"
    ),
    "suppressed_share": Words(
        "Suppressed", "Share of the records that were left out of the release.", "share"
    ),
    "same_tree": Words(
        "Same answers: decision tree",
        "Records for which a miner gives the same answer whether it learnt from the table or "
        "from its codes.",
        "share",
    ),
    "same_bayes": Words("Same answers: naive Bayes", "The same for another miner.", "share"),
    "same_neighbours": Words(
        "Same answers: nearest neighbours", "A miner based on distances.", "share"
    ),
    "same_clusters": Words(
        "Same answers: clusters", "Records that fall into the same cluster.", "share"
    ),
    "membership_auc": Words(
        "Membership (AUC)",
        "How often the attack on membership ranks a member above a stranger: 0.5 is chance.",
        about="people",
    ),
    "membership_at_1_percent": Words(
        "Members named at 1 % false alarms",
        "Share of members that the attack names while it names one stranger in a hundred; 1 % is "
        "chance.",
        "share",
        about="people",
    ),
    "membership_at_0.1_percent": Words(
        "Members named at 0.1 % false alarms",
        "The same at one stranger in a thousand; of fewer than a thousand strangers, none may be "
        "named.",
        "share",
        about="people",
    ),
    "nearest_record_share": Words(
        "Released people nearer to a member",
        "Of as many people in the data as kept out: how often the one nearest to a released person "
        "is in the data; a half is chance.",
        "share",
        about="people",
    ),
    "groups": Words("Groups", "How many groups the records were condensed into."),
    "smallest_group": Words("Smallest group", "Records in the smallest group."),
    "median_group": Words("Median group", "Records in the group of median size."),
}

_STRANGERS = "people who were never in the data"

ATTACKS = {
    "exact_copies": "Exact copies",
    "near_copies": "Near copies",
    "linkage": "Linkage, nearest record",
    "linkage_one_to_one": "Linkage, one to one",
    "linkage_known": "Linkage with a register",
    "linkability": "Linkability of two halves of the columns",
    "inference": "Inference",
    "membership": "Membership",
    "exact_values": "Exact values",
    "sums_on_grid": "Sums on the grid",
    "affine_hull": "Affine hull",
    "homogeneity": "Homogeneity",
    "earlier_totals": "Several releases, totals",
    "earlier_membership": "Several releases, membership",
    "earlier_inference": "Several releases, inference",
    "earlier_intersection": "Several releases, intersection",
    "worst_case": "Worst case",
    "challenge": "Challenge",
    "singling_out": "Singling out",
    "walked": "Steps that one person alone walked",
    "alone_joined": "Alone only after the join of tables",
    "snapshots": "Successive snapshots",
    "snapshots_totals": "Successive snapshots, totals",
    "snapshots_fresh_rows": "Successive snapshots, new rows",
    "rule_recovery": "Recovery of hidden rules",
    "rule_steps": "Hidden rules one step below a level",
    "removed_items": "Reconstruction of removed items",
}


class Criterion(NamedTuple):
    """One of the questions that a data-protection officer asks, and the attacks that answer it."""

    name: str
    question: str
    attacks: tuple[str, ...]  # beginnings of their names


CRITERIA = (  # the first three are those of Opinion 05/2014 of the Article 29 Working Party
    Criterion(
        "Singling out",
        "Can one person be isolated?",
        ("singling_out", "exact_copies", "near_copies", "walked", "alone_joined"),
    ),
    Criterion(
        "Linkability",
        "Can records about one person be joined?",
        ("linkage", "sketch_linkage", "snapshots"),
    ),
    Criterion(
        "Inference",
        "Can something about a person be worked out?",
        ("inference", "sketch_reconstruction", "frequency", "order", "known_pairs"),
    ),
    Criterion(
        "Membership", "Can it be told that a person was in the data?", ("membership", "challenge")
    ),
    Criterion("Rules", "Can a hidden rule be found again?", ("rule_recovery",)),
)


def criterion_of(name: str) -> str:
    """Return the question that an attack answers; empty for one that nobody has filed.

    >>> criterion_of("inference:income"), criterion_of("5_known_pairs:age")
    ('Inference', 'Inference')
    """
    kind = name.partition(":")[0]
    kind = kind.partition("_")[2] if kind[:1].isdigit() else kind
    return next((c.name for c in CRITERIA if kind.startswith(c.attacks)), "")


class Preset(NamedTuple):
    """A group size that is customary somewhere, and where."""

    k: int
    source: str


PRESETS = (
    Preset(5, "the rule of five: custom of many data custodians, no group below five (0.20)"),
    Preset(
        12,
        "below the 0.09 that EMA's guidance on Policy 0070 and Health Canada's on clinical "
        "data name",
    ),
    Preset(20, "0.05: the stricter precedent for health data that are made public"),
)
BOUND = (
    "They bound one thing: the chance 1/k of picking a person's own record when only the group is "
    "known. They are custom, not law, and say nothing of inference, membership or outliers."
)
FINDINGS = {
    "grave": "grave",
    "notable": "notable",
    "undecided": "not decided",
    "": "nothing notable",
}


def metric_words(name: str) -> Words:
    """Return what a report says of a measure; an unknown one keeps its own name."""
    return METRICS.get(name, Words(_spaced(name), ""))


def metric_rank(name: str) -> int:
    """Return the position of a measure in a report; unknown ones come last, in the order given."""
    return list(METRICS).index(name) if name in METRICS else len(METRICS)


def attack_label(name: str) -> str:
    """Return the label of an attack; ``inference:income`` reads 'Inference: income'.

    >>> attack_label("inference:income")
    'Inference: income'
    """
    kind, colon, column = name.partition(":")
    label = ATTACKS.get(kind, _spaced(kind))
    return f"{label}: {column}" if colon else label


def control_words(name: str) -> str:
    """Say who or what the control of an attack is."""
    return "rules that nobody hid" if name.startswith("rule_") else _STRANGERS


def number(value: Any, style: str = "plain") -> str:
    r"""Format a number for people; words pass through.

    >>> number(32561), number(0.98765), number(0.0512, "share"), number(None), number(True)
    ('32,561', '0.988', '5.1\xa0%', '-', 'yes')
    >>> number(1.0), number(0.99999), number(0.99969)
    ('1', '> 0.9999', '0.9996')
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
    if 0.9995 <= value < 1:
        return _almost_one(value)
    return f"{value:.3g}"


def as_given(value: Any) -> str:
    """Format a seed or a version as one would type it; everything else for people."""
    return str(value) if isinstance(value, int) else number(value)


def _almost_one(value: float) -> str:
    """Format a value that is not quite perfect, never as 1."""
    return f"{math.floor(value * 1e4) / 1e4:g}" if value < 0.9999 else "> 0.9999"


def _share(value: float) -> str:
    percent = 100 * value
    if 0 < percent < 0.05:
        return "<\N{NO-BREAK SPACE}0.1\N{NO-BREAK SPACE}%"
    if 99.95 <= percent < 100:
        return ">\N{NO-BREAK SPACE}99.9\N{NO-BREAK SPACE}%"
    digits = 0 if percent in (0, 100) else 1
    return f"{percent:.{digits}f}\N{NO-BREAK SPACE}%"


def _spaced(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]


ROLES = {  # what each role of a column means, by its name
    "identifier": "names a person; never released",
    "person": "whose row it is; people are counted; a release has new keys or none",
    "quasi-identifier": "others may know it; together such columns single people out",
    "sensitive": "what others may want to learn",
    "target": "what a miner wants to predict (one column)",
    "level": "each record's own minimum group size (one column)",
    "weight": "how many people a record of a survey stands for (one column)",
    "ignored": "left out of the release",
}
GATE_WORDS = {  # limits that a user may set
    "max_linkage": "Linkage: how much more often a record is joined to the right person",
    "max_copies": "Copies: people whose record stands in the release",
    "max_inference": "Inference: how much more often a secret column is guessed right",
    "max_membership": "Membership: how much better it can be told who was in the data",
    "max_singling_out": "Singling out: how much more often one person is picked out",
    "max_reconstruction": "Reconstruction: how much more often exact values can be worked out",
    "max_homogeneity": "Homogeneity: people whose group shares one secret, which it tells",
    "min_accuracy_ratio": "Use: what a model keeps of its score, at least",
}
