"""One result of each family, as their commands hand them over, small."""

from __future__ import annotations

from typing import Any

from tulle._attacks import AttackResult


def attacks(*results: AttackResult) -> dict[str, Any]:
    return {result.name: result.to_dict() for result in results}


def condensed() -> dict[str, Any]:
    return {
        "title": "Condensed <people> & others.csv",
        "summary": "400 records became 400 look-alikes.",
        "guarantee": {
            "text": "Every group holds at least 20 records.",
            "rows": [{"name": "smallest group", "asked": 20, "found": 21, "holds": True}],
        },
        "k": 20,
        "metrics": {"covariance_compatibility": 0.99812, "groups": 19, "accuracy_ratio": 0.97},
        "attacks": attacks(
            AttackResult("linkage", 400, 4, 3, 3, story="An intruder ..."),
            AttackResult("inference:income", 400, 300, 290, 298),
        ),
        "sections": [
            {
                "id": "columns",
                "title": "Columns",
                "blocks": [
                    {
                        "type": "chart",
                        "chart": "histogram",
                        "title": "age",
                        "folded": "age",
                        "rows": [
                            {"label": "a", "original": 0.1, "release": 0.2, "count": 40},
                            {"label": "</script>", "original": 0.9, "release": 0.8, "count": 360},
                        ],
                    },
                    {
                        "type": "chart",
                        "chart": "density",
                        "rows": [
                            {"x": x, "y": x * x, "of": of, "share": 0.1, "count": 40}
                            for x in range(3)
                            for of in ("original", "release")
                        ],
                    },
                    {
                        "type": "chart",
                        "chart": "correlation",
                        "rows": [
                            {"first": a, "second": b, "original": 0.5, "release": None}
                            for a in "xy"
                            for b in "xy"
                        ],
                    },
                    {
                        "type": "chart",
                        "chart": "ranking",
                        "rows": [
                            {"label": "age", "value": 40.0, "mark": None, "count": 400},
                            {"label": "sex: f", "value": 0.2, "mark": 0.1, "count": 200},
                        ],
                    },
                    {
                        "type": "chart",
                        "chart": "groups",
                        "rows": [{"size": 21, "level": 20, "groups": 19, "count": 399}],
                    },
                ],
            }
        ],
        "limits": ["What all members of a group share."],
        "command": "tulle condense /home/me/people.csv -o release.csv --seed 987654 -k 20",
        "provenance": {"audit seed": 987654, "versions": {"numpy": "2.0"}},
    }


def rules() -> dict[str, Any]:
    rows = [
        {"name": f"bread{i} → milk", "measure": m, "before": 0.4, "after": 0.1, "limit": 0.2}
        for i in range(3)
        for m in ("support", "confidence")
    ]
    table = {
        "type": "table",
        "columns": ["rule", "baskets"],
        "rows": [["bread → milk", 3], ["tea → milk", 300]],
        "counts": ["baskets"],
    }
    chart = {"type": "chart", "chart": "before_after", "title": "Rules", "rows": rows}
    return {
        "title": "Baskets without three rules",
        "metrics": {"hiding_failure": 0.0, "misses_cost": 0.02},
        "sections": [{"title": "Rules before and after", "blocks": [chart, table]}],
    }


def sketches() -> dict[str, Any]:
    rows = [{"name": f"r={r}", "predicted": 1 / r, "measured": 1.1 / r} for r in (10, 100)]
    return {
        "title": "Sketched documents",
        "attacks": attacks(AttackResult("sketch_linkage", 100, 90, 1)),
        "sections": [
            {
                "title": "Error",
                "blocks": [
                    {"type": "chart", "chart": "error", "rows": rows},
                    {
                        "type": "facts",
                        "rows": [{"name": "neighbour recall", "value": 0.91, "style": "share"}],
                    },
                    {"type": "list", "rows": ["A remark with <tags> & a | bar."]},
                ],
            }
        ],
    }


def sites() -> dict[str, Any]:
    return {
        "title": "Codes of three sites",
        "attacks": attacks(AttackResult("frequency", 50, 45, 1), AttackResult("order", 50, 2, 1)),
        "gates": [{"name": "max_linkage", "limit": 0.05, "value": 0.9123, "holds": False}],
        "sections": [
            {"title": "Owner's eyes", "owner_only": True, "text": "secret-of-owner", "blocks": []}
        ],
    }


def explored() -> dict[str, Any]:
    points = [
        {
            "label": f"k = {k}" if k else "the records themselves",
            "curve": "shape" if k else "",
            "k": k,
            "risk": 1 / (k or 1),
            "low": 0.5 / (k or 1),
            "high": 1.2 / (k or 1),
            "utility": 0.9 - (k or 0) / 100,
            "passes": k is not None and k > 5,
            "chosen": k == 10,
            "link": f"#point-{k}",
        }
        for k in (None, 5, 10, 20)
    ]
    over = [
        {"curve": "shape", "k": k, "measure": m, "value": 1 / k}
        for m in ("risk", "utility")
        for k in (5, 10, 20)
    ]
    seen = [
        {"curve": "all", "seen": n, "measure": m, "value": n / 10}
        for m in ("groups", "waiting")
        for n in (1_000, 2_000)
    ]
    spent = [
        {"curve": "best attacker", "seconds": 2.0**n, "measure": "area", "value": 0.5 + n / 20}
        for n in range(4)
    ]
    cells = [
        {"x": str(x), "y": str(y), "of": of, "share": 0.25, "count": 30, "x_place": x, "y_place": y}
        for of in ("original", "release")
        for x in (0, 1)
        for y in (0, 1)
    ]
    charts = [
        {"type": "chart", "chart": "grid", "title": "Two columns", "rows": cells},
        {"type": "chart", "chart": "challenge", "title": "Challenge", "rows": spent},
        {"type": "chart", "chart": "frontier", "title": "Frontier", "rows": points},
        {"type": "chart", "chart": "over_k", "title": "Over k", "rows": over},
        {"type": "chart", "chart": "history", "title": "History", "rows": seen},
    ]
    return {
        "title": "Which release?",
        "sections": [
            {"id": "frontier", "title": "The frontier", "blocks": charts},
            {
                "id": "point-10",
                "title": "k = 10",
                "blocks": [{"type": "list", "rows": ["As useful as 30 % of the records."]}],
            },
        ],
    }


FAMILIES = {
    "condensed": condensed,
    "rules": rules,
    "sketches": sketches,
    "sites": sites,
    "explored": explored,
}
