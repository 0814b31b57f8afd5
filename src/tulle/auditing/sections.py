"""Sections of a report that an audit makes, and those that a workflow can add to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from tulle.auditing.alignment import Aligned
from tulle.auditing.pictures import correlations, density, histogram
from tulle.metrics.groups import group_facts, group_rows

_MOST_CHARTS = 40  # columns with a chart of their own; the table has them all


def column_section(
    tables: Aligned, distances: Mapping[str, Mapping[str, Any]], k: int
) -> dict[str, Any]:
    """Every column: its distance, and a chart behind it; the worst first."""
    worst = sorted(distances, key=lambda name: -distances[name]["distance"])
    table = {
        "type": "table",
        "title": "Distance: Wasserstein in standard deviations for numbers, total variation for "
        "categories; 0 is perfect.",
        "columns": ["column", "kind", "distance", "missing, original", "missing, release"],
        "rows": [
            [
                name,
                tables.kinds[name].value,
                distances[name]["distance"],
                distances[name]["missing_original"],
                distances[name]["missing_release"],
            ]
            for name in worst
        ],
    }
    charts = [
        {
            "type": "chart",
            "chart": "histogram",
            "title": f"{name}: original and release",
            "folded": f"{name} (distance {distances[name]['distance']:.3g})",
            "help": f"Share of records; bars of fewer than {k} originals are left out.",
            "rows": histogram(tables, name, k),
        }
        for name in worst[:_MOST_CHARTS]
    ]
    text = "How far the distribution of each column moved. Open a column for its chart."
    return {"id": "columns", "title": "Columns", "text": text, "blocks": [table, *charts]}


def range_section(distances: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """How much of each range survives: extremes belong to single people, so not for the public."""
    rows = [[name, row["range"]] for name, row in distances.items() if row["range"] is not None]
    if not rows:
        return None
    return {
        "id": "ranges",
        "title": "Ranges",
        "text": "The share of the original's range that the release spans. A full span tells the "
        "extremes, which belong to single people; a small one cuts the tails.",
        "owner_only": True,
        "blocks": [{"type": "table", "columns": ["column", "span"], "rows": rows}],
    }


def structure_section(tables: Aligned, k: int) -> dict[str, Any]:
    """Principal axes and correlations."""
    blocks = []
    cells = density(tables, k)
    if cells:
        blocks.append(
            {
                "type": "chart",
                "chart": "density",
                "title": "The first two principal axes of the original",
                "help": f"Each dot is a cell of at least {k} records; its size is their share.",
                "rows": cells,
            }
        )
    if len(tables.columns) > 1:
        blocks.append(
            {
                "type": "chart",
                "chart": "correlation",
                "title": "Association of columns",
                "help": "Correlation of numbers, Cramer's V of categories, correlation ratio "
                "between the two.",
                "rows": correlations(tables),
            }
        )
    text = "How the columns go together, in the original and in the release."
    return {"id": "structure", "title": "Structure", "text": text, "blocks": blocks}


def group_section(sizes: ArrayLike, levels: ArrayLike | None = None) -> dict[str, Any]:
    """Groups by size and level, for workflows that know them."""
    facts = group_facts(sizes, levels)
    return {
        "id": "groups",
        "title": "Groups",
        "text": "The records of a group are released as one summary: nobody in it can be told from "
        "the others.",
        "blocks": [
            {
                "type": "facts",
                "rows": [
                    {"name": name.replace("_", " "), "value": value}
                    for name, value in facts.items()
                ],
            },
            {
                "type": "chart",
                "chart": "groups",
                "title": "Groups by size and level",
                "rows": group_rows(sizes, levels),
            },
        ],
    }
