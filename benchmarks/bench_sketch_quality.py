"""The experiments of the sketch paper: accuracy, clusters, dimensionality, and the attacks.

``python -m benchmarks.bench_sketch_quality [--quick]``. Quest baskets are generated; 20 Newsgroups
and Reuters come from TULLE_DATA.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from benchmarks.results import data_folder, save_chart, write_table
from tests.reference.sketch_printed import printed_lengths
from tulle import SecretKey, Sketcher
from tulle.attacks.sketches import (
    signs_guessed,
    signs_learnt,
    sketch_linkage,
    sketch_reconstruction,
)
from tulle.datasets import quest
from tulle.sketch import Sketches, SketchKMeans, SketchKNeighborsClassifier
from tulle.sketch._build import build
from tulle.sketch._kvariance import limits_of, pairs_of
from tulle.sketch._neighbours import nearest
from tulle.sketch.records import as_records

SEED = 3
KEY = SecretKey(b"\x03" * 32)
NEIGHBOURS = 25
DELTAS = (0.1, 0.2, 0.5, 1.0, 4.0)
KS = (2, 5, 10, 50)


class Data(NamedTuple):
    name: str
    X: Any
    y: Any


def main(quick: bool) -> None:
    n = 900 if quick else 4_500
    sets = [two_quests(4, n), two_quests(6, n), newsgroups(n), reuters(n)]
    runs = [run for data in sets for run in runs_of(data, quick)]
    report_runs(runs, n, quick)
    dimensionality(n, quick)
    attacks(1_000 if quick else 2_000, quick)
    full_size(2_000 if quick else 200_000, quick)


# --- data ---------------------------------------------------------------------------------


def two_quests(I: int, n: int, N: int = 1_000) -> Data:  # noqa: E741
    """Two instances of T20.I4 (or I6) as two classes."""
    parts = [quest(T=20, I=I, D=n // 2, N=N, random_state=seed) for seed in (1, 2)]
    X = vstack(parts, format="csr").astype(np.float32)
    return shuffled(Data(f"C20.I{I}", X, np.repeat([0, 1], n // 2)), n)


def newsgroups(n: int) -> Data:
    stored = np.load(data_folder() / "text" / "20news_bow.npz")
    X = csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=stored["shape"])
    return shuffled(Data("20 Newsgroups", X.astype(np.float32), stored["label"]), n)


def reuters(n: int) -> Data:
    """The ten largest of the 52 classes of single-topic documents."""
    with gzip.open(data_folder() / "text" / "reuters21578_modapte.jsonl.gz", "rt") as file:
        entries = [json.loads(line) for line in file]
    labelled = [entry for entry in entries if entry["r52"]]
    names, codes, counts = np.unique(
        [entry["r52"] for entry in labelled], return_inverse=True, return_counts=True
    )
    top = np.isin(codes, np.argsort(-counts)[:10])
    records = as_records([entry["text"] or "empty" for entry in labelled])
    assert records is not None
    return shuffled(Data("Reuters", records.matrix[top].astype(np.float32), names[codes[top]]), n)


def shuffled(data: Data, n: int) -> Data:
    order = np.random.default_rng(SEED).permutation(data.X.shape[0])[:n]
    return Data(data.name, data.X[order], data.y[order])


# --- one run ------------------------------------------------------------------------------


def runs_of(data: Data, quick: bool) -> list[dict[str, Any]]:
    deltas, ks = (DELTAS[1:4:2], KS[1:3]) if quick else (DELTAS, KS)
    base = {"data": data.name, "model": "original", "level": None, **baseline(data)}
    settings = [("delta", delta, {"delta": delta}) for delta in deltas]
    settings += [
        (criterion, k, {"model": "k-variance", "k": k, "criterion": criterion})
        for criterion in ("definition", "gap")
        for k in ks
    ]
    rows = [base]
    for model, level, parameters in settings:
        sketcher = Sketcher(key=KEY, **parameters).fit(data.X)
        rows.append({"data": data.name, "model": model, "level": level, **scores(data, sketcher)})
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()})
    return rows


def scores(data: Data, sketcher: Sketcher) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    cut = 2 * data.X.shape[0] // 3
    train, test = sketcher.transform(data.X[:cut]), sketcher.transform(data.X[cut:])
    model = SketchKNeighborsClassifier(NEIGHBOURS).fit(train, data.y[:cut])
    predicted = model.predict(test)
    # as in the paper: a suppressed record gets a class at random, by the shares of the classes
    predicted[test.suppressed] = rng.choice(data.y[:cut], int(test.suppressed.sum()))
    whole = sketcher.transform(data.X)
    labels = SketchKMeans(10, n_init=1, max_iter=20, random_state=SEED).fit(whole).labels_
    labels[labels < 0] = rng.choice(labels[labels >= 0], int((labels < 0).sum()))
    lengths = whole.lengths[~whole.suppressed]
    return {
        "accuracy": float(np.mean(predicted == data.y[cut:])),
        "similarity": cluster_similarity(data.X, labels),
        "suppressed": float(whole.suppressed.mean()),
        "components": [int(np.quantile(lengths, q)) for q in (0, 0.05, 0.5, 0.95, 1)],
    }


def baseline(data: Data) -> dict[str, Any]:
    from sklearn.cluster import KMeans
    from sklearn.neighbors import KNeighborsClassifier

    cut = 2 * data.X.shape[0] // 3
    model = KNeighborsClassifier(NEIGHBOURS, metric="cosine").fit(data.X[:cut], data.y[:cut])
    labels = KMeans(10, n_init=1, max_iter=20, random_state=SEED).fit(data.X).labels_
    return {
        "accuracy": float(model.score(data.X[cut:], data.y[cut:])),
        "similarity": cluster_similarity(data.X, labels),
        "suppressed": 0.0,
        "components": [],
    }


def cluster_similarity(X: Any, labels: Any) -> float:
    """Mean cosine of the original records to the centroid of their cluster."""
    rows = X.astype(np.float64)
    member = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    centres = (member @ rows).toarray()
    dots = np.asarray(rows.multiply(centres[labels]).sum(axis=1)).ravel()
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    lengths = norms * np.linalg.norm(centres, axis=1)[labels]
    return float(np.mean(dots[lengths > 0] / lengths[lengths > 0]))


# --- what is written ----------------------------------------------------------------------


def report_runs(runs: list[dict[str, Any]], n: int, quick: bool) -> None:
    header = ["data", "model", "level", "accuracy", "clusters", "suppressed", "components"]
    rows = [
        [r["data"], r["model"], "-" if r["level"] is None else r["level"], r["accuracy"],
         r["similarity"], f"{r['suppressed']:.2%}", " / ".join(map(str, r["components"])) or "all"]
        for r in runs
    ]  # fmt: skip
    write_table(
        "sketch_quality",
        "Sketches: accuracy, clusters and components",
        header,
        rows,
        notes=f"{n:,} records a data set (the paper: 200,000), 2:1 split, training and test "
        f"records sketched separately. Accuracy: {NEIGHBOURS} nearest neighbours; clusters: mean "
        "cosine of originals to their 10-means centroid; components: minimum, 5 %, median, 95 %, "
        "maximum (at most 256). Models: delta, and k-variance by its two criteria (level is k).",
        seed=SEED,
        quick=quick,
    )
    for measure in ("accuracy", "similarity"):
        save_chart(f"sketch_{measure}", lines(runs, measure), quick=quick)


def lines(runs: list[dict[str, Any]], measure: str) -> Any:
    import altair as alt

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
    return alt.concat(*panels, columns=4).properties(
        title=f"{measure} of sketches (dashed: original records)"
    )


def full_size(n: int, quick: bool) -> None:
    """Accuracy at the paper's size; 1,000 of the test records are classified."""
    from sklearn.neighbors import KNeighborsClassifier

    rows = []
    for I in (4, 6):  # noqa: E741
        data = two_quests(I, n)
        cut, asked = 2 * n // 3, min(1_000, n // 3)
        truth = data.y[cut : cut + asked]
        plain = KNeighborsClassifier(NEIGHBOURS, metric="cosine").fit(data.X[:cut], data.y[:cut])
        rows.append([data.name, "original", plain.score(data.X[cut : cut + asked], truth), "all"])
        for name, parameters in (
            ("delta 0.2", {"delta": 0.2}),
            ("delta 0.5", {"delta": 0.5}),
            ("k-variance, definition, k = 10", {"model": "k-variance"}),
            ("k-variance, gap, k = 10", {"model": "k-variance", "criterion": "gap"}),
        ):
            sketcher = Sketcher(key=KEY, **parameters).fit(data.X[:100])
            train, test = sketcher.transform(data.X[:cut]), sketcher.transform(data.X[cut:])
            model = SketchKNeighborsClassifier(NEIGHBOURS).fit(train, data.y[:cut])
            spread = " / ".join(str(int(np.quantile(train.lengths, q))) for q in (0.05, 0.5, 0.95))
            rows.append([data.name, name, model.score(test[:asked], truth), spread])
    write_table(
        "sketch_full_size",
        f"Sketches at the paper's size: {n:,} baskets in two classes",
        ["data", "model", "accuracy", "components (5 % / median / 95 %)"],
        rows,
        notes=f"Training and test baskets (2:1) sketched separately, exact neighbour graph; "
        f"{asked:,} test baskets classified by {NEIGHBOURS} nearest neighbours.",
        seed=SEED,
        quick=quick,
    )


