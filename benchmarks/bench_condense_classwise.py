"""Each class on its own against all classes together, on Adult (figures 8-10 of paper 001)."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from benchmarks.bench_condense_levels import nearest_targets
from benchmarks.results import data_folder, save_chart, write_table
from tulle import ClassCondenser, Condenser
from tulle.condense.pairing import Pairs
from tulle.errors import PrivacyWarning
from tulle.metrics.loss import interval_widths
from tulle.tables.encoder import TableEncoder
from tulle.tables.reading import read_table

SEED = 0
SIZES = (200, 300, 400, 500, 600)
RELEASES = 3  # as in the paper
TESTED = 8000  # of the 16,281 test records, drawn once
GROUPINGS = {"fast": "Tulle's default", "modified": "the paper's modified"}
CLASSWISE, TOGETHER = "class-wise", "all together"
COLOURS = alt.Scale(domain=[CLASSWISE, TOGETHER], range=["#e8871e", "#8a63b5"])


def main(quick: bool = False) -> None:
    train, test = (_read(part) for part in ("train", "test"))
    sizes, releases, tested = (SIZES[::4], 1, 500) if quick else (SIZES, RELEASES, TESTED)
    if quick:
        train = train.sample(6000, seed=SEED)
    test = test.sample(tested, seed=SEED)
    adult = Adult(train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # duplicates in the data
        measured = [
            {"grouping": grouping, "way": way, "k": k, **adult.release(way, grouping, k, release)}
            for grouping in GROUPINGS
            for way in (CLASSWISE, TOGETHER)
            for k in sizes
            for release in range(releases)
        ]
    means = pl.DataFrame(measured).group_by("grouping", "way", "k", maintain_order=True).mean()
    baseline = adult.accuracies(adult.X, adult.y)
    write_means(means, baseline, adult, releases, quick)
    save_chart("condense_classwise_accuracy", accuracy_chart(means, baseline), quick=quick)
    save_chart("condense_classwise_classes", classes_chart(means, baseline), quick=quick)
    save_chart("condense_classwise_privacy", privacy_chart(means), quick=quick)


def _read(part: str) -> pl.DataFrame:
    return read_table(data_folder() / "tables" / f"adult_{part}.csv.gz")


class Adult:
    """Training and test records, and what is measured on a release of the former."""

    def __init__(self, train: pl.DataFrame, test: pl.DataFrame) -> None:
        self.X, self.y = train.drop("class"), train["class"]
        self.X_test, self.truth = test.drop("class"), test["class"].to_numpy()
        self.encoder = TableEncoder().fit(self.X)
        numbers = {name for name, kind in self.X.schema.items() if kind.is_numeric()}
        names = self.encoder.feature_names_
        self.numeric = [place for place, name in enumerate(names) if name in numbers]

    def release(self, way: str, grouping: str, k: int, seed: int) -> dict[str, float]:
        """Accuracies and privacy of one release."""
        rng = np.random.default_rng([SEED, seed, k])
        condenser: Any = Condenser(k, grouping=grouping, random_state=rng)
        if way == CLASSWISE:
            condenser = ClassCondenser(condenser, random_state=rng)
        pairs = Pairs(rng)
        condenser._fit_watched(self.X, self.y, None, pairs)
        originals, counterparts = pairs.together()
        widths = interval_widths(originals, counterparts)[: len(self.encoder.feature_names_)]
        return {
            **self.accuracies(*condenser.sample()),
            "privacy": float(widths[self.numeric].mean()),
            "privacy, all": float(np.nanmean(widths)),
        }

    def accuracies(self, X_new: pl.DataFrame, y_new: pl.Series) -> dict[str, float]:
        """The share of test records predicted rightly: of all, and of each class."""
        hits = nearest_targets(self.encoder, X_new, y_new, self.X_test) == self.truth
        large, small = "<=50K", ">50K"
        return {
            "overall": float(hits.mean()),
            large: float(hits[self.truth == large].mean()),
            small: float(hits[self.truth == small].mean()),
        }


# -- table and pictures -------------------------------------------------------------------------


def write_means(
    means: pl.DataFrame, baseline: dict[str, float], adult: Adult, releases: int, quick: bool
) -> None:
    measures = [*baseline, "privacy", "privacy, all"]
    rows = [
        [GROUPINGS[row["grouping"]], row["k"], row["way"], *(f"{row[m]:.3f}" for m in measures)]
        for row in means.sort("k", maintain_order=True).iter_rows(named=True)
    ]
    rows.sort(key=lambda row: row[0] != GROUPINGS["fast"])
    rows.append(["none: the original", "", "", *(f"{v:.3f}" for v in baseline.values()), "0", "0"])
    write_table(
        "condense_classwise",
        f"Adult, {len(adult.y):,} records: each class condensed on its own, or all together",
        ["grouping", "group size", "way", "accuracy", *list(baseline)[1:], *measures[-2:]],
        rows,
        notes=f"Means of {releases} releases. Accuracy of one nearest neighbour on standardised "
        f"columns, of {len(adult.truth):,} records of the test file (drawn once), overall and of "
        "each class. All together: the label is a column like the others, and comes out at each "
        "group's rates. Privacy: width of the central 95 % interval of (original - release) over "
        "the range, records paired at random within their group, mean of the 6 numeric columns; "
        "'all' is the mean of all encoded dimensions. 'The paper's modified' is the grouping "
        "that paper 001 uses on both sides.",
        packages=("numpy", "numba", "scikit-learn", "polars"),
        seed=SEED,
        quick=quick,
    )


def accuracy_chart(means: pl.DataFrame, baseline: dict[str, float]) -> alt.Chart:
    title = "Adult: accuracy of one nearest neighbour (dotted: trained on the original)"
    chart: alt.Chart = _against_baseline(means, "overall", baseline).properties(title=title)
    return chart


def classes_chart(means: pl.DataFrame, baseline: dict[str, float]) -> alt.Chart:
    panels = [
        _against_baseline(means, label, baseline).properties(title=f"class {label} ({words})")
        for label, words in (("<=50K", "76 % of the records"), (">50K", "24 %"))
    ]
    title = "Adult: accuracy of each class (dotted: trained on the original)"
    chart: alt.Chart = alt.hconcat(*panels).properties(title=title)
    return chart


def privacy_chart(means: pl.DataFrame) -> alt.Chart:
    title = "Adult: privacy, the 95 % interval over the range of a column"
    lines = _lines(means, "privacy", alt.Scale(domain=[0.3, 0.5]), ".2f")
    chart: alt.Chart = lines.properties(title=title)
    return chart


def _against_baseline(means: pl.DataFrame, measure: str, baseline: dict[str, float]) -> Any:
    level = baseline[measure]
    values = [level, *means[measure].to_list()]
    middle = (min(values) + max(values)) / 2
    scale = alt.Scale(domain=[middle - 0.06, middle + 0.06], nice=False)  # as steep in all panels
    original = alt.Chart(alt.Data(values=[{"y": level}])).mark_rule(strokeDash=[2, 3])
    return _lines(means, measure, scale, "%") + original.encode(y=alt.Y("y:Q", scale=scale))


def _lines(means: pl.DataFrame, measure: str, scale: alt.Scale, style: str) -> Any:
    rows = means.select("k", "way", y=measure, grouping=pl.col("grouping").replace(GROUPINGS))
    stroke = alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeWidth=2, labelLimit=0)
    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(
        x=alt.X("k:Q", title="group size", axis=alt.Axis(values=SIZES)).scale(zero=False),
        y=alt.Y("y:Q", title=None, axis=alt.Axis(format=style, tickCount=6), scale=scale),
        color=alt.Color("way:N", title=None, scale=COLOURS, legend=stroke),
    )
    dash = alt.StrokeDash(
        "grouping:N", title="grouping", sort=list(GROUPINGS.values()), legend=stroke
    )
    lines = base.mark_line().encode(strokeDash=dash) + base.mark_circle(size=40, opacity=1)
    return lines.properties(width=300, height=200)


if __name__ == "__main__":
    main("--quick" in sys.argv)
