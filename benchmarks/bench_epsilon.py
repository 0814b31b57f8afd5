"""Condensation with a formal guarantee, tried: what is left of its use, next to MST.

``TULLE_DATA=folder TULLE_PEERS=folder python -m benchmarks.bench_epsilon [--quick]``

``TULLE_PEERS`` holds an environment ``dpmm`` with the package of that name, which brings OpenDP;
releases are kept there, in the folder ``epsilon``. What cannot be made is left out.
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
import polars as pl

from benchmarks.results import data_folder, write_table
from tulle import Condenser, read_table
from tulle._attacks.membership import membership
from tulle._attacks.result import Scene
from tulle._metrics.cells import differences, sets_of
from tulle._metrics.models import propensity
from tulle.auditing._fitness import celled
from tulle.auditing._tables import Aligned, align

SEED = 0
TARGET = "class"
PATIENCE = 2_400  # seconds for one release
#: What the documentation of the census says a number can be.
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
DEPTHS = {"moments": (0, 3, 6), "mixture": (0, 6)}


def main(quick: bool = False) -> None:
    folder = data_folder() / "tables"
    members, strangers = (read_table(folder / f"adult_{part}.csv.gz") for part in ("train", "test"))
    if quick:
        members, strangers = members[:3_000], strangers[:2_000]
    made = Condenser(20, random_state=SEED).fit_resample(members)
    rows = [
        ["other people", "-", "-", *judged(members, strangers, strangers)],
        ["Tulle, k = 20", "none", "-", *judged(members, made, strangers)],
    ]
    for name, epsilon, groups, release in _private(members, strangers, quick):
        rows.append([name, f"{epsilon}", groups, *judged(members, release, strangers)])
        print(rows[-1], flush=True)
    write_table(
        "epsilon",
        "Adult: condensation with differential privacy, as tried",
        ["method", "epsilon", "groups", "told apart (AUC)", "total variation of 3 columns"]
        + ["model trained on it (AUC)", "membership (AUC)"],
        rows,
        notes="Delta is 1e-5; bounds and categories are taken as public. Moments: each group's "
        "noisy mean and covariance, with the columns' noisy distributions. Mixture: noisy counts "
        "of each column in each group. Groups do not depend on the data but through noisy counts. "
        "The number of groups is not chosen privately: all that were tried are shown. Other "
        "people: half of those who are not in the table. What took too long has no row.",
        packages=("numpy", "scikit-learn"),
        seed=SEED,
        quick=quick,
    )


def _private(members: pl.DataFrame, strangers: pl.DataFrame, quick: bool) -> Any:
    """Make the releases in dpmm's environment; yield name, epsilon, groups and release."""
    peers = Path(os.environ.get("TULLE_PEERS", Path(tempfile.gettempdir()) / "tulle-peers"))
    python = peers / "dpmm" / "bin" / "python"
    if not python.exists():
        print(f"no environment {python}: install dpmm there")
        return
    place = peers / ("epsilon-quick" if quick else "epsilon")
    place.mkdir(exist_ok=True)
    members.write_csv(place / "members.csv")
    everybody = pl.concat([members, strangers])
    domain = {
        name: {"bounds": BOUNDS[name]}
        if name in BOUNDS
        else sorted(everybody[name].cast(pl.String).unique().to_list())
        for name in members.columns
    }
    (place / "domain.json").write_text(json.dumps(domain))
    asked: list[tuple[str, int | None]] = [
        (name, depth) for name, depths in DEPTHS.items() for depth in depths[: 1 if quick else None]
    ]
    for epsilon in (1, 10):
        for name, depth in [*asked, *([] if quick else [("MST", None)])]:
            release = _made(python, place, name, epsilon, depth)
            if release is not None:
                groups = "-" if depth is None else f"{2**depth}"
                title = name if depth is None else f"condensation, {name}"
                yield title, epsilon, groups, release.select(members.columns)


def _made(
    python: Path, place: Path, name: str, epsilon: int, depth: int | None
) -> pl.DataFrame | None:
    path = place / f"{name}-{epsilon}{'' if depth is None else f'-{depth}'}.csv"
    if not path.exists():
        script = Path(__file__).with_name("epsilon_releases.py")
        command = [python, script, name, f"{epsilon}", "members.csv", path.name, "domain.json"]
        command += [] if depth is None else [f"{depth}"]
        try:
            subprocess.run(command, cwd=place, timeout=PATIENCE, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(f"{name}, epsilon {epsilon}: {type(error).__name__}")
            return None
    return read_table(path)


def judged(members: pl.DataFrame, release: pl.DataFrame, strangers: pl.DataFrame) -> list[str]:
    """Return what the release is worth, and what it tells of members."""
    half = strangers.height // 2
    outside = strangers[half:] if release is strangers else strangers
    release = strangers[:half] if release is strangers else release
    tables = align(members, release, outside, None)
    assert tables.control is not None
    rng = np.random.default_rng(SEED)
    cells = celled(tables)
    sets = sets_of(len(cells.names), 3, 60, rng)
    apart = differences(cells.original, cells.release, cells.sizes, sets).mean() / 2
    told = propensity(_matrix(tables, 0), _matrix(tables, 1), rng, most=2_000).auc
    found = membership(Scene(tables.original, tables.release, tables.control), rng).details
    figures = (told, apart, _trained(tables), found["membership_auc"])
    return [f"{figure:.3f}" for figure in figures]


def _matrix(tables: Aligned, place: int, without: str | None = None) -> np.ndarray:
    """Return a table as numbers: categories by their codes."""
    records = tables.present[place]
    kept = [at for at, name in enumerate(records.code_names) if name != without]
    return np.hstack([records.numbers, records.codes[:, kept]]).astype(float)


def _trained(tables: Aligned) -> float:
    """Return how well a model that was trained on the release ranks strangers."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    release, strangers = (
        (_matrix(tables, place, TARGET), tables.frames[place][TARGET].to_numpy())
        for place in (1, 2)
    )
    model = HistGradientBoostingClassifier(random_state=SEED).fit(*release)
    return float(roc_auc_score(strangers[1], model.predict_proba(strangers[0])[:, -1]))


if __name__ == "__main__":
    main("--quick" in sys.argv)
