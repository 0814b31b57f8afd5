"""Paper 004: codes for numbers and categories, and Adult mined through them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from benchmarks.results import data_folder, timed
from tulle import SiteAgreement, SiteCodec, SiteSummary, association_rules
from tulle._commands._baskets import cells_of
from tulle._metrics.peers import divergence, proximity
from tulle.rules._rankings import confirmed, predictive
from tulle.rules.mine import implications, mine, rules_frame
from tulle.transactions import Transactions

Found = dict[str, Any]

ACTUAL = (30, 40, 70, 25, 15, 58, 73, 37, 90)
LIMITS = {
    "k = 5": (15, 30, 45, 60, 75, 90),
    "k = 3": (10, 40, 66.2, 90),
    "k = 4": (10, 35, 51, 75, 90),
}
ATTRIBUTES = (
    "age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "native-country",
)  # fmt: skip
CODED = ("age", "education")
TARGET = "marital-status"


def grade(value: float, limits: Sequence[float]) -> float:
    """Equation (2): the number of the interval, and where in it the value lies."""
    if value == limits[-1]:
        return len(limits) - 1 + 0.999
    place = max(i for i, low in enumerate(limits) if low <= value)
    return place + 1 + (value - limits[place]) / (limits[place + 1] - limits[place])


def table3(quick: bool) -> Found:
    """Nine ages by three sets of limits, and their correlations."""
    columns = {k: [grade(x, limits) for x in ACTUAL] for k, limits in LIMITS.items()}
    values: Found = {
        str(x): {k: column[row] for k, column in columns.items()} for row, x in enumerate(ACTUAL)
    }
    values["correlation"] = {k: statistics.correlation(ACTUAL, c) for k, c in columns.items()}
    return {"values": values}


def boxes(quick: bool) -> Found:
    """Five-number summaries, and what 1.667 stands for by Table 3."""
    coded = [round(grade(x, LIMITS["k = 5"]), 3) for x in ACTUAL]
    actual, transformed = _five(ACTUAL), _five(coded)
    values: Found = {
        f"1.667 when {k}": {
            "value": next((x for x in ACTUAL if abs(grade(x, LIMITS[k]) - 1.667) < 0.001), None)
        }
        for k in ("k = 3", "k = 4")
    }
    values |= {f"Q{n + 1}": {"actual": actual[n], "transformed": transformed[n]} for n in range(5)}
    curves = [
        {"column": name, "value": value}
        for name, column in (("actual", ACTUAL), ("transformed, k = 5", coded))
        for value in column
    ]
    return {"values": values, "curves": curves}


def breaches(quick: bool) -> Found:
    """Two people in one group: what an intruder concludes of the income and of the illness of X."""
    group = np.array([0, 0])
    pay, illness = np.array([10_000.0, 10_050.0]), np.array([1, 2])
    shares = {
        "proximity: the income itself": proximity(group, pay, group, pay, 0)[0],
        "proximity: an interval of 50": proximity(group, pay, group, pay, 50)[0],
        "divergence: the illness itself": (illness == illness[0]).mean(),
        "divergence: the other one's illness": divergence(group, illness, group, illness)[0],
    }
    return {"values": {row: {"confidence, %": 100 * float(v)} for row, v in shares.items()}}


def _five(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    half = len(ordered) // 2
    low, high = statistics.median(ordered[:half]), statistics.median(ordered[-half:])
    return [ordered[0], low, statistics.median(ordered), high, ordered[-1]]


def adult(quick: bool) -> Found:
    """Rules, tree and clusters of Adult, plain and with age and education coded."""
    path = data_folder() / "tables" / "adult_train.csv.gz"
    table = pl.read_csv(path, infer_schema_length=None).select(ATTRIBUTES)
    records = table.height
    table = table.head(3_000) if quick else table
    (coded, codec), seconds = timed(lambda: _coded(table))
    tables = {"plain": table, "coded": coded}
    rules = {side: _apriori(frame) for side, frame in tables.items()}
    others = {side: _ranked(frame) for side, frame in tables.items()}
    trees = {side: _tree(frame) for side, frame in tables.items()}
    errors = {side: _clusters(frame, quick) for side, frame in tables.items()}
    values: Found = {
        "records": {"plain": records},
        "Apriori: rules": {side: len(found) for side, found in rules.items()},
        "Apriori: least confidence": {
            side: min(sure for _, _, sure in found) for side, found in rules.items()
        },
        "Tertius: rules": {side: len(found[0]) for side, found in others.items()},
        "accuracy for marital status, %": {
            side: [100 * mean, 100 * error] for side, (mean, error, _) in trees.items()
        },
        "sum of squared errors within clusters": errors,
        "seconds to code the table": {"at most": seconds},
    }
    plain = {(left, right) for left, right, _ in rules["plain"]}
    back = codec.decode_rules([(list(a), list(b)) for a, b, _ in rules["coded"]])
    same = {(frozenset(a), frozenset(b)) for a, b in back} == plain
    for one, coded_one in zip(others["plain"], others["coded"]):
        back = codec.decode_rules([(list(a), list(b)) for a, b in coded_one])
        same = same and {(frozenset(a), frozenset(b)) for a, b in back} == one
    bayes = [_bayes(frame) for frame in tables.values()]
    return {
        "values": values,
        "claims": {
            "same rules": _claim(same, "the decoded rules are the plain ones"),
            "same confusion": _claim(
                bool((trees["plain"][2] == trees["coded"][2]).all()), "all cells of the matrix"
            ),
            "bayes differs": _claim(
                bayes[0][0] != bayes[1][0] and bayes[0][1] == bayes[1][1],
                f"mean {bayes[0][0][0]:.2f} and {bayes[1][0][0]:.2f}, deviation "
                f"{bayes[0][0][1]:.2f} and {bayes[1][0][1]:.2f} of the largest work class; its "
                "weight is the same",
            ),
        },
    }


def _claim(holds: bool, ours: str) -> Found:
    return {"holds": int(holds), "of": 1, "ours": ours}


def _coded(table: pl.DataFrame) -> tuple[pl.DataFrame, SiteCodec]:
    """The union of three sites, age and education coded, all else plain."""
    plain = [name for name in ATTRIBUTES if name not in CODED]
    parts = [table[start::3] for start in range(3)]
    summaries = [SiteSummary.of(part) for part in parts]
    agreement = SiteAgreement.from_summaries(summaries, cuts="equal", plain=plain)
    order = np.argsort(np.concatenate([np.arange(len(table))[start::3] for start in range(3)]))
    union = pl.concat([SiteCodec(agreement).transform(part) for part in parts])
    return union[order], SiteCodec(agreement).learn(table)


def _apriori(table: pl.DataFrame) -> list[tuple[frozenset[str], frozenset[str], float]]:
    """WEKA's loop: lower the support in steps of 5 % until ten rules have a confidence of 0.9."""
    baskets = _baskets(table)
    support = 100
    found = pl.DataFrame()
    while support > 10 and found.height < 10:
        support -= 5
        found = association_rules(baskets, min_support=f"{support}%", min_confidence=0.9)
    top = found.sort("confidence", descending=True).head(10)
    return [
        (frozenset(row["antecedent"]), frozenset(row["consequent"]), row["confidence"])
        for row in top.iter_rows(named=True)
    ]


