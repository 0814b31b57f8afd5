"""Stop every command that writes at random moments: is anything half written, or wrong?

``python -m benchmarks.bench_kills [--quick]``: SIGKILL and SIGINT, about 1,000 times in all (quick:
two for each command).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_stream_kills import records, write_file
from benchmarks.results import write_table
from tests.reference.killing import run_and_kill
from tests.reference.stopping import run_and_stop

SEED = 0


def stream(folder: Path, kills: int) -> dict[str, Any]:
    """Kill a stream again and again; its groups must be those of one that is left alone."""
    source = folder / "in.ndjson"
    write_file(source, records(6_000))
    run_and_kill(folder / "whole", str(source), 0, every=2_000)
    told = run_and_kill(folder / "killed", str(source), kills, every=2_000)
    problems = [] if told["status"] == 0 else ["the command does not run any more"]
    with np.load(folder / "whole" / "state") as one, np.load(folder / "killed" / "state") as two:
        names = set(one.files) - {"header.json"}
        if not all(np.array_equal(one[name], two[name]) for name in names):
            problems.append("groups differ")
    return {
        "command": "stream",
        "killed": told["kills"],
        "interrupted": 0,
        "ended_before": told["ended"],
        "problems": problems,
    }


def main(quick: bool) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = run_and_stop(folder, 0.02 if quick else 1, seed=SEED)
        rows.append(stream(folder, 4 if quick else 60))
    total = {
        name: sum(row[name] for row in rows) for name in ("killed", "interrupted", "ended_before")
    }
    rows.append(
        {"command": "**all**", **total, "problems": [p for r in rows for p in r["problems"]]}
    )
    write_table(
        "kills",
        "Commands stopped at random moments",
        ["command", "SIGKILL", "SIGINT", "ended before the signal", "problems"],
        [
            [row["command"], row["killed"], row["interrupted"], row["ended_before"]]
            + ["; ".join(sorted(set(row["problems"]))) or 0]
            for row in rows
        ],
        notes="Each run replaces the output of the run before it, with one of two seeds in turn. "
        "After each signal every release must be the old one or the new one, byte by byte, and "
        "match its manifest; every other file must be whole; nothing else may have appeared; an "
        "interrupted command must end with exit code 130 and without a traceback. After the last "
        "signal the command runs undisturbed and must leave its files and nothing else. A killed "
        "stream must end with the groups of one that was left alone, bit by bit.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
