"""``tulle demo``: a whole path on a real table that ships with scikit-learn."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tulle._commands.condense import condense
from tulle._files import atomic_write
from tulle._report.model import Verdict
from tulle.datasets import quest
from tulle.errors import ParameterError
from tulle.io.write import write_table
from tulle.rules.containers import as_baskets

K = 20


class Demonstrated(NamedTuple):
    """What the demo made, for people to look at."""

    summary: dict[str, Any]
    attacks: list[dict[str, Any]]
    files: dict[str, str]
    verdict: Verdict


def draw_baskets(
    target: str | os.PathLike[str], form: str, *, seed: int | None = None, force: bool = False
) -> dict[str, Any]:
    """Write baskets of the Quest generator, such as T10I4D1000, to a file of baskets."""
    from tulle._commands._baskets import put_baskets

    sizes = re.fullmatch(r"T(\d{1,4})\.?I(\d{1,4})\.?D(\d{1,7})(K?)", form, re.IGNORECASE)
    if sizes is None:
        raise ParameterError("must be written like T10I4D1000 or T10.I4.D100K", subject="--quest")
    records = int(sizes[3]) * (1000 if sizes[4] else 1)
    baskets = as_baskets(quest(int(sizes[1]), int(sizes[2]), records, random_state=seed))
    with atomic_write(target, force=force) as file:
        put_baskets(baskets, None, file, target)
    return {"baskets": baskets.n_filled, "items": len(baskets.items), "file": os.fspath(target)}


def demo(
    folder: str | os.PathLike[str] = "tulle-demo",
    *,
    seed: int | None = None,
    command: str = "",
    force: bool = False,
) -> Demonstrated:
    """Condense breast cancer data class by class, everybody into one release.

    Nobody stays apart as a control: of 569 people a fifth is too few to decide by, where releases
    of parts of them decide.
    """
    place = Path(folder)
    place.mkdir(exist_ok=True)
    source, release, report = (
        place / name for name in ("patients.csv", "release.parquet", "report.html")
    )
    write_table(breast_cancer(), source, force=force)
    made = condense(
        source,
        release,
        k=K,
        target="diagnosis",
        report=report,
        seed=seed,
        command=command,
        force=force,
    )
    found = made.audit.to_dict()
    summary = {**made.summary, "accuracy_ratio": found["metrics"]["accuracy_ratio"]}
    files = {
        "the patients (public data)": str(source),
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