def dimensionality(n: int, quick: bool) -> None:
    import altair as alt

    rows = []
    for N in (1000, 1500) if quick else (1000, 1250, 1500, 1750, 2000):
        data = two_quests(6, n, N)
        base = baseline(data)
        for delta in (0.2, 0.3, 0.4):
            found = scores(data, Sketcher(key=KEY, delta=delta).fit(data.X))
            ratios = [found[m] / base[m] for m in ("accuracy", "similarity")]
            rows.append([N, delta, base["accuracy"], found["accuracy"], *ratios])
    write_table(
        "sketch_dimensionality",
        "Sketches: ratio to the original against the number of items (C20.I6)",
        ["items", "delta", "original accuracy", "accuracy", "accuracy ratio", "cluster ratio"],
        rows,
        notes=f"{n:,} baskets.",
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


# --- attacks ------------------------------------------------------------------------------


def attacks(n: int, quick: bool) -> None:
    X = two_quests(4, n).X
    rows = []
    for name, sketches in attacked(X, quick):
        rng = np.random.default_rng(SEED)
        seen = np.flatnonzero(~sketches.suppressed)
        known = rng.choice(seen, min(20, len(seen) // 2), replace=False)
        owner = Sketcher(key=KEY).fit(X)
        signs = owner.signs(np.arange(X.shape[1]), sketches.shape[1])
        guess = signs_guessed(X.shape[1], sketches.shape[1], rng)
        learnt = signs_learnt(sketches, X, known)
        tried = 30 if quick else 300
        found = [
            sketch_linkage(sketches, X, rng, attempts=tried),
            sketch_linkage(sketches, X, rng, known=known, attempts=tried),
            sketch_reconstruction(sketches, X, signs, rng, attempts=tried // 3),
            sketch_reconstruction(sketches, X, guess, rng, attempts=tried // 3),
            sketch_reconstruction(sketches, X, learnt, rng, attempts=tried // 3),
        ]
        spread = [int(np.quantile(sketches.lengths, q)) for q in (0.5, 0.95, 1)]
        longest = np.argsort(-sketches.lengths)[: max(5, n // 100)]
        worst = sketch_reconstruction(sketches[longest], X[longest], signs, rng)
        guessing = found[2].baseline
        rows.append(
            [name, " / ".join(map(str, spread)), *(f"{r.rate:.1%}" for r in found),
             f"{worst.rate:.1%}", f"{guessing:.1%}"]
        )  # fmt: skip
    write_table(
        "sketch_attacks",
        "Sketches: what intruders get",
        ["release", "components (median / 95 % / max)", "linkage, nobody known",
         "linkage, 20 people known", "entries, with the key", "entries, no key",
         "entries, signs from 20 people", "entries of the longest 1 %, key", "entries, guessing"],
        rows,
        notes=f"{n:,} baskets of C20.I4. Linkage: share of sketches given to the right one of all "
        f"records (guessing: {1 / n:.2%}). Entries: share found by sparse reconstruction. "
        "'As printed' is the paper's k-variance; its repairs are added one by one.",
        seed=SEED,
        quick=quick,
    )  # fmt: skip


def attacked(X: Any, quick: bool) -> list[tuple[str, Sketches]]:
    """Releases with and without protection, and with and without the repairs."""

    def of(**parameters: Any) -> Sketches:
        return Sketcher(key=KEY, **parameters).fit(X).transform(X)

    releases = [("256 components for all", of(delta=1e-6))]
    releases += [(f"delta {delta}", of(delta=delta)) for delta in (0.2, 0.5, 1.0, 4.0)]
    graph = nearest(X, 10, "exact", np.random.default_rng(0))
    order = np.argsort(graph.similarities[:, -1], kind="stable")
    for criterion in ("definition", "gap"):
        limits = limits_of(pairs_of(X, graph, criterion))
        for words, repairs in (
            ("as printed", {}),
            ("pairs in both directions", {"both_directions": True}),
            ("and own cap", {"both_directions": True, "own_cap": True}),
        ):
            lengths = printed_lengths(graph.neighbours, limits, order, 1024, passes=4, **repairs)
            values = build(X, np.arange(X.shape[1], dtype=np.uint64), lengths, KEY)
            releases.append((f"k-variance, {criterion}, {words}", Sketches(values, lengths)))
        floor = of(model="k-variance", criterion=criterion, delta=0.5)
        releases.append((f"k-variance, {criterion}, repaired, at most 256, delta 0.5", floor))
    return releases


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
