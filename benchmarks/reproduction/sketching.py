"""Paper 003: sketches of sparse records; baskets are generated, texts a stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_sketch_quality import (
    Neighbourhood,
    Split,
    baseline,
    by_delta,
    cluster_similarity,
    scores,
)
from benchmarks.results import timed
from benchmarks.sketch_data import KEY, Data, newsgroups, two_quests
from tulle import Sketcher, SketchKMeans

Found = dict[str, Any]

DELTAS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
KS = (2, 5, 10, 25, 50)
RECORDS = 6_000


def equations(quick: bool) -> Found:
    """Means and variances of estimates over independent components."""
    components = 100_000
    signs = Sketcher(key=KEY, delta=0.5).fit(np.eye(4)).signs(np.arange(4), components)
    signs = signs if signs.shape[0] == components else signs.T
    x, y = np.array([1.0, 2, 3, 4]), np.array([2.0, 0, 1, 3])
    s, t = signs @ x, signs @ y
    attribute, dot = s * signs[:, 1], s * t
    return {
        "values": {
            "mean of the estimated attribute": {"value": _mean(attribute)},
            "variance of the estimated attribute": {"value": _variance(attribute)},
            "mean of the estimated dot product": {"value": _mean(dot)},
            "variance of a component of the dot product": {"value": _variance(dot)},
        },
        "notes": "The exact variance of the dot product is 395.",
    }


def _mean(draws: np.ndarray) -> list[float]:
    return [float(draws.mean()), float(draws.std() / len(draws) ** 0.5)]


def _variance(draws: np.ndarray) -> list[float]:
    squares = (draws - draws.mean()) ** 2
    return [float(squares.mean()), float(squares.std() / len(draws) ** 0.5)]


def figures(quick: bool) -> Found:
    """Accuracy and clusters by k and delta, on three data sets and two splits."""
    points: list[dict[str, Any]] = []
    n = 1_500 if quick else RECORDS
    for data in (two_quests(4, n), two_quests(6, n), newsgroups(n)):
        for repeat in range(1 if quick else 2):
            points += _runs(_reshuffled(data, repeat), quick)
        print(data.name, flush=True)
    means = _averaged(points)
    lost = {
        criterion: [
            100 * (_at(means, name, "original", None) - _at(means, name, criterion, 10))
            for name in sorted({p["data"] for p in means})
        ]
        for criterion in ("definition", "gap")
    }
    said = "accuracy lost at k = 10, points, {} of three data sets (`definition`)"
    return {
        "values": {
            said.format("smallest"): {"between": min(lost["definition"])},
            said.format("largest"): {"between": max(lost["definition"])},
            "the same with `gap`, smallest": {"between": min(lost["gap"])},
        },
        "claims": _claims(means, points),
        "curves": means,
    }


def _reshuffled(data: Data, repeat: int) -> Data:
    order = np.random.default_rng(repeat).permutation(data.X.shape[0])
    return Data(data.name, data.X[order], data.y[order])


def _runs(data: Data, quick: bool) -> list[dict[str, Any]]:
    split = Split(data, 2 * data.X.shape[0] // 3)
    found = [_said(data, "original", None, baseline(split))]
    for delta in DELTAS[1:4:2] if quick else DELTAS:
        found.append(_said(data, "delta", delta, scores(split, by_delta(split, delta))))
    ks = (2, 10) if quick else KS
    graphs = [Neighbourhood(part, max(ks)) for part in split.parts]
    for criterion in ("definition", "gap"):
        for k in ks:
            sketches = [graph.sketches(k, criterion) for graph in graphs]
            found.append(_said(data, criterion, k, scores(split, sketches)))
    found.append(_said(data, "reconstructed", 0.5, _reconstructed(split)))
    return found


def _said(data: Data, model: str, level: Any, found: dict[str, Any]) -> dict[str, Any]:
    kept = {key: found[key] for key in ("accuracy", "similarity") if key in found}
    return {"data": data.name, "model": model, "level": level, **kept}


def _reconstructed(split: Split) -> dict[str, Any]:
    """Clusters of attributes reconstructed from sketches of delta 0.5, next to direct clusters."""
    from sklearn.cluster import KMeans

    part = split.data.X[:1_500]
    columns = np.flatnonzero(np.asarray(part.sum(axis=0)).ravel() > 0)[:2_000]
    part = part[:, columns]
    sketcher = Sketcher(key=KEY, delta=0.5, max_components=256).fit(part[:100])
    sketches = sketcher.transform(part)
    kept = np.flatnonzero(~sketches.suppressed)
    dense = sketcher.reconstruct(sketches[kept])
    by_values = KMeans(10, n_init=1, max_iter=20, random_state=0).fit(dense).labels_
    direct = SketchKMeans(10, n_init=1, max_iter=20, random_state=0).fit(sketches[kept]).labels_
    return {
        "similarity": cluster_similarity(part[kept], direct)
        - cluster_similarity(part[kept], by_values)
    }


def _averaged(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys((p["data"], p["model"], p["level"]) for p in points))
    means = []
    for key in keys:
        same = [p for p in points if (p["data"], p["model"], p["level"]) == key]
        row: dict[str, Any] = dict(zip(("data", "model", "level"), key))
        for measure in ("accuracy", "similarity"):
            values = [p[measure] for p in same if measure in p]
            if values:
                row[measure] = float(np.mean(values))
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                row[f"{measure} se"] = float(error)
        means.append(row)
    return means


def _at(means: list[dict[str, Any]], data: str, model: str, level: Any) -> float:
    rows = [p for p in means if (p["data"], p["model"], p["level"]) == (data, model, level)]
    return float(rows[0]["accuracy"])


def _claims(means: list[dict[str, Any]], points: list[dict[str, Any]]) -> Found:
    names = list(dict.fromkeys(p["data"] for p in means))
    direct = [p["similarity"] for p in points if p["model"] == "reconstructed"]

    def curve(name: str, model: str, measure: str) -> list[float]:
        return [p[measure] for p in means if p["data"] == name and p["model"] == model]

    def slows(values: list[float]) -> bool:
        """Whether the second half of a curve falls by less than the first."""
        middle = len(values) // 2
        return values[middle] - values[-1] < values[0] - values[middle]

    by_k = [curve(name, "definition", "accuracy") for name in names]
    by_delta = [curve(name, "delta", "accuracy") for name in names]
    clusters = [
        [_original(means, name)] + curve(name, "definition", "similarity") for name in names
    ]
    return {
        "falls with k": _claim([c[-1] < c[0] for c in by_k], "data sets, `definition`"),
        "levels out": _claim([slows(c) for c in by_k], "data sets: the later half falls by less"),
        "delta levels out": _claim([slows(c) for c in by_delta], "data sets"),
        "clusters level out": _claim([slows(c) for c in clusters], "data sets, `definition`"),
        "direct better": _claim([gap > 0 for gap in direct], "splits: k-means, delta 0.5"),
    }


def _original(means: list[dict[str, Any]], name: str) -> float:
    rows = [p for p in means if p["data"] == name and p["model"] == "original"]
    return float(rows[0]["similarity"])


def _claim(flags: list[bool], ours: str) -> Found:
    return {"holds": sum(map(bool, flags)), "of": len(flags), "ours": ours}


def dimensions(quick: bool) -> Found:
    """Ratios to the original against the number of base items."""
    n = 1_500 if quick else RECORDS
    curves = []
    for items in (1_000, 1_500) if quick else (1_000, 1_200, 1_400, 1_600, 1_800, 2_000):
        split = Split(two_quests(6, n, items), 2 * n // 3)
        base = baseline(split)
        for delta in (0.2, 0.3, 0.4):
            found = scores(split, by_delta(split, delta))
            ratios = {m: found[m] / base[m] for m in ("accuracy", "similarity")}
            curves.append({"items": items, "delta": delta, **ratios})
    flat = []
    for delta in (0.2, 0.3, 0.4):
        own = [p["accuracy"] for p in curves if p["delta"] == delta]
        flat.append(own[-1] > own[0] - 0.05)
    return {
        "values": {
            f"largest ratio of {measure}": {"at most": max(p[measure] for p in curves)}
            for measure in ("accuracy", "similarity")
        },
        "claims": {"flat": _claim(flat, "levels of delta lose at most 5 points of the ratio")},
        "curves": curves,
    }


def times(quick: bool) -> Found:
    """CPU seconds of k-variance by records and by items in a record."""
    sizes = (2_000, 4_000) if quick else (200_000, 400_000, 1_000_000)
    million = two_quests(6, sizes[-1]).X
    curves = [{"grows": "records", "size": n, "seconds": _seconds(million[:n])} for n in sizes]
    del million
    from tulle import quest

    for items in (10, 20, 30, 40, 50):
        X = quest(T=items, I=6, D=sizes[0] // 2, N=1_000, random_state=1).astype(np.float32)
        curves.append({"grows": "items", "size": items, "seconds": _seconds(X)})
    by = {what: [p for p in curves if p["grows"] == what] for what in ("records", "items")}
    powers = {what: _power(rows) for what, rows in by.items()}
    return {
        "claims": {
            "few seconds": _claim(
                [by["records"][-1]["seconds"] <= 10],
                f"{by['records'][-1]['seconds']:.0f} CPU seconds for {sizes[-1]:,} records",
            )
        }
        | {
            f"linear in {what}": _claim(
                [0.5 <= power <= 1.2], f"the time grows with size^{power:.2f}"
            )
            for what, power in powers.items()
        },
        "curves": curves,
    }


def _seconds(X: Any) -> float:
    sketcher = Sketcher(model="k-variance", k=10, graph="partition", key=KEY).fit(X[:100])
    return timed(lambda: sketcher.transform(X))[1]


def _power(rows: list[dict[str, Any]]) -> float:
    sizes, seconds = (np.log([row[key] for row in rows]) for key in ("size", "seconds"))
    return float(np.polyfit(sizes, seconds, 1)[0])
