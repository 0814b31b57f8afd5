"""kill -9 at random moments: every record is counted exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.reference.killing import run_and_kill
from tulle.files import digest

KILLS = 8  # 200 in benchmarks/bench_stream_kills.py
COUNT = 2_000


def records(path: Path) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for place in range(COUNT):
            level = 80 if place == 700 else int(rng.integers(3, 7))
            row = {"a": float(rng.normal()), "b": float(rng.normal()), "level": level}
            file.write(json.dumps(row) + "\n")
            if place % 400 == 399:
                file.write("{broken\n")


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    source = tmp_path / "in.ndjson"
    records(source)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run_and_kill(whole, str(source), 0, every=500)["status"] == 0
    told = run_and_kill(broken, str(source), KILLS, every=500)
    assert told["status"] == 0
    assert told["kills"] >= KILLS // 2
    with np.load(whole / "state") as expected, np.load(broken / "state") as found:
        assert expected["0.groups.counts"].sum() == COUNT - 1  # one record waits
        for name in set(expected.files) - {"header.json"}:
            np.testing.assert_array_equal(expected[name], found[name])
    rejects = "state.rejects.ndjson"
    assert (whole / rejects).read_bytes() == (broken / rejects).read_bytes()
    tables = sorted(path.name for path in (whole / "out").glob("*.parquet"))
    assert tables == sorted(path.name for path in (broken / "out").glob("*.parquet"))
    assert len(tables) == 4
    for name in tables:
        assert digest(whole / "out" / name) == digest(broken / "out" / name)
    assert not list(tmp_path.rglob("*.part"))
