"""The holdout benchmark of Platzer and Reutterer: accuracy of columns and pairs, and DCR share.

``TULLE_DATA=folder python -m benchmarks.bench_holdout [--quick] [--tables adult] [--k 10,20]
[--seeds 0,1,2] [--options JSON] [--label NAME]``

Half of a table is the training part, half are strangers. Two bars at once: a release as accurate as
the strangers are, and no nearer to the training people than to strangers (DCR share below 0.52).
Published figures of peers are read from the benchmark's own files, which are not part of Tulle.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import OneHotEncoder

from benchmarks.judged_measures import as_numbers, told_apart
from benchmarks.judged_tables import options, ranged, released, say, warm, write_versions
from benchmarks.results import as_table, data_folder

BINS = 10
MOST_SHARED = 5000  # released rows whose nearest training person and stranger are looked for
MOST_APART = 8000
SOURCE = "mostly-ai/paper-fidelity-accuracy"  # a repository on GitHub


def main(quick: bool = False) -> None:
    sizes = (10,) if quick else (5, 10, 20)
    asked = options(found_tables(), seeds=(0,) if quick else (0, 1, 2), k=sizes)
    warm()
    rows, peers = [], []
    for name in asked.tables:
        parts = [pd.read_csv(_folder() / f"{name}_{part}.csv.gz") for part in ("trn", "val")]
        if quick:
            parts = [part.sample(3000, random_state=0).reset_index(drop=True) for part in parts]
        rows.append([name, "strangers", *scores(parts[1], *parts).values(), "", ""])
        for k in asked.k:
            rows.append([name, f"k = {k}", *measured(*parts, k, asked)])
        peers += published(name)
    write_versions(
        "holdout",
        "Holdout benchmark: accuracy and DCR share",
        ["table", "release", *WORDS.values(), "CPU s", "both bars"],
        rows,
        asked.label,
        quick,
        keys=2,
        notes="Accuracy: one less the mean total variation of columns (10 bins) and of pairs; "
        "overall is the mean of both. DCR share: released rows nearer to a training person than "
        f"to a stranger (ties half), of {MOST_SHARED} rows, in ranks of numbers and categories as "
        "indicators: rebuilt here, so published shares of 2024 (embeddings of rows) compare only "
        "roughly. Told apart: AUC of gradient boosting. Both bars: overall accuracy of at least "
        "that of the strangers and a DCR share below 0.52. Means of "
        f"{len(asked.seeds)} seeds, with the smallest and the largest.\n\n"
        "Published figures of peers (metrics.csv of 2024-12 and results.csv of 2023-05 in the "
        "benchmark's repository, read as they are):\n\n"
        + as_table(["table", "peer", "columns", "pairs", "overall", *PEERS_MORE, "source"], peers),
        seed=asked.seeds[0],
    )


def found_tables() -> list[str]:
    return [path.name.removesuffix("_trn.csv.gz") for path in sorted(_folder().glob("*_trn.*"))]


WORDS = {
    "columns": "columns",
    "pairs": "pairs",
    "overall": "overall accuracy",
    "share": "DCR share",
    "training": "told from training",
    "strangers": "told from strangers",
}
PEERS_MORE = ("DCR share", "told from training", "three-way error over strangers'")


def measured(training: pd.DataFrame, strangers: pd.DataFrame, k: int, asked) -> list[str]:
    """Return the cells of Tulle's row: each measure over the seeds, CPU, and the two bars."""
    found = []
    for seed in asked.seeds:
        made, cpu = released(training, k, seed, **asked.options)
        found.append(scores(made[list(training)], training, strangers) | {"cpu": cpu})
        say(k, seed, {name: round(value, 4) for name, value in found[-1].items()})
    bar = np.mean(accuracy(training, strangers))
    over = np.mean([one["overall"] for one in found]) >= bar
    under = np.mean([one["share"] for one in found]) < 0.52
    verdict = {(True, True): "both", (True, False): "accuracy", (False, True): "share"}
    columns = [ranged([one[name] for one in found]) for name in (*WORDS, "cpu")]
    return [*columns, verdict.get((bool(over), bool(under)), "neither")]


def scores(made: pd.DataFrame, training: pd.DataFrame, strangers: pd.DataFrame) -> dict:
    columns, pairs = accuracy(training, made)
    apart = [told_apart(*as_numbers(few(made, real))[0]) for real in (training, strangers)]
    same = made is strangers
    return {
        "columns": columns,
        "pairs": pairs,
        "overall": (columns + pairs) / 2,
        "share": 0.5 if same else dcr_share(training, strangers, made),
        "training": apart[0],
        "strangers": 0.5 if same else apart[1],
    }


