"""Groups of similar people against random groups of the same sizes: do the groups do anything?

``TULLE_DATA=folder python -m benchmarks.bench_groups_matter [--quick] [--tables german] [--k 10]
[--seeds 0,1] [--options JSON] [--label NAME]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.bench_recipe import measured
from benchmarks.judged_tables import TWELVE, means, options, say, warm, write_versions
from tulle.condense import groupings

MOST = 8000
MEASURES = {"apart": "told apart", "tv": "three-way TV", "model": "model loses"}
MEASURES |= {"membership": "membership"}


@contextmanager
def random_groups(seed: int) -> Iterator[mock.Mock]:
    """Deal the places in the groups anew among people of the same level."""
    rng = np.random.default_rng(seed)
    really = groupings.group_records

    def dealt(matrix: Any, levels: Any, *rest: Any, **more: Any) -> Any:
        groups = really(matrix, levels, *rest, **more).copy()
        for level in np.unique(levels):
            same = np.flatnonzero(np.asarray(levels) == level)
            groups[same] = groups[rng.permutation(same)]
        return groups

    with mock.patch.object(groupings, "group_records", side_effect=dealt) as patched:
        yield patched


def main(quick: bool = False) -> None:
    asked = options(
        tables=("anes", "german", "gss") if quick else TWELVE, seeds=(0,) if quick else (0, 1)
    )
    most = asked.rows or (1500 if quick else MOST)
    warm()
    rows = []
    found: dict[str, list[dict[str, float]]] = {"real": [], "random": []}
    for name in asked.tables:
        for seed in asked.seeds:
            work = (name, asked.k[0], seed, most, asked.options)
            found["real"].append(measured(*work))
            with random_groups(seed) as patched:
                found["random"].append(measured(*work))
            assert patched.called, "no groups were formed: nothing was compared"
        last = {how: means(some[-len(asked.seeds) :]) for how, some in found.items()}
        rows.append([name, *(f"{last[how][m]:.4f}" for m in MEASURES for how in found)])
        say(*rows[-1])
    apart = {m: [b[m] - a[m] for a, b in zip(found["real"], found["random"])] for m in MEASURES}
    mean = {how: means(some) for how, some in found.items()}
    rows.append(["**mean**", *(f"{mean[how][m]:.4f}" for m in MEASURES for how in found)])
    write_versions(
        "groups_matter",
        "Groups of similar people, and random groups of the same sizes",
        ["table", *(f"{words}, {how}" for words in MEASURES.values() for how in found)],
        rows,
        asked.label,
        quick,
        notes=f"The default release at k = {asked.k[0]}, judged as in recipe.md; for the random "
        "ones the places in the groups are dealt by lot before the model sees them. Random less "
        "real, paired over tables and seeds (standard error): "
        + "; ".join(f"{MEASURES[m]} {np.mean(d):+.4f} ({_error(d):.4f})" for m, d in apart.items())
        + f". Seeds {asked.seeds}.",
        seed=asked.seeds[0],
    )


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


if __name__ == "__main__":
    main("--quick" in sys.argv)
