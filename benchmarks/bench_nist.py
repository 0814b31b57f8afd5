"""NIST's national2019 at several k and seeds, by the measures of NIST's benchmark, no policy.

``TULLE_DATA=folder TULLE_NIST_SCORE=program python -m benchmarks.bench_nist [--quick] [--k 10,20]
[--seeds 0,1,2] [--label NAME]``

The program is one that scores releases of the ACS excerpts as NIST does. What others sent to NIST
is scored by the same program in the frontier's table (``frontier_nist_score.md``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bench_frontier import ONE_THREAD, Table, read, tulle
from benchmarks.bench_tabsyn import environment
from benchmarks.judged_tables import options, ranged, say, write_versions
from benchmarks.results import data_folder

TARGETS = {"k_marginal": "at least 920", "pmse": "at most 0.004", "broken": "0"}
SCORES = {
    "k_marginal": "k-marginal",
    "pmse": "pMSE",
    "auc": "told apart",
    "unique_matches": "unique matches, %",
    "unique_matches_control": "of the control, %",
    "broken": "most broken rule",
}


def main(quick: bool = False) -> None:
    asked = options(seeds=(0,) if quick else (0, 1, 2), k=(20,) if quick else (10, 20))
    program, python = os.environ.get("TULLE_NIST_SCORE"), environment("judge")
    if not program or not python:
        print("no program that scores as NIST does: set TULLE_NIST_SCORE")
        return
    nist = data_folder() / "nist"
    members, control = (read(nist / f"national{year}.csv.gz") for year in (2019, 2018))
    if quick:
        members = members.sample(3000, seed=0)
    table = Table("national2019", members, control, None)
    rows = []
    for k in asked.k:
        found = []
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "members.csv"
            members.write_csv(target)
            command = [python, program, "--target", target]
            command += ["--control", nist / "national2018.csv.gz"]
            for seed in asked.seeds:
                release = Path(folder) / f"{k}_{seed}.csv"
                tulle(table, k, seed).write_csv(release)
                run = subprocess.run(
                    [*command, release], check=True, capture_output=True, text=True, env=ONE_THREAD
                )
                found.append(json.loads(run.stdout))
                found[-1]["broken"] = max(found[-1]["broken"].values())
                say(k, seed, {score: found[-1][score] for score in SCORES})
        rows.append([k, *(ranged([float(one[score]) for one in found]) for score in SCORES)])
    write_versions(
        "nist",
        "NIST's national2019 by the measures of its benchmark",
        ["k", *SCORES.values()],
        [*rows, ["target, k = 20", *(TARGETS.get(score, "") for score in SCORES)]],
        asked.label,
        quick,
        notes="k-marginal of 1000; pMSE and AUC of a classifier that tells the release from the "
        "original; unique matches in per cent, beside those of another year; broken rules as a "
        "share of rows. Releases of all 24 columns, no policy written; means over seeds with the "
        "smallest and the largest. The same measures of what others sent to NIST: "
        "[frontier_nist_score](frontier_nist_score.md).",
        seed=asked.seeds[0],
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
