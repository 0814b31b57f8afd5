"""Gates: the worst attack of a kind against its limit."""

from __future__ import annotations

import pytest

from tulle._attacks import AttackResult
from tulle.auditing import check_gates, gate_rows
from tulle.auditing._gates import check_limits
from tulle.errors import GateError, ParameterError

RESULT = {
    "metrics": {"accuracy_ratio": 0.9},
    "attacks": {
        result.name: result.to_dict()
        for result in (
            AttackResult("linkage", 100, 3, 0),
            AttackResult("linkage_one_to_one", 100, 8, 0),
            AttackResult("inference:a", 100, 50, 45),
            AttackResult("inference:b", 100, 50, 30, 40),
        )
    },
}


def test_each_gate_looks_at_the_worst_of_its_kind() -> None:
    limits = {"max_linkage": 0.05, "max_inference": 0.2, "min_accuracy_ratio": 0.8}
    rows = gate_rows(RESULT, {**limits, "max_copies": None, "max_singling_out": 0.1})
    found = {row["name"]: (round(row["value"], 3), row["holds"]) for row in rows}
    assert found == {
        "max_linkage": (0.08, False),
        "max_inference": (0.1, True),
        "min_accuracy_ratio": (0.9, True),
        "max_singling_out": (0.0, True),
    }
    with pytest.raises(GateError, match=r"1 of 4 gates.*max_linkage.*0\.08") as caught:
        check_gates(rows)
    assert caught.value.exit_code == 1
    check_gates([row for row in rows if row["holds"]])


@pytest.mark.parametrize(
    "gate, message",
    [
        ("max_membership", "control"),
        ("max_copies", "nothing to measure"),
        ("max_linkag", "'max_linkage'"),
    ],
)
def test_a_gate_that_cannot_be_measured_is_an_error_and_never_passes(gate, message) -> None:
    with pytest.raises(ParameterError, match=message):
        gate_rows(RESULT, {gate: 0.1})
    with pytest.raises(ParameterError, match="control"):
        check_limits({"max_membership": 0.1}, control=False)
    check_limits({"max_membership": 0.1}, control=True)
    check_limits({"max_membership": None, "max_linkage": 0.1}, control=False)
    with pytest.raises(ParameterError, match="target"):
        gate_rows({"metrics": {}, "attacks": {}}, {"min_accuracy_ratio": 0.5})
    with pytest.raises(ParameterError, match="max_linkage"):
        gate_rows(RESULT, {"max_linkage": -1})
