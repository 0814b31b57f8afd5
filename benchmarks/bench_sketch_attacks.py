"""Attacks on sketches at every setting, with and without the repairs of k-variance.

``python -m benchmarks.bench_sketch_attacks [--quick]``; 20 Newsgroups come from TULLE_DATA.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.results import write_table
from benchmarks.sketch_data import KEY, SEED, Data, newsgroups, two_quests
from tests.reference.sketch_printed import printed_lengths
from tulle import Sketcher, Sketches
from tulle._attacks.sketches import (
    signs_guessed,
    signs_learnt,
    sketch_linkage,
    sketch_reconstruction,
)
from tulle.sketch._neighbours import nearest
from tulle.sketch.sketcher import build, limits_of, number_points, pairs_of

DELTAS = (0.1, 0.2, 0.5, 1.0, 4.0)
KS = (2, 5, 10, 50)
UNLIMITED = 1024  # stands for the paper's infinity
REPAIRS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("as printed", {}),
    ("pairs in both directions", {"both_directions": True}),
    ("and own cap", {"both_directions": True, "own_cap": True}),
)


def main(quick: bool) -> None:
    n = 600 if quick else 2_000
    rows = [
        [data.name, name, *attacked(data.X, sketches, quick)]
        for data in (two_quests(4, n), filled(newsgroups(n + 50), n))
        for name, sketches in releases(data.X, quick)
    ]
    write_table(
        "sketch_attacks",
        "Sketches: what intruders get",
        ["data", "release", "components (median / 95 % / max)", "linkage, nobody known",
         "linkage, 20 people known", "entries, with the key", "entries, no key",
         "entries, signs from 20 people", "entries of the longest 1 %, key", "entries, guessing"],
        rows,
        notes=f"{n:,} records of each. Linkage: share of sketches given to the right one of all "
        f"records (guessing: {1 / n:.2%}), 300 tried. Entries: share found by sparse "
        "reconstruction, of 100 records. 'As printed' is the paper's k-variance with at most "
        f"{UNLIMITED:,} components; its repairs are added one by one. All others are what "
        "`Sketcher` makes, with at most 256 components.",
        seed=SEED,
        quick=quick,
    )  # fmt: skip


def filled(data: Data, n: int) -> Data:
    """The first records that are not empty."""
    rows = np.flatnonzero(np.diff(data.X.indptr) > 0)[:n]
    return Data(data.name, data.X[rows], data.y[rows])


def releases(X: Any, quick: bool) -> Iterator[tuple[str, Sketches]]:
    """Releases with and without protection, and with and without the repairs."""

    def of(**parameters: Any) -> Sketches:
        return Sketcher(key=KEY, **parameters).fit(X).transform(X)

    yield "256 components for all", of(delta=1e-6)
    for delta in DELTAS[1:3] if quick else DELTAS:
        yield f"delta {delta}", of(delta=delta)
    for criterion in ("definition", "gap"):
        yield from unrepaired(X, criterion)
        for k in KS[2:3] if quick else KS:
            repaired = of(model="k-variance", k=k, criterion=criterion)
            yield f"k-variance, {criterion}, k = {k}", repaired
        floor = of(model="k-variance", criterion=criterion, delta=0.5)
        yield f"k-variance, {criterion}, k = 10, and delta 0.5", floor


def unrepaired(X: Any, criterion: str) -> Iterator[tuple[str, Sketches]]:
    graph = nearest(X, 10, "exact", np.random.default_rng(0))
    order = np.argsort(graph.similarities[:, -1], kind="stable")
    limits = limits_of(pairs_of(X, graph, criterion))
    points = number_points(KEY, np.arange(X.shape[1]))
    for words, repairs in REPAIRS:
        lengths = printed_lengths(graph.neighbours, limits, order, UNLIMITED, passes=4, **repairs)
        values = build(X, points, lengths, KEY)
        yield f"k-variance, {criterion}, k = 10, {words}", Sketches(values, lengths)


def attacked(X: Any, sketches: Sketches, quick: bool) -> list[str]:
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
    longest = np.argsort(-sketches.lengths, kind="stable")[: max(5, X.shape[0] // 100)]
    worst = sketch_reconstruction(sketches[longest], X[longest], signs, rng)
    rates = [f"{result.rate:.1%}" for result in (*found, worst)]
    spread = [str(int(np.quantile(sketches.lengths, q))) for q in (0.5, 0.95, 1)]
    return [" / ".join(spread), *rates, f"{found[2].baseline:.1%}"]


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
