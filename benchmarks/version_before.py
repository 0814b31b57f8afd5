"""Releases of an earlier version, which runs in an environment of its own.

As a script (``python version_before.py FOLDER`` in that environment) it answers requests: each line
of standard input holds the parameters of a Condenser as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl


class VersionBefore:
    """A process of the earlier version that makes releases on request."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[VersionBefore | None]:
        """Start the Python that ``TULLE_BEFORE`` names; None without it."""
        python = os.environ.get("TULLE_BEFORE")
        if not python:
            yield None
            return
        with tempfile.TemporaryDirectory() as folder:
            command = [python, __file__, folder]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
                yield cls(process, Path(folder))

    def release(self, table: pl.DataFrame, **options: Any) -> pl.DataFrame:
        """Return the release that the earlier version makes with these parameters."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        table.write_parquet(self.folder / "table.parquet")
        print(json.dumps(options), file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"
        return pl.read_parquet(self.folder / "release.parquet")


def answer(folder: Path) -> None:
    """Make a release for each line of standard input."""
    import warnings

    from tulle import Condenser

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        table = pl.read_parquet(folder / "table.parquet")
        release = Condenser(**json.loads(line)).fit_resample(table)
        release.write_parquet(folder / "release.parquet")
        print("done", flush=True)


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
