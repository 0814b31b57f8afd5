"""Runs ``tulle stream`` again and again and kills it (SIGKILL) at random moments.

``python -m tests.reference.killing KILLS SEED STATE arguments of tulle stream``. Importing the
libraries costs seconds, so this process imports them once and forks for every run. The last run
is left alone. Prints how many kills hit a living process and how often a run reached its end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

BATCH = 25  # lines: many checkpoints in little time
ROOT = Path(__file__).parents[2]
LONGEST = 0.06  # seconds after the first new checkpoint


def run_and_kill(folder: Path, source: str, kills: int, every: int) -> dict[str, int]:
    """Streams records with levels into a new folder (state, out), killed so many times."""
    folder.mkdir()
    state = str(folder / "state")
    arguments = [source, "-o", str(folder / "out"), "--state", state, "--k", "4", "--init", "60"]
    arguments += ["--levels", "level", "--seed", "1", "--checkpoint", "0", "--every", str(every)]
    command = [sys.executable, __file__, str(kills), "0", state]
    done = subprocess.run(
        [*command, *arguments], stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told


def main() -> None:
    kills, seed, state, *arguments = sys.argv[1:]
    import sklearn.base
    import sklearn.utils.validation  # noqa: F401

    import tulle._commands.stream  # noqa: F401

    chance, hit, ended = random.Random(int(seed)), 0, 0
    for _ in range(int(kills)):
        child = run(arguments)
        if kill_soon(child, Path(state), chance):
            hit += 1
        else:
            ended += 1
    _, status = os.waitpid(run(arguments), 0)
    print(json.dumps({"kills": hit, "ended": ended, "status": os.waitstatus_to_exitcode(status)}))


def run(arguments: list[str]) -> int:
    """Starts one run in a child; its process id."""
    child = os.fork()
    if child:
        return child
    import tulle._commands.stream as running
    from tulle.cli import main as command_line

    running.BATCH = BATCH
    sys.argv = ["tulle", "stream", *arguments]
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        command_line()
    except SystemExit as stop:
        os._exit(int(stop.code or 0))
    os._exit(0)


def kill_soon(child: int, state: Path, chance: random.Random) -> bool:
    """Kills the child at a random moment; False if it had ended by itself."""
    before = state.stat().st_mtime_ns if state.exists() else 0
    early = chance.random() < 0.2  # some die before they save anything
    deadline = time.monotonic() + (chance.uniform(0, 0.3) if early else 60)
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        if not early and state.exists() and state.stat().st_mtime_ns > before:
            break
        time.sleep(0.002)
    time.sleep(0 if early else chance.uniform(0, LONGEST))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
