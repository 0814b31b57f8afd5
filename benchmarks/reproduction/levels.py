"""Paper 000: groups for records of different levels, tables and streams."""

from __future__ import annotations

import gzip
import warnings
from typing import Any

import numpy as np
import polars as pl
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from benchmarks.results import data_folder
from tulle import ClassCondenser, Condenser, PrivacyWarning, StreamCondenser
from tulle._metrics.covariance import covariance_compatibility
from tulle.condense.groupings import group_records

Found = dict[str, Any]

# the x axes of the figures, as far as the smallest class allows
ALPHAS = {
    "Ionosphere": (5, 10, 15, 20, 30, 40, 50),
    "Ecoli": (5, 6, 8, 10, 12, 14),
    "Pima": (5, 10, 15, 20, 30, 40, 50),
    "Abalone": (5, 10, 20, 30, 40, 50),
}
BETA = 4
REPEATS = {"Ionosphere": 20, "Ecoli": 20, "Pima": 20, "Abalone": 4}


def worked(quick: bool) -> Found:
    """Figures 1 and 6, the split of section 3 and the halves of Figure 7."""
    threes, fours = [[0, 0], [0, 1], [1, 0]], [[10, 10], [10, 11], [11, 10], [11, 11]]
    outlier = _sizes([*threes, *fours, [2, 2]], [3] * 3 + [4] * 5)
    pair = _sizes([*threes, *fours[:3], [0.9, 0.9], [9.9, 9.9]], [3] * 6 + [2] * 2)
    before, after, sums = _split()
    factor, distance, width = _halves()
    rows = {
        "Figure 1: records in the group of level 3 once the outlier joined": outlier[0],
        "Figure 1: records left in the group of level 4": outlier[1],
        "Figure 6: points of the broken pair that each group takes": pair[0] - 3,
        "sum of levels before, 5 tuples": sums[0],
        "sum of levels after, 6 tuples": sums[1],
        "groups before (5 < 2 * 14 / 5)": len(before),
        "groups after (6 > 2 * 17 / 6)": len(after),
        "points in each half": after[0] if after[0] == after[-1] else None,
        "first eigenvalue, divided by": factor,
        "distance of a half's centroid, in ranges a": distance,
        "a² over the first eigenvalue": width,
    }
    return {"values": {row: {"value": value} for row, value in rows.items()}}


def _sizes(points: list[list[float]], levels: list[int]) -> list[int]:
    """The sizes of the groups of the first and of the fourth point, if all seeds agree."""
    seen = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = group_records(np.array(points, float), np.array(levels), rng, method="levels")
        counts = np.bincount(groups)
        seen.add((int(counts[groups[0]]), int(counts[groups[3]])))
    return list(seen.pop()) if len(seen) == 1 else [0, 0]


def _split() -> tuple[list[int], list[int], tuple[int, int]]:
    """The group of levels 2, 2, 2, 3, 5 before and after a record of level 3 joins."""
    records = np.random.default_rng(0).normal(size=(6, 3))
    levels = np.array([2, 2, 2, 3, 5, 3])
    stream = StreamCondenser(init_size=5, grouping="levels", synthesis="uniform", random_state=0)
    stream.partial_fit(records[:5], levels=levels[:5])
    before = stream.counts_.tolist()
    stream.partial_fit(records[5:], levels=levels[5:])
    return before, stream.counts_.tolist(), (int(levels[:5].sum()), int(levels.sum()))


def _halves() -> tuple[float, float, float]:
    """Eigenvalue and centroids of the halves of a group that splits."""
    records = np.random.default_rng(1).normal(size=(8, 3)) * [5, 1, 0.5]
    stream = StreamCondenser(
        init_size=7, synthesis="uniform", scales=[1.0, 1.0, 1.0], random_state=0
    )
    stream.partial_fit(records[:7], levels=np.full(7, 4)).partial_fit(
        records[7:], levels=np.array([4])
    )
    whole = np.linalg.eigvalsh(np.cov(records.T, bias=True))[-1]
    half = np.linalg.eigvalsh(stream.covariances_[0])
    # the split direction keeps a quarter of its variance: compare traces, order may change
    factor = whole / (half.sum() - (np.trace(np.cov(records.T, bias=True)) - whole))
    apart = np.linalg.norm(stream.means_[0] - stream.means_[1]) / 2
    width = np.sqrt(12 * whole)
    return float(factor), float(apart / width), float(width**2 / whole)


def figures(quick: bool) -> Found:
    """Figures 8 to 15: accuracy and compatibility of static and dynamic condensation."""
    points = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for name, alphas in ALPHAS.items():
            if quick and name == "Abalone":
                continue
            for alpha in alphas[:: 3 if quick else 1]:
                points.append(_point(name, alpha, 2 if quick else REPEATS[name]))
                print(points[-1], flush=True)
    return {
        "values": {
            'lowest compatibility "in most cases" (median case of ours)': {
                "at least": float(np.median([min(p["mu static"], p["mu dynamic"]) for p in points]))
            },
            "Abalone, lowest": {
                "at least": min(
                    (
                        min(p["mu static"], p["mu dynamic"])
                        for p in points
                        if p["data"] == "Abalone"
                    ),
                    default=None,
                )
            },
        },
        "claims": _claims(points),
        "curves": points,
    }


