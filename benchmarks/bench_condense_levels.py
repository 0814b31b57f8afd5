"""Levels per record on the data of paper 000: what a release keeps as levels rise.

Curves in the shape of the paper's figures 8-15, for static condensation: covariance compatibility
and the accuracy of one nearest neighbour, beside that of the original.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.results import data_folder, save_chart, write_table
from tulle import ClassCondenser, Condenser, PrivacyWarning, read_table
from tulle._metrics.covariance import covariance_compatibility
from tulle._threads import models_on_one
from tulle._types import Ints
from tulle.table._encoder import TableEncoder

SEED = 0
DATA = ("Ionosphere", "Ecoli", "Pima", "Abalone")
RINGS = "Abalone"  # its target is a number, the others' a class
ALPHAS = (7, 10, 15, 20, 25, 30, 40, 50)
BETA = 4
WAYS: dict[str, dict[str, Any]] = {
    "fast grouping": {},
    "the paper's grouping": {"grouping": "levels"},
}
COLOURS = alt.Scale(domain=list(WAYS), range=["#e8871e", "#8a63b5"])
RELEASES = {RINGS: 5}  # splits of the records, each with its own levels and release
USUAL_RELEASES = 20
HELD_OUT = 0.2


def load(name: str) -> tuple[pl.DataFrame, pl.Series]:
    """Features and target (the last column)."""
    table = read_table(data_folder() / "tables" / f"{name.lower()}.csv.gz")
    return table.drop(table.columns[-1]), table[table.columns[-1]]


def nearest_targets(
    encoder: TableEncoder, X_new: pl.DataFrame, y_new: pl.Series, X_test: pl.DataFrame
) -> NDArray[Any]:
    """The target of each test record's nearest released record, on standardised columns."""
    from sklearn.neighbors import NearestNeighbors

    def standard(table: pl.DataFrame) -> NDArray[np.float32]:  # a release may hold merged values
        return np.asarray(encoder.encode_release(table) / encoder.scales_, dtype=np.float32)

    with models_on_one():
        index = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(standard(X_new))
        nearest = index.kneighbors(standard(X_test), return_distance=False)[:, 0]
    return np.asarray(y_new.to_numpy()[nearest])


def main(quick: bool = False) -> None:
    names, alphas = (DATA[:2], (10, 30)) if quick else (DATA, ALPHAS)
    with warnings.catch_warnings():
        # groups of records that are all alike: a duplicate of Ionosphere is not at issue here
        warnings.simplefilter("ignore", PrivacyWarning)
        measured = [
            point
            for name in names
            for point in measure(name, alphas, 1 if quick else RELEASES.get(name, USUAL_RELEASES))
        ]
    means = summarise(pl.DataFrame(measured))
    write_means(means, quick)
    save_chart("condense_levels_accuracy", accuracy_chart(means), quick=quick)
    save_chart("condense_levels_compatibility", compatibility_chart(means), quick=quick)


def measure(name: str, alphas: tuple[int, ...], releases: int) -> Iterator[dict[str, Any]]:
    """Measures of every release of one data set."""
    X, y = load(name)
    for release, (train, test) in enumerate(_splits(y, name != RINGS, releases)):
        X_train, y_train, held = X[train], y[train], (X[test], y[test])
        encoder = TableEncoder().fit(X_train)
        baseline = _accuracy(encoder, X_train, y_train, *held)
        for alpha in alphas:
            rng = np.random.default_rng([SEED, release, alpha])
            levels = rng.integers(alpha - BETA, alpha + 1, len(train))
            small = 0.0 if name == RINGS else _share_in_small_classes(y_train, levels)
            for way in WAYS:
                condenser = _condenser(name, way, rng)
                X_new, y_new = condenser.fit_resample(X_train, y_train, levels)
                own, standardised = _compatibility(encoder, X_train, X_new)
                yield {
                    "data": name,
                    "alpha": alpha,
                    "way": way,
                    "accuracy": _accuracy(encoder, X_new, y_new, *held),
                    "baseline": baseline,
                    "own": own,
                    "standardised": standardised,
                    "small": small,
                }


def _splits(y: pl.Series, classes: bool, releases: int) -> Iterator[tuple[Ints, Ints]]:
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    splitter = StratifiedShuffleSplit if classes else ShuffleSplit
    yield from splitter(releases, test_size=HELD_OUT, random_state=SEED).split(y, y)


def _condenser(name: str, way: str, rng: np.random.Generator) -> Any:
    condenser = Condenser(**WAYS[way], synthesis="uniform", random_state=rng)
    if name == RINGS:
        return condenser
    return ClassCondenser(condenser, small_classes="pool", random_state=rng)


def _share_in_small_classes(y: pl.Series, levels: Ints) -> float:
    """The share of records whose class has fewer records than its highest level."""
    records = pl.DataFrame({"y": y, "level": levels})
    small = pl.len().over("y") < pl.col("level").max().over("y")
    return float(records.select(small.mean()).item())


def _compatibility(
    encoder: TableEncoder, X: pl.DataFrame, X_new: pl.DataFrame
) -> tuple[float, float]:
    """The paper's mu in the columns' own units, and on standardised columns."""
    original, released, scales = encoder.encode(X), encoder.encode(X_new), encoder.scales_
    return (
        covariance_compatibility(original, released),
        covariance_compatibility(original / scales, released / scales),
    )


