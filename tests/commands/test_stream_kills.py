"""kill -9 at random moments, and at the worst ones: every record is counted exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.killing import run_and_kill
from tests.reference.streams import OPTIONS, rows, same_groups, write_ndjson
from tulle._commands._stream_intake import Rejects
from tulle._commands.stream import stream
from tulle._files import digest
from tulle.errors import OutputExists
from tulle.stream._checkpoints import Checkpoint

pytestmark = pytest.mark.slow

KILLS = 8  # 200 in benchmarks/bench_stream_kills.py
COUNT = 2_000


def records(path: Path) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for place in range(COUNT):
            level = 80 if place == 700 else int(rng.integers(3, 7))
            row = {"a": float(rng.normal()), "b": float(rng.normal()), "level": level}
            file.write(json.dumps(row) + "\n")
            if place == 9 or place % 400 == 399:  # among the initial records, too
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
        for name in set(expected.files) - {"header.json", "private"}:  # never sealed alike
            np.testing.assert_array_equal(expected[name], found[name])
    rejects = "state.rejects.ndjson"
    assert (whole / rejects).read_bytes() == (broken / rejects).read_bytes()
    tables = sorted(path.name for path in (whole / "out").glob("*.parquet"))
    assert tables == sorted(path.name for path in (broken / "out").glob("*.parquet"))
    assert len(tables) == 4
    for name in tables:
        assert digest(whole / "out" / name) == digest(broken / "out" / name)
    assert not list(tmp_path.rglob("*.part"))


class Kill(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def kill_at(
    call: int, owner: type, name: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Ends the run before or after some call of a method, counted from 0."""
    method, calls = getattr(owner, name), iter(range(call + 1))

    def die(*given: Any) -> None:
        last = next(calls) == call
        if last and not after:
            raise Kill
        method(*given)
        if last:
            raise Kill

    monkeypatch.setattr(owner, name, die)


@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), [(Checkpoint, "write"), (Rejects, "flush")])
def test_a_kill_between_the_state_and_the_rejects_lists_every_refusal_once(
    owner: type, name: str, after: bool, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(300)
    source = tmp_path / "in.ndjson"
    source.write_text("{broken\n")
    write_ndjson(source, made[:180], "a")
    with source.open("a") as file:
        file.write("{broken, too\n")
    write_ndjson(source, made[180:], "a")
    options = {**OPTIONS, "every": 100}
    stream(str(source), tmp_path / "whole", state=tmp_path / "st1", **options)
    kill_at(call, owner, name, monkeypatch, after)
    with pytest.raises(Kill):
        stream(str(source), tmp_path / "out", state=tmp_path / "st2", **options)
    monkeypatch.undo()
    for _ in range(2):  # once more, with nothing new to save
        done = stream(str(source), tmp_path / "out", state=tmp_path / "st2", **options)
        assert (done.summary["seen"], done.summary["rejected"]) == (300, 2)
        listed = (tmp_path / "st2.rejects.ndjson").read_text()
        assert [json.loads(line)["line"] for line in listed.splitlines()] == [1, 182]
    same_groups(tmp_path / "st1", tmp_path / "st2")


def test_rejects_of_another_stream_are_not_taken_for_those_of_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    rejects = tmp_path / "st.rejects.ndjson"
    rejects.write_text('{"source": "other"}\n')
    options = {**OPTIONS, "state": tmp_path / "st"}
    kill_at(0, Checkpoint, "write", monkeypatch, after=False)
    with pytest.raises(OutputExists, match="--force"):
        stream(str(source), tmp_path / "out", **options)
    with pytest.raises(Kill):
        stream(str(source), tmp_path / "out", force=True, **options)
    monkeypatch.undo()
    assert stream(str(source), tmp_path / "out", **options).summary["rejected"] == 0
    assert rejects.read_text() == ""
