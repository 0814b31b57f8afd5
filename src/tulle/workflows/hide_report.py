"""The report of ``tulle hide``: what hiding cost, and for the owner each rule before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tulle.attacks.rules import rule_recovery
from tulle.auditing.result import Audit
from tulle.random import as_generator
from tulle.rules.rule import Rule
from tulle.rules.thresholds import confidence_if_any, support_count
from tulle.rules.verification import Report
from tulle.transactions import Transactions

HELD = "every rule is below its threshold in the release"
LIMITS = (
    "A receiver who mines with lower thresholds finds the hidden rules again: a larger margin "
    "takes them further down.",
    "Baskets are released one for one: a person in them can be recognised by what they bought.",
    "A receiver who knows the usual strength of a hidden rule may notice that it is missing.",
)


def recovery(
    released: Transactions, rules: Sequence[Rule], wanted: dict[str, Any], seed: int | None
) -> dict[str, Any]:
    """The attack, where thresholds of mining were given and every cell is known."""
    if released.unknown is not None or wanted["min_support"] is None:
        return {}
    found = rule_recovery(
        released,
        rules,
        support_count("hide", wanted["min_support"], len(released)),
        confidence_if_any("hide", wanted["min_confidence"]),
        as_generator(seed),
    )
    # whoever is told that it works is told where to look
    return {found.name: {**found.to_dict(), "owner_only": True}}


def audit_of(
    summary: dict[str, Any], rules: Report, attacks: dict[str, Any], held: str, command: str
) -> Audit:
    """The page; ``held`` is what was verified."""
    chart = {
        "type": "chart",
        "chart": "before_after",
        "title": "Sensitive rules before and after",
        "rows": [
            {
                "name": line["rule"],
                "measure": measure,
                **{when: line[f"{measure}_{when}"] for when in ("before", "after", "limit")},
            }
            for line in rules
            for measure in ("support", "confidence")
        ],
    }
    section = {
        "id": "rules",
        "title": "The hidden rules",
        "text": "Each rule ends below one of its marks.",
        "blocks": [chart],
        "owner_only": True,
    }
    hidden = summary["rules_hidden"]
    guarantee = {
        "text": "Counted again in the finished release before it was written.",
        "rows": [{"name": held, "asked": hidden, "found": hidden, "holds": True}],
    }
    return Audit(
        {
            "title": "Hidden rules",
            "summary": f"{hidden} rules were hidden in {summary['baskets']:,} baskets; "
            f"{summary['baskets_touched']:,} baskets were touched.",
            "guarantee": guarantee,
            "k": 10,
            "metrics": {k: v for k, v in summary.items() if isinstance(v, float)},
            "attacks": attacks,
            "sections": [section],
            "limits": list(LIMITS),
            "command": command,
        }
    )
