"""Mining condensed groups themselves, next to mining pseudo-data drawn from them (paper 000).

``TULLE_DATA=folder python -m benchmarks.bench_group_mining [--quick]``.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import polars as pl
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.results import data_folder, write_table
from tulle import ClassCondenser, Condenser, GroupClassifier, GroupKMeans, PrivacyWarning

SEED = 0
FILES = {"Pima": "pima", "Breast cancer": "wdbc", "Ionosphere": "ionosphere", "Magic": "magic"}
KS = (10, 30)
RECORDS = 2_000


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = data_folder() / "tables" / f"{FILES[name]}.csv.gz"
    table = pl.read_csv(path, infer_schema_length=None)
    table = table.sample(min(RECORDS, table.height), shuffle=True, seed=SEED)
    X = table[:, :-1].to_numpy().astype(float)
    return X[:, X.std(axis=0) > 0], table.to_series(-1).cast(pl.String).to_numpy()


def run(X: np.ndarray, y: np.ndarray, k: int, seed: int) -> dict[str, float]:
    """Accuracies and clusterings of one split."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[: len(X) // 4], order[len(X) // 4 :]
    scaler = StandardScaler().fit(X[train])
    X = scaler.transform(X)
    condenser = ClassCondenser(Condenser(synthesis="uniform"), k=k, random_state=seed)
    condenser.fit(X[train], y[train])
    drawn, labels = condenser.sample()
    found: dict[str, float] = {}
    for rule, model in (("nearest", KNeighborsClassifier(1)), ("bayes", GaussianNB())):
        groups = GroupClassifier(rule=rule).fit_groups(condenser)
        found[f"{rule}: original"] = model.fit(X[train], y[train]).score(X[test], y[test])
        found[f"{rule}: pseudo-data"] = model.fit(drawn, labels).score(X[test], y[test])
        found[f"{rule}: groups"] = groups.score(X[test], y[test])
    return found | _clusters(X[train], k, seed)


def _clusters(X: np.ndarray, k: int, seed: int) -> dict[str, float]:
    """How well clusters of pseudo-data and of groups agree with those of the records."""
    condenser = Condenser(k, synthesis="uniform", random_state=seed).fit(X)
    own = KMeans(3, n_init=5, random_state=seed).fit_predict(X)
    drawn = KMeans(3, n_init=5, random_state=seed).fit(condenser.sample()).predict(X)
    groups = GroupKMeans(3, n_init=5, random_state=seed).fit_groups(condenser).predict(X)
    return {
        "clusters: pseudo-data": adjusted_rand_score(own, drawn),
        "clusters: groups": adjusted_rand_score(own, groups),
    }


def main(quick: bool = False) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    rows: list[list[Any]] = []
    names: list[str] = []
    for name in ("Pima",) if quick else FILES:
        X, y = load(name)
        for k in KS:
            runs = [run(X, y, k, seed) for seed in range(2 if quick else 8)]
            names = list(runs[0])
            rows.append([name, k, *(float(np.mean([one[key] for one in runs])) for key in names)])
            print(rows[-1], flush=True)
    write_table(
        "group_mining",
        "Mining groups themselves, pseudo-data drawn from them, and the original",
        ["data", "k", *names],
        rows,
        notes=f"Means of 8 splits, a quarter held out, at most {RECORDS:,} records, standardised "
        "columns, class-wise condensation with uniform pseudo-data. Nearest: one nearest record, "
        "or group. Bayes: Gaussian naive Bayes; on groups it is that of the original. Clusters: "
        "adjusted Rand index with 3-means of the records themselves.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
