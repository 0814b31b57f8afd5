"""SynthEval's model benchmark (Lautrup et al., ACM Computing Surveys): small tables, its scorer.

``TULLE_DATA=folder python -m benchmarks.bench_syntheval [--quick] [--tables penguins]
[--k 10,20] [--seeds 0,1,2] [--options JSON] [--label NAME]``

The releases of synthpop, DataSynthesizer and CTGAN are the benchmark's own files (the best of three
by its score); all are judged in the same run, since measures that resample have changed since the
publication. The judge runs in an environment with SynthEval, made with uv under ``TULLE_PEERS``.
What it said of a release is kept (in ``TULLE_JUDGED``, default: ``tulle-syntheval`` in the folder
for temporary files), so that a run that is stopped goes on; empty it when the library has changed.
Tables are the files of that repository, ``data/*/NAME_{train,test,synthpop,...}.csv``, compressed
into ``TULLE_DATA/yardsticks/syntheval``.
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
import pandas as pd

from benchmarks.bench_frontier import ONE_THREAD
from benchmarks.bench_tabsyn import environment
from benchmarks.judged_tables import options, ranged, released, say, warm, write_versions
from benchmarks.results import data_folder

HERE = Path(__file__).parent
PEERS = ("synthpop", "datasynthesizer", "ctgan")
TARGETS = {  # of the others the last column
    "penguins": "species",
    "spect": "OVERALL_DIAGNOSIS",
    "titanic": "Survived",
}
SCORES = {
    "ks_tvd_stat": "columns",
    "corr_mat_diff": "correlations",
    "avg_pMSE": "pMSE",
    "nnaa": "NNAA",
    "avg_F1_diff_hout": "F1 on strangers",
    "priv_loss_nnaa": "privacy loss (NNAA)",
    "hit_rate": "hitting rate",
    "eps_identif_risk": "epsilon risk",
    "mia_recall": "membership recall",
    "usefulness": "usefulness",
    "privacy": "privacy",
    "cpu": "CPU s",
}


def main(quick: bool = False) -> None:
    seeds, sizes = ((0,), (10,)) if quick else ((0, 1, 2), (10, 20))
    asked = options(tables=["penguins"] if quick else tables(), seeds=seeds, k=sizes)
    python = environment("syntheval")
    if python is None:
        sys.exit("SynthEval cannot be installed: give TULLE_PEERS a folder that has it")
    warm()
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in asked.tables:
        found[name] = measured(python, name, asked)
    rows = [
        [name, who, *(cell(one, score) for score in SCORES)]
        for name, releases in found.items()
        for who, one in releases.items()
    ]
    if len(found) > 1:
        rows += [["**mean**", who, *over(found, who)] for who in next(iter(found.values()))]
    write_versions(
        "syntheval",
        "SynthEval: small tables by its own package",
        ["table", "release", *SCORES.values()],
        rows,
        asked.label,
        quick,
        keys=2,
        notes="Columns, correlations, pMSE, the losses, rates and risks: less is better; NNAA: 0.5 "
        "is best; F1 on strangers: gained (lost: below zero) by models trained on the release; "
        "usefulness and privacy: means of SynthEval's own normalised measures (10 and 6), more is "
        "better. Means over seeds with the smallest and the largest; means over tables are "
        "taken for each seed. Releases of the peers are files of "
        "schneiderkamplab/syntheval-model-benchmark-example on GitHub, each the best of three; "
        "scored here with SynthEval 1.7. " + left_out(found),
        seed=asked.seeds[0],
    )


def tables() -> list[str]:
    paths = sorted(_folder().glob("*_train.csv.gz"), key=lambda path: path.stat().st_size)
    return [path.name.removesuffix("_train.csv.gz") for path in paths]


def _folder() -> Path:
    return data_folder() / "yardsticks" / "syntheval"


def measured(python: Path, name: str, asked: Any) -> dict[str, list[dict[str, float]]]:
    """Return the scores of each peer's file and of Tulle's releases, one of a seed each."""
    training = pd.read_csv(_folder() / f"{name}_train.csv.gz")
    found: dict[str, list[dict[str, float]]] = {}
    for peer in PEERS:
        path = _folder() / f"{name}_{peer}.csv.gz"
        found[peer] = [judged(python, name, training, peer, lambda: (pd.read_csv(path), None))]  # noqa: B023
    for k in asked.k:
        for seed in asked.seeds:
            label = f"k{k} seed{seed} {json.dumps(asked.options)}"
            one = judged(
                python, name, training, label,
                lambda: released(training, k, seed, **asked.options),  # noqa: B023
            )  # fmt: skip
            found.setdefault(f"Tulle, k = {k}", []).append(one)
    return found


def judged(
    python: Path, name: str, training: pd.DataFrame, label: str, make: Any
) -> dict[str, float]:
    """Return the scores of one release, those of an earlier run if there are some."""
    folder = os.environ.get("TULLE_JUDGED", os.path.join(tempfile.gettempdir(), "tulle-syntheval"))
    kept = Path(folder) / name / f"{label}.json"
    if not kept.exists():
        made, cpu = make()
        with tempfile.TemporaryDirectory() as place:
            release, result = Path(place) / "release.csv", Path(place) / "result.json"
            made.to_csv(release, index=False)
            both = [_folder() / f"{name}_{part}.csv.gz" for part in ("train", "test")]
            target = TARGETS.get(name, training.columns[-1])
            subprocess.run(  # in the folder: SynthEval leaves files where it runs
                [python, HERE / "syntheval_judge.py", *both, target, result, release],
                check=True, env=ONE_THREAD, cwd=place,
            )  # fmt: skip
            (scores,) = json.loads(result.read_text())
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(scores if cpu is None else scores | {"cpu": cpu}))
        say(name, label, round(scores["usefulness"], 3), round(scores["privacy"], 3))
    return json.loads(kept.read_text())


def cell(one: list[dict[str, float]], score: str) -> str:
    values = [scores[score] for scores in one if score in scores]
    return ranged(values) if values else ""


def over(found: dict[str, dict[str, list[dict[str, float]]]], who: str) -> list[str]:
    """Return the cells of the mean over tables, of each seed."""
    cells = []
    for score in SCORES:
        tables = [
            [one[score] for one in releases[who] if score in one] for releases in found.values()
        ]
        cells.append(ranged(np.mean(tables, axis=0).tolist()) if all(tables) else "")
    return cells


def left_out(found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Say which releases have missing values where the table has none."""
    told = [
        f"{name}, {who}: {', '.join(str(int(scores['left out'])) for scores in one)}"
        for name, releases in found.items()
        for who, one in releases.items()
        if any(scores["left out"] for scores in one)
    ]
    if not told:
        return "No release has missing values where the table has none."
    return f"Rows with missing values where the table has none were left out ({'; '.join(told)})."


if __name__ == "__main__":
    main("--quick" in sys.argv)
