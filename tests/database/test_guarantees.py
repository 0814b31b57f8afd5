"""Every sentence of the guarantee of databases names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def test_every_sentence_of_the_guarantee_has_a_test() -> None:
    page = (HOUSE / "docs" / "databases.md").read_text()
    rows = re.findall(r"^\| .* \| (`test_.*) \|$", page, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(test_\w+)`", row)}
    files = (HOUSE / "tests").rglob("test_*.py")
    there = {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert len(rows) >= 14
    assert not named - there
