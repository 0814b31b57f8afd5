"""The lists of marks name files and tests that exist, and guarantees are properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.marks import BROWSER, GUARANTEES, SERVER, SLOW

HERE = Path(__file__).parent
TEXTS = {path.relative_to(HERE).as_posix(): path.read_text() for path in HERE.rglob("test_*.py")}


@pytest.mark.parametrize("entry", sorted({*BROWSER, *SERVER, *SLOW}))
def test_what_is_listed_exists(entry: str) -> None:
    assert any(file.startswith(entry) for file in TEXTS) or any(
        f"\ndef {entry}(" in text for text in TEXTS.values()
    )


@pytest.mark.parametrize("name", GUARANTEES)
def test_a_guarantee_is_one_property(name: str) -> None:
    (text,) = [text for text in TEXTS.values() if f"\ndef {name}(" in text]
    before = text.split(f"\ndef {name}(")[0]
    assert "@given" in before[before.rfind("\n\n\n") :]
