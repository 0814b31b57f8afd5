"""The options of ``tulle condense``: what they are, and which do not go together."""

from __future__ import annotations

from typing import Any

import polars as pl

from tulle.checks import check_choice, check_int
from tulle.condense.classes import few_enough
from tulle.errors import ParameterError
from tulle.releases import check_target
from tulle.tables.formats import format_of
from tulle.tables.schema import Column, Kind, Role
from tulle.workflows.sources import Path, check_names, sources_read
from tulle.workflows.table_policy import column_of

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
    source: Path,
    output: Path,
    policy: Path | None,
    report: Path | None,
    control: Path | None,
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
    if column.kind is Kind.INTEGER:
        known = table[column.name].drop_nulls()
        return few_enough(known.n_unique(), len(known))
    return column.kind in (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT)
