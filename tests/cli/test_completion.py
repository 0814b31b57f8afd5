"""Shells complete commands, options, words and files."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from tulle.cli import tulle


def completed(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    complete = ShellComplete(tulle, {}, "tulle", "_TULLE_COMPLETE")
    return [(item.type, item.value) for item in complete.get_completions(words, incomplete)]


def test_commands_options_and_words_are_completed() -> None:
    assert completed([], "con") == [("plain", "condense")]
    assert completed(["condense"], "--synth") == [("plain", "--synthesis")]
    assert ("plain", "shape") in completed(["condense", "--synthesis"], "")
    assert completed(["sites"], "enc") == [("plain", "encode")]


@pytest.mark.parametrize(
    "words",
    [
        ["condense"],
        ["condense", "-o"],
        ["condense", "--policy"],
        ["audit", "--control"],
        ["verify", "--key"],
    ],
)
def test_files_are_completed_by_the_shell(words: list[str]) -> None:
    assert completed(words, "pat") == [("file", "pat")]
