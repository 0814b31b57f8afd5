"""The charts of a report: rows of aggregates in, an Altair chart out.

The page carries whatever is plotted, so rows must be aggregates; the makers here only draw. The
same function serves the report, a notebook and a web page: text and lines take the colour of
their surroundings (``currentColor``), so that light, dark and print need no second chart.
"""

from __future__ import annotations

from typing import Any

from tulle._charts import results, sizes, tables
from tulle._charts.style import Rows, in_house_style
from tulle._checks import check_choice
from tulle.errors import ParameterError

FIELDS: dict[str, tuple[str, ...]] = {
    "histogram": ("label", "original", "release", "count"),
    "density": ("x", "y", "of", "share", "count"),
    "correlation": ("first", "second", "original", "release"),
    "attacks": ("label", "rate", "low", "high", "control", "baseline", "risk"),
    "groups": ("size", "level", "groups", "count"),
    "curve": ("size", "accuracy", "privacy", "chosen"),
    "class_curve": ("class", "size", "accuracy"),
    "before_after": ("name", "measure", "before", "after", "limit"),
    "error": ("name", "predicted", "measured"),
}
_MAKERS = {
    "histogram": tables.histogram,
    "density": tables.density,
    "correlation": tables.correlation,
    "attacks": results.attacks,
    "groups": results.groups,
    "curve": sizes.curve,
    "class_curve": sizes.class_curve,
    "before_after": results.before_after,
    "error": results.error,
}


def chart(kind: str, rows: Rows, *, title: str = "") -> Any:
    """An Altair chart of one of the kinds that :mod:`tulle._report` lists."""
    check_choice("chart", "kind", kind, FIELDS)
    for field in FIELDS[kind]:
        if any(field not in row for row in rows):
            raise ParameterError(f"A row of the chart '{kind}' lacks the field '{field}'.")
    drawn = _MAKERS[kind](list(rows))
    return in_house_style(drawn.properties(title=title) if title else drawn)


def spec(kind: str, rows: Rows) -> dict[str, Any]:
    """The same chart as a Vega-Lite dictionary."""
    # the shape of a kind does not depend on its rows, so the tests check it once for all
    described: dict[str, Any] = chart(kind, rows).to_dict(validate=False)
    return described
