"""Paper 001, Table 2: the group size by rule and by grid on seven data sets."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from benchmarks.results import data_folder, save_chart, timed, write_table
from tulle import ClassCondenser, Condenser, GroupSizeSearch, approximate_gcd

SEED = 0
# file, t, and the paper's: GCD, rule's size, privacy, accuracy, brute force's size
PAPER = {
    "Breast cancer": ("wdbc", 20, 60, 60, 0.6091, 0.9942, 180),
    "Adult": ("adult_train", 1120, 6720, 6720, 1.3326, 0.8034, 6720),
    "Waveform": ("waveform_noise", 200, 1400, 1400, 0.7479, 0.8013, 1400),
    "Ionosphere": ("ionosphere", 30, 90, 45, 1.4375, 0.8981, 51),
    "Magic": ("magic", 480, 4800, 4800, 0.726, 0.7673, 4800),
    "Iris": ("iris", 10, 40, 40, 0.6564, 0.9556, 40),
    "German": ("german_numeric", 10, 190, 190, 1.7301, 0.7133, 190),
}
SMALL = ("Iris", "Breast cancer", "Ionosphere")
LARGE = ("Adult", "Magic")  # one release a size and a shorter grid, for time


def load(name: str) -> tuple[pl.DataFrame, np.ndarray]:
    table = pl.read_csv(data_folder() / "tables" / f"{name}.csv.gz", infer_schema_length=None)
    target = table.columns[-1]
    return table.drop(target), table[target].cast(pl.String).to_numpy()


def search(
    X: pl.DataFrame, y: np.ndarray, t: int, strategy: str, large: bool
) -> tuple[GroupSizeSearch, float]:
    condenser = ClassCondenser(Condenser(grouping="fast", synthesis="uniform"))
    sizes, repeats = (10, 1) if large else (20, 3)
    made = GroupSizeSearch(
        condenser,
        strategy,
        sizes=sizes,
        min_group=t,
        repeats=repeats,
        scoring="accuracy",  # the paper's
        random_state=SEED,
    )
    return timed(lambda: made.fit(X, y))


def main(quick: bool) -> None:
    rows, curves = [], []
    for name, (file, t, gcd, size, privacy, accuracy, brute) in PAPER.items():
        if quick and name not in SMALL:
            continue
        X, y = load(file)
        ours = approximate_gcd(np.unique(y, return_counts=True)[1].tolist(), t)
        rule, rule_time = search(X, y, t, "rule", name in LARGE)
        grid, grid_time = search(X, y, t, "grid", name in LARGE)
        at_rule = rule.results_.filter(pl.col("chosen")).row(0, named=True)
        at_grid = grid.results_.filter(pl.col("chosen")).row(0, named=True)
        rows.append(
            [
                name,
                t,
                f"{ours} ({gcd})",
                f"{rule.best_k_} ({size})",
                f"{at_rule['privacy']:.2f} ({privacy:.2f})",
                f"{at_rule['utility']:.3f} ({accuracy:.3f})",
                f"{grid.best_k_} ({brute})",
                f"{at_grid['privacy']:.2f}",
                f"{at_grid['utility']:.3f}",
                f"{rule.baseline_:.3f}",
                f"{rule.results_.height} / {grid.results_.height}",
                f"{rule_time / grid_time:.2f}",
            ]
        )
        curves += [{"data": name, **row} for row in grid.results_.to_dicts()]
    write_table(
        "tuning_table2",
        "The group size by rule and by grid (paper 001, Table 2); the paper's figures in brackets",
        [
            "data",
            "t",
            "approx. GCD",
            "rule: size",
            "privacy",
            "accuracy",
            "grid: size",
            "privacy",
            "accuracy",
            "original's accuracy",
            "sizes tried, rule / grid",
            "CPU, rule / grid",
        ],
        rows,
        notes="Privacy: width of the central 95 % interval of (original - release) over the range. "
        "Accuracy: one nearest neighbour on standardised columns, 10 % held out, 3 releases a "
        "size (one for Adult and Magic). Where they cannot agree: the GCD that the paper gives "
        "for German (190) is impossible for "
        "700 / 300 records; the GCD here is of all records, the paper's of a 90 % split; the "
        "paper's grid has equal widths and its point was picked by hand, ours has equal ratios "
        "and the largest size within 5 % of the best is taken; Adult's categories are encoded "
        "as indicators here; the paper does not say how it encodes or scales. The rule goes on "
        "until its ends are neighbours: on flat curves with thousands of records in a class that "
        "is 14 to 16 sizes, fewer than a grid of 20, more than the short grid of 10 that Adult and "
        "Magic have here for time.",
        seed=SEED,
        quick=quick,
    )
    import altair as alt

    folded = [
        {"data": row["data"], "k": row["k"], "measure": measure, "value": row[measure]}
        for row in curves
        for measure in ("utility", "privacy")
    ]
    chart = (
        alt.Chart(alt.Data(values=folded))
        .mark_line(point=True)
        .encode(
            x=alt.X("k:Q", scale=alt.Scale(type="log"), title="group size"),
            y=alt.Y("value:Q", title=None),
            color=alt.Color("measure:N", title=None),
        )
        .properties(width=180, height=120)
        .facet(facet=alt.Facet("data:N", title=None), columns=4)
        .resolve_scale(x="independent", y="independent")
    )
    save_chart("tuning_curves", chart, quick=quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
