"""Two snapshots and somebody who arrived between them: what does a watcher learn?

``python -m benchmarks.bench_stream_snapshots [--quick]``. A stream is released, records arrive, it
is released again; a watcher with both releases picks a newcomer from ten candidates. ``sample``
shows all groups as they are; ``snapshot`` shows a group again only after its level of newcomers.
Newcomers come from anywhere, or all from one group: then those who did not arrive are its other
members, and the policy shows that somebody came.
"""

from __future__ import annotations

import copy
import sys

import altair as alt
import numpy as np
import polars as pl

from benchmarks.results import save_chart, write_table
from tulle import StreamCondenser
from tulle._attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals

SEED = 0
DECOYS = 9
FIRST, DIMENSIONS, K = 1_000, 5, 10


ANYWHERE, ONE_GROUP = "anywhere", "one group"


def pairs(policy: str, synthesis: str, trials: int, arriving: int, where: str) -> list[Snapshots]:
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
        if where == ONE_GROUP:
            home = int(rng.integers(len(stream.counts_)))
            spread = np.linalg.cholesky(stream.covariances_[home] + 1e-9 * np.eye(DIMENSIONS))
            people = stream.means_[home] + rng.normal(size=people.shape) @ spread.T
        watched.partial_fit(people[:arriving])
        after = release()
        counts = (len(before), len(after))
        made.append(Snapshots(before, after, counts, people[0], people[arriving:]))
    return made


def main(quick: bool) -> None:
    trials = 20 if quick else 300
    rows, shown = [], []
    for arriving, where in ((1, ANYWHERE), (5, ANYWHERE), (50, ANYWHERE), (3 * K, ONE_GROUP)):
        for policy in ("sample", "snapshot"):
            for synthesis in ("mean", "uniform"):
                found = pairs(policy, synthesis, trials, arriving, where)
                rng = np.random.default_rng(SEED)
                totals = snapshots_by_totals(found, rng)
                fresh = snapshots_by_fresh_rows(found, rng)
                rates = [result.successes / result.attempts for result in (totals, fresh)]
                visible = np.mean([pair.counts[1] - pair.counts[0] for pair in found])
                rows.append([arriving, where, policy, synthesis, *rates, 1 / (DECOYS + 1), visible])
                if synthesis == "mean":
                    shown.append([f"{arriving} from {where}", policy, max(rates)])
    write_table(
        "stream_snapshots",
        "Streams: who arrived between two releases?",
        [
            "arrived",
            "from",
            "released by",
            "pseudo-data",
            "found by totals",
            "found by new rows",
            "by guessing",
            "records added to the release",
        ],
        rows,
        notes=f"{FIRST:,} records, d = {DIMENSIONS}, k = {K}; {trials} trials each; the watcher "
        f"chooses among {DECOYS + 1} candidates of whom one arrived; where newcomers come from one "
        "group, so do all candidates. Pseudo-data 'mean' repeats group means: the totals of such "
        "a release are exact.",
        seed=SEED,
        quick=quick,
    )
    table = pl.DataFrame(shown, schema=["arrived", "release", "found"], orient="row")
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("release:N", title=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("found:Q", title="newcomer found", axis=alt.Axis(format="%")),
            color=alt.Color("release:N", legend=None),
        )
    )
    guess = alt.Chart().mark_rule(strokeDash=[4, 4]).encode(y=alt.datum(1 / (DECOYS + 1)))
    chart = alt.layer(bars, guess, data=table).properties(width=120, height=180)
    order = list(dict.fromkeys(scene for scene, *_ in shown))
    column = alt.Column("arrived:N", sort=order, title=None)
    save_chart("stream_snapshots", chart.facet(column=column), quick=quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
