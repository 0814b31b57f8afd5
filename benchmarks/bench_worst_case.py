"""The attacker who knows everybody else: was this person among the people of the release?

``TULLE_DATA=folder python -m benchmarks.bench_worst_case [--quick] [--tables german,gss]
[--fits 80] [--people 2] [--k 10] [--options JSON] [--label NAME]``

All people but one are known. Releases are made with the target, and with a random other person in
the target's place; two learners see how many released rows share the target's values and are asked
which of the two a release is. No average hides anybody here: ordinary people and those with the
rarest values stand apart.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.judged_measures import as_numbers
from benchmarks.judged_tables import load, options, release, say, warm, write_versions

SIZES = {"german": 300, "gss": 2500}
FITS = {"german": 80, "gss": 50}
MOST = 4000  # of the population
FEW = 15  # values up to which a number is compared by equality


class Population:
    """People whose releases are compared: all but one known, and those who may be the last."""

    def __init__(self, name: str, size: int, people: int) -> None:
        frame = load(name, MOST)[0]
        self.rng = np.random.default_rng(5)
        order = self.rng.permutation(len(frame))
        self.frame = frame
        self.base, self.rest = order[: size - 1], order[size - 1 :]
        by_rarity = self.rest[np.argsort(rarity(frame)[self.rest], kind="stable")]
        middle = len(by_rarity) // 2
        self.ordinary = by_rarity[middle : middle + 7 * people : 7]
        self.outliers = by_rarity[::-2][:people]

    def anybody(self) -> int:
        """Return somebody who is not attacked."""
        attacked = set(self.ordinary) | set(self.outliers)
        return int(self.rng.choice([one for one in self.rest if one not in attacked]))

    def with_(self, last: int, order: int) -> pd.DataFrame:
        """Return the known people and one more, in random order."""
        people = self.frame.iloc[np.r_[self.base, last]]
        return people.sample(frac=1, random_state=order).reset_index(drop=True)


def rarity(frame: pd.DataFrame) -> np.ndarray:
    """Return how rare the values of each person are, summed over the columns."""
    total = np.zeros(len(frame))
    for name in frame:
        if frame[name].nunique() <= FEW or not pd.api.types.is_numeric_dtype(frame[name]):
            texts = frame[name].astype(str)
            total += 1 - texts.map(texts.value_counts(normalize=True)).to_numpy()
        else:
            total += (frame[name].rank(pct=True).fillna(0.5) - 0.5).abs().to_numpy() * 2
    return total


def traces(made: np.ndarray, person: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return what of a person may show in a release.

    Counts of rows that share the person's value in a column and in each pair of columns, the best
    matches, and means and ends of columns of many numbers.
    """
    same = (np.abs(made - person) <= widths) | (np.isnan(made) & np.isnan(person))
    same = same.astype(float)
    pairs = same.T @ same
    matches = np.sort(same.sum(axis=1))[::-1]
    numbers = made[:, widths > 0]
    columns = same.shape[1]
    return np.r_[
        pairs[np.triu_indices(columns)],
        matches[[0, 1, 4, 9, 19]],
        [(matches >= columns - missed).sum() for missed in (1, 2, 3, 4, 6)],
        *(way(numbers, axis=0) for way in (np.nanmean, np.nanmax, np.nanmin)),
    ]


def learners() -> list[Any]:
    return [
        ExtraTreesClassifier(300, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000)),
    ]


def areas(X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the cross-validated AUC of each learner."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return [
        float(
            roc_auc_score(y, cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1])
        )
        for model in learners()
    ]


def attacked(population: Population, k: int, fits: int, more: dict) -> dict[str, list[float]]:
    """Return the AUCs of both learners for ordinary people and outliers, and with no truth."""

    def made(last: int, seed: int, order: int) -> pd.DataFrame:
        out = release(population.with_(last, order), k, seed, **more)
        return out.reindex(columns=population.frame.columns)

    without = [made(population.anybody(), 10_000 + fit, fit) for fit in range(fits)]
    found: dict[str, list[float]] = {"ordinary": [], "outliers": [], "shuffled": []}
    for kind, people in (("ordinary", population.ordinary), ("outliers", population.outliers)):
        for person in people.tolist():
            seeds = [20_000 + 7 * fit + person for fit in range(fits)]
            holding = [made(person, seed, order) for order, seed in enumerate(seeds)]
            (whole, *releases), numeric = as_numbers([population.frame, *holding, *without])
            many = numeric & np.array([len(np.unique(column)) > FEW for column in whole.T])
            widths = np.where(many, 0.15 * np.nanstd(whole, axis=0), 0)
            X = np.array([traces(table, whole[person], widths) for table in releases])
            y = np.repeat([1, 0], fits)
            found[kind] += areas(X, y)
            rng = np.random.default_rng(person)
            found["shuffled"] += areas(X, rng.permutation(y))
            say(kind, [round(area, 3) for area in found[kind][-2:]])
    return found


def main(quick: bool = False) -> None:
    asked = options(tables=("german",) if quick else tuple(SIZES))
    warm()
    rows = []
    for k in asked.k:
        for name in asked.tables:
            fits = asked.fits or (10 if quick else FITS[name])
            population = Population(name, SIZES[name], asked.people)
            found = attacked(population, k, fits, asked.options)
            means = [float(np.mean(found[kind])) for kind in found]
            each = [
                ", ".join(f"{a:.2f} {b:.2f}" for a, b in zip(found[kind][::2], found[kind][1::2]))
                for kind in ("ordinary", "outliers")
            ]
            rows.append([name, SIZES[name], k, fits, *means, *each])
    write_versions(
        "worst_case",
        "Telling a release from its neighbour: the attacker who knows everybody else",
        [
            "table",
            "people",
            "k",
            "fits a side",
            "ordinary people",
            "outliers",
            "labels shuffled",
            "each ordinary person",
            "each outlier",
        ],
        rows,
        asked.label,
        quick,
        keys=3,
        notes="AUC of telling releases with a person from releases with a random other in the "
        "person's place, by two learners that see counts of shared values, pairs, nearest rows, "
        "means and ends (extra trees, logistic regression; five folds): 0.5 is best. Means over "
        f"both learners and {asked.people} people each; in the last columns each person's two. "
        "With 80 fits a side one AUC has a standard error of about 0.04, with 50 of 0.055; "
        "learners know less with fewer fits, so only runs of the same number compare. "
        "Outliers are those with the rarest values; ordinary people have the median of rarity. "
        "Targets at k = 10: german 0.65 and 0.75, gss 0.58 and 0.70.",
        seed=5,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
