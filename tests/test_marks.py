"""The lists of marks name files and tests that exist, and guarantees are properties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.marks import BROWSER, GUARANTEES, SERVER, SLOW

HERE = Path(__file__).parent


@pytest.mark.parametrize("entry", sorted({*BROWSER, *SERVER, *SLOW, *GUARANTEES}))
def test_what_is_listed_exists(entry: str) -> None:
    file, _, name = entry.partition("::")
    text = (HERE / file).read_text()
    assert not name or re.search(rf"(?m)^def {name}\(", text)


@pytest.mark.parametrize("entry", GUARANTEES)
def test_a_guarantee_is_a_property(entry: str) -> None:
    file, _, name = entry.partition("::")
    before = (HERE / file).read_text().split(f"def {name}(")[0]
    assert "@given" in before[before.rfind("\n\n\n") :]
