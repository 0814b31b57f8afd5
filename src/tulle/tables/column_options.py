"""What the user said of columns, by name: policy entries, weights, public bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tulle.checks import check_real
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.tables.frames import Columns
from tulle.tables.schema import WEIGHTS, Column


def by_name(
    columns: Sequence[Column] | Mapping[str, Column] | None, cells: Columns
) -> dict[str, Column]:
    if columns is None:
        return {}
    listed = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
    known: dict[str, Column] = {}
    for column in listed:
        _known_name(column.name, cells, "the policy")
        if column.name in known:
            raise DataError(f"the policy names column '{column.name}' twice")
        known[column.name] = column
    return known


def weights_of(
    weights: Mapping[str, float] | Sequence[float] | NDArray[Any] | None,
    known: Mapping[str, Column],
    names: list[str],
) -> dict[str, float]:
    chosen = {name: known[name].weight if name in known else 1.0 for name in names}
    if weights is None:
        given: dict[str, float] = {}
    elif isinstance(weights, Mapping):
        given = {str(name): weight for name, weight in weights.items()}
    else:
        if len(weights) != len(names):
            raise ParameterError(
                f"'weights' has {len(weights)} entries, the table {len(names)} columns"
            )
        given = dict(zip(names, weights))
    for name in given:
        _known_name(name, names, "'weights'")
    every = (chosen | given).items()
    return {name: check_real("TableEncoder", "weights", weight, *WEIGHTS) for name, weight in every}


def bounds_of(
    bounds: Mapping[str, tuple[float, float]] | None,
    known: Mapping[str, Column],
    cells: Columns,
) -> dict[str, tuple[float, float]]:
    chosen = {name: column.bounds for name, column in known.items() if column.bounds is not None}
    for name, pair in (bounds or {}).items():
        _known_name(name, cells, "'bounds'")
        chosen[name] = pair
    for name, (low, high) in chosen.items():
        if not low <= high:
            raise ParameterError(f"the bounds of column '{name}' are in the wrong order")
    return chosen


def _known_name(name: str, names: Columns | list[str], owner: str) -> None:
    if name not in names:
        raise DataError(
            f"{owner} names column '{name}', which is not in the table: {nearest_name(name, names)}"
        )
