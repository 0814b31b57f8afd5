"""Progress where nobody has a terminal: lines for what takes long, silence for the rest."""

from __future__ import annotations

import time

import pytest

from tulle import _progress
from tulle._progress import bar, log, shown


@pytest.mark.slow
def test_long_work_is_told_in_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "_LONG", 0.02)
    monkeypatch.setattr(_progress, "_AGAIN", 0.0)
    with shown(), bar("Counting", 4) as advance:
        time.sleep(0.2)
        advance(1, note="a quarter")
        log("a snapshot was written")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "tulle: Counting: 0%"
    assert lines[1:3] == ["tulle: Counting: 25%, a quarter", "tulle: a snapshot was written"]
    assert lines[3].startswith("tulle: Counting: done after")


def test_short_work_and_work_that_nobody_watches_are_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shown(), bar("Counting", 4) as advance:
        advance(4)
    with bar("Counting", 4) as advance:
        advance(4)
        log("nobody asked")
    with shown(lines=False):
        log("who asks for JSON reads one output")
    assert capsys.readouterr().err == ""
