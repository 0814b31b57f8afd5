"""fast against MDAV on every table of the data folder, heavy tails and duplicates included."""

from __future__ import annotations

import sys

from benchmarks.groupings import grouped, loss, numeric
from benchmarks.results import timed, write_table

FILES = [
    "microagg/census",
    "microagg/free1",
    "microagg/sdcmicro_testdata",
    *(f"tables/{name}" for name in ("abalone", "adult_train", "ecoli", "german_numeric")),
    *(
        f"tables/{name}"
        for name in ("ionosphere", "iris", "magic", "pima", "waveform_noise", "wdbc")
    ),
    "large/kddcup99_10pct",
    "large/skin_segmentation",
]
ROWS = 20_000  # MDAV is quadratic


def main(quick: bool) -> None:
    rows = []
    for name in FILES[:1] if quick else FILES:
        matrix = numeric(name, ROWS)
        for k in (5, 20):
            mdav, slow = timed(lambda k=k, m=matrix: grouped(m, k, "mdav"))
            fast, quickly = timed(lambda k=k, m=matrix: grouped(m, k, "fast"))
            before, after = loss(matrix, mdav), loss(matrix, fast)
            shape = f"{len(matrix):,} x {matrix.shape[1]}"
            ratio = after / before if before else 1.0
            rows.append([name, shape, k, before, after, f"{ratio:.3f}", slow, quickly])
    write_table(
        "grouping_files",
        "fast against MDAV: information loss on every numeric table",
        ["file", "shape", "k", "MDAV", "fast", "fast / MDAV", "MDAV, CPU s", "fast, CPU s"],
        rows,
        notes=f"The first {ROWS:,} records of longer files (MDAV is quadratic).",
        seed=0,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
