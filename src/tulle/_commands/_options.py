"""The options of ``tulle condense``: what they are, and which do not go together."""

from __future__ import annotations

from typing import Any

import polars as pl

from tulle._checks import check_choice, check_int
from tulle._commands._columns import column_of
from tulle._commands._sources import check_names, sources_read
from tulle._types import FilePath
from tulle.condense._classes import are_quantity
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.io._formats import format_of
from tulle.releases import check_target
from tulle.table._inference import is_class as names_classes
from tulle.table.schema import Column, Role

DEFAULTS: dict[str, Any] = {
    "k": None,
    "grouping": "fast",
    "time": None,
    "min_group": None,
    "synthesis": "uniform",
    "exact_moments": False,
    "small_classes": "error",
    "on_infeasible": "error",
    "seed": None,
}
_SMALL_CLASSES = ("error", "suppress", "pool")


def check_files(
    source: FilePath,
    output: FilePath,
    policy: FilePath | None,
    report: FilePath | None,
    control: FilePath | None,
    force: bool,
) -> None:
    """Refuses names that cannot be written, or are one file, before any work is done."""
    if control is not None and report is None:
        raise ParameterError("--control is for the audit: name a --report too")
    format_of(output)
    check_target(output, sources=sources_read(source, policy, control), force=force)
    others = {"INPUT": sources_read(source)[0], "--policy": policy, "--control": control}
    check_names(output=output, report=report, others=others, force=force)


def refuse_unused(
    table: pl.DataFrame, columns: list[Column], wanted: dict[str, Any], given: dict[str, Any]
) -> None:
    """Refuses options that would change nothing, and group sizes that contradict each other."""
    target = column_of(columns, Role.TARGET)
    by_class = target is not None and is_class(target, table)
    check_choice("condense", "small_classes", wanted["small_classes"], _SMALL_CLASSES)
    if given.get("small_classes") is not None and not by_class:
        raise ParameterError("--small-classes needs classes: name their column with --target")
    if given.get("time") is not None and wanted["grouping"] != "best":
        raise ParameterError("--time is the budget of --grouping best: ask for that too")
    k, least = (check_number("condense", name, wanted[name], 2) for name in ("k", "min_group"))
    levels = column_of(columns, Role.LEVEL)
    if levels is not None and not (k is None and least is None):
        raise ParameterError(
            f"the levels in column '{levels.name}' take the place of --k and --min-group: leave "
            "these out, or give the column the role 'ignored'"
        )
    if k is not None and least is not None and k < least:
        raise ParameterError(f"--k {k} is smaller than --min-group {least}: leave one of them out")


def check_number(command: str, name: str, value: Any, least: int) -> int | None:
    """A number that was asked for, or None; a low one is told by the name of its option."""
    if isinstance(value, int) and value < least:
        option = "--" + name.replace("_", "-")
        raise ParameterError(f"{option} {value} is too small: it must be at least {least}")
    return None if value is None else check_int(command, name, value, least)


def is_class(column: Column, table: pl.DataFrame) -> bool:
    """Whether a target names classes; a quantity is condensed with the other columns."""
    return names_classes(table[column.name], column.kind)


# What cannot be condensed, in the words of the options and with the names of the columns. The
# library refuses the same, in the words of its parameters.


def check_classes(table: pl.DataFrame, target: Column) -> None:
    """Refuses a column of classes that are missing in some records, or are no classes."""
    values = table[target.name]
    missing = values.null_count()
    if values.dtype.is_float():
        missing += int(values.is_nan().sum())
    if missing:
        raise DataError(
            f"the target '{target.name}' is missing in {missing:,} of {len(values):,} records: "
            "every record needs a class. Leave those records out, give them a class of their own "
            "(such as 'unknown'), or name another --target"
        )
    if are_quantity(values.n_unique(), len(values)):
        raise DataError(
            f"the target '{target.name}' has {values.n_unique():,} different values in "
            f"{len(values):,} records: they are no classes. Name another --target, or none"
        )


def check_feasible(table: pl.DataFrame, columns: list[Column], wanted: dict[str, Any]) -> None:
    """Refuses groups that the table, or one of its classes, is too small for."""
    target, levels = column_of(columns, Role.TARGET), column_of(columns, Role.LEVEL)
    classes = target if target is not None and is_class(target, table) else None
    if classes is not None:
        check_classes(table, classes)
    if levels is not None:
        if wanted["on_infeasible"] == "error" and classes is None:
            _refuse_levels(table[levels.name])
        return
    size = wanted["k"] or wanted["min_group"] or 10
    option = "--min-group" if wanted["k"] is None and (classes or wanted["min_group"]) else "--k"
    if classes is not None:
        if wanted["small_classes"] == "error":
            _refuse_small_classes(table[classes.name], size, option)
    elif size > table.height:
        raise PrivacyError(
            f"the table has {table.height:,} records, too few for a group of {size}: ask for "
            f"smaller groups with {option}, or add records"
        )


def _refuse_levels(levels: pl.Series) -> None:
    if not levels.dtype.is_integer():
        return  # the library says what levels are
    too_high = int((levels > len(levels)).sum())
    if too_high:
        raise PrivacyError(
            f"the levels in column '{levels.name}' ask for groups of more than the "
            f"{len(levels):,} records that there are, in {too_high:,} of them: lower these levels, "
            "add records, or withhold those who ask with --on-infeasible suppress"
        )


def _refuse_small_classes(labels: pl.Series, size: int, option: str) -> None:
    """Counts only: the name of a class with few members is a fact about them."""
    counts = labels.value_counts(name="records")["records"]
    small = int((counts < size).sum())
    if small:
        raise PrivacyError(
            f"{small:,} of {len(counts):,} classes of the target '{labels.name}' have fewer than "
            f"{size} records, the size of a group: ask for smaller groups with {option}, "
            "withhold them with --small-classes suppress, or condense them together with "
            "--small-classes pool"
        )