def _baskets(table: pl.DataFrame) -> Transactions:
    """Return each record as the items that ``tulle mine --attribute`` reads, "?" as missing."""
    frame = table.drop("age")
    missing = frame.select(
        pl.when(pl.col(name).cast(pl.String) == "?").then(None).otherwise(pl.col(name)).alias(name)
        for name in frame.columns
    )
    return cells_of(missing, ["all"])


Sides = set[tuple[frozenset[str], frozenset[str]]]


def _ranked(table: pl.DataFrame) -> tuple[Sides, Sides]:
    """Return the best rules by Tertius and by Predictive Apriori, among those in 5 % of records."""
    baskets = _baskets(table)
    found = implications(mine(baskets, len(baskets) // 20), Fraction(0))
    rng = np.random.default_rng(0)
    best = (confirmed(found, len(baskets), 10)[0], predictive(found, baskets, 100, rng)[0])
    tertius, accurate = (
        {
            (frozenset(row["antecedent"]), frozenset(row["consequent"]))
            for row in rules_frame(rules, baskets.names, len(baskets)).iter_rows(named=True)
        }
        for rules in best
    )
    return tertius, accurate


def _features(table: pl.DataFrame) -> np.ndarray:
    """Age, and an indicator for each category in order of appearance."""
    names = [name for name in ATTRIBUTES if name not in ("age", TARGET)]
    columns = [table["age"].cast(pl.Float64).to_numpy()]
    for name in names:
        values = table[name].to_list()
        order = {value: place for place, value in enumerate(dict.fromkeys(values))}
        codes = np.array([order[value] for value in values])
        columns += [(codes == code).astype(float) for code in range(len(order))]
    return np.column_stack(columns)


def _tree(table: pl.DataFrame) -> tuple[float, float, np.ndarray]:
    from sklearn.metrics import confusion_matrix
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    y = table[TARGET].to_numpy()
    model = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    told = cross_val_predict(model, _features(table), y, cv=folds)
    right = told == y
    return float(right.mean()), float(right.std() / len(y) ** 0.5), confusion_matrix(y, told)


def _clusters(table: pl.DataFrame, quick: bool) -> float:
    """The best sum of squared errors of two clusters by WEKA's distance, of ten starts."""
    names = [name for name in ATTRIBUTES if name != "age"]
    coded = []
    for name in names:
        values = table[name].cast(pl.String)
        usual = values.filter(values != "?").mode().sort()[0]
        filled = [usual if value == "?" else value for value in values.to_list()]
        order = {value: place for place, value in enumerate(dict.fromkeys(filled))}
        coded.append(np.array([order[value] for value in filled]))
    codes = np.column_stack(coded)
    age = table["age"].cast(pl.Float64).to_numpy()
    age = (age - age.min()) / (age.max() - age.min())
    starts = 2 if quick else 10
    return min(_two_modes(codes, age, np.random.default_rng(seed)) for seed in range(starts))


def _two_modes(codes: np.ndarray, number: np.ndarray, rng: np.random.Generator) -> float:
    first = rng.choice(len(codes), 2, replace=False)
    modes, means = codes[first], number[first]
    labels = None
    for _ in range(50):
        far = np.stack(
            [(codes != modes[j]).sum(axis=1) + (number - means[j]) ** 2 for j in range(2)], axis=1
        )
        found = far.argmin(axis=1)
        if labels is not None and (found == labels).all():
            break
        labels = found
        for j in range(2):
            members = labels == j
            if members.any():
                modes[j] = [np.bincount(column[members]).argmax() for column in codes.T]
                means[j] = number[members].mean()
    return float(far[np.arange(len(codes)), labels].sum())


def _bayes(table: pl.DataFrame) -> tuple[tuple[float, float], int]:
    """Mean and deviation of age in the largest work class, and its weight."""
    largest = table["workclass"].value_counts(sort=True)["workclass"][0]
    ages = table.filter(pl.col("workclass") == largest)["age"].cast(pl.Float64)
    return (float(ages.mean()), float(ages.std())), ages.len()
