"""Sketches over delta: what a miner learns, and what an attacker does.

``python -m benchmarks.bench_sketch_frontier [--quick] [--articles]``; texts come from TULLE_DATA.
``--articles`` makes only the page of the 11,296 news articles, which takes the longest.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.results import data_folder, save_chart, write_table
from benchmarks.sketch_data import SEED, Data, newsgroups, reuters, two_quests
from tulle import SecretKey, Sketcher, SketchKNeighborsClassifier
from tulle._attacks.sketches import sketch_linkage
from tulle._commands._sketch_audit import TRIED, attacks_of, signs_of
from tulle._metrics.sketches import classes_kept, neighbour_recall
from tulle.sketch._records import SparseRecords, as_records

DELTAS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
NEIGHBOURS = 5
RISK = 0.10


def main(quick: bool = False, only_articles: bool = False) -> None:
    """Sketch, mine and attack each data set at every delta."""
    articles(quick)
    if only_articles:
        return
    n = 400 if quick else 2_000
    points = [
        point
        for data in (reuters(n), newsgroups(n), two_quests(4, n))
        for point in _frontier(data, (0.5, 4.0) if quick else DELTAS)
    ]
    write_table(
        "sketch_frontier",
        "Sketches over delta: accuracy and attack",
        ["data", "delta", "suppressed", "components (median)", "accuracy", "of the originals",
         "neighbours found", "linked, nobody known", "linked, 20 people known"],
        [list(point.values()) for point in points],
        notes=f"{n:,} records, at most 256 components. Accuracy: {NEIGHBOURS} nearest neighbours, "
        "trained on two thirds of the records and tested on the others (cosines; 'of the "
        "originals': the same on the records themselves). Neighbours found: share of the true ten "
        "nearest. Linked: share of 300 sketches given to the right one of all records; guessing "
        f"gets {1 / n:.2%}. `tulle sketch --target-risk` finds the smallest delta below a risk.",
        seed=SEED,
        quick=quick,
    )  # fmt: skip
    save_chart("sketch_frontier", _chart(points), quick=quick)
    write_table(
        "sketch_peers",
        "Sketches, random projection and hashing at equal dimension",
        ["data", "dimension", "method", "accuracy", "linked"],
        [row for data in (reuters(n), newsgroups(n), two_quests(4, n)) for row in _peers(data)],
        notes=f"{n:,} records; every record has the same number of components. Accuracy: "
        f"{NEIGHBOURS} nearest neighbours by cosine. Linked: share of 300 records that somebody "
        "who knows the method and all records, and no key, gives the right one of all. The map of "
        "a random projection or of a hash is public: whoever has the records computes it again. "
        "The signs of a sketch come from a key.",
        packages=("scikit-learn",),
        seed=SEED,
        quick=quick,
    )


def articles(quick: bool = False) -> None:
    """Try every setting of both models on all training articles of 20 Newsgroups."""
    with gzip.open(data_folder() / "text" / "20news_bydate.jsonl.gz", "rt") as file:
        entries = [json.loads(line) for line in file]
    kept = [entry for entry in entries if entry["split"] == "train" and entry["text"].strip()]
    kept = kept[::25] if quick else kept
    records = as_records([entry["text"] for entry in kept])
    assert records is not None
    topics = np.unique([entry["group"] for entry in kept], return_inverse=True)[1]
    settings: list[dict[str, Any]] = [{"delta": delta} for delta in TRIED["delta"]]
    for criterion in ("definition", "gap"):
        models = {"model": "k-variance", "delta": None, "criterion": criterion}
        settings += [{**models, "k": k} for k in TRIED["k"][::2] if k < len(kept) / 2]
    points = [_point(records, topics, setting) for setting in settings[:: 6 if quick else 1]]
    passing = [point for point in points if point["risk"] <= RISK]
    best = max(passing, key=lambda point: float(point["classes"]), default=None)
    named = (
        f"No setting has a risk of at most {RISK:.0%}."
        if best is None
        else f"Of the settings with a risk of at most {RISK:.0%}, {best['setting']} leaves the "
        f"most to learn: {best['classes']:.1%} of what the articles tell of the groups."
    )
    write_table(
        "sketch_articles",
        f"Every setting on {len(kept):,} news articles",
        ["setting", "suppressed", "components (median)", "groups learnt",
         "share of the articles' own", "neighbours found", "risk"],
        [list(point.values()) for point in points],
        notes=f"{len(kept):,} training articles of 20 Newsgroups that have words, read as tulle "
        "sketch reads them; at most 256 components, one key each. Groups learnt: accuracy of 25 "
        "neighbours on 500 articles kept apart, of twenty groups. Share of the articles' own: the "
        "same beyond the commonest group, over what the articles themselves tell "
        "(`classes_kept`). Risk: the best of four attacks (linkage and reconstruction, with nobody "
        "and with 20 people known) on all articles, beyond guessing; it goes up and down with the "
        f"draw. **{named}**",
        packages=("scikit-learn",),
        seed=SEED,
        quick=quick,
    )  # fmt: skip


def _point(records: SparseRecords, topics: Any, setting: dict[str, Any]) -> dict[str, Any]:
    """Sketch, mine and attack."""
    rng = np.random.default_rng(SEED)
    owner = Sketcher(**setting, key=SecretKey(b"\x05" * 32)).fit(records)
    sketches = owner.transform(records)
    seen = np.flatnonzero(~sketches.suppressed)
    X, shown = records.matrix[seen], sketches[seen]
    signs = signs_of(owner, SparseRecords(X, records.terms), shown.shape[1])
    attacks = attacks_of(shown, X, signs, rng)
    test = rng.permutation(len(seen)) < min(500, len(seen) // 3)
    miner = SketchKNeighborsClassifier(25).fit(shown[~test], topics[seen][~test])
    name = f"delta {setting['delta']:g}" if setting["delta"] else ""
    point = {
        "setting": name or f"k-variance, {setting['criterion']}, k = {setting['k']}",
        "suppressed": 1 - len(seen) / len(topics),
        "components": float(np.median(shown.lengths)),
        "learnt": float(np.mean(miner.predict(shown[test]) == topics[seen][test])),
        "classes": classes_kept(shown, X, topics[seen], rng),
        "neighbours": neighbour_recall(shown, X, rng),
        "risk": max(0.0, *(float(attack["risk"]) for attack in attacks.values())),
    }
    print(*point.values(), flush=True)
    return point


def _peers(data: Data) -> list[list[Any]]:
    """Compare three ways to the same dimension: what a miner learns, and who is found again."""
    from scipy.sparse import csr_array
    from sklearn.random_projection import SparseRandomProjection

    rng = np.random.default_rng(SEED)
    filled = np.flatnonzero(np.diff(data.X.indptr))
    X, y = data.X[filled], data.y[filled]
    train = rng.random(len(filled)) < 2 / 3
    rows = []
    for size in (16, 64, 256):
        projection = SparseRandomProjection(size, random_state=0, dense_output=True)
        places = rng.integers(0, size, X.shape[1])
        signs = csr_array(
            (rng.choice([-1.0, 1.0], X.shape[1]), (np.arange(X.shape[1]), places)),
            shape=(X.shape[1], size),
        )
        owner = Sketcher(delta=1e-9, max_components=size, key=SecretKey(b"\x05" * 32))
        sketches = owner.fit(X).transform(X)
        seen = ~sketches.suppressed
        made = {
            "sketches": sketches.values,
            "random projection": projection.fit_transform(X),
            "hashing": (X @ signs).toarray(),
        }
        for name, values in made.items():
            learn, test = np.flatnonzero(train & seen), np.flatnonzero(~train & seen)
            miner = KNeighborsClassifier(NEIGHBOURS, metric="cosine").fit(values[learn], y[learn])
            right = float(np.mean(miner.predict(values[test]) == y[test]))
            if name == "sketches":
                found = sketch_linkage(sketches, X, rng, attempts=300).rate
            else:
                found = _computed_again(values, rng)
            rows.append([data.name, size, name, right, found])
    return rows


def _computed_again(values: Any, rng: np.random.Generator) -> float:
    """Return how many of 300 rows are nearest to their own, if the public map is applied again."""
    asked = rng.choice(len(values), 300)
    far = (values**2).sum(axis=1) - 2 * values[asked] @ values.T
    return float(np.mean(far.argmin(axis=1) == asked))


def _frontier(data: Data, deltas: tuple[float, ...]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    filled = np.flatnonzero(np.diff(data.X.indptr))
    X, y = data.X[filled], data.y[filled]
    train = rng.random(len(filled)) < 2 / 3
    plain = KNeighborsClassifier(NEIGHBOURS, metric="cosine").fit(X[train], y[train])
    best = float(np.mean(plain.predict(X[~train]) == y[~train]))
    rows = []
    for delta in deltas:
        sketches = Sketcher(delta=delta, key=SecretKey(b"\x05" * 32)).fit(X).transform(X)
        seen = ~sketches.suppressed
        learn, test = np.flatnonzero(train & seen), np.flatnonzero(~train & seen)
        miner = SketchKNeighborsClassifier(NEIGHBOURS).fit(sketches[learn], y[learn])
        rows.append(
            {
                "data": data.name,
                "delta": delta,
                "suppressed": float(np.mean(~seen)),
                "components": float(np.median(sketches.lengths[seen])),
                "accuracy": float(np.mean(miner.predict(sketches[test]) == y[test])),
                "original": best,
                "neighbours": float(neighbour_recall(sketches, X, rng)),
                "nobody": sketch_linkage(sketches, X, rng, attempts=300).rate,
                "twenty": sketch_linkage(
                    sketches, X, rng, attempts=300,
                    known=rng.choice(np.flatnonzero(seen), 20, replace=False),
                ).rate,
            }
        )  # fmt: skip
    return rows


def _chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    lines = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X(
            "twenty:Q", title="linked by someone who knows 20 people", axis=alt.Axis(format="%")
        ),
        y=alt.Y("accuracy:Q", title="accuracy of a miner", axis=alt.Axis(format="%")),
        color=alt.Color("data:N", title=None),
        order="delta:Q",
    )
    names = lines.mark_text(dy=-8).encode(text=alt.Text("delta:Q"))
    return (lines.mark_line(point=True) + names).properties(
        width=460, height=320, title="Sketches: accuracy and attack over delta"
    )


if __name__ == "__main__":
    main("--quick" in sys.argv, "--articles" in sys.argv)
