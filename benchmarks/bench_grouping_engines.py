"""Groupings: what a user waits for the compiler, and what each of the two engines loses.

``python -m benchmarks.bench_grouping_engines [--quick]``; CENSUS needs ``TULLE_DATA``. Times are
those of the first grouping of a fresh process, with an empty cache (cold) and a full one (warm).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.groupings import loss, mixture, numeric, standardised
from benchmarks.results import timed, write_table

HERE = Path(__file__).parents[1]
SHAPES = ((150, 4), (569, 30), (3_000, 10), (32_000, 10))
ENGINES = {"NumPy": 10**9, "compiled": 0}  # records up to which NumPy is taken
SEED = 0


def credits() -> np.ndarray:
    """A thousand applicants for credit, made up: whole numbers, categories and amounts."""
    rng = np.random.default_rng(SEED)
    amounts = rng.lognormal(size=(1_000, 3))
    whole = rng.integers(1, 5, size=(1_000, 6)).astype(float)
    categories = [np.eye(4)[rng.choice(4, size=1_000, p=[0.5, 0.3, 0.15, 0.05])] for _ in range(4)]
    return standardised(np.hstack([amounts, whole, *categories]))


def tables() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_breast_cancer, load_wine

    found = {
        "wine, 178 x 13": standardised(load_wine().data),
        "breast cancer, 569 x 30": standardised(load_breast_cancer().data),
        "made-up credits, 1,000 x 25": credits(),
        "mixture, 3,000 x 10": mixture(3_000, 10),
    }
    if "TULLE_DATA" in os.environ:
        found["CENSUS, 1,080 x 13"] = numeric("microagg/census")
    return found


def grouped(matrix: np.ndarray, k: int, engine: str) -> np.ndarray:
    from tulle.condense.groupings import _fast, group_records

    _fast.SMALL = ENGINES[engine]
    return group_records(matrix, np.full(len(matrix), k), np.random.default_rng(SEED))


def seconds_of(count: int, dimensions: int, engine: str, cache: str) -> float:
    """CPU seconds of the first grouping of a process; importing NumPy is not counted."""
    code = (
        "from benchmarks.bench_grouping_engines import *; import tulle.condense.groupings; "
        f"matrix = mixture({count}, {dimensions}); "
        f"print(json.dumps(timed(lambda: grouped(matrix, 10, {engine!r}))[1]))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE
    )
    return float(json.loads(made.stdout))


def waits(quick: bool) -> list[list[Any]]:
    rows = []
    for count, dimensions in SHAPES[:1] if quick else SHAPES:
        row: list[Any] = [f"{count:,} x {dimensions}"]
        for engine in ENGINES:
            with tempfile.TemporaryDirectory() as cache:
                row += [seconds_of(count, dimensions, engine, cache) for _ in ("cold", "warm")]
        rows.append(row)
    return rows


def losses(quick: bool) -> list[list[Any]]:
    rows = []
    for name, matrix in list(tables().items())[: 1 if quick else None]:
        for k in (3, 5, 10):
            row: list[Any] = [name, k]
            for engine in ENGINES:
                groups, seconds = timed(lambda m=matrix, k=k, e=engine: grouped(m, k, e))
                row += [loss(matrix, groups), seconds]
            rows.append([*row, row[4] / row[2]])
    return rows


def main(quick: bool) -> None:
    write_table(
        "grouping_engines",
        "Groupings: what a user waits for each engine, in CPU seconds",
        ["records", "NumPy, cold", "NumPy, warm", "compiled, cold", "compiled, warm"],
        waits(quick),
        notes="The first `fast` grouping (k = 10) of a process: the cold one compiles. Target: up "
        "to 1,000 x 10 no compiler at all and 0.6 s for the whole command; no command waits more "
        "than 10 s for a compiler. Decision: both stay. Compiled kernels alone would make the user "
        "of a small table wait for a compiler and lose 1 to 7 % more (grouping_engines_loss.md; "
        "CENSUS at k = 3 would miss its target of 0.90 times MDAV), NumPy alone would take forty "
        "times as long at 32,000 records.",
        packages=("numpy", "numba"),
        seed=SEED,
        quick=quick,
    )
    grouped(mixture(3_000, 4), 5, "compiled")  # compiles
    write_table(
        "grouping_engines_loss",
        "Groupings: information loss of each engine on small tables",
        ["table", "k", "NumPy, loss %", "CPU s", "compiled, loss %", "CPU s ", "compiled / NumPy"],
        losses(quick),
        notes="Loss is 100 SSE / SST on standardised columns; kernels compiled before. Decision: "
        "see grouping_engines.md.",
        packages=("numpy", "numba", "scikit-learn"),
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
