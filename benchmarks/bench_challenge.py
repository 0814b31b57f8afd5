"""``tulle challenge``: what shadow attackers achieve against releases of a table, by their time.

``TULLE_DATA=folder python -m benchmarks.bench_challenge [--quick]``

Next to each curve stand the attack on membership of an audit, which learns from one release only,
and what the same four attackers achieve where who was in has been shuffled.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.results import data_folder, write_table
from tulle import Condenser
from tulle._attacks.membership import membership
from tulle._attacks.result import Scene
from tulle._commands.challenge import challenge
from tulle.auditing._tables import align

SEED = 0
TABLES = {"german_symbolic": 1000}
QUICK = {"german_symbolic": 600}


def main(quick: bool = False) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, size in (QUICK if quick else TABLES).items():
            table = pl.read_csv(data_folder() / "tables" / f"{name}.csv.gz", null_values="?")
            table = table.sample(min(size, table.height), seed=SEED, shuffle=True)
            file = Path(folder) / f"{name}.csv"
            table.write_csv(file)
            for k in (10,) if quick else (10, 20):
                found = challenge(
                    file, Path(folder) / f"{name}-{k}", seconds=1e9, rounds=24 if quick else 48,
                    seed=SEED, k=k,
                )  # fmt: skip
                audit = f"{audited(table, k):.3f}"
                for step in found.steps if not quick else found.steps[::2]:
                    rows.append(
                        [
                            f"{name}, {size // 2:,} in each",
                            k,
                            step.releases,
                            f"{step.seconds:.1f}",
                            f"{step.area:.3f} [{step.low:.3f}, {step.high:.3f}]",
                            f"{step.control:.3f}",
                            f"{step.named:.1%}",
                            audit,
                        ]
                    )
    write_table(
        "challenge",
        "Shadow attackers against their time",
        ["table", "k", "releases", "CPU s", "AUC of the best", "shuffled", "named at 1 %"]
        + ["AUC of an audit's membership"],
        rows,
        notes="AUC: how often a release with a person is ranked above one without, the mean over "
        "100 targets, half of them outliers, with its 95 % interval by targets; 0.5 is chance. "
        "Shuffled: the best of the same four attackers where who was in was shuffled. The audit "
        "attacks one release of half of the people next to the other half.",
        seed=SEED,
        quick=quick,
    )


def audited(table: pl.DataFrame, k: int) -> float:
    """Return the area of an audit's attack on membership."""
    half = table.height // 2
    release = Condenser(k, random_state=SEED).fit_resample(table[:half])
    tables = align(table[:half], release, table[half:], None)
    assert tables.control is not None
    rng = np.random.default_rng(SEED)
    found = membership(Scene(tables.original, tables.release, tables.control), rng)
    return float(found.details["membership_auc"])


if __name__ == "__main__":
    main("--quick" in sys.argv)
