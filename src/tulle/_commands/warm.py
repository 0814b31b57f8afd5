"""``tulle warm``: every kernel compiled once, so that the first real run does not wait.

Kernels are compiled by using them, on data made up here that are just large enough: what a kernel
is compiled for (the types and layouts of its arguments) is then what real work calls it with.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.records import Records, nearest
from tulle._commands._decision import Done
from tulle._progress import bar
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, PrivacyWarning
from tulle.rules._search import Impact
from tulle.rules._sensitive import MinedRules
from tulle.rules.mine import mine_rules
from tulle.transactions.baskets import Transactions
from tulle.transactions.fimi import read_fimi

_MANY = 4_000  # records: more than are searched without a compiler


def warm() -> Done:
    """Compile every kernel that is not yet compiled, and keep it on disk."""
    begin = time.perf_counter()
    with bar("compiling kernels", len(_WORK)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for work in _WORK:
            work(np.random.default_rng(0))
            advance(note=work.__name__.strip("_"))
    kernels = _ready()
    if not kernels:
        raise DataError(
            "compiled kernels can be kept in no folder of this machine: set NUMBA_CACHE_DIR to one "
            "that can be written"
        )
    summary = {
        "kernels": len(kernels),
        "compiled_now": sum(row["compiled_now"] for row in kernels),
        "seconds": time.perf_counter() - begin,
    }
    return Done(summary, {"kernels_ready": kernels}, [])


def _ready() -> list[dict[str, Any]]:
    """Return the kernels of the modules that the work has loaded for which a file is kept.

    Parts have none: they are kept within the kernels that call them.
    """
    from numba.extending import is_jitted

    loaded = [module for name, module in sys.modules.items() if name.startswith("tulle.")]
    values = {id(one): one for module in loaded for one in vars(module).values() if is_jitted(one)}
    rows = []
    for value in values.values():
        module, name = value.py_func.__module__, value.py_func.__qualname__
        folder = value.stats.cache_path
        if folder and any(Path(folder).glob(f"{module.rpartition('.')[2]}.{name}-*.nbi")):
            made = sum(value.stats.cache_misses.values())
            rows.append({"kernel": f"{module}.{name}", "compiled_now": made, "kept_in": folder})
    return sorted(rows, key=lambda row: str(row["kernel"]))


def _condensing(rng: np.random.Generator) -> None:
    numbers = rng.normal(size=(_MANY, 3))
    numbers[:40] *= 30.0  # far out: their groups look for members everywhere
    table = pl.DataFrame(numbers, schema=["a", "b", "c"]).with_columns(
        d=pl.Series(rng.choice(["x", "y", "z"], _MANY))
    )
    Condenser(2, rules=[], random_state=rng).fit(table).sample(15 * _MANY)
    for grouping, seconds in (("mdav", None), ("best", 0.1)):
        Condenser(grouping=grouping, time_budget=seconds, synthesis="normal").fit(numbers)


def _attacking(rng: np.random.Generator) -> None:
    records = Records.of_numbers(rng.normal(size=(_MANY, 3)))
    nearest(records, records)


def _streaming(rng: np.random.Generator) -> None:
    from tulle.stream.condenser import StreamCondenser

    condenser, levels = StreamCondenser(2, random_state=rng), np.full(_MANY, 2)
    levels[2_000:2_030], levels[2_010] = 9, 17  # waits for a group of so many
    condenser.partial_fit(rng.normal(size=(_MANY, 3)), levels=levels)
    condenser.sample()


def _mining(rng: np.random.Generator) -> None:
    from tulle.rules.hider import RuleHider

    few, many = _baskets(rng, 16, 0.7), _baskets(rng, 1_000, 0.006)
    mine_rules(many, 20, Fraction(1, 10))
    found = MinedRules.of(few, len(few) // 5, Fraction(1, 2))
    RuleHider(["0 -> 1"], method="swa", min_support=0.2, min_confidence=0.5).fit_transform(few)
    impact = Impact(few, found, np.zeros(len(found.keys), bool))
    kept, rows = np.ones(len(few.items), bool), np.arange(9)
    impact.costs(kept, rows, np.ones(len(found.rules.itemsets)), np.arange(2))
    impact.lost(kept, rows)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made-up.dat"
        path.write_text("1 2\n")
        read_fimi(path)


def _baskets(rng: np.random.Generator, n_items: int, share: float) -> Transactions:
    """Draw baskets that hold each item with the same chance, in falling order, to be sorted."""
    held = rng.random((5 * _MANY, n_items)) < share
    starts = np.concatenate(([0], np.cumsum(held.sum(axis=1))))
    falling = n_items - 1 - np.nonzero(held)[1]
    return Transactions.from_rows(starts, falling, np.arange(n_items))


def _sketching(rng: np.random.Generator) -> None:
    from scipy.sparse import random_array

    from tulle.sketch.sketcher import Sketcher

    rows = random_array((6 * _MANY, 500), density=0.04, format="csr", rng=rng)
    for numbers in (rows, rows.astype(np.float32)):
        Sketcher("k-variance", graph="partition").fit_transform(numbers)
        Sketcher("delta", delta=1e-9).fit_transform(numbers)


_WORK: list[Callable[[np.random.Generator], None]] = [
    _condensing, _attacking, _streaming, _mining, _sketching,
]  # fmt: skip
