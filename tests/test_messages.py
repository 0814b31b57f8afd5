"""The wording of every error and warning is in one golden file, and in plain English."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = HERE / "messages.txt"


@pytest.mark.slow
def test_messages_are_those_of_the_golden_file() -> None:
    command = [sys.executable, str(HERE.parent / "scripts" / "messages")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == GOLDEN.read_text().splitlines(), (
        "messages have changed: run `make messages`, and read what changes in tests/messages.txt"
    )


@pytest.mark.parametrize(
    ("habit", "better"),
    [
        ("is no ", "is not a"),
        ("are no ", "are not"),
        ("anew", "again"),
        ("is told", "is reported"),
        ("truth value", "boolean"),
        ("say --", "pass --"),
        ("shall ", "must"),
        ("whoever", "anyone who"),
    ],
)
def test_messages_are_plain_english(habit: str, better: str) -> None:
    pattern = re.compile(rf"(?<!there )\b{habit}", re.IGNORECASE)  # "there is no column" is fine
    odd = [line.strip() for line in GOLDEN.read_text().splitlines() if pattern.search(line)]
    assert not odd, f"write {better!r} instead of {habit!r}"
