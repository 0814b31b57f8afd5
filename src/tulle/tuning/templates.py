"""The condenser that a search is given: whether it will do, and what it knows of the columns."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import ParameterError
from tulle.tables.schema import Column


def check_condenser(template: Any) -> None:
    """Refuses what has no group size to search, or no release."""
    wanted = ("fit", "sample", "get_params")
    if not all(hasattr(template, name) for name in wanted) or "k" not in template.get_params():
        raise ParameterError(
            f"GroupSizeSearch: 'estimator' must be a condenser with fit, sample and k, "
            f"not {type(template).__name__}"
        )


def columns_of(template: Any) -> Any:
    """What the condenser knows of the columns."""
    inner = getattr(template, "condenser", template)
    return getattr(inner, "columns", None)


def with_columns(template: Any, columns: list[Column]) -> Any:
    """The condenser, which then knows the column that holds the levels."""
    if columns == list(columns_of(template) or []):
        return template
    if not isinstance(template, ClassCondenser):
        return clone(template).set_params(columns=columns)
    inner = Condenser() if template.condenser is None else clone(template.condenser)
    return clone(template).set_params(condenser=inner.set_params(columns=columns))
