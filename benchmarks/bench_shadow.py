"""Membership by shadow releases: the attacker has the program and other people of the same kind.

``TULLE_DATA=folder python -m benchmarks.bench_shadow [--quick] [--k 10,20] [--rows 1000]
[--fits 12] [--options JSON] [--label NAME]``

The attacker makes releases of other people, learns from them what a member looks like (counts of
pairs and triples, nearest records, a classifier, likelihoods of forests; release against
reference), and asks the same about people of the real release. Nothing of the real members is used.
Next to it stands what ``tulle condense`` says of the same people at the same k.

With ``TULLE_BEFORE``, the Python of an environment that holds the version of the review (commit
7b3d77b), the same attacks are made on releases of that version and of today's, of the same people:
does an attack find less because it is weaker, or because there is less to find?
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.judged_measures import (
    as_numbers,
    as_points,
    caught,
    classified,
    counted,
    in_cells,
    some_columns,
)
from benchmarks.judged_tables import load, options, ranged, release, say, warm, write_versions
from benchmarks.results import write_table
from benchmarks.version_before import VersionBefore
from tulle._attacks.membership import membership
from tulle._attacks.result import Scene
from tulle._commands.condense import condense
from tulle.auditing._tables import align

SHADOWS, REAL = 12, 3
ASKED = 250  # members, and as many others, of a shadow
REFERENCE = 4  # times the members, known to the attacker
TREES = 10


def main(quick: bool = False) -> None:
    with VersionBefore.started() as before:
        if before is None:
            shadows_of_today(quick)
        else:
            versions(before, quick)


def shadows_of_today(quick: bool) -> None:
    """Attack default releases of today's version."""
    asked = options(tables=("adult",), k=(10,) if quick else (10, 20))
    members = asked.rows or (300 if quick else 1000)
    shadows = asked.fits or (2 if quick else SHADOWS)
    releases = 1 if quick else REAL
    warm()
    rows = []
    for name, k in itertools.product(asked.tables, asked.k):
        frame = load(name)[0].sample(frac=1, random_state=0).reset_index(drop=True)
        attacker = Attacker(frame[2 * members :], members, k, asked.options)
        attacker.learn(shadows)
        found, verdicts = [], []
        for seed in range(releases):
            own, others = attacker.people(frame[: 2 * members], seed)
            level, own_attack = judged(own, k, seed)
            found.append((*attacker.attack(own, others, seed), own_attack))
            verdicts.append(level)
        columns = [ranged(values) for values in zip(*found)]
        rows.append([name, members, k, shadows, *columns, ", ".join(verdicts)])
    write_versions(
        "shadow",
        "Membership by shadow releases",
        [
            *("table", "people", "k", "shadows", "AUC", "caught at 1 %"),
            *("AUC of the outlying tenth", "right minus wrong", "the audit's", "privacy"),
        ],
        rows,
        asked.label,
        quick,
        keys=3,
        notes="AUC of telling members of a release from others of the same kind, by a model learnt "
        "on shadow releases of other people (mean of logistic regression and extra trees); 0.5 is "
        "best. Caught: members above 99 % of the others. Means of "
        f"{releases} releases of different people, with the smallest and the largest. Right minus "
        "wrong: half of those asked about are called members; the audit's: that of its own attack "
        "on membership, in releases of parts of the same people, and privacy what "
        "`tulle condense --k` says of each. A verdict must not be good above 0.10."
        " Targets for Adult, 1,000 people: 0.57 at k = 10, 0.55 at k = 20.",
        seed=0,
    )


