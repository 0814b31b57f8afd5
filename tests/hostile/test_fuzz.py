"""A small share of the fuzz run of ``make fuzz``: the same inputs in every run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.bench_fuzz import _outcome, mutated, parsers

INPUTS = 4_000  # shared out as in the long run, of a million


@pytest.mark.slow
def test_no_parser_crashes_or_tells_a_cell(tmp_path: Path) -> None:
    known = parsers(tmp_path)
    whole = sum(parser.share for parser in known.values())
    wrong = []
    for name, parser in known.items():
        chance = random.Random(f"{name}/test")
        for _ in range(round(INPUTS * parser.share / whole)):
            found = _outcome(parser, mutated(parser, chance))
            if not found.startswith(("accepted", "refused")):
                wrong.append(f"{name}: {found}")
    assert wrong == []
