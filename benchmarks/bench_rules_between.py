"""Rules between columns: found in tables, broken without them, kept with them, and the time."""

from __future__ import annotations

import time
import warnings

import numpy as np
import polars as pl

from benchmarks.results import data_folder, write_table
from benchmarks.wards import hospital
from tulle import Condenser, read_table
from tulle._relations.values import broken

TABLES = (
    "tables/adult_train.csv.gz",
    "nist/national2019.csv.gz",
    "microagg/census.csv.gz",
    "microagg/free1.csv.gz",
    "tables/wdbc.csv.gz",
    "tables/magic.csv.gz",
    "tables/abalone.csv.gz",
)
K = 20


def main(quick: bool = False) -> None:
    """Write how many released records break a rule that the table follows."""
    folder, some = data_folder(), TABLES[2:3] if quick else TABLES
    tables = {"hospital (made up)": hospital(1000 if quick else 4000)}
    tables |= {path.split("/")[1].split(".")[0]: read_table(folder / path) for path in some}
    _released(hospital(2000), [])  # compiled
    write_table(
        "rules_between",
        f"Rules between columns, k = {K}",
        [
            "table",
            "records",
            "columns",
            "rules found",
            "records that break one, without rules (%)",
            "with",
            "CPU s without rules",
            "with",
        ],
        [[name, *_row(table)] for name, table in tables.items()],
        notes=(
            "Rules as `Condenser` finds them by default, counted in a release that keeps none "
            "(`rules=[]`) and in one that keeps those it finds."
        ),
        packages=("numpy", "polars"),
        quick=quick,
    )


def _row(table: pl.DataFrame) -> list[object]:
    free, seconds = _released(table, [])
    kept, longer = _released(table, None)
    plan = kept._rule_plan
    shares = []
    for condenser in (free, kept):
        values = plan.values(condenser.sample())
        wrong = np.zeros(values.frame.height, dtype=bool)
        for one in plan.rules:
            wrong |= broken(one.rule, values)
        shares.append(round(100 * float(wrong.mean()), 2))
    return [table.height, table.width, len(plan.rules), *shares, seconds, longer]


def _released(table: pl.DataFrame, rules: list[str] | None) -> tuple[Condenser, float]:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        condenser = Condenser(k=K, rules=rules, random_state=0).fit(table)
        condenser.sample()
    return condenser, round(time.process_time() - start, 1)


if __name__ == "__main__":
    main()
