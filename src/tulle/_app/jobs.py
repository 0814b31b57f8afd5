"""Jobs: commands of ``tulle`` in a process of their own, and everything about them in files.

A job is a folder. Its worker holds a lock on the file ``lock`` as long as it lives, so that any
server, also one that was started later, knows whether it still works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tulle._files import atomic_write, is_held

State = Literal["none", "running", "done", "failed", "stopped"]
_NOTHING: dict[str, Any] = {"task": "", "done": 0, "total": None, "note": "", "seconds": 0}
_SAID_BY = re.compile(r"^tulle: (--[\w-]+: )?")
_GIVE_UP = 5.0  # seconds until a worker that was asked to end is killed


@dataclass(frozen=True)
class RunningJob:
    """The folder of a job; it need not be there yet."""

    place: Path

    @property
    def state(self) -> State:
        """What became of it; 'stopped' if it was cancelled or killed."""
        if not (self.place / "job.json").exists():
            return "none"
        if self.is_alive():
            return "running"
        codes = self.codes
        if any(codes):
            return "failed"
        return "done" if len(codes) == len(self.description["commands"]) else "stopped"

    @property
    def description(self) -> dict[str, Any]:
        """What was started, and when."""
        found: dict[str, Any] = _read(self.place / "job.json")
        return found

    @property
    def codes(self) -> list[int]:
        """The exit codes of the commands that have ended."""
        found = []
        for number in range(len(self.description.get("commands", []))):
            with suppress(OSError, ValueError):
                found.append(int((self.place / f"{number}.code").read_text()))
        return found

    def result(self, number: int = 0) -> dict[str, Any]:
        """Return what a command printed as JSON; empty if it did not get so far."""
        return _read(self.place / f"{number}.out")

    @property
    def complaints(self) -> list[str]:
        """What the commands said on standard error, without names of the program and options."""
        found = []
        for number in range(len(self.description.get("commands", []))):
            with suppress(OSError):
                lines = (self.place / f"{number}.err").read_text(errors="replace").splitlines()
                found += [_SAID_BY.sub("", line) for line in lines if line.strip()]
        return found

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is: ``task``, ``done``, ``total``, ``note``, and seconds so far and left."""
        found = _NOTHING | _read(self.place / "progress.json")
        spent = time.time() - self.description.get("started", time.time())
        done, total = found["done"], found["total"]
        left = found["seconds"] * (total - done) / done if total and done else None
        return {**found, "spent": spent, "left": left}

    def is_alive(self) -> bool:
        """Return whether the worker holds its lock."""
        return is_held(self.place / "lock")

    def start(self, root: Path, commands: Sequence[Sequence[str]]) -> None:
        """Run commands in ``root``; what an earlier run of this job left is removed."""
        if self.is_alive():
            return
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True, mode=0o700)
        job = {"commands": commands, "root": str(root), "started": time.time()}
        _write(self.place / "job.json", job)
        worker = subprocess.Popen(
            [sys.executable, "-m", "tulle._app.worker", str(self.place)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _write(self.place / "pid.json", {"pid": worker.pid})
        _STARTED.append(worker)
        while not self.is_alive() and worker.poll() is None:
            time.sleep(0.005)  # until then it would look as if it had stopped

    def cancel(self) -> None:
        """End the worker and its command; what was kept so far stays."""
        found = _read(self.place / "pid.json").get("pid")
        if found is None or not self.is_alive():
            return
        for kill in (False, True):
            _end(found, kill=kill)
            deadline = time.monotonic() + _GIVE_UP
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.05)


_STARTED: list[subprocess.Popen[bytes]] = []  # workers of this server


def _end(worker: int, *, kill: bool = False) -> None:
    """End a worker and its command: their group, or their tree where there are no groups."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(worker, signal.SIGKILL if kill else signal.SIGTERM)
    else:
        words = ["taskkill", "/T", "/F", "/PID", str(worker)]
        subprocess.run(words, capture_output=True, check=False)


def end_all() -> None:
    """End the workers that this server started; they go on from what they kept."""
    for worker in _STARTED:
        if worker.poll() is None:
            _end(worker.pid)


def reap() -> None:
    """Collect workers that have ended."""
    _STARTED[:] = [worker for worker in _STARTED if worker.poll() is None]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: Any) -> None:
    with atomic_write(path, force=True, mode=0o600) as file:
        file.write(json.dumps(value).encode())
