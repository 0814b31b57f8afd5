"""The example of audits says of its releases what it finds."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "audit_release.py"


@pytest.mark.slow
def test_noise_leaks_and_a_small_control_decides_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    verdicts = dict(line.split(": ", 1) for line in lines if line and not line.startswith(" "))
    assert [words.split()[0] for words in verdicts.values()] == ["Do", "Not", "Not"]
    assert list(verdicts) == ["a little noise", "groups of 20", "groups of 50"]
