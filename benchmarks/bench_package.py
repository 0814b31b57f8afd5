"""What the package costs: disk for itself and what it needs, CPU seconds until it is there."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from statistics import median

from benchmarks.results import write_table

SOURCE = Path(__file__).parents[1] / "src" / "tulle"
TIMES = 5
STARTS = {
    "python, for comparison": ["-c", "pass"],
    "import sklearn.base, for comparison": ["-c", "import sklearn.base"],
    "import tulle": ["-c", "import tulle"],
    "from tulle import Condenser": ["-c", "from tulle import Condenser"],
    "from tulle import audit": ["-c", "from tulle import audit"],
    "tulle --help": ["-m", "tulle", "--help"],
    "tulle condense --help": ["-m", "tulle", "condense", "--help"],
    "tulle condense MISSING.csv -o r.csv": [
        "-m",
        "tulle",
        "condense",
        "MISSING.csv",
        "-o",
        "r.csv",
    ],
}


def cpu_seconds(words: list[str]) -> float:
    """CPU seconds of a fresh Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def needed(name: str, found: dict[str, Distribution]) -> None:
    """Collect what a package needs, without extras."""
    try:
        there = distribution(name)
    except PackageNotFoundError:
        return
    key = there.metadata["Name"].lower().replace("_", "-")
    if key in found:
        return
    found[key] = there
    for line in there.requires or []:
        if "extra ==" not in line:
            needed(name_of(line), found)


def name_of(requirement: str) -> str:
    return re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0]


def megabytes(there: Distribution) -> float:
    files = [Path(str(file.locate())) for file in there.files or []]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def main(quick: bool = False) -> None:
    found: dict[str, Distribution] = {}
    asked = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    for line in asked["dependencies"]:  # an installed Tulle may be of another day
        needed(name_of(line), found)
    others = {name: megabytes(there) for name, there in found.items()}
    own = [file for file in SOURCE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    largest = sorted(others, key=lambda name: -others[name])[:6]
    rows: list[list[object]] = [
        ["Tulle itself", f"{sum(file.stat().st_size for file in own) / 1e6:.1f} MB"],
        [f"the {len(others)} packages that it needs", f"{sum(others.values()):.0f} MB"],
        *([f"- {name}", f"{others[name]:.0f} MB"] for name in largest),
    ]
    for title, words in STARTS.items():
        cpu_seconds(words)  # files are cached, bytecode is written
        spent = median(cpu_seconds(words) for _ in range(1 if quick else TIMES))
        rows.append([f"`{title}`" if "," not in title else title, f"{spent:.2f} CPU s"])
    write_table(
        "package",
        "What the package costs",
        ["what", "cost"],
        rows,
        notes="Disk: installed files, without extras and bytecode of Tulle. CPU seconds: the "
        f"median of {TIMES} fresh processes with warm files, everything included. A condenser "
        "loads polars and NumPy; scikit-learn, SciPy and pandas are loaded where they work. Load "
        f"of the machine meanwhile: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores.",
        packages=("polars", "numpy", "scikit-learn", "numba"),
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
