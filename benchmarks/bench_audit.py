"""The audit: what it costs, beside scikit-learn's search, and what it sees as groups grow."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl

from benchmarks.results import data_folder, save_chart, timed, write_table
from tulle import Condenser, audit
from tulle._attacks.records import chosen, nearest
from tulle.auditing._tables import align

SEED = 0
SWEPT = 6000  # records of Adult that are condensed with each group size
SIZES = (2, 3, 5, 10, 20, 50)
SEEN = ("near_copies", "linkage", "singling_out", "inference:occupation", "membership")


def adult(part: str, rows: int | None) -> pl.DataFrame:
    path = data_folder() / "tables" / f"adult_{part}.csv.gz"
    table = pl.read_csv(path, null_values="?")
    return table if rows is None else table.sample(rows, seed=SEED, shuffle=True)


def noisy(table: pl.DataFrame) -> pl.DataFrame:
    """The original with noise of a thousandth of a standard deviation: looks new, is not."""
    rng = np.random.default_rng(SEED)
    numeric = [name for name, dtype in table.schema.items() if dtype.is_numeric()]
    return table.with_columns(
        (pl.col(name) + pl.Series(rng.normal(0, 0.001, table.height)) * pl.col(name).std())
        for name in numeric
    ).sample(fraction=1, shuffle=True, seed=SEED)


def search_beside_scikit_learn(people: pl.DataFrame, release: pl.DataFrame) -> list[list[Any]]:
    """The exact nearest record, which every attack on a table needs."""
    from sklearn.neighbors import NearestNeighbors

    tables = align(people, release, None, None)
    rows = chosen(len(tables.original), 1000, np.random.default_rng(SEED))
    some = tables.original.take(rows)
    matrix, targets = (
        tables.view.matrix(frame) for frame in (tables.frames[1], tables.frames[0][rows])
    )
    nearest(some, tables.release)  # compiled before the clock starts
    _, ours = timed(lambda: nearest(some, tables.release))
    model = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(matrix)
    _, theirs = timed(lambda: model.kneighbors(targets))
    tree = NearestNeighbors(n_neighbors=1, algorithm="ball_tree").fit(matrix)
    _, by_tree = timed(lambda: tree.kneighbors(targets))
    return [[f"1,000 x {len(matrix):,} x {people.width}", ours, theirs, by_tree, theirs / ours]]


def main(quick: bool) -> None:
    rows = 1500 if quick else None
    people, control = adult("train", rows), adult("test", rows)
    copy = people.sample(fraction=1, shuffle=True, seed=SEED)
    audit(people[:200], copy[:200], random_state=SEED).html()  # imports and kernels first

    searched = search_beside_scikit_learn(people, copy)
    write_table(
        "audit_search",
        "Exact nearest record in a mixed table: CPU seconds",
        ["people x release x columns", "tulle", "scikit-learn brute", "ball tree", "ratio"],
        searched,
        notes="Categories as indicators for scikit-learn, as codes for Tulle. The ratio is brute "
        "over Tulle.",
        seed=SEED,
        quick=quick,
    )

    whole, seconds = timed(
        lambda: audit(people, copy, control=control, target="class", random_state=SEED)
    )
    _, drawing = timed(whole.html)
    costs = [
        [f"{people.height:,} x {people.width}", len(whole.result["attacks"]), seconds, drawing]
    ]
    write_table(
        "audit_cost",
        "A whole audit with control and every column inferred: CPU seconds",
        ["original", "attacks", "audit", "HTML report"],
        costs,
        seed=SEED,
        quick=quick,
    )

    people, control = people[:SWEPT], control[:SWEPT]
    copy = people.sample(fraction=1, shuffle=True, seed=SEED)
    releases = {"copy": copy, "noise 0.001": noisy(people)}
    for k in SIZES[1::2] if quick else SIZES:
        releases[f"k = {k}"] = Condenser(k, random_state=SEED).fit_resample(people)
    table, points = [], []
    for name, release in releases.items():
        found = audit(
            people,
            release,
            control=control,
            target="class",
            sensitive=["occupation"],
            random_state=SEED,
        ).to_dict()
        attacks, metrics = found["attacks"], found["metrics"]
        table.append(
            [
                name,
                found["verdict"]["privacy"]["level"],
                *(f"{attacks[a]['rate']:.3f} ({attacks[a]['control']:.3f})" for a in SEEN),
                metrics["accuracy_ratio"],
                metrics["covariance_compatibility"],
                metrics["propensity_auc"],
            ]
        )
        points += [{"release": name, "attack": a, "risk": attacks[a]["risk"]} for a in SEEN]
    write_table(
        "audit_by_k",
        f"What the audit sees of {people.height:,} records of Adult as groups grow: "
        "rate of each attack (control in brackets)",
        ["release", "verdict", *SEEN, "accuracy ratio", "covariance compatibility", "AUC"],
        table,
        notes=f"Control: {control.height:,} records of the test part, in no release. Accuracy: "
        "gradient boosting trained on the release over trained on the original, tested on the "
        "control. AUC: a classifier that tells release from original.",
        seed=SEED,
        quick=quick,
    )
    save_chart("audit_by_k", _chart(points, list(releases)), quick=quick)


def _chart(points: list[dict[str, Any]], order: list[str]) -> Any:
    import altair as alt

    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("release:N", sort=order, title=None),
            y=alt.Y("risk:Q", title="excess over the control"),
            color=alt.Color("attack:N", title=None),
        )
        .properties(width=460, height=260)
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
