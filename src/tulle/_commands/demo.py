"""``tulle demo``: a whole path on a real table that ships with scikit-learn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._commands.condense import condense
from tulle.io.write import write_table

K = 20


class Demonstrated(NamedTuple):
    """What the demo made, for people to look at."""

    summary: dict[str, Any]
    attacks: list[dict[str, Any]]
    files: dict[str, str]


def demo(
    folder: str | os.PathLike[str] = "tulle-demo",
    *,
    seed: int | None = None,
    command: str = "",
    force: bool = False,
) -> Demonstrated:
    """Condense 80 % of the breast cancer data class by class; 20 % are held out as the control."""
    place = Path(folder)
    place.mkdir(exist_ok=True)
    table = breast_cancer()
    rows = np.random.default_rng(0).permutation(table.height)
    cut = table.height // 5
    people, strangers = table[rows[cut:].tolist()], table[rows[:cut].tolist()]

    source, control = place / "patients.csv", place / "control.csv"
    release, report = place / "release.parquet", place / "report.html"
    write_table(people, source, force=force)
    write_table(strangers, control, force=force)
    made = condense(
        source,
        release,
        k=K,
        target="diagnosis",
        report=report,
        control=control,
        seed=seed,
        command=command,
        force=force,
    )
    assert made.audit is not None
    found = made.audit.to_dict()
    summary = {**made.summary, "accuracy_ratio": found["metrics"]["accuracy_ratio"]}
    files = {
        "the patients (public data)": str(source),
        "the release": str(release),
        "how it was made": f"{release}.manifest.json",
        "what was lost, what leaks": str(report),
    }
    return Demonstrated(summary, _attack_rows(found["attacks"]), files)


def breast_cancer() -> pl.DataFrame:
    """Load 569 tumours, 30 measures and the diagnosis."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    table = pl.DataFrame(data.data, schema=names)
    return table.with_columns(diagnosis=pl.Series(data.target_names[data.target]))


def _attack_rows(attacks: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    shown = ("rate", "low", "high", "baseline", "control", "risk")
    return [{"attack": name} | {key: row[key] for key in shown} for name, row in attacks.items()]
