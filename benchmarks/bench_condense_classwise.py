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
from tulle import ClassCondenser, Condenser, PrivacyWarning, read_table
from tulle._metrics.marginals import interval_widths
from tulle.condense._synthesis import fit_paired
from tulle.table._encoder import TableEncoder

SEED = 0
SIZES = (200, 300, 400, 500, 600)
RELEASES = 3  # as in the paper
TESTED = 5000  # of the 16,281 test records, drawn once
GROUPINGS = {"fast": "Tulle's default", "modified": "the paper's modified"}
CLASSWISE, TOGETHER, UNSEEN = "class-wise", "together", "together, label not compared"
WAYS = (CLASSWISE, TOGETHER, UNSEEN)
COLOURS = alt.Scale(domain=WAYS, range=["#e8871e", "#8a63b5", "#4c78a8"])


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
            for way in WAYS
            for k in (sizes if grouping == "fast" else sizes[::2])
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
        self.numbers = {name for name, kind in self.X.schema.items() if kind.is_numeric()}

    def release(self, way: str, grouping: str, k: int, seed: int) -> dict[str, float]:
        """Accuracies and privacy of one release."""
        rng = np.random.default_rng([SEED, seed, k])
        condenser: Any = Condenser(k, grouping=grouping, synthesis="uniform", random_state=rng)
        table: pl.DataFrame = self.X
        target: pl.Series | None = self.y
        if way == CLASSWISE:
            condenser = ClassCondenser(condenser, random_state=rng)
        elif way == UNSEEN:
            condenser.set_params(weights={"class": 0.01})
            table, target = self.X.with_columns(self.y), None
        pairs = fit_paired(condenser, table, target, None, rng)
        assert pairs is not None
        released = condenser.sample()
        if way == UNSEEN:
            released = released.drop("class"), released["class"]
        originals, counterparts = pairs.together()
        # rare categories are merged, so that there are fewer dimensions than the encoder's
        names = [
            n for n in condenser._encoder.feature_names_ if n.partition("=")[0] in self.X.columns
        ]
        width = len(names)  # further dimensions are the label's
        numeric = [place for place, name in enumerate(names) if name in self.numbers]
        widths = interval_widths(originals, counterparts)[:width]
        shares = condenser.means_[:, width:]  # of each class in each group
        fewer = shares.min(axis=1, initial=1.0) if shares.size else 0.0 * condenser.counts_
        return {
            **self.accuracies(*released),
            "privacy": float(widths[numeric].mean()),
            "privacy, all": float(np.nanmean(widths)),
            "fewer": float(condenser.counts_ @ fewer / len(self.y)),
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
        [GROUPINGS[row["grouping"]], row["k"], row["way"], f"{row['fewer']:.1%}"]
        + [f"{row[measure]:.3f}" for measure in measures]
        for row in means.sort("k", maintain_order=True).iter_rows(named=True)
    ]
    rows.sort(key=lambda row: row[0] != GROUPINGS["fast"])
    original = [f"{accuracy:.3f}" for accuracy in baseline.values()]
    rows.append(["none: the original", "", "", "", *original, "0", "0"])
    write_table(
        "condense_classwise",
        f"Adult, {len(adult.y):,} records: each class condensed on its own, or all together",
        ["grouping", "group size", "way", "among more of the other class", "accuracy"]
        + [*list(baseline)[1:], *measures[-2:]],
        rows,
        notes=f"Means of {releases} releases. Accuracy of one nearest neighbour on standardised "
        f"columns, of {len(adult.truth):,} records of the test file (drawn once), overall and of "
        "each class. Together: the label is a column like the others, which the grouping compares, "
        "and comes out at each group's rates; not compared: it has next to no weight, so that "
        "groups mix classes as they lie (what paper 001 sets out to avoid). The fourth column is "
        "the share of records in a group with more records of the other class. Privacy: width of "
        "the central 95 % interval of (original - release) over the range, records paired at "
        "random within their group, mean of the 6 numeric columns; 'all' is the mean of all "
        "encoded dimensions. 'The paper's modified' is the grouping that paper 001 uses.",
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
    rows = means.filter(grouping="fast").select("k", "way", y=measure)
    chart = alt.Chart(alt.Data(values=rows.to_dicts())).mark_line(point=True)
    return chart.encode(
        x=alt.X("k:Q", title="group size", axis=alt.Axis(values=SIZES)).scale(zero=False),
        y=alt.Y("y:Q", title=None, axis=alt.Axis(format=style, tickCount=6), scale=scale),
        color=alt.Color("way:N", title=None, scale=COLOURS, legend=alt.Legend(labelLimit=0)),
    ).properties(width=300, height=200)


if __name__ == "__main__":
    main("--quick" in sys.argv)
