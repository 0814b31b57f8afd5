"""``tulle demo``: a whole path on a real table that ships with scikit-learn."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import polars as pl

from tulle._commands._decision import Done
from tulle._commands.audit import attack_rows
from tulle._commands.condense import condense
from tulle._files import atomic_write
from tulle.datasets import quest
from tulle.errors import ParameterError
from tulle.io.write import write_table
from tulle.rules.containers import as_baskets

K = 20


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
) -> Done:
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
    assert made.audit is not None
    summary = {**made.summary, "accuracy_ratio": made.audit.result["metrics"]["accuracy_ratio"]}
    files = {
        "the patients (public data)": str(source),
        "the release": str(release),
        "how it was made": f"{release}.manifest.json",
        "what was lost, what leaks": str(report),
    }
    notes = [f"{what:28} {where}" for what, where in files.items()]
    return Done(summary, {"attacks": attack_rows(made.audit)}, notes, made.verdict, made.audit)


def breast_cancer() -> pl.DataFrame:
    """Load 569 tumours, 30 measures and the diagnosis."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    table = pl.DataFrame(data.data, schema=names)
    return table.with_columns(diagnosis=pl.Series(data.target_names[data.target]))
