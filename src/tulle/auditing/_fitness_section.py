"""Fitness for use as a section of a report: the worst columns first, with pictures."""

from __future__ import annotations

from collections.abc import Mapping

from tulle._metrics.subgroups import Subgroup
from tulle._plurals import counted
from tulle._report.model import Block, Section
from tulle.auditing._fitness import Fitness

_MOST_SHOWN = 20  # pairs, laws or subgroups
_SAYS = {
    "follows": "{target} follows from {source}",
    "missing": "whether {target} is missing follows from {source}",
    "order": "{source} is never larger than {target}",
}


def fitness_section(found: Fitness, behind: Mapping[str, int], k: int) -> Section:
    """Columns, pairs, what every original keeps, and subgroups."""
    return {
        "id": "fitness",
        "title": "Fitness for use",
        "text": "What the release is good for, measured as others measure it. The worst comes "
        "first: look there before you rely on it.",
        "blocks": [
            *_column_blocks(found, behind),
            _pair_block(found, behind),
            *_law_blocks(found),
            *_group_blocks(found, k),
        ],
    }


def _column_blocks(found: Fitness, behind: Mapping[str, int]) -> list[Block]:
    names = [column.name for column in found.columns]
    return [
        {
            "type": "chart",
            "chart": "ranking",
            "title": "Points that each column loses",
            "owner_only": True,  # the table rounds
            "help": "1000 less NIST's k-marginal score of the pairs that the column is in: 0 is "
            "perfect, 1000 nothing in common.",
            "rows": [
                {
                    "label": column.name,
                    "value": 1000 - column.score,
                    "mark": None,
                    "count": behind[column.name],
                }
                for column in found.columns
            ],
        },
        {
            "type": "table",
            "title": "Heaps are numbers that 5 % of the records share. Kept: how much of them is "
            "still there; piled up: the most that one value gained from nowhere. Odd: released "
            "values of a kind that the original does not have. Gives away: what the AUC of a "
            "classifier that tells the release from people owes to the column.",
            "columns": [
                *(
                    "column",
                    "k-marginal (of 1)",
                    "heaps kept",
                    "piled up",
                    "odd",
                    "missing more often",
                ),
                "gives away",
            ],
            "rows": [
                [
                    column.name,
                    column.score / 1000,
                    None if column.heaps is None else column.heaps.kept,
                    None if column.heaps is None else column.heaps.piled,
                    column.odd,
                    column.missing,
                    max(0.0, column.given_away),
                ]
                for column in found.columns
            ],
            "behind": [behind[name] for name in names],
        },
    ]


def _pair_block(found: Fitness, behind: Mapping[str, int]) -> Block:
    pairs = found.pairs[:_MOST_SHOWN]
    return {
        "type": "table",
        "folded": "The pairs of columns that suffered most",
        "columns": ["first", "second", "k-marginal (of 1)"],
        "rows": [[pair.first, pair.second, pair.score / 1000] for pair in pairs],
        "behind": [min(behind[pair.first], behind[pair.second]) for pair in pairs],
    }


def _law_blocks(found: Fitness) -> list[Block]:
    if not found.laws:
        return []
    broken = [law for law in found.laws if law.broken > 0]
    total = counted(len(found.laws), "relation")
    said: Block = {
        "type": "list",
        "rows": [
            f"{total} between columns {'holds' if len(found.laws) == 1 else 'hold'} for every "
            f"original; the release breaks {len(broken) or 'none'} of them."
        ],
    }
    rows = [
        [
            _SAYS[law.kind].format(source=f"'{law.source}'", target=f"'{law.target}'"),
            law.broken,
            law.broken_control,
        ]
        for law in broken[:_MOST_SHOWN]
    ]
    table: Block = {
        "type": "table",
        "title": "Share of rows that break what every original keeps.",
        "columns": ["relation", "release", "people who were kept out"],
        "rows": rows,
        "owner_only": True,  # it says something about everybody in the original
    }
    return [said, table] if rows else [said]


def _group_blocks(found: Fitness, k: int) -> list[Block]:
    shown = [g for g in found.groups if g.released >= k or not g.released][:_MOST_SHOWN]
    blocks: list[Block] = []
    if shown:
        blocks.append(
            {
                "type": "chart",
                "chart": "ranking",
                "title": "Subgroups: how far their other columns moved",
                "owner_only": True,  # of few people, a difference counts one
                "help": f"Mean total variation within each category of at least {k} people; the "
                "mark is what chance moves between two samples of these sizes.",
                "rows": [
                    {
                        "label": group_label(found, g.group),
                        "value": g.distance,
                        "mark": g.by_chance,
                        "count": g.group.people,
                    }
                    for g in shown
                ],
            }
        )
    lines = found.lines[:_MOST_SHOWN]
    if lines and found.axes is not None:
        x, y = found.axes
        blocks.append(
            {
                "type": "table",
                "folded": f"Regression of {y} on {x} by subgroup",
                "owner_only": True,
                "title": f"Slope of '{y}' over '{x}', by least squares; agrees: no further apart "
                "than chance would have it.",
                "columns": ["subgroup", "people", "slope, original", "slope, release", "agrees"],
                "counts": ["people"],
                "rows": [
                    [
                        group_label(found, one.group),
                        one.group.people,
                        one.original.slope,
                        None if one.release is None else one.release.slope,
                        one.agrees,
                    ]
                    for one in lines
                ],
            }
        )
    return blocks


def group_label(found: Fitness, group: Subgroup) -> str:
    """Name a subgroup: its column and the value that all of it share."""
    name = found.cells.names[group.column]
    if group.cell == 0:
        return f"{name}: (missing)"
    if name in found.tables.domains:
        return f"{name}: {found.tables.domains[name][group.cell]}"
    rows = found.cells.original[:, group.column] == group.cell
    return f"{name}: {found.tables.frames[0][name].filter(rows)[0]:g}"
