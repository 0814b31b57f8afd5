"""fast beside sdcMicro's MDAV, and its growth to a million records."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.groupings import grouped, loss, mixture
from benchmarks.results import timed, write_table

R_CODE = """
suppressMessages(library(sdcMicro))
x <- as.matrix(read.csv(commandArgs(TRUE)[1], header = FALSE))
t <- system.time(m <- microaggregation(as.data.frame(x), method = 'mdav', aggr = 10))
released <- as.matrix(m$mx)
centred <- sweep(x, 2, colMeans(x))
cat(t[['user.self']] + t[['sys.self']], 100 * sum((x - released)^2) / sum(centred^2))
"""


def sdcmicro(matrix: np.ndarray) -> tuple[float, float] | None:
    """CPU seconds and loss of sdcMicro's MDAV, if it is installed."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path, code = Path(folder, "x.csv"), Path(folder, "run.R")
        np.savetxt(path, matrix, delimiter=",")
        code.write_text(R_CODE)
        run = subprocess.run(["Rscript", code, path], capture_output=True, text=True)
    if run.returncode:
        return None
    seconds, lost = run.stdout.split()[-2:]
    return float(seconds), float(lost)


def main(quick: bool) -> None:
    threads = os.environ.get("OMP_NUM_THREADS", "as set")
    rows = []
    grouped(mixture(20_000), 10, "fast")  # compile
    for n in (10_000,) if quick else (10_000, 100_000, 1_000_000):
        matrix = mixture(n)
        groups, seconds = timed(lambda matrix=matrix: grouped(matrix, 10, "fast"))
        lost = loss(matrix, groups)
        peer = sdcmicro(matrix) if n <= 100_000 else None
        rows.append(
            [
                f"{n:,}",
                f"{seconds:.2f}",
                f"{lost:.3f}",
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
                "-" if peer is None else f"{peer[0]:.2f}",
                "-" if peer is None else f"{peer[1]:.3f}",
                "-" if peer is None else f"{peer[0] / seconds:.0f}",
                "-" if peer is None else f"{lost / peer[1]:.3f}",
            ]
        )
    write_table(
        "grouping_speed",
        "Groups of 10 in 10 columns: fast beside sdcMicro's microaggregation(method='mdav')",
        [
            "records",
            "fast, CPU s",
            "loss",
            "peak MB",
            "sdcMicro, CPU s",
            "loss",
            "times faster",
            "loss ratio",
        ],
        rows,
        notes="A mixture of 20 correlated Gaussians; kernels compiled before; sdcMicro runs "
        "in the same run where Rscript finds it ('-' where not, and at a million records: its "
        f"quadratic time would be over an hour). OMP_NUM_THREADS: {threads}.",
        seed=0,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
