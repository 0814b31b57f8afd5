"""``tulle demo``: a whole path on a real table that ships with scikit-learn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tulle._commands.condense import condense
from tulle._report.model import Verdict
from tulle.io.write import write_table
from tulle.table.split import split

K = 20


class Demonstrated(NamedTuple):
    """What the demo made, for people to look at."""

    summary: dict[str, Any]
    attacks: list[dict[str, Any]]
    files: dict[str, str]
    verdict: Verdict


def demo(
    folder: str | os.PathLike[str] = "tulle-demo",
    *,
    seed: int | None = None,
    command: str = "",
    force: bool = False,
) -> Demonstrated:
    """Condense breast cancer data class by class; a fifth of the people stay apart as the control.

    With 569 people a tenth would be too few to decide anything.
    """
    place = Path(folder)
    place.mkdir(exist_ok=True)
    people, strangers = split(breast_cancer(), 0.2, target="diagnosis", random_state=0)

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
    found = made.audit.to_dict()
    summary = {**made.summary, "accuracy_ratio": found["metrics"]["accuracy_ratio"]}
    files = {
        "the patients (public data)": str(source),
        "patients kept apart": str(control),
        "the release": str(release),
        "how it was made": f"{release}.manifest.json",
        "what was lost, what leaks": str(report),
    }
    return Demonstrated(summary, _attack_rows(found["attacks"]), files, made.audit.verdict)


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
