"""The process that runs the commands of a job, one after another: ``python -m tulle._app.worker``.

It outlives the server. What it finds is in the files of the job's folder: the output and the exit
code of each command. A command that fails ends the job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tulle._files import lock


def main(folder: str) -> None:
    """Run the commands that ``job.json`` lists; each leaves ``N.out``, ``N.err`` and ``N.code``."""
    place = Path(folder)
    held = (place / "lock").open("wb")  # until the process ends
    lock(held.fileno(), wait=True)
    job = json.loads((place / "job.json").read_text())
    for number, words in enumerate(job["commands"]):
        words, secret = _without_seed(words)
        environment = {**os.environ, "TULLE_PROGRESS": str(place / "progress.json"), **secret}
        if words[0] == "pictures":
            program, words = "tulle._app.pictures", words[1:]
        else:
            program = "tulle"
        with (place / f"{number}.out").open("wb") as out, (place / f"{number}.err").open("wb") as e:
            code = subprocess.run(
                [sys.executable, "-m", program, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=e,
                cwd=job["root"],
                env=environment,
                check=False,
            ).returncode
        (place / f"{number}.code").write_text(str(code))
        if code:
            break


def _without_seed(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Move the seed, which is a secret, from the command line, which all users can read."""
    if "--seed" not in words:
        return words, {}
    place = words.index("--seed")
    return [*words[:place], *words[place + 2 :]], {"TULLE_SEED": words[place + 1]}


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1])
