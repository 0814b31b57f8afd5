"""Streams: what the search of this checkout takes, next to other checkouts and without an index.

``python -m benchmarks.bench_stream_engines [--quick] [--against NAME=FOLDER ...]``: each folder is
another checkout, measured by the same code in a process of its own with an empty cache. The KDD
Cup part needs ``TULLE_DATA``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.results import timed, write_table

HERE = Path(__file__).parents[1]


def measure(quick: bool) -> dict[str, Any]:
    """Compile, then run each stream; called in the process of one checkout."""
    import numpy as np

    from benchmarks.bench_stream import FIRST, SEED, kdd, mixture, run_with_waiting, started

    small = mixture(1_000, 3, np.random.default_rng(SEED))
    levels = np.full(len(small), 18)
    engine = started(small, levels)
    found: dict[str, Any] = {}
    _, found["cold start, CPU s"] = timed(lambda: run_with_waiting(engine, small, levels))
    count = 20_000 if quick else 1_000_000
    streams = {}
    for dimensions in (3, 10):
        rng = np.random.default_rng(SEED)
        records = mixture(count, dimensions, rng)
        streams[f"d = {dimensions}"] = records, rng.integers(16, 21, size=count)
    if "TULLE_DATA" in os.environ and not quick:
        _, records, levels = kdd()[0]
        streams["KDD Cup 99, d = 36"] = records[:150_000], levels[:150_000]
    for name, (records, levels) in streams.items():
        engine = started(records, levels)
        seconds = run_with_waiting(engine, records[FIRST:], levels[FIRST:])
        found[f"{name}, groups"] = len(engine.groups)
        found[f"{name}, records/s"] = round((len(records) - FIRST) / seconds)
    return found


def measured(folder: Path, quick: bool) -> dict[str, Any]:
    """Measure a checkout in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        paths = os.pathsep.join([str(folder / "src"), str(HERE)])
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": paths}
        code = f"from benchmarks.bench_stream_engines import *; print(json.dumps(measure({quick})))"
        command = [sys.executable, "-c", code]
        made = subprocess.run(
            command, cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE
        )
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def main(quick: bool) -> None:
    others = [argument.split("=", 1) for argument in sys.argv if "=" in argument]
    checkouts = {"this checkout": HERE} | {name: Path(folder) for name, folder in others}
    columns = {name: measured(folder, quick) for name, folder in checkouts.items()}
    rows = [
        [key, *(column.get(key, "") for column in columns.values())]
        for key in next(iter(columns.values()))
    ]
    write_table(
        "stream_engines",
        "Streams: plain numba next to hand-written LLVM",
        ["", *columns],
        rows,
        notes="Mixture of 20 Gaussians, levels uniform on 16..20, exact nearest admissible group, "
        "the same groups in every column; one thread, CPU seconds. Target at d = 10 and 40,000 "
        "groups: 80,000 records/s. Decision: plain numba, because it keeps the targets with room "
        "to spare and anybody can change it.",
        packages=("numpy", "numba"),
        seed=0,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
