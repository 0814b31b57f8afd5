"""Gates: limits that decide whether a pipeline goes on.

A ``max_...`` gate looks at the risk of an attack (its excess over the control, or over guessing
if there is none); where there are several attacks of a kind, at the worst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tulle.checks import check_choice, check_real
from tulle.errors import GateError, ParameterError

_ATTACKS = {
    "max_linkage": ("linkage", "linkage_one_to_one"),
    "max_copies": ("exact_copies", "near_copies"),
    "max_inference": ("inference:",),
    "max_membership": ("membership",),
    "max_singling_out": ("singling_out",),
}
GATES = (*_ATTACKS, "min_accuracy_ratio")
_NEEDS = {
    "max_membership": "a control (--control)",
    "max_inference": "a column to infer",
    "min_accuracy_ratio": "a target (--target)",
}


def gate_rows(
    result: Mapping[str, Any], limits: Mapping[str, float | None]
) -> list[dict[str, Any]]:
    """For each limit that is given: its name, the limit, the value found, whether it holds."""
    return [
        _gate(result, check_choice("audit", "gate", name, GATES), limit)
        for name, limit in limits.items()
        if limit is not None
    ]


def refuse_unmeasurable(limits: Mapping[str, float | None], *, control: bool) -> None:
    """Before an audit: a limit on membership needs people who were kept out."""
    if not control and limits.get("max_membership") is not None:
        raise _unmeasurable("max_membership")


def _unmeasurable(name: str) -> ParameterError:
    need = _NEEDS.get(name, "an attack")
    return ParameterError(f"The gate '{name}' needs {need}: there is nothing to measure.")


def check_gates(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises GateError if one of the gates does not hold."""
    broken = [row for row in rows if not row["holds"]]
    if broken:
        told = "; ".join(
            f"{row['name']} is {row['value']:.4g}, the limit is {row['limit']:g}" for row in broken
        )
        raise GateError(f"{len(broken)} of {len(rows)} gates failed: {told}")


def _gate(result: Mapping[str, Any], name: str, limit: float) -> dict[str, Any]:
    limit = check_real("audit", name, limit, 0)
    if name == "min_accuracy_ratio":
        value = result["metrics"].get("accuracy_ratio")
        holds = value is not None and value >= limit
    else:
        kinds = _ATTACKS[name]
        risks = [
            attack["risk"]
            for key, attack in result["attacks"].items()
            if key in kinds or any(kind.endswith(":") and key.startswith(kind) for kind in kinds)
        ]
        value = max(risks, default=0.0 if name == "max_singling_out" else None)
        holds = value is not None and value <= limit
    if value is None:
        raise _unmeasurable(name)
    return {"name": name, "limit": limit, "value": float(value), "holds": bool(holds)}