def _accuracy(
    encoder: TableEncoder,
    X_new: pl.DataFrame,
    y_new: pl.Series,
    X_test: pl.DataFrame,
    y_test: pl.Series,
) -> float:
    """The share of held-out records predicted rightly; rings within one year."""
    predicted, truth = nearest_targets(encoder, X_new, y_new, X_test), y_test.to_numpy()
    if y_test.name == "rings":
        return float((np.abs(predicted - truth) <= 1).mean())
    return float((predicted == truth).mean())


# -- table and pictures -------------------------------------------------------------------------


def summarise(measured: pl.DataFrame) -> pl.DataFrame:
    """Means over the releases, and the standard error of the accuracy that is lost."""
    means = pl.col("accuracy", "baseline", "own", "standardised", "small").mean()
    lost = pl.col("accuracy") - pl.col("baseline")  # of one split, whose luck both share
    error = (lost.std() / pl.len().sqrt()).fill_null(0.0).alias("error")
    return measured.group_by("data", "alpha", "way", maintain_order=True).agg(means, error)


def write_means(means: pl.DataFrame, quick: bool) -> None:
    rows = []
    worst = max(means["error"].to_list())
    for _, group in means.group_by("data", "alpha", maintain_order=True):
        fast, papers = group.rows(named=True)
        rows.append(
            [fast["data"], fast["alpha"]]
            + [f"{way['own']:.4f} / {way['standardised']:.4f}" for way in (fast, papers)]
            + [f"{way['accuracy']:.3f}" for way in (fast, papers)]
            + [f"{fast['baseline']:.3f}", f"{fast['small']:.0%}"]
        )
    write_table(
        "condense_levels",
        "Levels uniform on [alpha - 4, alpha]: structure and accuracy that a release keeps",
        [
            "data",
            "alpha",
            "compatibility, own units / standardised: fast grouping",
            "paper's grouping",
            "1-NN accuracy: fast grouping",
            "paper's grouping",
            "original",
            "records in small classes",
        ],
        rows,
        notes=f"Means of {USUAL_RELEASES} releases (Abalone {RELEASES[RINGS]}), each of a random "
        f"{1 - HELD_OUT:.0%} of the records with new levels; accuracy on the other records, on "
        f"standardised columns (its difference to the original's has a standard error of up to "
        f"{worst:.3f}). Compatibility "
        "is the paper's mu, the correlation between the entries of both covariance matrices, in "
        "the columns' own units; on standardised columns, where no column's unit decides, it is "
        "the stricter figure. Each class is condensed on its own; classes with fewer records than "
        "their highest level (last column) are condensed together (`small_classes='pool'`). "
        "Abalone: rings are a number, condensed together with the features; accuracy is the share "
        "predicted within one year. The paper's grouping is `grouping='levels'`; both draw as the "
        "paper does (`synthesis='uniform'`).",
        packages=("numpy", "numba", "scikit-learn", "polars"),
        seed=SEED,
        quick=quick,
    )


def accuracy_chart(means: pl.DataFrame) -> alt.Chart:
    panels = []
    for (name,), rows in means.group_by("data", maintain_order=True):
        level = float(rows["baseline"][0])
        around = alt.Scale(
            domain=[level - 0.12, level + 0.06], nice=False
        )  # as steep in all panels
        y = alt.Y("accuracy:Q", axis=alt.Axis(format="%", tickCount=6), title=None, scale=around)
        lines = _lines(rows, y)
        original = alt.Chart().mark_line(color="black", strokeDash=[5, 4])
        original = original.encode(x=_alpha(), y=alt.Y("baseline:Q", scale=around))
        data = alt.Data(values=rows.to_dicts())
        panels.append(alt.layer(lines, original, data=data, title=name, **_panel(250)))
    title = "Accuracy of one nearest neighbour trained on the release (dashed: on the original)"
    chart: alt.Chart = alt.concat(*panels, columns=2).properties(title=title)
    return chart


def compatibility_chart(means: pl.DataFrame) -> alt.Chart:
    kinds = {"own": (0.98, "own units (the paper's)"), "standardised": (0.8, "standardised")}
    parts = []
    for field, (lowest, words) in kinds.items():
        scale = alt.Scale(domain=[lowest, 1.0])
        lines = _lines(means, alt.Y(f"{field}:Q", title=words, scale=scale))
        column = alt.Column("data:N", title=None, sort=list(DATA))
        parts.append(lines.properties(**_panel(150)).facet(column=column))
    title = "Covariance compatibility of original and release (1: the same)"
    chart: alt.Chart = alt.vconcat(*parts).properties(title=title)
    return chart


def _lines(rows: pl.DataFrame, y: alt.Y) -> alt.Chart:
    colour = alt.Color("way:N", scale=COLOURS, title=None, sort=list(WAYS))
    chart = alt.Chart(alt.Data(values=rows.to_dicts())).mark_line(point=True)
    return chart.encode(x=_alpha(), y=y, color=colour)


def _alpha() -> alt.X:
    return alt.X("alpha:Q", title="alpha", scale=alt.Scale(domain=[0, ALPHAS[-1]]))


def _panel(width: int) -> dict[str, int]:
    return {"width": width, "height": 150}


if __name__ == "__main__":
    main("--quick" in sys.argv)
