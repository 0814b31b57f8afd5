"""Groupings: from records and their levels to the group of each record.

Every method is a function ``(matrix, levels, rng) -> group of each row``, on columns that are
already standardised and weighted, so that methods can be compared.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tulle._checks import check_choice
from tulle._threads import linear_algebra_on_one
from tulle._types import Floats, Ints
from tulle.condense._levels import check_people, feasible
from tulle.condense.groupings._repair import without_gaps

# method -> the module that defines a function of that name
_HOMES = {
    "levels": "_papers",
    "mdav": "_papers",
    "modified": "_papers",
    "original": "_papers",
    "fast": "_fast",
    "best": "_fast",
}


def group_records(
    matrix: Floats,
    levels: Ints,
    rng: np.random.Generator,
    *,
    method: str = "fast",
    time_budget: float | None = None,
) -> Ints:
    """Return the group of each row (0, 1, ... without gaps), valid for every record's level.

    Methods see the records about their mean: far from zero, products of coordinates would cancel
    the distances, and what counts as rounding would hide what is gained.
    """
    check_choice("group_records", "method", method, _HOMES)
    if len(levels) == 0:
        return np.zeros(0, dtype=np.int64)
    feasible(levels, "error", "level")
    options = {"time_budget": time_budget} if method == "best" else {}
    home = import_module(f"tulle.condense.groupings.{_HOMES[method]}")
    with linear_algebra_on_one:
        groups: Ints = getattr(home, method)(matrix - matrix.mean(axis=0), levels, rng, **options)
    groups = without_gaps(groups)
    check_people(groups, levels)
    return groups
