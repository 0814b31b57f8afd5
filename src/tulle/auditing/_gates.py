"""Gates: limits that decide whether a pipeline continues.

A ``max_...`` gate looks at the risk of an attack (its excess over the control, or over guessing
if there is none); where there are several attacks of a kind, at the worst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tulle._attacks.membership import LEAST
from tulle._attacks.result import AttackFigures
from tulle._checks import check_choice, check_real
from tulle._choices import GATES
from tulle._report.model import Gate, Result
from tulle.errors import GateError, ParameterError

_ATTACKS = {
    "max_linkage": ("linkage", "linkage_one_to_one", "linkage_known", "linkability"),
    "max_copies": ("exact_copies", "near_copies"),
    "max_inference": ("inference",),
    "max_membership": ("membership",),
    "max_singling_out": ("singling_out", "walked", "alone_joined"),
    "max_reconstruction": ("exact_values", "sums_on_grid", "affine_hull"),
    "max_homogeneity": ("homogeneity",),
    "max_earlier": (
        *("earlier_totals", "earlier_membership", "earlier_inference"),
        "earlier_intersection",
    ),
    "max_worst_case": ("worst_case",),
}
_NEEDS = {
    "max_membership": f"a control of at least {LEAST} records (--control)",
    "max_inference": "a column to infer",
    "max_homogeneity": "a sensitive column",
    "max_earlier": "an earlier release (--earlier)",
    "max_worst_case": "the slow attack of the worst case (--worst-case)",
    "min_accuracy_ratio": "a target (--target) that a model can learn from the original",
}


def check_limits(
    limits: Mapping[str, float | None],
    *,
    control: bool,
    earlier: bool = True,
    worst_case: bool = True,
) -> None:
    """Raise for limits that make no sense, or that need what is not given.

    Limits that are None are not asked for.
    """
    for name, limit in limits.items():
        check_choice("audit", "gate", name, GATES)
        if limit is not None:
            # a limit of 5 for 5 % would never fail
            check_real("audit", name, limit, 0, 1 if name in _ATTACKS else math.inf)
    given = {"max_membership": control, "max_earlier": earlier, "max_worst_case": worst_case}
    for name, there in given.items():
        if not there and limits.get(name) is not None:
            raise _unmeasurable(name)


def gate_rows(result: Result, limits: Mapping[str, float | None]) -> list[Gate]:
    """Return for each limit given: its name, the limit, the value found, whether it holds.

    And how many people the value is about: the public edition rounds by it.
    """
    check_limits(limits, control=True)
    return [_gate(result, name, limit) for name, limit in limits.items() if limit is not None]


def check_gates(rows: Sequence[Gate]) -> None:
    """Raise GateError if a gate failed."""
    broken = [row for row in rows if not row["holds"]]
    if broken:
        told = "; ".join(
            f"{row['name']} is {row['value']:.4g}, the limit is {row['limit']:g}" for row in broken
        )
        raise GateError(f"{len(broken)} of {len(rows)} gates failed: {told}")


def _gate(result: Result, name: str, limit: float) -> Gate:
    if name == "min_accuracy_ratio":
        value = result["metrics"].get("accuracy_ratio")
        people = result.get("behind", {}).get("accuracy_ratio")
        holds = value is not None and value >= limit
    else:
        worst = max(_attacks_of(result, name), key=lambda attack: attack["risk"], default=None)
        # nobody could be tried: nobody has a combination, or a number, of their own
        none = 0.0 if name in ("max_singling_out", "max_reconstruction") else None
        value, people = (worst["risk"], _people(worst)) if worst else (none, None)
        holds = value is not None and value <= limit
    if value is None:
        raise _unmeasurable(name)
    found: Gate = {"name": name, "limit": float(limit), "value": float(value), "holds": holds}
    return found if people is None else {**found, "people": people}


def _attacks_of(result: Result, name: str) -> list[AttackFigures]:
    kinds = _ATTACKS[name]
    return [a for key, a in result["attacks"].items() if key.partition(":")[0] in kinds]


def _people(attack: AttackFigures) -> int | None:
    tried = [attack.get("independent"), attack.get("control_attempts")]
    return min((count for count in tried if count is not None), default=None)


def _unmeasurable(name: str) -> ParameterError:
    need = _NEEDS.get(name, "an attack")
    return ParameterError(
        f"needs {need}. Without it there is nothing to measure.",
        parameter=name,
        subject=f"The gate '{name}'",
    )
