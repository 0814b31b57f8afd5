"""Speed of sketches: construction against SparseRandomProjection, the neighbour graph against
sparse-dot-topn (if it is installed), and growth with entries and records.

``python -m benchmarks.bench_sketch [--quick]``
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.sparse import vstack
from sklearn.random_projection import SparseRandomProjection

from benchmarks.results import save_chart, timed, write_table
from tests.reference.sketch_neighbours import by_scipy
from tulle import SecretKey, Sketcher, quest
from tulle.sketch._neighbours import _squares, nearest
from tulle.sketch.sketcher import build, number_points

SEED = 1
KEY = SecretKey(b"\x03" * 32)


def main(quick: bool) -> None:
    n = 4_000 if quick else 200_000
    baskets = two_quests(20, n)
    Sketcher("k-variance", k=2, key=KEY).fit(baskets[:2000]).transform(baskets[:2000])
    construction(baskets, quick)
    graph(baskets, quick)
    growth(quick)


def two_quests(T: int, n: int) -> Any:
    parts = [quest(T=T, I=4, D=n // 2, random_state=seed) for seed in (1, 2)]
    return vstack(parts, format="csr").astype(np.float32)


def construction(X: Any, quick: bool) -> None:
    n, points = X.shape[0], number_points(KEY, np.arange(X.shape[1]))
    rows = []
    for r in (1, 10, 100):
        lengths = np.full(n, r)
        build(X, points, lengths, KEY)  # compiled before it is timed
        _, ours = best_of(lambda lengths=lengths: build(X, points, lengths, KEY))
        peer = SparseRandomProjection(r, random_state=SEED).fit(X)
        _, theirs = best_of(lambda peer=peer: peer.transform(X))
        rows.append([r, ours, theirs, theirs / ours, n / ours])
    write_table(
        "sketch_construction",
        f"Construction of sketches, {n:,} baskets of C20.I4 (CPU s)",
        ["components", "tulle", "SparseRandomProjection.transform", "ratio", "records a second"],
        rows,
        notes="Signs of the key are computed inside our time; scikit-learn's matrix was drawn "
        "before, in fit. Its projection is sparse (density 1/sqrt(items)), ours has a sign for "
        "every item. Best of 3.",
        seed=SEED,
        quick=quick,
    )


def graph(X: Any, quick: bool) -> None:
    n, k = X.shape[0], 10
    rng = np.random.default_rng(SEED)
    ours, exact = timed(lambda: nearest(X, k, "exact", rng))
    near, partition = timed(lambda: nearest(X, k, "partition", rng))
    found = np.mean([np.isin(a, b).mean() for a, b in zip(near.neighbours, ours.neighbours)])
    sample = min(n, 2_000)
    rows = [
        ["tulle, exact", exact, exact, 1.0],
        ["tulle, partition", partition, partition, float(found)],
    ]
    blocks = _scipy_seconds(X, k, sample)
    rows.append([f"scipy blocks ({sample:,} queries, scaled)", blocks, blocks, 1.0])
    theirs = _topn_seconds(X, k, sample)
    if theirs is not None:
        rows.append([f"sparse-dot-topn ({sample:,} queries, scaled)", theirs, theirs, 1.0])
    write_table(
        "sketch_graph",
        f"{k} nearest neighbours of {n:,} baskets of C20.I4, cosine (CPU s)",
        ["method", "CPU s", "ratio to tulle, exact", "recall"],
        [[name, seconds, seconds / exact, recall] for name, seconds, _, recall in rows],
        notes="One thread each.",
        packages=("numpy", "numba", "scipy", "sparse-dot-topn"),
        seed=SEED,
        quick=quick,
    )


def _scipy_seconds(X: Any, k: int, sample: int) -> float:
    inverse = (1 / np.sqrt(_squares(X))).astype(np.float32)
    _, seconds = timed(lambda: by_scipy(X[:sample], inverse[:sample], k))
    # every query meets all records, not only the sample
    return seconds * (X.shape[0] / sample) ** 2


def _topn_seconds(X: Any, k: int, sample: int) -> float | None:
    try:
        from sparse_dot_topn import sp_matmul_topn
    except ImportError:
        return None
    from scipy.sparse import csr_matrix, diags

    unit = csr_matrix(diags(1 / np.sqrt(_squares(X))) @ X)
    turned = unit.T.tocsr()
    sp_matmul_topn(unit[:10], turned, top_n=k + 1, n_threads=1)
    _, seconds = timed(lambda: sp_matmul_topn(unit[:sample], turned, top_n=k + 1, n_threads=1))
    return seconds * X.shape[0] / sample


def growth(quick: bool) -> None:
    import altair as alt

    rows = []
    sizes = (2_000, 4_000) if quick else (200_000, 400_000, 600_000, 800_000, 1_000_000)
    million = two_quests(20, sizes[-1])
    million = million[np.random.default_rng(SEED).permutation(million.shape[0])]
    for n in sizes:
        rows.append(["records", n, *both_models(million[:n])])
    del million
    for T in (10, 20, 30, 40):
        rows.append(["entries a record", T, *both_models(two_quests(T, sizes[0]))])
    write_table(
        "sketch_growth",
        "Time against records and against entries (CPU s)",
        ["grows", "size", "delta 0.5", "k-variance, k = 10, partition"],
        rows,
        notes=f"Quest baskets (T20.I4 in two classes); entries with {sizes[0]:,} records.",
        seed=SEED,
        quick=quick,
    )
    panels = []
    for what in ("records", "entries a record"):
        values = [
            {"size": r[1], "CPU s": r[place], "model": model}
            for r in rows
            if r[0] == what
            for place, model in ((2, "delta"), (3, "k-variance"))
        ]
        panels.append(
            alt.Chart(alt.Data(values=values))
            .mark_line(point=True)
            .encode(x=alt.X("size:Q", title=what), y="CPU s:Q", color="model:N")
            .properties(width=260, height=200)
        )
    save_chart("sketch_growth", alt.hconcat(*panels), quick=quick)


def both_models(X: Any) -> list[float]:
    seconds = []
    for parameters in ({"delta": 0.5}, {"model": "k-variance", "k": 10, "graph": "partition"}):
        sketcher = Sketcher(key=KEY, **parameters).fit(X[:100])
        seconds.append(timed(lambda sketcher=sketcher: sketcher.transform(X))[1])
    return seconds


def best_of(work: Any, times: int = 3) -> tuple[Any, float]:
    runs = [timed(work) for _ in range(times)]
    return runs[0][0], min(seconds for _, seconds in runs)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
