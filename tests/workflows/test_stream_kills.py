"""kill -9 at random moments: every record is counted exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

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


def run(folder: Path, source: Path, kills: int) -> dict[str, int]:
    folder.mkdir()
    state = str(folder / "st")
    arguments = [str(source), "-o", str(folder / "out"), "--state", state, "--k", "4"]
    arguments += ["--init", "60", "--levels", "level", "--seed", "1", "--checkpoint", "0"]
    command = [sys.executable, "-m", "tests.reference.killing", str(kills), "0", state]
    found = subprocess.run(
        [*command, *arguments, "--every", "500"], capture_output=True, check=True, text=True
    )
    told: dict[str, int] = json.loads(found.stdout)
    return told


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    source = tmp_path / "in.ndjson"
    records(source)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole, source, 0)["status"] == 0
    told = run(broken, source, KILLS)
    assert told["status"] == 0
    assert told["kills"] >= KILLS // 2
    with np.load(whole / "st") as expected, np.load(broken / "st") as found:
        assert expected["0.groups.counts"].sum() == COUNT - 1  # one record waits
        for name in set(expected.files) - {"header.json"}:
            np.testing.assert_array_equal(expected[name], found[name])
    assert (whole / "st.rejects.ndjson").read_bytes() == (broken / "st.rejects.ndjson").read_bytes()
    tables = sorted(path.name for path in (whole / "out").glob("*.parquet"))
    assert tables == sorted(path.name for path in (broken / "out").glob("*.parquet"))
    assert len(tables) == 4
    for name in tables:
        assert digest(whole / "out" / name) == digest(broken / "out" / name)
    assert not list(tmp_path.rglob("*.part"))
