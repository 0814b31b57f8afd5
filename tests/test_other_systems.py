"""Commands where there is no fcntl, no group of processes, no fork and no file without a name.

That is what macOS and Windows lack of what Linux has. There is no such machine here, so it is taken
away in every process that these tests start: by a ``sitecustomize`` that Python loads first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.slow

_POORER = """
import fcntl, os, subprocess, sys, types

def locking(handle, how, count):
    assert count == 1
    fcntl_real.flock(handle, fcntl_real.LOCK_EX | (0 if how == 1 else fcntl_real.LOCK_NB))

fcntl_real, msvcrt = fcntl, types.ModuleType("msvcrt")
msvcrt.locking, msvcrt.LK_LOCK, msvcrt.LK_NBLCK = locking, 1, 2
sys.modules["fcntl"], sys.modules["msvcrt"] = None, msvcrt
for name in ("O_TMPFILE", "fork", "forkpty", "killpg", "sched_getaffinity", "getuid", "fchmod"):
    delattr(os, name)
"""
_APP = """
import sys, time
from pathlib import Path
from tulle._app.study import Study

study = Study(Path(sys.argv[1]), "people.csv")
job = study.job("inspect")
study.start_inspection()
assert job.state in ("running", "done"), job.state
while job.state == "running":
    time.sleep(0.1)
print(job.state, job.complaints)
"""


@pytest.fixture
def poorer(tmp_path: Path) -> dict[str, str]:
    """The environment of a poorer system."""
    place = tmp_path / "system"
    place.mkdir()
    (place / "sitecustomize.py").write_text(_POORER)
    return {**os.environ, "PYTHONPATH": str(place)}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = [{"age": 20 + i % 50, "ward": "abc"[i % 3], "cost": i % 97} for i in range(300)]
    pl.DataFrame(rows).write_csv(tmp_path / "people.csv")
    pl.DataFrame(rows).write_ndjson(tmp_path / "people.ndjson")
    return tmp_path


def done(folder: Path, environment: dict[str, str], *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_releases_are_made_and_verified(people: Path, poorer: dict[str, str]) -> None:
    lacks = "import os\ntry:\n    import fcntl\nexcept ImportError:\n    print(hasattr(os, 'fork'))"
    assert done(people, poorer, "-c", lacks) == "False\n"
    tulle = ["-m", "tulle"]
    done(people, poorer, *tulle, "inspect", "people.csv", "-o", "policy.toml")
    made = ["condense", "people.csv", "-o", "release.csv", "--k", "20", "--seed", "1", "--json"]
    told = json.loads(done(people, poorer, *tulle, *made, "--policy", "policy.toml", "--quick"))
    assert told["released"] == 300
    done(people, poorer, *tulle, *made, "--policy", "policy.toml", "--quick", "--force")
    done(people, poorer, *tulle, "verify", "release.csv")
    assert not [path.name for path in people.iterdir() if path.name.startswith(".")]


def test_a_stream_keeps_its_state(people: Path, poorer: dict[str, str]) -> None:
    stream = ["stream", "people.ndjson", "-o", "snapshots", "--state", "people.state", "--k", "5"]
    for _ in range(2):  # a second run goes on from the state of the first
        done(people, poorer, "-m", "tulle", *stream, "--plain-waiting")
    assert (people / "people.state").is_file()


def test_work_of_the_app_runs_beside_it(people: Path, poorer: dict[str, str]) -> None:
    assert done(people, poorer, "-c", _APP, str(people)) == "done []\n"