def few(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """Return as many rows of each table, at most 8,000."""
    rows = min(MOST_APART, *map(len, tables))
    return [table.sample(rows, random_state=0) for table in tables]


# -- accuracy ------------------------------------------------------------------------------------


def accuracy(training: pd.DataFrame, made: pd.DataFrame) -> tuple[float, float]:
    """Return one less the mean total variation of columns, and of pairs of columns."""
    cells = [binned(training[name], made[name]) for name in training]
    columns = [variation(*pair) for pair in cells]
    pairs = [
        variation(*(one * 100 + two for one, two in zip(first, second)))
        for first, second in itertools.combinations(cells, 2)
    ]
    return 1 - float(np.mean(columns)), 1 - float(np.mean(pairs))


def binned(like: pd.Series, other: pd.Series) -> list[np.ndarray]:
    """Return two columns in 10 cells by the first one's quantiles or commonest values."""
    if not pd.api.types.is_numeric_dtype(like):
        known = {str(v): code for code, v in enumerate(like.value_counts().index[:BINS], 1)}
        return [
            np.where(c.isna(), 0, c.astype(str).map(known).fillna(99)).astype(int)
            for c in (like, other)
        ]
    edges = bounds(like.dropna().astype(float).to_numpy())
    out = []
    for column in (like, other):
        values = pd.to_numeric(column, errors="coerce").to_numpy(float)
        place = np.searchsorted(edges, np.clip(values, edges[0], edges[-1]), side="right")
        place = np.clip(place, 1, max(len(edges) - 1, 1))
        out.append(np.where(np.isnan(values), 0, place))
    return out


def bounds(values: np.ndarray) -> np.ndarray:
    """Return the ends of 10 bins of equal share; more quantiles are tried where values repeat."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return np.r_[distinct, distinct[-1] + 1]
    for parts in range(BINS, 4 * BINS + 2):
        shares = np.linspace(0, 1, parts + 1)
        edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
        if len(edges) > BINS:
            break
    return edges


def variation(first: np.ndarray, second: np.ndarray) -> float:
    size = int(max(first.max(), second.max())) + 1
    shares = [np.bincount(part, minlength=size) / len(part) for part in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


# -- nearness ------------------------------------------------------------------------------------


def dcr_share(training: pd.DataFrame, strangers: pd.DataFrame, made: pd.DataFrame) -> float:
    """Return the share of released rows that are nearer to training people, ties counted half."""
    rows = min(len(training), len(strangers))
    training, strangers = (t.sample(rows, random_state=1) for t in (training, strangers))
    made = made.sample(min(MOST_SHARED, len(made)), random_state=1)
    numbers = [name for name in training if pd.api.types.is_numeric_dtype(training[name])]
    texts = [name for name in training if name not in numbers]
    known = {name: np.sort(training[name].dropna().to_numpy(float)) for name in numbers}
    coder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    coder.fit(training[texts].astype(str))

    def points(table: pd.DataFrame) -> np.ndarray:
        ranks = [
            np.searchsorted(known[name], _filled(table[name], known[name][0])) / len(known[name])
            for name in numbers
        ]
        indicators = coder.transform(table[texts].astype(str)) / np.sqrt(2)
        return np.hstack([np.column_stack(ranks), indicators])

    released_points = points(made)
    own, other = (
        NearestNeighbors(n_neighbors=1, algorithm="brute")
        .fit(points(table))
        .kneighbors(released_points)[0][:, 0]
        for table in (training, strangers)
    )
    level = np.abs(own - other) <= 1e-6
    return float(np.mean(((own < other) & ~level) + 0.5 * level))


def _filled(column: pd.Series, value: float) -> np.ndarray:
    return pd.to_numeric(column, errors="coerce").fillna(value).to_numpy(float)


# -- peers ---------------------------------------------------------------------------------------


def published(name: str) -> list[list[str]]:
    """Return the published figures of all peers on a table, each with its file."""
    later = pd.read_csv(_folder() / "2024-12_metrics.csv").query("dataset == @name")
    rows = [
        [name, _peer(row.file, name), row.univariate, row.bivariate, row.overall]
        + [row.dcr_share, row.discriminator_auc_training_synthetic, "", f"{SOURCE}, 2024-12"]
        for row in later.sort_values("overall", ascending=False).itertuples()
    ]
    first = pd.read_csv(_folder() / "2023-05_results.csv.gz").query("dataset == @name")
    first = first[~first.synthesizer.str.contains("flip|HOLDOUT")]  # no generators
    rows += [
        [name, row.synthesizer, "", "", "", row.priv_share, "", row.fid3_ratio]
        + [f"{SOURCE}, 2023-05"]
        for row in first.sort_values("fid3_ratio").itertuples()
    ]
    return [["" if value != value else value for value in row] for row in rows]


def _peer(file: str, name: str) -> str:
    return file.removeprefix(f"{name}_").removesuffix(".gz").removesuffix(".csv")


def _folder():
    return data_folder() / "yardsticks" / "holdout"


if __name__ == "__main__":
    main("--quick" in sys.argv)