def _point(name: str, alpha: int, repeats: int) -> dict[str, Any]:
    X, y = _load(name)
    found: dict[str, list[float]] = {}
    short = 0
    for repeat in range(repeats):
        order = np.random.default_rng([0, repeat]).permutation(len(X))
        test, train = order[: len(X) // 4], order[len(X) // 4 :]
        rng = np.random.default_rng([0, alpha, repeat])
        levels = rng.integers(max(1, alpha - BETA), alpha + 1, size=len(train))
        short += _mixing(y[train], levels, name == "Abalone")
        held = (X[test], y[test])
        found.setdefault("original", []).append(_accuracy(name, X[train], y[train], held, X[train]))
        for method in ("static", "dynamic"):
            X_new, y_new = _release(name, method, X[train], y[train], levels, repeat)
            score = _accuracy(name, X_new, y_new, held, X[train])
            found.setdefault(method, []).append(score)
            mu = float(covariance_compatibility(X[train], X_new))
            found.setdefault(f"mu {method}", []).append(mu)
    found["dynamic over static"] = list(np.subtract(found["dynamic"], found["static"]))
    found["dynamic over original"] = list(np.subtract(found["dynamic"], found["original"]))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    errors = {
        f"{key} se": float(np.std(values, ddof=1) / np.sqrt(len(values)))
        for key, values in found.items()
    }
    return {"data": name, "alpha": alpha, "too few of a level": short, **means, **errors}


def _load(name: str) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(data_folder() / "tables" / f"{name.lower()}.csv.gz") as file:
        table = pl.read_csv(file.read(), infer_schema_length=None)
    X, y = table[:, :-1], table[:, -1].to_numpy()
    if name == "Abalone":
        X = X.to_dummies(X.columns[0])
    numbers = X.to_numpy().astype(float)
    kept = np.ones(len(y), dtype=bool)
    if name == "Ecoli":
        labels, counts = np.unique(y, return_counts=True)
        kept = np.isin(y, labels[counts > 5])
    return numbers[kept][:, numbers.std(axis=0) > 0], y[kept]


def _mixing(y: np.ndarray, levels: np.ndarray, regression: bool) -> bool:
    """Whether a level has fewer records, of some class, than it asks for."""
    classes = [np.ones(len(y), bool)] if regression else [y == label for label in np.unique(y)]
    return any(
        0 < (levels[members] == level).sum() < level
        for members in classes
        for level in np.unique(levels)
    )


def _release(
    name: str, method: str, X: np.ndarray, y: np.ndarray, levels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    regression = name == "Abalone"
    if method == "dynamic":
        stream = StreamCondenser(
            init_size=len(X) // 4,
            grouping="levels",
            classwise=not regression,
            synthesis="uniform",
            random_state=seed,
        )
        for part in np.array_split(np.arange(len(X)), 20):
            stream.partial_fit(X[part], y[part], levels[part])
        return stream.sample()
    static = Condenser(grouping="levels", synthesis="uniform", random_state=seed)
    if regression:
        return static.fit_resample(X, y, levels)
    classwise = ClassCondenser(static, small_classes="suppress", random_state=seed)
    return classwise.fit_resample(X, y, levels)


def _accuracy(name: str, X: np.ndarray, y: np.ndarray, held: Any, scale: np.ndarray) -> float:
    scales = np.where(scale.std(axis=0) > 0, scale.std(axis=0), 1.0)
    if name == "Abalone":
        model = KNeighborsRegressor(1).fit(X / scales, y)
        return float((np.abs(model.predict(held[0] / scales) - held[1]) <= 1).mean())
    model = KNeighborsClassifier(1).fit(X / scales, y)
    return float((model.predict(held[0] / scales) == held[1]).mean())


def _claims(points: list[dict[str, Any]]) -> Found:
    by = {name: [p for p in points if p["data"] == name] for name in ALPHAS}
    by = {name: rows for name, rows in by.items() if rows}
    ends = {name: (rows[0], rows[-1]) for name, rows in by.items()}
    better = [p for p in points if p["static"] > p["original"] or p["dynamic"] > p["original"]]
    large = by.get("Pima", [])[-2:]
    return {
        "falls": _claim(
            sum(last["static"] < first["static"] for first, last in ends.values()),
            len(ends),
            "data sets on which static falls from the smallest to the largest alpha",
        ),
        "improves": _claim(len(better), len(points), "cases above the original"),
        "static better": _claim(
            sum(p["static"] > p["dynamic"] for p in points), len(points), "cases"
        ),
        "dynamic almost as good": _claim(
            sum(p["dynamic over original"] > -0.03 for p in points),
            len(points),
            "cases within 3 points; worst "
            f"{min(p['dynamic over original'] for p in points) * 100:.1f} points",
        ),
        "pima": _claim(
            sum(p["dynamic over static"] > 2 * p["dynamic over static se"] for p in large),
            len(large),
            "of alpha 40 and 50, beyond two standard errors ("
            + ", ".join(
                f"{p['dynamic over static'] * 100:+.1f} ± {p['dynamic over static se'] * 100:.1f}"
                for p in large
            )
            + " points)",
        ),
        "mu static better": _claim(
            sum(p["mu static"] >= p["mu dynamic"] for p in points), len(points), "cases"
        ),
        "mu small groups": _claim(
            sum(
                rows[0]["mu dynamic"] < max(p["mu dynamic"] for p in rows[1:])
                for rows in by.values()
            ),
            len(by),
            "data sets on which the smallest alpha is below a larger one",
        ),
        "mu ionosphere": _claim(
            sum(p["mu static"] < p["mu dynamic"] for p in by.get("Ionosphere", [])),
            len(by.get("Ionosphere", [])),
            "alphas",
        ),
        "mu large groups": _claim(
            sum(last["mu static"] < first["mu static"] for first, last in ends.values()),
            len(ends),
            "data sets, from the smallest to the largest alpha",
        ),
        "mixing": _claim(sum(p["too few of a level"] > 0 for p in points), len(points), "cases"),
    }


def _claim(holds: float, of: float, ours: str) -> Found:
    return {"holds": holds, "of": of, "ours": ours}
