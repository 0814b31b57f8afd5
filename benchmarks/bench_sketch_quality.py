"""The experiments of the sketch paper: accuracy and clusters against delta, k and dimensionality.

``python -m benchmarks.bench_sketch_quality [--quick]``. All baskets and documents are sketched;
the neighbour graph is made once for the largest k; a fixed sample of test records is classified
against all training records. Quest baskets are generated; 20 Newsgroups and Reuters come from
TULLE_DATA.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.results import save_chart, write_table
from benchmarks.sketch_data import KEY, SEED, Data, newsgroups, reuters, two_quests
from tulle import Sketcher, Sketches, SketchKMeans, SketchKNeighborsClassifier
from tulle.sketch._neighbours import nearest
from tulle.sketch.sketcher import (
    CRITERIA,
    NeighbourPairs,
    broken_pairs,
    build,
    k_variance_lengths,
    number_points,
    pairs_of,
    spread,
)

NEIGHBOURS = 25
ASKED = 1_000  # test records that are classified
DELTAS = (0.1, 0.2, 0.5, 1.0, 4.0)
KS = (2, 5, 10, 50)
MOST = 256
LONG = 1024  # components of the texts that are tried without the usual limit


def main(quick: bool) -> None:
    n = 900 if quick else 200_000
    sets = [(two_quests, 4), (two_quests, 6), (newsgroups,), (reuters,)]
    runs = []
    for make, *which in sets:
        runs += runs_of(make(*which, n), quick)
    report_runs(runs, quick)
    dimensionality(n, quick)
    print(f"\n{time.process_time():.0f} CPU seconds")


# --- one data set -------------------------------------------------------------------------


class Split(NamedTuple):
    """Training and test records, sketched apart (2:1), and their classes."""

    data: Data
    cut: int

    @property
    def parts(self) -> list[Any]:
        return [self.data.X[: self.cut], self.data.X[self.cut :]]


def runs_of(data: Data, quick: bool) -> list[dict[str, Any]]:
    split = Split(data, 2 * data.X.shape[0] // 3)
    deltas, ks = (DELTAS[1:4:2], KS[1:3]) if quick else (DELTAS, KS)
    rows = [said(split, "original", None, baseline(split))]
    for delta in deltas:
        rows.append(said(split, "delta", delta, scores(split, by_delta(split, delta))))
    if data.X.shape[1] > 5_000:
        for delta in deltas[:3]:
            found = scores(split, by_delta(split, delta, LONG))
            rows.append(said(split, f"delta, up to {LONG:,} components", delta, found))
    graphs = [Neighbourhood(part, max(ks)) for part in split.parts]
    for criterion in ("definition", "gap"):
        for k in ks:
            sketches = [graph.sketches(k, criterion) for graph in graphs]
            rows.append(said(split, criterion, k, scores(split, sketches)))
    return rows


def said(split: Split, model: str, level: Any, found: dict[str, Any]) -> dict[str, Any]:
    row = {"data": split.data.name, "records": split.data.X.shape[0], "model": model}
    row |= {"level": level, **found}
    print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return row


def by_delta(split: Split, delta: float, most: int = MOST) -> list[Sketches]:
    sketcher = Sketcher(key=KEY, delta=delta, max_components=most).fit(split.data.X[:100])
    return [sketcher.transform(part) for part in split.parts]


class Neighbourhood:
    """The pairs of the k nearest records, made once, for any smaller k and both criteria."""

    def __init__(self, X: Any, k: int) -> None:
        self.X = X
        self.filled = np.flatnonzero(np.diff(X.indptr) > 0)
        rows = X[self.filled]
        graph = nearest(rows, k, "exact", np.random.default_rng(0))
        self.similarities = graph.similarities
        self.pairs = {name: pairs_of(rows, graph, name) for name in CRITERIA}
        self.most = np.where(spread(rows) > 0, MOST, 0)

    def sketches(self, k: int, criterion: str) -> Sketches:
        """What ``Sketcher("k-variance", k=k, criterion=criterion)`` makes (tested)."""
        pairs = NeighbourPairs(*(array[:, :k] for array in self.pairs[criterion]))
        lengths = np.zeros(self.X.shape[0], np.int64)
        found = k_variance_lengths(pairs, self.similarities[:, k - 1], self.most)
        assert broken_pairs(pairs, found) == 0
        lengths[self.filled] = found
        points = number_points(KEY, np.arange(self.X.shape[1]))
        return Sketches(build(self.X, points, lengths, KEY), lengths)


def scores(split: Split, sketches: list[Sketches]) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    (train, test), (X, y), cut = sketches, split.data[1:], split.cut
    asked = test[:ASKED]
    predicted = SketchKNeighborsClassifier(NEIGHBOURS).fit(train, y[:cut]).predict(asked)
    # as in the paper: a suppressed record gets a class at random, by the shares of the classes
    predicted[asked.suppressed] = rng.choice(y[:cut], int(asked.suppressed.sum()))
    whole = Sketches.stacked(sketches)
    labels = SketchKMeans(10, n_init=1, max_iter=20, random_state=SEED).fit(whole).labels_
    labels[labels < 0] = rng.choice(labels[labels >= 0], int((labels < 0).sum()))
    lengths = whole.lengths[~whole.suppressed]
    return {
        "accuracy": float(np.mean(predicted == y[cut : cut + len(asked)])),
        "similarity": cluster_similarity(X, labels),
        "suppressed": float(whole.suppressed.mean()),
        "components": [int(np.quantile(lengths, q)) for q in (0, 0.05, 0.5, 0.95, 1)],
    }


def baseline(split: Split) -> dict[str, Any]:
    (X, y), cut = split.data[1:], split.cut
    # the votes count as they do for sketches
    model = KNeighborsClassifier(NEIGHBOURS, metric="cosine", weights=_power)
    model.fit(X[:cut], y[:cut])
    labels = KMeans(10, n_init=1, max_iter=20, random_state=SEED).fit(X).labels_
    return {
        "accuracy": float(model.score(X[cut : cut + ASKED], y[cut : cut + ASKED])),
        "similarity": cluster_similarity(X, labels),
        "suppressed": 0.0,
        "components": [],
    }


def _power(far: Any) -> Any:
    return np.maximum(1 - far, 1e-9) ** 4


def cluster_similarity(X: Any, labels: Any) -> float:
    """Mean cosine of the original records to the centroid of their cluster."""
    rows = X.astype(np.float64)
    member = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    centres = (member @ rows).toarray()
    dots = (rows @ centres.T)[np.arange(len(labels)), labels]
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    lengths = norms * np.linalg.norm(centres, axis=1)[labels]
    return float(np.mean(dots[lengths > 0] / lengths[lengths > 0]))


# --- what is written ----------------------------------------------------------------------


def report_runs(runs: list[dict[str, Any]], quick: bool) -> None:
    header = ["data", "records", "model", "level", "accuracy", "clusters", "suppressed"]
    rows = [
        [r["data"], f"{r['records']:,}", r["model"], "-" if r["level"] is None else r["level"],
         r["accuracy"], r["similarity"], f"{r['suppressed']:.2%}",
         " / ".join(map(str, r["components"])) or "all"]
        for r in runs
    ]  # fmt: skip
    write_table(
        "sketch_quality",
        "Sketches: accuracy, clusters and components",
        [*header, "components"],
        rows,
        notes=f"Training and test records (2:1) are sketched separately, with the exact neighbour "
        f"graph. Accuracy: {ASKED:,} test records against all training records, {NEIGHBOURS} "
        "nearest neighbours, the same vote for originals and sketches; its standard error is at "
        "most 1.6 points. Clusters: mean cosine of originals to their 10-means centroid. "
        f"Components: minimum, 5 %, median, 95 %, maximum (at most {MOST} unless said). Models: "
        "delta, and k-variance by its two criteria (level is k). Reuters: the ten largest classes.",
        seed=SEED,
        quick=quick,
    )
    for measure in ("accuracy", "similarity"):
        save_chart(f"sketch_{measure}", lines(runs, measure), quick=quick)
    save_chart("sketch_components", spans(runs), quick=quick)


def spans(runs: list[dict[str, Any]]) -> Any:
    """Components of the records of every release: 5 % to 95 %, and the median."""
    rows = [
        {"data": r["data"], "release": f"{r['model']} {r['level']:g}", "place": place,
         **dict(zip(("least", "low", "median", "high", "most"), r["components"]))}
        for place, r in enumerate(runs)
        if r["components"]
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("release:N", sort=alt.EncodingSortField("place"), title=None)
    )
    x = alt.X("low:Q", scale=alt.Scale(type="log", nice=False), title="components")
    bars = base.mark_rule(strokeWidth=4, opacity=0.4).encode(x=x, x2="high:Q")
    drawn = (bars + base.mark_point(filled=True, size=40).encode(x="median:Q")).properties(
        width=190
    )
    return drawn.facet(alt.Facet("data:N", title=None), columns=4).resolve_scale(y="independent")


def lines(runs: list[dict[str, Any]], measure: str) -> Any:
    base = {r["data"]: r[measure] for r in runs if r["model"] == "original"}
    panels = []
    for title, models in (("delta", ("delta",)), ("k", ("definition", "gap"))):
        for name in base:
            rows = [
                {"level": r["level"], measure: r[measure], "model": r["model"]}
                for r in runs
                if r["data"] == name and r["model"] in models
            ]
            drawn = (
                alt.Chart(alt.Data(values=rows))
                .mark_line(point=True)
                .encode(
                    x=alt.X("level:Q", title=title, scale=alt.Scale(type="log")),
                    y=alt.Y(f"{measure}:Q", title=measure, scale=alt.Scale(zero=False)),
                    color=alt.Color("model:N"),
                )
            )
            line = (
                alt.Chart(alt.Data(values=[{"y": base[name]}]))
                .mark_rule(strokeDash=[4, 4])
                .encode(y=alt.Y("y:Q", title=measure))
            )
            panels.append((drawn + line).properties(title=name, width=190, height=150))
    return alt.concat(*panels, columns=len(base)).properties(
        title=f"{measure} of sketches (dashed: original records)"
    )


def dimensionality(n: int, quick: bool) -> None:
    rows = []
    for N in (1000, 1500) if quick else (1000, 1250, 1500, 1750, 2000):
        data = two_quests(6, n, N)
        split = Split(data, 2 * n // 3)
        base = baseline(split)
        for delta in (0.2, 0.3, 0.4):
            found = scores(split, by_delta(split, delta))
            ratios = [found[m] / base[m] for m in ("accuracy", "similarity")]
            rows.append([N, delta, base["accuracy"], found["accuracy"], *ratios])
            print(rows[-1], flush=True)
    write_table(
        "sketch_dimensionality",
        "Sketches: ratio to the original against the number of items (C20.I6)",
        ["items", "delta", "original accuracy", "accuracy", "accuracy ratio", "cluster ratio"],
        rows,
        notes=f"{n:,} baskets; {ASKED:,} test baskets classified against all training baskets, all "
        "baskets clustered.",
        seed=SEED,
        quick=quick,
    )
    values = [
        {"items": r[0], "delta": str(r[1]), "ratio": r[place], "of": of}
        for r in rows
        for place, of in ((4, "accuracy"), (5, "cluster similarity"))
    ]
    drawn = (
        alt.Chart(alt.Data(values=values))
        .mark_line(point=True)
        .encode(
            x=alt.X("items:Q", scale=alt.Scale(zero=False)),
            y=alt.Y("ratio:Q", scale=alt.Scale(domain=[0, 1.05])),
            color="delta:N",
        )
        .properties(width=240, height=180)
        .facet(column="of:N")
    )
    save_chart("sketch_dimensionality", drawn, quick=quick)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
