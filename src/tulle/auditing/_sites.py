"""The attacks on site codes, on every column of a table, and what a report must say about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.result import AttackResult
from tulle._attacks.sites import frequency_matching, known_pairs, order_matching
from tulle._random import RandomState, as_generator
from tulle._types import Floats
from tulle.errors import DataError, nearest_name
from tulle.sites._columns import ValueType
from tulle.sites._values import as_number
from tulle.table._frames import to_polars

KNOWN_PAIRS = (1, 2, 5, 10)
WARNING = (
    "Codes hide names and scales from a reader, not frequencies and order from an adversary who "
    "knows the distribution of an attribute or a few of the people. Send them only to a miner "
    "who is bound by contract not to try."
)
_SERIOUS = 0.5  # rates from here on are said in strong words


def attack_tables(
    plain: Any,
    encoded: Any,
    public: Any = None,
    *,
    splits: Mapping[str, float] | None = None,
    random_state: RandomState = None,
) -> list[AttackResult]:
    """Run all attacks on every coded column of a table.

    ``plain``, ``encoded``: a table and its codes, row by row. ``public``: a table of the same
    attributes from elsewhere. Without it the attacker knows the exact distribution of the plain
    table: the worst case. ``splits``: columns whose frequent values were split, and at which share.
    """
    truth, seen = to_polars(plain), to_polars(encoded)
    known = truth if public is None else to_polars(public)
    rng = as_generator(random_state)
    results: list[AttackResult] = []
    truth, known = (_with_pairs(table, seen.columns) for table in (truth, known))
    for name in seen.columns:
        if name not in truth.columns or seen[name].equals(truth[name]):
            continue
        if name not in known.columns:
            raise DataError(
                f"the public table has no column '{name}': {nearest_name(name, known.columns)}"
            )
        if not (_any_left(seen[name]) and _any_left(known[name])):
            continue
        if seen[name].dtype.is_numeric():
            results += _attack_codes(seen[name], truth[name], known[name], rng)
        else:
            columns = (seen[name].to_list(), truth[name].to_list(), known[name].to_list())
            split = (splits or {}).get(name)
            results.append(frequency_matching(*columns, split=split, name=name))
    return results


def worst_of(results: Iterable[AttackResult]) -> dict[str, AttackResult]:
    """Return the most successful attack on each column, worst column first."""
    worst: dict[str, AttackResult] = {}
    for result in sorted(results, key=lambda result: -result.rate):
        worst.setdefault(result.name.partition(":")[2], result)
    return worst


def warnings_of(results: Iterable[AttackResult]) -> list[str]:
    """Say in plain words which attacks worked, worst column first."""
    lines = []
    for column, result in worst_of(results).items():
        if result.failed:
            continue
        strength = "most" if result.rate >= _SERIOUS else "some"
        lines.append(
            f"{column}: {strength} values are recovered by {_means(result)} "
            f"({result.rate:.0%} of records; guessing {result.baseline:.0%})."
        )
    return [*lines, WARNING] if lines else []


def _means(result: AttackResult) -> str:
    """Describe how the attacker did it, in words that need no explanation."""
    known = result.details.get("known pairs")
    if known is not None:
        return f"someone who knows {known} of the people"
    return result.name.partition(":")[0].replace("_", " ")


def _attack_codes(
    codes: pl.Series, values: pl.Series, public: pl.Series, rng: np.random.Generator
) -> list[AttackResult]:
    x, y, sample = (_numbers(series) for series in (codes, values, public))
    if np.isnan(sample).all() or np.isnan(y).all():
        return []
    ends = (float(np.nanmin(sample)), float(np.nanmax(sample)))
    found = [
        known_pairs(x, y, known, public_range=ends, random_state=rng, name=codes.name)
        for known in KNOWN_PAIRS
    ]
    return [*found, order_matching(x, y, sample, name=codes.name)]


def _with_pairs(table: pl.DataFrame, coded: Sequence[str]) -> pl.DataFrame:
    """Return the table with a column for each pair that was coded together as ``first+second``."""
    names = table.columns
    pairs = [(f, s) for f in names for s in names if f != s and f"{f}+{s}" in coded]
    return table.with_columns(
        pl.struct(pl.col(pair).cast(pl.String)).struct.json_encode().alias("+".join(pair))
        for pair in pairs
    )


def _any_left(series: pl.Series) -> bool:
    there = series.fill_nan(None) if series.dtype.is_float() else series
    return bool(there.null_count() < len(there))


def _numbers(series: pl.Series) -> Floats:
    if series.dtype == pl.String:
        return np.array([_number(text) for text in series.to_list()], dtype=np.float64)
    numbers = series.to_physical() if series.dtype.is_temporal() else series
    return np.asarray(numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy())


def _number(text: str | None) -> float:
    """Convert a number or moment stored as text; NaN for anything else."""
    if text is None:
        return float("nan")
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        return float(as_number(text, ValueType.TIMESTAMP))
    return float("nan")
