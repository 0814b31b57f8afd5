"""Jobs survive the server, are cancelled whole, and say what became of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle import load_policy
from tulle._app.jobs import RunningJob, reap
from tulle._app.study import Study
from tulle._progress import bar, shown

pytestmark = pytest.mark.slow

_START = """
import sys
from pathlib import Path
from tulle._app.study import Study
Study(Path(sys.argv[1]), "people.csv").start_explore(quick=False)
print("started", flush=True)
sys.stdin.read()
"""


def until(true: Callable[[], object], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(job: RunningJob) -> RunningJob:
    until(lambda: job.state != "running")
    reap()
    return job


def test_a_job_runs_commands_in_order_and_ends_with_the_first_that_fails(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job")
    assert job.state == "none"
    (tmp_path / "people.csv").write_text("age\n1\n2\n3\n")
    job.start(tmp_path, [["inspect", "people.csv", "--json"], ["inspect", "no.csv"], ["--help"]])
    ended(job)
    assert job.state == "failed"
    assert job.codes == [0, 2]
    assert job.result(0)["records"] == 3
    assert "no.csv" in job.complaints[-1]
    assert not job.complaints[-1].startswith("tulle")


def explored(folder: Path) -> Study:
    """A table whose exploration takes long enough to be interrupted."""
    rng = np.random.default_rng(0)
    for name in ("people.csv", "others.csv"):
        numbers = {f"c{i}": rng.normal(size=200).round(3) for i in range(3)}
        pl.DataFrame(numbers).write_csv(folder / name)
    study = Study(folder, "people.csv")
    entries = "".join(
        f'[columns.c{i}]\nkind="decimal"\nrole="quasi-identifier"\n' for i in range(3)
    )
    study.policy_file.write_text(entries + "[explore]\nk = [3, 5, 10]\nseed = 1\n")
    study.answer(control={"file": "others.csv"}, unit="row")
    return study


def points(study: Study) -> dict[str, int]:
    found = (study.explore_place / "points").glob("*.json")
    return {path.name: path.stat().st_mtime_ns for path in found}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that starts an exploration as the server does; it ends with the test."""
    study = explored(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", _START, str(study.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        process.kill()


def test_a_killed_server_and_a_killed_worker_lose_nothing(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    study = Study(tmp_path, "people.csv")
    assert server.stdout is not None
    assert server.stdout.readline() == b"started\n"
    until(lambda: len(points(study)) >= 1)
    server.kill()
    server.wait()
    job = study.explore_job
    assert job.state == "running"  # another process sees it by its lock
    assert job.progress["total"] > len(points(study)) >= 1
    until(lambda: len(points(study)) >= 3)
    os.killpg(json.loads((job.place / "pid.json").read_text())["pid"], signal.SIGKILL)
    assert ended(job).state == "stopped"
    before = points(study)
    study.start_explore(quick=False)
    assert ended(job).state == "done"
    after = points(study)
    assert {name: after[name] for name in before} == before  # nothing was measured twice
    assert len(after) > len(before)
    found = study.exploration()
    assert found is not None
    assert [point.id for point in found.points if point.spec.is_release]
    assert load_policy(study.policy_file).parameters["explore"]["k"] == [3, 5, 10]


def test_cancelling_ends_the_command_too(tmp_path: Path) -> None:
    study = explored(tmp_path)
    study.start_explore(quick=False)
    job = study.explore_job
    until(lambda: len(points(study)) >= 1)
    study.start_explore(quick=False)  # a second click starts nothing
    assert job.state == "running"
    job.cancel()
    reap()
    assert job.state == "stopped"
    count = len(points(study))
    time.sleep(0.5)
    assert len(points(study)) == count


def test_progress_is_told_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress.json"
    monkeypatch.setenv("TULLE_PROGRESS", str(path))
    with shown(), bar("outer", 4) as advance:
        assert json.loads(path.read_text())["done"] == 0
        with bar("inner", None):
            told = json.loads(path.read_text())
        time.sleep(0.31)
        advance(3, note="third")
        after = json.loads(path.read_text())
    assert (told["task"], told["total"]) == ("outer", 4)
    assert (after["done"], after["note"]) == (3, "third")
