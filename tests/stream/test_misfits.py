"""Records that do not fit the initial ones: named among many, refused one by one."""

from __future__ import annotations

import copy
import datetime
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference.streams import OPTIONS, rows, same_groups, write_ndjson
from tulle import StreamCondenser
from tulle._commands import stream as running
from tulle._commands.stream import stream
from tulle.errors import DataError
from tulle.table.schema import Column, Kind, Role

DAY, NOON = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12)
NAN, INFINITY = float("nan"), float("inf")
LOWEST = -(2**63)  # whose absolute value is no integer of 64 bits
COLUMNS = [
    Column("age", Kind.INTEGER, bounds=(0, 120)),
    Column("cost", Kind.DECIMAL, bounds=(0, 1e6)),
    Column("zone", Kind.CATEGORY),
    Column("level", Kind.INTEGER, Role.LEVEL),
]
INITIAL = pl.DataFrame(
    {
        "n": [1, 2, 3, 4] * 5,
        "x": [0.5, -1.5, None, 4.0] * 5,
        "y": [0.5, -1.5, 2.5, 4.0] * 5,
        "age": [0, 120, 47, 18] * 5,
        "cost": [0.0, 1e6, None, NAN] * 5,
        "town": ["a", "b", "a", None] * 5,
        "code": ["p", "q"] * 10,
        "zone": [1, 2, 7, 1] * 5,
        "sure": [True, False, True, True] * 5,
        "maybe": [True, None, False, False] * 5,
        "day": [DAY, DAY - datetime.timedelta(9)] * 10,
        "at": [NOON, None, NOON + datetime.timedelta(0, 1), NOON] * 5,
        "level": [4] * 20,
    }
)
# for each column values that are taken, and then some that may be refused
GOOD: dict[str, list[Any]] = {
    "n": [1, 7, -5, 10**9],
    "x": [0.5, None, NAN, -3.0],
    "y": [0.5, 1e9],
    "age": [0, 1, 119, 120],
    "cost": [0.0, 1e6, 0.25, None, NAN],
    "town": ["a", "b", None],
    "code": ["p", "q"],
    "zone": [1, 2, 7],
    "sure": [True, False],
    "maybe": [True, False, None],
    "day": [DAY, datetime.date(1900, 1, 1)],
    "at": [NOON, None],
    "level": [1, 4],
}
BAD: dict[str, list[Any]] = {
    "n": [None, 2**53 + 1, -(2**53) - 1, LOWEST, 2**63 - 1, 2**53],
    "x": [INFINITY, -INFINITY, 1e200, -1e200, 1e15],
    "y": [None, NAN, INFINITY, 1e16],
    "age": [-1, 121, 200, None, LOWEST, 2**60],
    "cost": [-0.01, 1e6 + 0.5, INFINITY, 1e300],
    "town": ["c", "d", "", "A"],
    "code": ["r", None],
    "zone": [3, 4, None, LOWEST],
    "sure": [None],
    "maybe": [],
    "day": [None, datetime.date(9999, 12, 31)],
    "at": [datetime.datetime(1, 1, 1)],
    "level": [0, -3, None, LOWEST, 2**60],
}
records = st.fixed_dictionaries(
    {name: st.sampled_from(GOOD[name] * 4 + BAD[name]) for name in INITIAL.columns}
)


@cache
def started() -> StreamCondenser:
    made = StreamCondenser(k=4, init_size=20, columns=COLUMNS, random_state=0)
    return made.partial_fit(INITIAL)


def refusal(frame: pl.DataFrame) -> str:
    try:
        copy.deepcopy(started()).partial_fit(frame)
    except DataError as error:
        return str(error)
    return ""


def check_refusals(frame: pl.DataFrame) -> dict[int, str]:
    """Compares with the records tried one by one; returns those that are refused."""
    alone = {row: refusal(frame[row]) for row in range(frame.height)}
    expected = {row: reason for row, reason in alone.items() if reason}
    found = started().refusals(frame)
    assert set(found) == set(expected)
    assert all(expected[row].startswith(found[row] + " (1 of 1 records): ") for row in found)
    left = [row for row in alone if row not in expected]
    assert not left or not refusal(frame[left])
    return expected


@pytest.mark.slow
@few(40)
@given(st.lists(records, min_size=1, max_size=8))
def test_refusals_are_those_that_are_refused_alone(made: list[dict[str, object]]) -> None:
    check_refusals(pl.DataFrame(made, schema=INITIAL.schema))


