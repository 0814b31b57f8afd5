"""Where benchmark tables and pictures go, and how time is taken.

Times are CPU seconds of this process and its threads: wall time on a shared machine says little.
"""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

RESULTS = Path(__file__).parent / "results"
Result = TypeVar("Result")


def data_folder() -> Path:
    """The folder of real data sets, from ``TULLE_DATA``."""
    folder = os.environ.get("TULLE_DATA")
    if not folder or not Path(folder).is_dir():
        sys.exit("Set TULLE_DATA to the folder of the benchmark data.")
    return Path(folder)


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result of some work and the CPU seconds it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def peak_of(pid: int) -> float:
    """The largest resident size of a process so far, in MB.

    ``ru_maxrss`` would not do: it begins with the size of the process that started this one.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), default=0.0)


def run_parts(parts: Mapping[str, Callable[[bool], None]]) -> None:
    """Run the parts of a benchmark that the command line names (``--only a b``), or all."""
    given = sys.argv[sys.argv.index("--only") + 1 :] if "--only" in sys.argv else list(parts)
    for part in itertools.takewhile(lambda word: not word.startswith("--"), given):
        parts[part]("--quick" in sys.argv)


def write_table(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    notes: str = "",
    packages: Sequence[str] = ("numpy", "numba", "scikit-learn"),
    seed: int | None = None,
    quick: bool = False,
) -> None:
    """Writes ``results/NAME.md`` with versions, sizes, seed and date, and prints the table."""
    table = as_table(header, rows)
    print(f"\n{title}\n{table}\n{notes}")
    if quick:
        return
    made = f"Made {datetime.date.today()} by `{Path(sys.argv[0]).stem or 'benchmarks'}`"
    seed_note = "" if seed is None else f", seed {seed}"
    text = f"# {title}\n\n{table}\n\n{notes}\n\n{made}{seed_note}. {_versions(packages)}\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)


def as_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown, for a section of its own in the notes of another."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def save_chart(name: str, chart: Any, *, quick: bool = False) -> None:
    """Writes an Altair chart as ``results/NAME.svg`` and ``.png``."""
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    chart.save(RESULTS / f"{name}.svg")
    chart.save(RESULTS / f"{name}.png", scale_factor=2)


def _versions(packages: Sequence[str]) -> str:
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found) + f"; {os.cpu_count()} cores."


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
