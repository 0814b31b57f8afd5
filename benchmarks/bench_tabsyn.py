"""The TabSyn benchmark (TabDDPM, TabSyn, TabDiff and later papers): Shape, Trend and a model.

``TULLE_DATA=folder python -m benchmarks.bench_tabsyn [--quick] [--tables magic] [--k 5,10,20]
[--seeds 0,1,2] [--options JSON] [--label NAME]``

The judge runs in an environment of its own with SDMetrics and XGBoost, made with uv under
``TULLE_PEERS`` as for the frontier; in the quick size, or if it cannot be made, it runs here with
scikit-learn's boosting and its own count of Shape and Trend.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.bench_frontier import ONE_THREAD, Kitchen
from benchmarks.judged_tables import options, ranged, released, say, warm, write_versions
from benchmarks.results import as_table, data_folder
from benchmarks.tabsyn_judge import columns_of, judge
from tulle import Column, Kind

HERE = Path(__file__).parent
TABLES = ("adult", "default", "shoppers", "magic", "beijing")  # those that TULLE_DATA has
SCORES = {
    "shape": "Shape, %",
    "trend": "Trend, %",
    "SDMetrics shape": "SDMetrics' Shape, %",
    "SDMetrics trend": "SDMetrics' Trend, %",
    "model": "model",
    "precision": "alpha-precision",
    "recall": "beta-recall",
    "c2st": "C2ST",
    "cpu": "CPU s",
}


def main(quick: bool = False) -> None:
    seeds, sizes = ((0,), (20,)) if quick else ((0, 1, 2), (5, 10, 20))
    asked = options(tables=("magic",) if quick else found_tables(), seeds=seeds, k=sizes)
    python = None if quick else environment("tabsyn")
    warm()
    rows = []
    for name in asked.tables:
        training, test, roles = load(name, 4000 if quick else None)
        kinds = declared(training, roles)
        for k in asked.k:
            found = []
            for seed in asked.seeds:
                made, cpu = released(training, k, seed, columns=kinds, **asked.options)
                found.append(judged(python, training, made, test, roles) | {"cpu": cpu})
                say(name, k, seed, found[-1])
            cells = [ranged([one[s] for one in found]) if s in found[0] else "" for s in SCORES]
            rows.append([name, k, *cells])
    write_versions(
        "tabsyn",
        "TabSyn benchmark: columns, pairs and a model trained on the release",
        ["table", "k", *SCORES.values()],
        rows,
        asked.label,
        quick,
        keys=2,
        notes="Shape and Trend: mean error of columns and pairs in per cent (less is better). "
        "Model: ROC AUC on the real test rows of gradient boosting trained on the release "
        f"({'XGBoost' if python else 'scikit-learn, so not comparable with published values'}, "
        "four settings of the benchmark's grid). Means over seeds with the smallest and the "
        "largest. A subsample of the training rows would score best of all: read it next to "
        "membership and DCR share. SDMetrics' Trend bins each table by its own range, as that of "
        "the published figures did; the other Trend takes the real table's bins for both.\n\n"
        + published(found_tables()),
        seed=asked.seeds[0],
    )


def found_tables() -> list[str]:
    return [name for name in TABLES if (_home(name) / f"{name}_train.csv.gz").exists()]


def _home(name: str) -> Path:
    return data_folder() / ("tables" if name == "adult" else "yardsticks/tabsyn")


def load(name: str, rows: int | None) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Return training and test part of the benchmark's own split, and the roles of columns."""
    folder = data_folder() / "yardsticks" / "tabsyn"
    training, test = (
        pd.read_csv(_home(name) / f"{name}_{part}.csv.gz", skipinitialspace=True)
        for part in ("train", "test")
    )
    if rows:
        training = training.sample(min(rows, len(training)), random_state=0).reset_index(drop=True)
    return training, test, json.loads((folder / "columns.json").read_text())[name]


def declared(training: pd.DataFrame, roles: dict[str, Any]) -> dict[str, Column]:
    """Return the categories of the benchmark as columns of Tulle."""
    return {name: Column(name, Kind.CATEGORY) for name in columns_of(training, roles)[1]}


def environment(name: str) -> Path | None:
    """Return the interpreter of the environment that a judge runs in."""
    folder = os.environ.get("TULLE_PEERS", os.path.join(tempfile.gettempdir(), "tulle-peers"))
    return Kitchen(Path(folder)).python(name)


def judged(
    python: Path | None,
    training: pd.DataFrame,
    made: pd.DataFrame,
    test: pd.DataFrame,
    roles: dict[str, Any],
) -> dict[str, float]:
    """Return the scores of a release, by the judge in its own environment if there is one."""
    if python is None:
        return judge(training, made, test, roles)
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / f"{part}.csv" for part in ("training", "release", "test")]
        for place, table in zip(places, (training, made, test)):
            table.to_csv(place, index=False)
        roles_file, result = Path(folder) / "roles.json", Path(folder) / "result.json"
        roles_file.write_text(json.dumps(roles))
        command = [python, HERE / "tabsyn_judge.py", *places, roles_file, result]
        subprocess.run(command, check=True, env=ONE_THREAD)
        return json.loads(result.read_text())


def published(tables: list[str]) -> str:
    """Return the figures of peers on some tables, with their source."""
    with open(HERE / "tabsyn_published.toml", "rb") as file:
        printed = tomllib.load(file)
    rows = []
    for name in tables:
        at = printed["tables"].index(name)
        peers = dict.fromkeys([*printed["model"], *printed["shape"]])
        for peer in peers:
            found = [printed[score].get(peer) for score in ("shape", "trend", "model")]
            cells = ["" if values is None else values[at] for values in found]
            rows.append([name, peer, *cells])
    table = as_table(["table", "peer", "Shape, %", "Trend, %", "model"], rows)
    return f"Published figures of peers ({printed['source']}):\n\n{table}"


if __name__ == "__main__":
    main("--quick" in sys.argv)
