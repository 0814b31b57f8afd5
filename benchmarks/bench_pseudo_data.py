"""Pseudo-data for many groups: batched against a loop over groups, time and peak memory.

The peer is what the papers describe, written in plain NumPy: for each group an
eigendecomposition, a draw and a rotation. It is timed on a part of the groups in the same run.
"""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np

from benchmarks.results import timed, write_table
from tulle._moments import GroupMoments
from tulle._types import Floats
from tulle.condense._synthesis import synthesize
from tulle.table._encoder import TableEncoder

SEED = 7
K = 20


def main(quick: bool) -> None:
    """Writes ``results/pseudo_data.md``."""
    records = 20_000 if quick else 1_000_000
    rows = [_measure(records, dimensions) for dimensions in (5, 10, 30)]
    write_table(
        "pseudo_data",
        "Pseudo-data: batched over groups",
        [
            "records",
            "columns",
            "groups",
            "uniform, s",
            "normal, s",
            "exact moments, s",
            "loop over groups, s",
            "loop / uniform",
            "records/s",
            "peak above input, MB",
        ],
        rows,
        notes=(
            f"k = {K}; CPU seconds, one thread for BLAS asked by OMP_NUM_THREADS=1. The loop is "
            "timed on a tenth of the groups and scaled. Peak: memory that NumPy allocates beyond "
            "the group statistics, the released matrix included (tracemalloc, in a run of its "
            "own). Target (spec, section 3): 1e6 x 10 in <= 3 s, <= 300 MB, >= 2.5 x the loop. "
            "Three quarters of the batched time at 10 columns is LAPACK's eigendecomposition, "
            "which the loop needs as well."
        ),
        packages=("numpy",),
        seed=SEED,
        quick=quick,
    )
    write_table(
        "pseudo_data_tables",
        "From group statistics to a table, types and all",
        ["records", "columns", "dimensions", "sample, s", "of it decoding, s", "records/s"],
        [_measure_table(records)],
        notes=(
            "A mixed table: two numbers (one with missing values), 6 and 100 categories, truth "
            "values. Decoding gives every group its exact counts of each state."
        ),
        packages=("numpy", "polars"),
        seed=SEED,
        quick=quick,
    )


def _measure(records: int, dimensions: int) -> list[object]:
    rng = np.random.default_rng(SEED)
    moments = _moments(rng.normal(size=(records, dimensions)))
    synthesize(moments, rng)  # the allocator's first pages are nobody's cost
    _, uniform = timed(lambda: synthesize(moments, rng))
    _, normal = timed(lambda: synthesize(moments, rng, distribution="normal"))
    _, exact = timed(lambda: synthesize(moments, rng, exact=True))
    part = len(moments.counts) // 10
    _, loop = timed(lambda: _loop(moments, part, rng))
    loop *= 10
    tracemalloc.start()
    synthesize(moments, rng)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return [
        records,
        dimensions,
        len(moments.counts),
        uniform,
        normal,
        exact,
        loop,
        loop / uniform,
        f"{records / uniform:,.0f}",
        peak,
    ]


def _measure_table(records: int) -> list[object]:
    import polars as pl

    rng = np.random.default_rng(SEED)
    holes = np.where(rng.random(records) < 0.1, np.nan, rng.normal(size=records))
    table = pl.DataFrame(
        {
            "amount": rng.normal(size=records).round(2),
            "holes": pl.Series(holes).fill_nan(None),
            "few": rng.choice(list("abcdef"), records),
            "many": rng.choice([f"w{place}" for place in range(100)], records),
            "flag": rng.random(records) < 0.2,
        }
    )
    encoder = TableEncoder().fit(table)
    matrix = encoder.encode(table)
    moments = _moments(matrix)
    (drawn, groups), drawing = timed(lambda: synthesize(moments, rng))
    _, decoding = timed(lambda: encoder.decode(drawn, groups, rng, means=moments.means))
    total = drawing + decoding
    width = len(encoder.feature_names_)
    return [records, table.width, width, total, decoding, f"{records / total:,.0f}"]


def _moments(matrix: Floats) -> GroupMoments:
    groups = np.arange(len(matrix)) // K
    return GroupMoments.of(matrix, groups, np.full(len(matrix), K))


def _loop(moments: GroupMoments, groups: int, rng: np.random.Generator) -> list[Floats]:
    """The papers' recipe, one group at a time."""
    drawn = []
    for group in range(groups):
        values, vectors = np.linalg.eigh(moments.scatters[group] / moments.counts[group])
        spread = np.sqrt(12 * np.maximum(values, 0))
        size = (int(moments.counts[group]), len(values))
        drawn.append(moments.means[group] + ((rng.random(size) - 0.5) * spread) @ vectors.T)
    return drawn


if __name__ == "__main__":
    main("--quick" in sys.argv)