def good_rows(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{name: rng.choice(GOOD[name]) for name in GOOD} for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "share"), [(0, 0.0), (1, 0.02), (2, 0.3), (3, 1.0)])
def test_few_and_many_bad_values_anywhere(seed: int, share: float) -> None:
    rng = random.Random(seed)
    made = good_rows(250, seed)
    names = [name for name in BAD if BAD[name]]
    for row in made:
        if rng.random() < share:
            for name in rng.sample(names, rng.choice([1, 1, 3])):
                row[name] = rng.choice(BAD[name])
    found = check_refusals(pl.DataFrame(made, schema=INITIAL.schema))
    assert (len(found) > 0) == (share > 0)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 39])
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in BAD for value in BAD[name]], ids=str
)
def test_one_bad_value_blames_its_own_record(name: str, value: Any, place: int) -> None:
    made = good_rows(40, 5)
    made[place][name] = value
    frame = pl.DataFrame(made, schema=INITIAL.schema)
    assert set(started().refusals(frame)) == ({place} if refusal(frame[place]) else set())


@pytest.mark.slow
def test_another_type_is_refused_in_every_record() -> None:
    frame = INITIAL.with_columns(sure=pl.lit("yes"))
    assert set(check_refusals(frame)) == set(range(20))


@pytest.mark.slow
def test_numbers_of_other_widths_are_compared_as_they_are() -> None:
    for dtype, value in ((pl.Int8, 127), (pl.UInt64, 2**64 - 1), (pl.Float32, INFINITY)):
        ages = pl.Series([value, *[20] * 19], dtype=dtype)
        assert set(check_refusals(INITIAL.with_columns(age=ages))) == {0}


@pytest.mark.slow
def test_values_outside_public_bounds_are_refused_alike_in_any_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(300)
    wrong = [60, 61, 200, 299]  # the first after the initial records, and the very last
    for place in wrong:
        made[place]["age"] = 200
    source = write_ndjson(tmp_path / "in.ndjson", made)
    policy = tmp_path / "policy.toml"
    kinds = {"age": "integer", "income": "decimal", "city": "category", "kind": "category"}
    lines = [f'{name} = {{kind = "{kind}", role = "sensitive"}}' for name, kind in kinds.items()]
    lines[0] = lines[0].replace("}", ", bounds = [0, 120]}")
    lines.append('level = {kind = "integer", role = "level"}')
    policy.write_text("\n".join(["[columns]", *lines]))
    lists = []
    for batch in (50_000, 7, 1):
        monkeypatch.setattr(running, "BATCH", batch)
        state = tmp_path / f"st{batch}"
        out = tmp_path / f"out{batch}"
        done = stream(str(source), out, state=state, policy=str(policy), **OPTIONS)
        assert (done.summary["seen"], done.summary["rejected"]) == (296, 4)
        text = (tmp_path / f"st{batch}.rejects.ndjson").read_text()
        lists.append([json.loads(line) for line in text.splitlines()])
        same_groups(tmp_path / "st50000", state)
    assert [entry["line"] for entry in lists[0]] == [place + 1 for place in wrong]
    assert lists[0] == lists[1] == lists[2]


@pytest.mark.slow
def test_many_misfits_cost_few_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows(400)
    mixed = [
        {**row, "age": "unknown"} if place % 4 == 3 and place > 150 else row
        for place, row in enumerate(made)
    ]
    source = write_ndjson(tmp_path / "in.ndjson", mixed)
    tries = []
    for name in ("partial_fit", "_take_fine"):
        monkeypatch.setattr(
            f"tulle._commands._stream_intake.StreamCondenser.{name}",
            lambda *given, take=getattr(StreamCondenser, name): tries.append(1) or take(*given),
        )
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert len(tries) == 2  # the initial records, and all others that fit
    text = (tmp_path / "st.rejects.ndjson").read_text()
    listed = [json.loads(line) for line in text.splitlines()]
    lines = [place + 1 for place, row in enumerate(mixed) if row["age"] == "unknown"]
    assert [entry["line"] for entry in listed] == lines
    assert done.summary["rejected"] == len(lines) > 60
    monkeypatch.undo()
    monkeypatch.setattr(running, "BATCH", 7)
    stream(str(source), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")
    again = (tmp_path / "st2.rejects.ndjson").read_text()
    assert [json.loads(line)["line"] for line in again.splitlines()] == lines
