"""Heaps of a stream's numeric columns: the default synthesis beside the papers', on Adult.

``TULLE_DATA=folder python -m benchmarks.bench_stream_shape [--quick]``
"""

from __future__ import annotations

import gzip
import sys
from typing import Any

import numpy as np
import polars as pl

from benchmarks.results import data_folder, write_table
from tulle import StreamCondenser
from tulle._attacks.membership import membership
from tulle._attacks.records import Records
from tulle._attacks.result import Scene
from tulle._metrics.models import propensity
from tulle.auditing._tables import align

SEED, K, FIRST, BATCH = 0, 20, 1_000, 2_000
HEAPS = (("hours-per-week", 40), ("capital-gain", 0), ("capital-loss", 0))


def load(part: str) -> pl.DataFrame:
    with gzip.open(data_folder() / "tables" / f"adult_{part}.csv.gz") as file:
        return pl.read_csv(file.read(), infer_schema_length=None)


def snapshot(people: pl.DataFrame, synthesis: str, seed: int) -> pl.DataFrame:
    stream = StreamCondenser(K, init_size=FIRST, synthesis=synthesis, random_state=seed)
    for start in range(0, len(people), BATCH):
        stream.partial_fit(people[start : start + BATCH])
    return stream.snapshot()


def on_heaps(table: pl.DataFrame) -> list[float]:
    """The share of people with each of the values that stand out."""
    return [float((table[name] == value).mean()) for name, value in HEAPS]


def measured(
    people: pl.DataFrame, release: pl.DataFrame, fresh: pl.DataFrame, seed: int
) -> list[float]:
    """Heaps; how well a classifier tells the release from fresh people; how well people are."""
    tables = align(people, release, fresh, None)
    rng = np.random.default_rng(seed)
    matrices = [matrix_of(tables.present[place]) for place in (2, 1)]
    told = propensity(*matrices, rng).auc
    named = membership(Scene(*tables.present[:3]), rng).details["membership_auc"]
    return [*on_heaps(release), told, float(named)]


def matrix_of(records: Records) -> np.ndarray:
    return np.hstack([records.numbers, records.codes])


def main(quick: bool) -> None:
    people, fresh = load("train"), load("test")
    rng = np.random.default_rng(SEED)
    people = people[rng.permutation(len(people))[: 4_000 if quick else 30_000]]
    fresh = fresh.join(people, on=people.columns, how="anti", nulls_equal=True)
    seeds = range(1 if quick else 3)
    rows: list[list[Any]] = [["the stream itself", *on_heaps(people), "", ""]]
    for synthesis in ("uniform", "shape"):
        figures = [
            measured(people, snapshot(people, synthesis, seed), fresh, seed) for seed in seeds
        ]
        rows.append([synthesis, *np.mean(figures, axis=0).round(3).tolist()])
    write_table(
        "stream_shape",
        "Streams: heaps of numbers, beside the papers' synthesis",
        [
            "synthesis",
            "40 hours",
            "no gains",
            "no losses",
            "told from fresh people (AUC)",
            "membership (AUC)",
        ],
        rows,
        notes=f"Adult, a stream of {len(people):,} records in batches of {BATCH:,} of which the "
        f"first {FIRST:,} are initial, k = {K}; one snapshot at the end, mean of {len(seeds)} "
        "seeds. Fresh people are Adult's test records. A classifier that cannot tell a snapshot "
        "from fresh people, or members from strangers, has 0.5.",
        packages=("numpy", "scikit-learn", "polars"),
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
