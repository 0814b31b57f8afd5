"""Paper 001: condensation class by class, and the search for the group size."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from benchmarks.bench_condense_classwise import Adult
from benchmarks.reproduction.page import MEASURED
from benchmarks.results import data_folder, timed
from tulle import ClassCondenser, Condenser, GroupSizeSearch, PrivacyWarning, approximate_gcd
from tulle._metrics.marginals import interval_widths
from tulle.condense._synthesis import fit_paired
from tulle.condense.groupings import group_records

Found = dict[str, Any]

FILES = {
    "Breast cancer": ("wdbc", 20),
    "Adult": ("adult_train", 1120),
    "Waveform": ("waveform_noise", 200),
    "Ionosphere": ("ionosphere", 30),
    "Magic": ("magic", 480),
    "Iris": ("iris", 10),
    "German": ("german_numeric", 10),
}
LARGE = ("Magic", "Waveform", "Adult")
SPLITS = {"Waveform": 2, "Magic": 1, "Adult": 1}  # for time; of the others five
SLOW = ("Magic", "Adult")  # one release for each size instead of three


def worked(quick: bool) -> Found:
    """The examples of the text."""
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(0, 1, (15, 2)), rng.normal(3, 1, (10, 2))])
    labels = np.repeat([0, 1], [15, 10])
    six = group_records(points, np.full(25, 6), rng, method="original")
    mixed = [len(set(labels[six == group])) > 1 for group in range(six.max() + 1)]
    t = 5
    size = approximate_gcd([15, 10], t)
    condenser = ClassCondenser(Condenser(grouping="modified", synthesis="uniform"), min_group=t)
    condenser.fit(points, labels)
    large = approximate_gcd([1001, 501], 20)
    rows = {
        "25 records, k = 6: groups": len(mixed),
        "k = 6: groups of both classes, at least": min(sum(mixed), 1),
        "floor(15 / 5)": 15 // t,
        "floor(10 / 5)": 10 // t,
        "group size for t = 5": size,
        "groups of class A": int((condenser.group_classes_ == 0).sum()),
        "groups of class B": int((condenser.group_classes_ == 1).sum()),
        "k = 5: groups": len(condenser.counts_),
        "plain GCD of 1001 and 501": math.gcd(1001, 501),
        "GCD of the units, t = 20": large // 20,
        "group size for t = 20": large,
        "groups of the class of 1001": 1001 // large,
        "groups of the class of 501": 501 // large,
        "middle of 20 and 2000": round(math.sqrt(20 * 2000)),
        "arithmetic mean of 20 and 2000": (20 + 2000) // 2,
    }
    return {"values": {row: {"value": value} for row, value in rows.items()}}


def table1(quick: bool) -> Found:
    """Rows, columns and classes of the files."""
    values = {}
    for name in FILES:
        X, y = load(name, complete=False)
        extra = {"Breast cancer": 2, "Magic": 1}.get(name, 0)  # identifier and class are counted
        values[name] = {"rows": X.height, "columns": X.width + extra, "classes": len(np.unique(y))}
    return {"values": values}


def load(name: str, *, complete: bool = True) -> tuple[pl.DataFrame, np.ndarray]:
    """Features and class; of Adult the complete records, as 001 had, unless all are wanted."""
    path = data_folder() / "tables" / f"{FILES[name][0]}.csv.gz"
    table = pl.read_csv(path, infer_schema_length=None)
    if name == "Adult" and complete:
        table = table.filter(~pl.any_horizontal(pl.col(pl.String) == "?"))
    target = table.columns[-1]
    return table.drop(target), table[target].cast(pl.String).to_numpy()


def gcd(quick: bool) -> Found:
    """The GCD of the training part of random splits."""
    notes: list[str] = []
    values = _gcds(20 if quick else 200, notes)
    return {"values": values, "notes": "; ".join(notes) + " of the splits."}


def _gcds(splits: int = 200, notes: list[str] | None = None) -> dict[str, dict[str, int]]:
    values = {}
    notes = [] if notes is None else notes
    printed = {"Breast cancer": 60, "Adult": 6720, "Waveform": 1400, "Ionosphere": 90}
    printed |= {"Magic": 4800, "Iris": 40, "German": 190}
    for name, (_, t) in FILES.items():
        _, y = load(name)
        _, codes = np.unique(y, return_inverse=True)
        rng = np.random.default_rng(0)
        seen: Counter[int] = Counter()
        for _ in range(splits):
            train = rng.permutation(len(codes))[len(codes) // 10 :]
            seen[approximate_gcd(np.bincount(codes[train]).tolist(), t)] += 1
        ours, count = seen.most_common(1)[0]
        total = sum(seen.values())
        values[name] = {"GCD": ours}
        notes.append(f"{name}: {ours} in {count / total:.0%}")
        if ours != printed[name]:
            notes[-1] += f", the printed {printed[name]} in {seen[printed[name]] / total:.0%}"
    return values


def table2(quick: bool) -> Found:
    """The group size by rule and by all multiples of t; splits that were measured are kept."""
    kept = {} if quick else _measured_splits()
    names = [name for name in FILES if not quick or name in ("Iris", "Ionosphere")]
    curves = []
    for name in names:
        X, y = load(name)
        for seed in range(2 if quick else SPLITS.get(name, 5)):
            run = kept.get((name, seed))
            if run is None:
                run = _search(X, y, FILES[name][1], seed, 1 if name in SLOW else 3)
                print(name, seed, run, flush=True)
            curves.append({"data": name, "seed": seed, **run})
    values = {name: _table2_row([run for run in curves if run["data"] == name]) for name in names}
    return {
        "values": values,
        "claims": _table2_claims(curves, {name: row["GCD"] for name, row in _gcds().items()}),
        "notes": _sizes_tried(curves),
        "curves": curves,
    }


def _measured_splits() -> dict[tuple[str, int], dict[str, Any]]:
    path = MEASURED / "classes_table2.json"
    curves = json.loads(path.read_text(encoding="utf-8"))["curves"] if path.exists() else []
    return {(run["data"], run["seed"]): run for run in curves}


def _table2_row(runs: list[dict[str, Any]]) -> Found:
    return {
        f"{how}: {measure}": _mean([run[f"{how} {own}"] for run in runs], measure)
        for how in ("rule", "brute")
        for measure, own in (("size", "end"), ("privacy", "privacy"), ("accuracy", "accuracy"))
    }


def _sizes_tried(curves: list[dict[str, Any]]) -> str:
    """Figure 11: how many sizes either search looked at."""
    said = []
    for name in dict.fromkeys(run["data"] for run in curves):
        tried = [
            [run[f"{how} sizes tried"] for run in curves if run["data"] == name]
            for how in ("rule", "brute")
        ]
        said.append(f"{name} {np.mean(tried[0]):g} and {np.mean(tried[1]):g}")
    return (
        "Figure 11, the number of sizes that were tried, mean over the splits, by the rule and by "
        f"brute force: {', '.join(said)}. The rule halves an interval of whole numbers, brute "
        "force takes multiples of t only: where t is large, the rule tries more."
    )


def _search(X: pl.DataFrame, y: np.ndarray, t: int, seed: int, repeats: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    smallest = min(Counter(y).values()) * 9 // 10
    options = {
        "rule": {"strategy": "rule"},
        "brute": {"strategy": "grid", "sizes": list(range(t, smallest + t, t))},
    }
    for how, option in options.items():
        condenser = ClassCondenser(Condenser(grouping="modified", synthesis="uniform"))
        search = GroupSizeSearch(
            condenser, min_group=t, scoring="accuracy", random_state=seed, repeats=repeats, **option
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            _, seconds = timed(lambda search=search: search.fit(X, y))
        ended = search.best_k_ if search.settled_k_ is None else search.settled_k_
        near = search.results_.sort((pl.col("k") - ended).abs()).row(0, named=True)
        found[f"{how} end"] = ended
        found[f"{how} accuracy"] = near["utility"]
        found[f"{how} privacy"] = _privacy(X, y, ended, seed)
        found[f"{how} sizes tried"] = search.results_.height
        found[f"{how} seconds"] = seconds
    return found


def _privacy(X: pl.DataFrame, y: np.ndarray, k: int, seed: int) -> float:
    """The paper's interval, mean over the columns; not cut at 1, as `GroupSizeSearch` does."""
    rng = np.random.default_rng([1, seed])
    train = rng.permutation(len(y))[len(y) // 10 :]
    condenser = Condenser(grouping="modified", synthesis="uniform")
    made = ClassCondenser(condenser, k=min(k, *Counter(y[train]).values()), random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        pairs = fit_paired(made, X[train], y[train], None, rng)
    assert pairs is not None
    return float(np.nanmean(interval_widths(*pairs.together())))


def _mean(values: list[float], measure: str) -> Any:
    if measure == "size":
        return float(np.median(values))
    if len(values) == 1:
        return values[0]
    return [float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))]


