"""The search for the best groups that a time budget allows.

Starts from the default grouping and improves it by ruin and recreate with cooling. The plan of
work follows from the size of the input and the budget alone, at a speed that usual machines
exceed: there a seed and a budget always give the same groups. The clock only cuts the work short
on a slow or busy machine, as Ctrl-C does. The search cools down several times, each time for
longer, and keeps the best, so that a cut never costs more than what came last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tulle import progress
from tulle.condense.groupings.duplicates import set_aside
from tulle.condense.groupings.fast import search_open
from tulle.condense.groupings.repair import squared_error
from tulle.moments import Floats, Ints

if TYPE_CHECKING:
    from tulle.condense.groupings._search import Search

BUDGET = 10.0  # seconds, if none is given
LONGEST = 1e9  # seconds: thirty years
PLANNED = 0.35  # share of the budget that the planned work takes on a usual machine
CYCLES = (1, 3, 9)  # how the work is shared among coolings
HOT, COLD = 1.0, 0.05  # first and last temperature, as shares of a record's mean error
CHUNK = 0.1  # seconds between two looks at the clock


def best(
    matrix: Floats, levels: Ints, rng: np.random.Generator, *, time_budget: float | None = None
) -> Ints:
    """The lowest squared error found within ``time_budget`` seconds of search (10 by default).

    The time for the start, which is the default grouping, and for compiling comes on top.
    """
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    groups, number = set_aside(matrix, levels)
    rows = np.flatnonzero(groups < 0)
    start = search_open(matrix[rows], levels[rows], rng)
    if start.max() > 0:
        budget = BUDGET if time_budget is None else min(time_budget, LONGEST)
        start = _improved(matrix[rows], levels[rows], start, rng, budget)
    groups[rows] = number + start
    return groups


def _improved(
    matrix: Floats, levels: Ints, start: Ints, rng: np.random.Generator, budget: float
) -> Ints:
    """The best of the start and of the end of each cooling."""
    from tulle.condense.groupings._search import Search

    found, first = start, squared_error(matrix, start)
    least = first
    cost = step_seconds(start, matrix.shape[1])
    planned = PLANNED * budget / cost
    with suppress(KeyboardInterrupt), progress.bar("searching", planned) as advance:
        search = Search(matrix, levels, start, rng)
        deadline = time.monotonic() + budget
        for share in CYCLES:
            steps = int(planned * share / sum(CYCLES))
            chunk = max(1, round(CHUNK / cost))
            finished = _cool(search, steps, chunk, least / len(matrix), deadline, advance)
            error = squared_error(matrix, search.groups())
            if error < least:
                found, least = search.groups(), error
            advance(0, note=f"loss {100 * least / first:.1f}% of the start's" if first else "")
            if not finished:
                break
    return found


def _cool(
    search: Search,
    steps: int,
    chunk: int,
    usual: float,
    deadline: float,
    advance: Callable[..., None],
) -> bool:
    """One cooling, chunk by chunk; false if the clock or the user cut it short.

    ``usual`` is the mean error of a record, by which temperatures are measured.
    """
    chunks = steps // chunk + 1
    done, hot = 0, usual * HOT
    try:
        while done < chunks:
            if time.monotonic() >= deadline:
                return False
            done += 1
            cold = usual * HOT * (COLD / HOT) ** (done / chunks)
            search.run(min(chunk, steps), hot, cold)
            steps -= min(chunk, steps)
            hot = cold
            advance(chunk)
    except KeyboardInterrupt:
        return False
    return True


def step_seconds(groups: Ints, d: int) -> float:
    """What a step takes on a usual machine: the square of the records that are taken apart."""
    sizes = np.bincount(groups)
    records = min(4.5 * float(sizes[groups].mean()), 150.0)
    return 1.5e-6 + 1e-8 * records**2 * (1.0 + 0.1 * d)