def versions(before: VersionBefore, quick: bool) -> None:
    """Attack releases of two versions alike: the review's attack, and that of an audit."""
    members, shadows, releases = (300, 2, 1) if quick else (1000, 4, 3)
    warm()
    frame = load("adult")[0].sample(frac=1, random_state=0).reset_index(drop=True)
    rows = []
    for label, make in (("7b3d77b", made_before(before)), ("today", release)):
        attacker = Attacker(frame[2 * members :], members, 10, {}, make)
        attacker.learn(shadows)
        found = []
        for seed in range(releases):
            own, others = attacker.people(frame[: 2 * members], seed)
            areas = attacker.attack(own, others, seed)
            found.append((areas[0], areas[-1], *audited(own, others, make(own, 10, seed))))
        rows.append([label, releases, *(ranged(values) for values in zip(*found))])
    write_table(
        "shadow_versions",
        "The same attacks on releases of the version of the review and of today",
        [
            *("version", "releases", "the review's: AUC", "right minus wrong"),
            *("the audit's membership: AUC", "right minus wrong of it"),
        ],
        rows,
        notes=f"Adult, {members:,} people, k = 10, the same members and as many others for both "
        f"versions. The review's attack learns from {shadows} shadow releases of the version that "
        "it attacks, made of other people. Means, with the smallest and the largest.",
        packages=("numpy", "numba", "pandas", "scikit-learn"),
        seed=0,
        quick=quick,
    )


def made_before(before: VersionBefore) -> Callable[..., pd.DataFrame]:
    """Return what makes releases of the earlier version."""

    def make(people: pd.DataFrame, k: int, seed: int) -> pd.DataFrame:
        table = pl.from_pandas(people.reset_index(drop=True))
        return before.release(table, k=k, random_state=seed).to_pandas()

    return make


def audited(own: pd.DataFrame, others: pd.DataFrame, made: pd.DataFrame) -> tuple[float, float]:
    """Return the AUC and the advantage of an audit's attack on membership."""
    tables = align(*(part.reset_index(drop=True) for part in (own, made[list(own)], others)), None)
    scene = Scene(tables.original, tables.release, tables.control, len(own))
    found = membership(scene, np.random.default_rng(0))
    return found.details["membership_auc"], found.risk