def _table2_claims(curves: list[dict[str, Any]], gcds: dict[str, int]) -> Found:
    names = list(dict.fromkeys(run["data"] for run in curves))

    def share(name: str, holds: Callable[[dict[str, Any], int], bool]) -> float:
        """The share of a data set's splits, not of its most fortunate one."""
        return float(np.mean([holds(run, FILES[name][1]) for run in curves if run["data"] == name]))

    same = {
        name: share(name, lambda run, t: run["rule end"] // t * t == run["brute end"])
        for name in names
    }
    near = {
        name: share(name, lambda run, t: 0.5 <= run["rule end"] / gcds[run["data"]] <= 2)
        for name in names
    }
    ratio = {
        name: np.mean(
            [run["rule seconds"] / run["brute seconds"] for run in curves if run["data"] == name]
        )
        for name in names
    }
    large = [name for name in LARGE if name in ratio]
    small = [name for name in ratio if name not in LARGE]
    said = ", ".join(f"{name} {ratio[name]:.2f}" for name in ratio)
    return {
        "same size": _claim(
            min(round(sum(same.values()), 1), 5),
            min(5, len(names)),
            f"data sets, by the share of their splits ({_shares(same)}); g3 rounded down to a "
            "multiple of t",
        ),
        "near the GCD": _claim(
            round(sum(near.values()), 1),
            len(names),
            f"data sets, by the share of their splits within a factor of two of the GCD above "
            f"({_shares(near)})",
        ),
        "time saved": _claim(
            sum(ratio[name] < 0.8 for name in large),
            len(large),
            f"CPU of rule / brute force: {said}",
        ),
        "small sets alike": _claim(
            sum(0.5 <= ratio[name] <= 2 for name in small), len(small), "within a factor of two"
        ),
    }


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


SIZES = (200, 400, 600)
WEIGHTS = (1, 4)
_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def adult(quick: bool) -> Found:
    """Adult class by class, and together with three weights of the class label."""
    X, y = load("Adult")
    table = X.with_columns(pl.Series("class", y)).sample(fraction=1, shuffle=True, seed=0)
    test, train = table[:3_000], table[3_000 : 9_000 if quick else None]
    made = Adult(train, test)
    points = []
    for k in SIZES[:1] if quick else SIZES:
        for way, weight in [("class-wise", 0), *(("together", w) for w in WEIGHTS)]:
            release = _adult_release(made, k, weight)
            points.append({"k": k, "way": way, "weight": weight, **release})
            print(points[-1], flush=True)
    apart = {p["k"]: p for p in points if p["way"] == "class-wise"}
    plain = [p for p in points if p["weight"] == 1]
    small = ">50K"
    return {
        "values": {
            "accuracy of the smaller class, together (largest of ours at weight 1)": {
                "below": max(p[small] for p in plain)
            }
        },
        "claims": {
            "class-wise better": _claim(
                sum(apart[p["k"]]["overall"] > p["overall"] for p in plain),
                len(plain),
                "sizes, weight 1; "
                + ", ".join(
                    f"k={p['k']}: {apart[p['k']]['overall']:.3f} against {p['overall']:.3f}"
                    for p in plain
                ),
            ),
            "small class better": _claim(
                sum(apart[p["k"]][small] > p[small] + 0.02 for p in plain),
                len(plain),
                "sizes with more than two points; "
                + ", ".join(
                    f"k={p['k']}: {apart[p['k']][small]:.3f} against {p[small]:.3f}" for p in plain
                ),
            ),
            "privacy higher": _claim(
                sum(apart[p["k"]]["privacy"] > p["privacy"] for p in plain),
                len(plain),
                "sizes, numeric columns",
            ),
        },
        "curves": points,
    }


def _adult_release(made: Adult, k: int, weight: float) -> dict[str, float]:
    rng = np.random.default_rng([0, k])
    condenser: Any = Condenser(
        k, grouping="modified", synthesis="uniform", target_weight=weight or 1, random_state=rng
    )
    if not weight:
        condenser = ClassCondenser(condenser, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        pairs = fit_paired(condenser, made.X, made.y, None, rng)
    assert pairs is not None
    names = condenser.encoded_names_
    numeric = [place for place, name in enumerate(names) if name in _NUMBERS]
    widths = interval_widths(*pairs.together())
    return {**made.accuracies(*condenser.sample()), "privacy": float(widths[numeric].mean())}


def _claim(holds: float, of: float, ours: str) -> Found:
    return {"holds": holds, "of": of, "ours": ours}
