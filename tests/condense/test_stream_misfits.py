"""Records that do not fit the initial ones: found among many, one by one refused alike."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.streams import OPTIONS, rows, same_groups, write_ndjson
from tulle import StreamCondenser
from tulle.condense.stream.misfits import misfits
from tulle.errors import DataError
from tulle.workflows.stream import run as running
from tulle.workflows.stream import stream

INITIAL = pl.DataFrame(
    {
        "n": [1, 2, 3, 4] * 5,
        "x": [0.5, -1.5, None, 4.0] * 5,
        "town": ["a", "b", "a", None] * 5,
        "sure": [True, False, True, True] * 5,
        "maybe": [True, None, False, False] * 5,
        "code": ["p", "q"] * 10,
    }
)
records = st.fixed_dictionaries(
    {
        "n": st.sampled_from([1, 7, None, 2**53 + 1, -(2**60), 10**15]),
        "x": st.sampled_from([0.5, None, float("nan"), float("inf"), 1e200, -3.0]),
        "town": st.sampled_from(["a", "c", "d", None]),
        "sure": st.sampled_from([True, None]),
        "maybe": st.sampled_from([True, False, None]),
        "code": st.sampled_from(["p", "r", None]),
    }
)


@cache
def started() -> StreamCondenser:
    return StreamCondenser(k=4, init_size=20, random_state=0).partial_fit(INITIAL)


def refused_alone(record: pl.DataFrame) -> bool:
    try:
        copy.deepcopy(started()).partial_fit(record)
    except DataError:
        return True
    return False


@settings(max_examples=30, deadline=None)
@given(st.lists(records, min_size=1, max_size=6))
def test_misfits_are_those_that_are_refused_alone(made: list[dict[str, object]]) -> None:
    frame = pl.DataFrame(made, schema=INITIAL.schema)
    left, found = frame.with_row_index(), set()
    while wrong := misfits(started(), left.drop("index")):
        found |= set(left["index"].gather(sorted(wrong)))
        fine = np.ones(left.height, dtype=bool)
        fine[list(wrong)] = False
        left = left.filter(fine)
    expected = {row for row in range(len(made)) if refused_alone(frame[row : row + 1])}
    assert found == expected


def test_many_misfits_cost_few_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows(400)
    mixed = [
        {**row, "city": f"new {place}"} if place % 4 == 3 and place > 150 else row
        for place, row in enumerate(made)
    ]
    source = write_ndjson(tmp_path / "in.ndjson", mixed)
    tries = []
    monkeypatch.setattr(
        "tulle.workflows.stream.intake.StreamCondenser.partial_fit",
        lambda *given, partial_fit=StreamCondenser.partial_fit: (
            tries.append(1) or partial_fit(*given)
        ),
    )
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert len(tries) == 3  # the initial records, all others, all others that fit
    text = (tmp_path / "st.rejects.ndjson").read_text()
    listed = [json.loads(line) for line in text.splitlines()]
    lines = [place + 1 for place, row in enumerate(mixed) if row["city"].startswith("new")]
    assert [entry["line"] for entry in listed] == lines
    assert done.summary["rejected"] == len(lines) > 60
    monkeypatch.undo()
    monkeypatch.setattr(running, "BATCH", 7)
    stream(str(source), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")
    again = (tmp_path / "st2.rejects.ndjson").read_text()
    assert [json.loads(line)["line"] for line in again.splitlines()] == lines