class Attacker:
    """One who holds other people and the program."""

    def __init__(
        self,
        pool: pd.DataFrame,
        members: int,
        k: int,
        more: dict[str, Any],
        make: Callable[..., pd.DataFrame] = release,
    ) -> None:
        self.pool, self.members, self.k, self.more, self.make = pool, members, k, more, make
        self.models: list[Any] = []

    def learn(self, shadows: int) -> None:
        """Learn from releases of the attacker's own people."""
        found = []
        for shadow in range(shadows):
            people = self.pool.sample(frac=1, random_state=100 + shadow)
            cuts = np.cumsum([self.members, ASKED, REFERENCE * self.members])
            own, others, reference, _ = (people[a:b] for a, b in zip([0, *cuts], [*cuts, None]))
            found.append(self._seen(own, own[:ASKED], others, reference, 1000 + shadow))
            say("shadow", shadow)
        X, y = (np.concatenate(part) for part in zip(*((seen, truth) for seen, truth, _ in found)))
        self.models = [
            make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)),
            ExtraTreesClassifier(400, min_samples_leaf=10, random_state=0),
        ]
        for model in self.models:
            model.fit(X, y)

    def people(self, people: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return those who are released, and as many others."""
        people = people.sample(frac=1, random_state=500 + seed)
        return people[: self.members], people[self.members :]

    def attack(self, own: pd.DataFrame, others: pd.DataFrame, seed: int) -> tuple[float, ...]:
        """Release people and ask about them and others: AUC, caught, AUC of outliers, advantage."""
        reference = self.pool[: REFERENCE * self.members]
        X, truth, away = self._seen(own, own[:400], others[:400], reference, 5000 + seed)
        score = np.mean([model.predict_proba(X)[:, 1] for model in self.models], axis=0)
        far = away >= np.quantile(away, 0.9)
        outliers = float(roc_auc_score(truth[far], score[far]))
        right = float((truth == (score > np.median(score))).mean())
        say("real", seed, caught(truth, score), outliers, right)
        return *caught(truth, score), outliers, 2 * right - 1

    def _seen(self, own, members, others, reference, seed: int):
        """Return the traces of members and others in a release, who is which, and who is far."""
        made = self.make(own.reset_index(drop=True), self.k, seed, **self.more)[list(own)]
        candidates = pd.concat([members, others])
        tables, numeric = as_numbers([candidates, made, reference])
        X, away = traces(*tables, numeric)
        return X, np.arange(len(candidates)) < len(members), away


def judged(people: pd.DataFrame, k: int, seed: int) -> tuple[str, float]:
    """Return the verdict on privacy, and how well the audit's own attack tells members."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = Path(folder) / "people.csv"
        people.to_csv(source, index=False)
        given = {"k": k, "seed": seed, "accept_risk": "measured, and deleted at once"}
        found = condense(source, Path(folder) / "release.csv", **given).audit
    return found.verdict["privacy"]["level"], found.result["attacks"]["membership"]["risk"]


def traces(asked, made, known, numeric) -> tuple[np.ndarray, np.ndarray]:
    """Return what of each candidate shows in a release against the reference."""
    coarse = in_cells([asked, made, known], known, numeric, 12)
    fine = in_cells([asked, made, known], known, numeric, 40)
    near, away = neighbours(asked, made, known, numeric)
    parts = [
        *ratios(coarse, list(itertools.combinations(range(asked.shape[1]), 2)), 1),
        *ratios(coarse, some_columns(asked.shape[1], 150, 3), 0.5),
        *ratios(fine, some_columns(asked.shape[1], 150, 3), 0.5),
        *near,
        classified(made, known[: 3 * len(made)], asked),
        *likelihoods(coarse[0], coarse[1], coarse[2][: 3 * len(made)]),
    ]
    return np.column_stack(parts), away


def ratios(cells, sets, least: float) -> list[np.ndarray]:
    """Return log ratios of a candidate's counts, release over reference, summed up six ways."""
    scale = len(cells[1]) / len(cells[2])
    found, usual = [], []
    for columns in sets:
        (key, _), (_, here), (_, there) = counted(cells, np.asarray(columns))
        usual.append(there[key] * scale)
        found.append(np.log((here[key] + least) / (usual[-1] + least)))
    ratio, rare = np.array(found), np.array(usual) < 5 * least
    largest = np.sort(ratio, axis=0)
    return [
        ratio.mean(axis=0),
        largest[-1],
        largest[0],
        largest[-10:].mean(axis=0),
        *((ratio * part).sum(axis=0) / np.maximum(part.sum(axis=0), 1) for part in (rare, ~rare)),
    ]


def neighbours(asked, made, known, numeric) -> tuple[list[np.ndarray], np.ndarray]:
    """Return log distances to near records of the release, alone and over the reference's."""
    points = as_points([asked, made, known], known, numeric)
    out = []
    for metric in ("cityblock", "euclidean"):
        ends = [np.sort(np.partition(cdist(points[0], p, metric), 19)[:, :20]) for p in points[1:]]
        here, there = (np.log(end[:, [0, 2, 9, 19]] + 0.01) for end in ends)
        out += [*here.T, *(here - there).T]
    return out, there[:, 1]


def likelihoods(asked, made, known) -> list[np.ndarray]:
    """Return how likely forests of the release find a candidate, alone and over the reference's."""
    here, there = (forests(asked, table) for table in (made, known))
    return [*here, *(one - two for one, two in zip(here, there))]


def forests(asked, table) -> list[np.ndarray]:
    """Return log likelihoods, column by column, given all others and given those before."""
    total = np.zeros((2, len(asked)))
    columns = range(asked.shape[1])
    for at in columns:
        given = [[one for one in columns if one != at], list(range(at))]
        for mode, inputs in enumerate(given):
            if inputs:
                model = ExtraTreesClassifier(
                    TREES, min_samples_leaf=3, max_features=0.7, random_state=1
                ).fit(table[:, inputs], table[:, at])
                share = dict(zip(model.classes_, model.predict_proba(asked[:, inputs]).T))
                nothing = np.zeros(len(asked))
                all_shares = np.array(
                    [share.get(value, nothing) for value in range(asked.max() + 1)]
                )
                own = all_shares[asked[:, at], np.arange(len(asked))]
                total[mode] += np.log(own + 5 / len(table))
    return list(total)


if __name__ == "__main__":
    main("--quick" in sys.argv)
