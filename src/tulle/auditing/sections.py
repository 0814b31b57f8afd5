"""Sections of a report that an audit makes, and those that a workflow can add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from tulle.auditing.alignment import Aligned
from tulle.auditing.measures import Associations
from tulle.auditing.pictures import MOST_COLUMNS, correlations, density, histogram
from tulle.metrics.groups import group_facts, group_rows

_MOST_CHARTS = 40  # columns with a chart of their own; the table has them all


def column_section(
    tables: Aligned,
    distances: Mapping[str, Mapping[str, Any]],
    behind: Mapping[str, int],
    k: int,
) -> dict[str, Any]:
    """Every column: its distance, and a chart behind it; the worst first."""
    worst = sorted(distances, key=lambda name: -distances[name]["distance"])
    table = {
        "type": "table",
        "title": "Distance: Wasserstein in standard deviations for numbers, total variation for "
        "categories; 0 is perfect.",
        "columns": ["column", "kind", "distance"],
        "rows": [[n, tables.kinds[n].value, distances[n]["distance"]] for n in worst],
        "behind": [behind[name] for name in worst],
    }
    charts = [
        {
            "type": "chart",
            "chart": "histogram",
            "title": f"{name}: original and release",
            "folded": name,
            "help": f"Share of records; bars of fewer than {k} originals are left out.",
            "rows": histogram(tables, name, k),
        }
        for name in worst[:_MOST_CHARTS]
    ]
    text = "How far the distribution of each column moved. Open a column for its chart."
    if len(worst) > _MOST_CHARTS:
        text += f" The {_MOST_CHARTS} that moved most have one."
    return {"id": "columns", "title": "Columns", "text": text, "blocks": [table, *charts]}


def extreme_section(distances: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Spans and missing values: they may belong to a few people, so they are not for the public."""
    rows = [
        [name, row["range"], row["missing_original"], row["missing_release"]]
        for name, row in distances.items()
    ]
    names = ["column", "span", "missing, original", "missing, release"]
    return {
        "id": "extremes",
        "title": "Ranges and missing values",
        "text": "Span: the share of the original's range that the release covers. A full span "
        "tells the extremes, which belong to single people; a small one cuts the tails. Missing: "
        "the share of records.",
        "owner_only": True,
        "blocks": [{"type": "table", "columns": names, "rows": rows}],
    }


def structure_section(tables: Aligned, found: Associations, k: int) -> dict[str, Any]:
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
    if len(found.names) > 1:
        first = f" The first {MOST_COLUMNS} columns." if len(found.names) > MOST_COLUMNS else ""
        blocks.append(
            {
                "type": "chart",
                "chart": "correlation",
                "title": "Association of columns",
                "help": "Correlation of numbers, Cramer's V of categories, correlation ratio "
                f"between the two.{first}",
                "rows": correlations(found),
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
        "text": "Released records are drawn from the count, mean and covariance of a group, never "
        "from a single person.",
        "blocks": [
            {
                "type": "facts",
                "rows": [
                    {"name": name.replace("_", " ").capitalize(), "value": value}
                    for name, value in facts.items()
                ],
            },
            {
                "type": "chart",
                "chart": "groups",
                "title": "Groups by size and level",
                "help": "Level: the smallest group that a record asked for.",
                "rows": group_rows(sizes, levels),
            },
        ],
    }


def notes_section(notes: Sequence[str]) -> list[dict[str, Any]]:
    """What the maker of a release noticed; notes may name classes or count few: owner only."""
    if not notes:
        return []
    return [
        {
            "id": "notes",
            "title": "Noticed while it was made",
            "owner_only": True,
            "blocks": [{"type": "list", "rows": list(notes)}],
        }
    ]
