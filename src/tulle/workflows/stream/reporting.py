"""The report of a stream: what was counted, how it went, what two snapshots tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tulle.attacks.result import AttackResult
from tulle.condense.stream import StreamCondenser
from tulle.report.words import attack_label
from tulle.workflows.stream.settings import Settings
from tulle.workflows.stream.showing import shown_sizes, shown_small
from tulle.workflows.stream.watching import watch

ONE, LEVEL = "one record", "as many as its level"  # who arrives between two snapshots
LIMITS = [
    "Whoever reads all snapshots sees how the groups move: snapshots hide single newcomers among "
    "as many as their level, not the trend that many of them make.",
    "With split='paper' the statistics of a group are halved as if it were uniform: halves may "
    "have fewer members than the largest level of those who went into them.",
    "Ranges of numbers and domains of categories are released; those of categories are the "
    "initial records'.",
    "Records that wait are kept as they are, in memory, until others join them.",
]


def stream_result(
    condenser: StreamCondenser,
    settings: Settings,
    counts: Mapping[str, Any],
    snapshots: Sequence[Mapping[str, Any]],
    source: str,
) -> dict[str, Any]:
    """The result that ``tulle.report`` shows."""
    policy = settings.wanted["snapshots"]
    shown = shown_sizes(condenser, policy)["groups"]
    rng = np.random.default_rng()
    used = watch(condenser, policy, rng)
    return {
        "title": f"Stream condensed from {source}",
        "summary": f"{counts['seen']:,} records were seen: {counts['condensed']:,} are condensed, "
        f"{counts['waiting']:,} wait. Snapshots show {shown:,} groups. "
        f"{counts['rejected']:,} malformed lines were refused.",
        "guarantee": {
            "text": "Every record joined a group of at least its level, itself included.",
            "rows": _promises(condenser, settings, counts),
        },
        "k": settings.wanted["k"],
        "attacks": {attack.name: attack.to_dict() for attack in used},
        "sections": [
            _intersection(condenser, policy, used, rng),
            _table(
                "snapshots",
                "Snapshots of this run",
                "Groups that changed since the snapshot before, the fewest records that had newly "
                "joined one of them, and records that are condensed but held back until later.",
                snapshots,
            ),
            _table(
                "history",
                "How the stream went",
                "Drift is the distance of an interval's mean record from that of the first "
                "interval, in standard deviations.",
                condenser.history_,
                owner_only=policy == "bounded",  # it counts the stream's own groups
            ),
        ],
        "limits": LIMITS,
    }


def _promises(
    condenser: StreamCondenser, settings: Settings, counts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    strict = settings.wanted["split"] == "strict"
    small = shown_small(condenser, settings.wanted["snapshots"])
    return [
        {
            "name": "records seen = condensed + waiting",
            "asked": counts["seen"],
            "found": counts["condensed"] + counts["waiting"],
            "holds": counts["seen"] == counts["condensed"] + counts["waiting"],
        },
        {
            "name": "groups shown that are smaller than a level in them, after splits",
            "asked": 0 if strict else "allowed by split='paper'",
            "found": small,
            "holds": not (strict and small),
        },
    ]


def _intersection(
    condenser: StreamCondenser,
    policy: str,
    used: Sequence[AttackResult],
    rng: np.random.Generator,
) -> dict[str, Any]:
    other = "all" if policy == "bounded" else "bounded"
    found = {
        (ONE, policy): used,
        (ONE, other): watch(condenser, other, rng),
        (LEVEL, policy): watch(condenser, policy, rng, together=True),
        (LEVEL, other): watch(condenser, other, rng, together=True),
    }
    rows = [
        [arrived, attack_label(attack.name), f"{shown} (used)" if shown == policy else shown]
        + [attack.rate, attack.baseline]
        for (arrived, shown), attacks in found.items()
        for attack in attacks
    ]
    return {
        "id": "intersection",
        "title": "Who arrived between two snapshots?",
        "text": "Somebody holds two successive snapshots and looks for a record that arrived in "
        f"between. This stream's policy is '{policy}': with 'bounded', a group is shown anew "
        "only after as many newcomers as its largest level; with 'all', all groups are shown as "
        "they are. Measured with people drawn from the groups, among ten candidates: for one "
        "newcomer, anybody; for a whole level of newcomers, their neighbours.",
        "blocks": [
            {
                "type": "table",
                "columns": ["arrived", "attack", "policy", "newcomer found", "by guessing"],
                "rows": rows,
            }
        ],
    }


def _table(
    name: str,
    title: str,
    text: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    owner_only: bool = False,
) -> dict[str, Any]:
    columns = list(rows[0]) if rows else ["none"]
    return {
        "id": name,
        "title": title,
        "text": text,
        "owner_only": owner_only,
        "blocks": [
            {
                "type": "table",
                "columns": [column.replace("_", " ") for column in columns],
                "rows": [[row[column] for column in columns] for row in rows],
            }
        ],
    }
