"""What tests of the app leave behind: nothing, also where they fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tulle._app.jobs import RunningJob, reap


@pytest.fixture(autouse=True)
def seeded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the commands of jobs, which are processes of their own, the same bits in every run."""
    monkeypatch.setenv("TULLE_SEED", "1")


@pytest.fixture(autouse=True)
def no_worker_outlives_its_test(tmp_path: Path) -> Iterator[None]:
    """Workers have sessions of their own, so that the end of a server does not end them."""
    yield
    for path in tmp_path.rglob("pid.json"):
        RunningJob(path.parent).cancel()
    reap()
