"""What ``make fuzz`` tries on many random examples is a property."""

from __future__ import annotations

from pathlib import Path

FUZZED = "@pytest.mark.guarantee\n"


def test_a_guarantee_is_a_property() -> None:
    for path in Path(__file__).parent.rglob("test_*.py"):
        for decorated in path.read_text().split(FUZZED)[1:]:
            assert "@given" in decorated.split("\ndef ")[0], path.name
