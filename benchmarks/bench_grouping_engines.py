"""Groupings: what a user waits for the compiler.

``python -m benchmarks.bench_grouping_engines [--quick]``. Times are
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

from benchmarks.results import write_table

HERE = Path(__file__).parents[1]
SHAPES = ((569, 30),)
SEED = 0


def grouped(matrix: np.ndarray, k: int) -> np.ndarray:
    from tulle.condense.groupings import group_records

    return group_records(matrix, np.full(len(matrix), k), np.random.default_rng(SEED))


def seconds_of(count: int, dimensions: int, cache: str) -> float:
    """CPU seconds of the first grouping of a process; importing NumPy is not counted."""
    code = (
        "from benchmarks.bench_grouping_engines import *; import tulle.condense.groupings; "
        "from benchmarks.groupings import mixture; from benchmarks.results import timed; "
        f"matrix = mixture({count}, {dimensions}); "
        f"print(json.dumps(timed(lambda: grouped(matrix, 10))[1]))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE
    )
    return float(json.loads(made.stdout))


def waits(quick: bool) -> list[list[Any]]:
    rows = []
    for count, dimensions in SHAPES[:1] if quick else SHAPES:
        with tempfile.TemporaryDirectory() as cache:
            waited = [seconds_of(count, dimensions, cache) for _ in ("cold", "warm")]
        rows.append([f"{count:,} x {dimensions}", *waited])
    return rows


def main(quick: bool) -> None:
    write_table(
        "grouping_engines",
        "Groupings: what a user waits for the compiler, in CPU seconds",
        ["records", "cold", "warm"],
        waits(quick),
        notes="The first `fast` grouping (k = 10) of a process: the cold one compiles, once after "
        "an installation; `tulle warm` does that ahead. Up to 3,000 records there was an engine in "
        "NumPy alone, which needed no compiler, 0.3 to 0.9 s for each grouping, and whose loss was "
        "1.3 % higher on average of eleven made-up tables (-0.4 to 4.4 %); since the trees of a "
        "release are compiled in any case, there is one engine.",
        packages=("numpy", "numba"),
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
