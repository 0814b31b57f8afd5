"""SynthEval's model benchmark (Lautrup et al., ACM Computing Surveys): small tables, its scorer.

``TULLE_DATA=folder python -m benchmarks.bench_syntheval [--quick] [--tables penguins]
[--k 10,20] [--seeds 0,1,2] [--options JSON] [--label NAME]``

The releases of synthpop, DataSynthesizer and CTGAN are the benchmark's own files (the best of three
by its score); all are judged in the same run, since measures that resample have changed since the
publication. Seven tables more, of ``TULLE_DATA/tables`` and of R, are judged in the same way beside
CART, synthpop's way, which makes its release on this machine. The judge runs in an environment with
SynthEval, made with uv under ``TULLE_PEERS``. What it said of a release is kept (in
``TULLE_JUDGED``, default: ``tulle-syntheval`` in the folder for temporary files), so that a run
that is stopped goes on; empty it when the library has changed. The benchmark's tables are the files
of its repository, ``data/*/NAME_{train,test,synthpop,...}.csv``, compressed into
``TULLE_DATA/yardsticks/syntheval``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.bench_frontier import ONE_THREAD, Kitchen, Table
from benchmarks.bench_tabsyn import environment
from benchmarks.judged_tables import (
    FROM_R,
    load,
    options,
    parted,
    ranged,
    released,
    say,
    warm,
    write_versions,
)
from benchmarks.results import as_table, data_folder

HERE = Path(__file__).parent
PEERS = ("synthpop", "datasynthesizer", "ctgan")
TARGETS = {  # of the others the last column
    "penguins": "species",
    "spect": "OVERALL_DIAGNOSIS",
    "titanic": "Survived",
}
FROM_R.update(birthwt=("MASS", "birthwt", "low"), hmda=("AER", "HMDA", "deny"))
MORE = {  # tables of other sources, small ones too, and what a model predicts
    "birthwt": "low",
    "ecoli": "class",
    "ionosphere": "class",
    "wdbc": "class",
    "german": "class",
    "hmda": "deny",
    "abalone": "sex",
}
CART = "CART leaf 5"
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
    "rank": "rank",
    "cpu": "CPU s",
}


def main(quick: bool = False) -> None:
    seeds, sizes = ((0,), (10,)) if quick else ((0, 1, 2), (10, 20))
    asked = options(tables=["penguins"] if quick else [*tables(), *MORE], seeds=seeds, k=sizes)
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
    for mean, some in (("**mean**", tables()), ("**mean of the others**", MORE)):
        several = {name: found[name] for name in some if name in found}
        if len(several) > 1:
            rows += [[mean, who, *over(several, who)] for who in next(iter(several.values()))]
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
        "better; rank: their sum, by which SynthEval ranks. Means over seeds with the smallest and "
        "the largest; means over tables are taken for each seed. Releases of the peers are files "
        "of schneiderkamplab/syntheval-model-benchmark-example on GitHub, each the best of three; "
        "of the other tables a release of CART (scikit-learn's trees, leaves of five) made here; "
        f"all scored here with SynthEval 1.7. {left_out(found)}\n\n{ranking(found)}",
        seed=asked.seeds[0],
    )


def tables() -> list[str]:
    paths = sorted(_folder().glob("*_train.csv.gz"), key=lambda path: path.stat().st_size)
    return [path.name.removesuffix("_train.csv.gz") for path in paths]


def _folder() -> Path:
    return data_folder() / "yardsticks" / "syntheval"


def measured(python: Path, name: str, asked: Any) -> dict[str, list[dict[str, float]]]:
    """Return the scores of each peer's release and of Tulle's, one of a seed each."""
    both = [_folder() / f"{name}_{part}.csv.gz" for part in ("train", "test")]
    if name in MORE:
        both = own_parts(name)
    training = pd.read_csv(both[0])
    target = MORE.get(name) or TARGETS.get(name, training.columns[-1])
    judge = partial(judged, python, name, both, target)
    found: dict[str, list[dict[str, float]]] = {}
    for peer in (CART,) if name in MORE else PEERS:
        path = (
            both[0].with_name(f"{CART}.csv")
            if name in MORE
            else _folder() / f"{name}_{peer}.csv.gz"
        )
        found[peer] = [judge(peer, lambda: (pd.read_csv(path), None))]  # noqa: B023
    for k in asked.k:
        for seed in asked.seeds:
            label = f"k{k} seed{seed} {json.dumps(asked.options)}"
            one = judge(label, lambda: released(training, k, seed, **asked.options))  # noqa: B023
            found.setdefault(f"Tulle, k = {k}", []).append(one)
    return found


def own_parts(name: str) -> list[Path]:
    """Write the parts of a table of another source, beside which CART puts its release."""
    kitchen = Kitchen(Path(environment("judge") or sys.exit("CART cannot be installed")).parents[2])
    frame, _ = load(name)
    members, strangers = (pl.from_pandas(part) for part in parted(frame, 0))
    table = Table(f"syntheval {name}", members, strangers, MORE[name])
    if problem := kitchen.ask(table, CART, "judge"):
        sys.exit(f"{name}: {problem}")
    return [kitchen.table(table) / f"{part}.csv" for part in ("members", "strangers")]


def judged(
    python: Path, name: str, both: list[Path], target: str, label: str, make: Any
) -> dict[str, float]:
    """Return the scores of one release, those of an earlier run if there are some."""
    folder = os.environ.get("TULLE_JUDGED", os.path.join(tempfile.gettempdir(), "tulle-syntheval"))
    kept = Path(folder) / name / f"{label}.json"
    if not kept.exists():
        made, cpu = make()
        with tempfile.TemporaryDirectory() as place:
            release, result = Path(place) / "release.csv", Path(place) / "result.json"
            made.to_csv(release, index=False)
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


def ranking(found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Return the place of each release by SynthEval's rank, table by table, and the mean place."""
    parts = []
    for some in (tables(), MORE):
        ranks = {
            name: {
                who: np.mean([one["rank"] for one in several]) for who, several in who_of.items()
            }
            for name, who_of in found.items()
            if name in some
        }
        if ranks:
            places = pd.DataFrame(ranks).rank(ascending=False).round().astype(int)
            rows = [[who, *row, f"{row.mean():.2f}"] for who, row in places.iterrows()]
            parts.append(as_table(["place by rank", *places, "mean place"], rows))
    return "\n\n".join(parts)


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
