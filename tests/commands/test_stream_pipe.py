"""Standard input as a source of ``tulle stream``."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.reference.streams import OPTIONS, groups, rows, same_groups, write_csv, write_ndjson
from tulle._commands.stream import stream
from tulle.errors import DataError, TulleError

pytestmark = pytest.mark.slow


def test_standard_input_replayed_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(300)

    def piped(records: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        text = "".join(json.dumps(record) + "\n" for record in records)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        options = {**OPTIONS, "state": tmp_path / "st", "kind": "ndjson", **more}
        return stream("-", tmp_path / "out", **options).summary

    assert piped(made[:200])["seen"] == 200
    with pytest.raises(TulleError, match="--restart"):
        piped(made)
    assert piped(made, restart="replayed")["seen"] == 300
    whole = write_ndjson(tmp_path / "whole.ndjson", made)
    stream(str(whole), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")
    with pytest.raises(DataError):
        piped(made[:5], restart="replayed")
    options = {"state": tmp_path / "st3", "force": True}
    assert piped(made[:200], **options)["waiting"] == 1
    assert piped(made[200:], **options, restart="continued")["seen"] == 300
    same_groups(tmp_path / "st3", tmp_path / "st2")


@pytest.mark.parametrize("steps", [(120, 200), (60, 100, 140, 240)])
def test_a_csv_pipe_that_was_continued_is_replayed_from_the_right_line(
    steps: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run has a header, the replay only one; record 150 waits."""
    header, *lines = write_csv(tmp_path / "whole.csv", rows(300)).read_text().splitlines()
    options = {**OPTIONS, "state": tmp_path / "st", "kind": "csv"}

    def piped(start: int, stop: int, restart: str | None) -> dict[str, Any]:
        text = "\n".join([header, *lines[start:stop], ""])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return stream("-", tmp_path / "out", restart=restart, **options).summary

    for start, stop in zip((0, *steps), steps):
        assert piped(start, stop, "continued" if start else None)["seen"] == stop
    told = piped(0, 300, "replayed")
    assert (told["seen"], told["read"], told["waiting"]) == (300, 300, 1)
    stream(str(tmp_path / "whole.csv"), tmp_path / "o2", **{**options, "state": tmp_path / "st2"})
    same_groups(tmp_path / "st", tmp_path / "st2")
    again = piped(0, 300, "replayed")
    assert (again["seen"], again["waiting"]) == (300, 1)


def test_a_slow_pipe_is_answered_and_stopped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [{**row, "level": 4} for row in rows(101)]
    reading, writing = os.pipe()

    def send(records: list[dict[str, Any]]) -> None:
        os.write(writing, "".join(json.dumps(record) + "\n" for record in records).encode())

    def count() -> int:
        exists = (tmp_path / "st").exists()
        return int(groups(tmp_path / "st")["0.groups.counts"].sum()) if exists else 0

    def feed() -> None:
        for start, stop in ((0, 100), (100, 101)):  # one record is not kept waiting for more
            send(made[start:stop])
            for _ in range(400):
                time.sleep(0.02)
                if count() == stop:
                    break
        os.kill(os.getpid(), signal.SIGINT)  # the pipe is open, and nothing more comes

    feeder = threading.Thread(target=feed)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        feeder.start()
        done = stream(
            "-", tmp_path / "out", state=tmp_path / "st", kind="ndjson", checkpoint=0.0, **OPTIONS
        )
        feeder.join()
    os.close(writing)
    assert done.summary["seen"] == count() == 101
