"""What cannot be condensed, in the words of the options and with the names of the columns.

The library refuses the same, in the words of its parameters.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tulle.condense.classes import are_quantity
from tulle.errors import DataError, PrivacyError
from tulle.tables.schema import Column, Role
from tulle.workflows.condense_options import is_class
from tulle.workflows.table_policy import column_of


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
