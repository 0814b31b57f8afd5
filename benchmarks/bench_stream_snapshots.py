"""Two snapshots and the one record that arrived between them: what does a watcher learn?

``python -m benchmarks.bench_stream_snapshots [--quick]``. A stream is released, one record
arrives, it is released again; a watcher with both releases picks the newcomer from ten
candidates. ``sample`` shows all groups as they are; ``snapshot`` shows a group anew only after
its level of newcomers.
"""

from __future__ import annotations

import copy
import sys

import altair as alt
import numpy as np
import polars as pl

from benchmarks.results import save_chart, write_table
from tulle import StreamCondenser
from tulle.attacks.snapshots import (
    Snapshots,
    snapshots_by_fresh_rows,
    snapshots_by_totals,
)

SEED = 0
DECOYS = 9
FIRST, DIMENSIONS, K = 1_000, 5, 10


def pairs(policy: str, synthesis: str, trials: int, arriving: int) -> list[Snapshots]:
    """Releases before and after ``arriving`` records; the watcher looks for the first of them."""
    rng = np.random.default_rng(SEED)
    mixing = rng.normal(size=(DIMENSIONS, DIMENSIONS))
    stream = StreamCondenser(k=K, synthesis=synthesis, random_state=SEED)
    stream.partial_fit(rng.normal(size=(FIRST, DIMENSIONS)) @ mixing)
    made = []
    for _ in range(trials):
        watched = copy.deepcopy(stream)
        release = watched.snapshot if policy == "snapshot" else watched.sample
        before = release()
        people = rng.normal(size=(arriving + DECOYS, DIMENSIONS)) @ mixing
        watched.partial_fit(people[:arriving])
        after = release()
        counts = (len(before), len(after))
        made.append(Snapshots(before, after, counts, people[0], people[arriving:]))
    return made


def main(quick: bool) -> None:
    trials = 20 if quick else 300
    rows, shown = [], []
    for arriving in (1, 5, 50):
        for policy in ("sample", "snapshot"):
            for synthesis in ("mean", "uniform"):
                found = pairs(policy, synthesis, trials, arriving)
                rng = np.random.default_rng(SEED)
                totals = snapshots_by_totals(found, rng)
                fresh = snapshots_by_fresh_rows(found, rng)
                rates = [result.successes / result.attempts for result in (totals, fresh)]
                visible = np.mean([pair.counts[1] - pair.counts[0] for pair in found])
                rows.append([arriving, policy, synthesis, *rates, 1 / (DECOYS + 1), visible])
                if synthesis == "mean":
                    shown.append([f"{arriving} arrived", policy, max(rates)])
    write_table(
        "stream_snapshots",
        "Streams: who arrived between two releases?",
        [
            "arrived",
            "released by",
            "pseudo-data",
            "found by totals",
            "found by new rows",
            "by guessing",
            "records added to the release",
        ],
        rows,
        notes=f"{FIRST:,} records, d = {DIMENSIONS}, k = {K}; {trials} trials each; the watcher "
        f"chooses among {DECOYS + 1} candidates of whom one arrived. Pseudo-data 'mean' repeats "
        "group means: the totals of such a release are exact.",
        seed=SEED,
        quick=quick,
    )
    table = pl.DataFrame(shown, schema=["arrived", "release", "found"], orient="row")
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("release:N", title=None),
            y=alt.Y("found:Q", title="newcomer found", axis=alt.Axis(format="%")),
            color=alt.Color("release:N", legend=None),
        )
    )
    guess = alt.Chart().mark_rule(strokeDash=[4, 4]).encode(y=alt.datum(1 / (DECOYS + 1)))
    chart = alt.layer(bars, guess, data=table).properties(width=120, height=180)
    save_chart("stream_snapshots", chart.facet(column="arrived:N"), quick=quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
