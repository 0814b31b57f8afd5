"""Mining: CPU seconds beside pyfim and mlxtend in the same run (``pip install pyfim`` for it).

pyfim reads Python lists and builds tuples, its only way; mlxtend reads a sparse frame. Ours reads
:class:`tulle.transactions.Transactions`; both the bare itemsets and the public function, which
builds a frame of lists, are timed; a table of its own times everything from lists, frames and files
on. Counts are compared; pyfim leaves out sets of items that are
in every basket, mlxtend loses rules at exactly the confidence threshold.
"""

from __future__ import annotations

import gzip
import math
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from benchmarks.results import data_folder, save_chart, timed, write_table
from tulle import Transactions, frequent_itemsets, quest, read_fimi
from tulle.rules.containers import as_baskets
from tulle.rules.mine import implications, mine, rules_frame

FILES = [
    ("mushroom", 0.2),
    ("mushroom", 0.1),
    ("chess", 0.6),
    ("connect", 0.8),
    ("accidents_head15000", 0.4),
    ("BMS-WebView-1", 0.001),
    ("retail", 0.001),
    ("retail", 0.0002),
    ("T10I4D100K", 0.001),
    ("kosarak_head36000", 0.002),
    ("reuters_words", 0.055),
    ("groceries", 0.001),
]
SLOW_FOR_MLXTEND = {("mushroom", 0.1), ("chess", 0.6), ("connect", 0.8), ("retail", 0.0002)}
HEADER = ["file", "baskets", "itemsets", "ours", "frame", "pyfim", "mlxtend"]
HEADER += ["/ pyfim", "/ mlxtend"]
WAYS = [("BMS-WebView-1", 0.001), ("retail", 0.001), ("T10I4D100K", 0.001), ("groceries", 0.001)]
RULES = [("BMS-WebView-1", 0.001), ("retail", 0.001), ("T10I4D100K", 0.001)]


def main(quick: bool = False) -> None:
    """Itemsets and rules of every file, and of a million Quest baskets."""
    files = [("groceries", 0.01), ("foodmart", 0.001)] if quick else FILES
    rows = [_itemsets(_load(name), name, share, repeats=1 if quick else 5) for name, share in files]
    if not quick:
        million = as_baskets(quest(T=10, I=4, D=1_000_000, N=1_000, random_state=0))
        rows.append(_itemsets(million, "Quest T10.I4.D1000K", 0.005, repeats=2))
    _write(rows, quick)
    _rules([("groceries", 0.005)] if quick else RULES, quick)
    _ways([("groceries", 0.01)] if quick else WAYS, quick)


# What users wait for: from what they hold to a frame of itemsets.


def _ways(files: list[tuple[str, float]], quick: bool) -> None:
    write_table(
        "mining_ways",
        "From lists, frames and files to a frame of itemsets: CPU seconds beside pyfim and mlxtend",
        ["file", "from", "ours", "pyfim", "mlxtend", "/ pyfim", "/ mlxtend"],
        [row for name, share in files for row in _ways_of(name, share)],
        notes="Everything a user waits for, the opening included; kernels compiled before. pyfim "
        "(the faster of eclat and fpgrowth) is given lists, so a file is split into lines and a "
        "frame grouped by pandas for it; mlxtend gets a sparse frame of its TransactionEncoder. "
        "The other table times opened baskets only.",
        packages=("numpy", "numba", "polars", "pyfim", "mlxtend"),
        quick=quick,
    )


def _ways_of(name: str, share: float) -> list[list[Any]]:
    path = data_folder() / "transactions" / f"{name}.dat.gz"
    baskets = _load(name)
    minimum = math.ceil(share * len(baskets) - 1e-9)
    numbers = baskets.to_lists()
    texts = [[f"item {item}" for item in basket] for basket in numbers]
    long = pl.DataFrame(
        {
            "basket": np.repeat(np.arange(len(baskets)), baskets.lengths),
            "item": [item for basket in texts for item in basket],
        }
    )
    frame = long.to_pandas()
    cases: list[tuple[str, Any, Callable[[], Any]]] = [
        ("lists of numbers", numbers, lambda: numbers),
        ("lists of texts", texts, lambda: texts),
        ("frame of pairs", long, lambda: _grouped(frame)),
        ("file", path, lambda: _lines(path)),
    ]
    rows = []
    for way, given, theirs in cases:
        ours = _ours_from(given, minimum)
        pyfim = _pyfim_from(theirs, minimum)
        few = way == "lists of texts" and len(baskets) < 70_000
        mlxtend = _mlxtend_from(texts, minimum) if few else None
        ratios = [_or_dash(peer and peer / ours) for peer in (pyfim, mlxtend)]
        rows.append(
            [f"{name} {100 * share:g}%", way, ours, _or_dash(pyfim), _or_dash(mlxtend), *ratios]
        )
    return rows


def _ours_from(given: Any, minimum: int) -> float:
    frequent_itemsets(given, min_support=minimum)  # compile
    return _fastest(lambda: frequent_itemsets(given, min_support=minimum), 5)[1]


def _lines(path: Any) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [line.split() for line in file]


def _grouped(frame: pd.DataFrame) -> list[list[str]]:
    found: list[list[str]] = frame.groupby("basket")["item"].apply(list).tolist()
    return found


def _pyfim_from(lists: Callable[[], Any], minimum: int) -> float | None:
    try:
        import fim
    except ImportError:
        return None
    works = [lambda a=a: a(lists(), supp=-minimum) for a in (fim.eclat, fim.fpgrowth)]
    return min(timed(work)[1] for work in works for _ in range(3))


def _mlxtend_from(lists: list[list[str]], minimum: int) -> float:
    from mlxtend.frequent_patterns import fpgrowth
    from mlxtend.preprocessing import TransactionEncoder

    def work() -> Any:
        coder = TransactionEncoder()
        matrix = coder.fit(lists).transform(lists, sparse=True)
        frame = pd.DataFrame.sparse.from_spmatrix(matrix, columns=coder.columns_)
        return fpgrowth(frame, min_support=minimum / len(lists), use_colnames=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return timed(work)[1]


def _load(name: str) -> Transactions:
    return read_fimi(data_folder() / "transactions" / f"{name}.dat.gz")


def _itemsets(baskets: Transactions, name: str, share: float, repeats: int) -> dict[str, Any]:
    minimum = math.ceil(share * len(baskets) - 1e-9)
    lists = baskets.to_lists()
    mine(baskets, minimum)  # compile
    found, ours = _fastest(lambda: mine(baskets, minimum), repeats)
    _, frame = _fastest(lambda: frequent_itemsets(baskets, min_support=minimum), repeats)
    theirs, pyfim = _pyfim(lists, minimum, repeats)
    assert theirs is None or len(found) - 1 - theirs in (0, 1), (name, len(found), theirs)
    mlxtend = None
    if (name, share) not in SLOW_FOR_MLXTEND and len(baskets) < 500_000:
        mlxtend = _mlxtend(baskets, minimum)[1]
    return {
        "name": f"{name} {100 * share:g}%",
        "baskets": len(baskets),
        "itemsets": len(found) - 1,
        "ours": ours,
        "frame": frame,
        "pyfim": pyfim,
        "mlxtend": mlxtend,
    }


def _fastest(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    runs = [timed(work) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)


def _pyfim(lists: list[list[int]], minimum: int, repeats: int) -> tuple[int | None, float | None]:
    try:
        import fim
    except ImportError:
        return None, None
    times = []
    for _ in range(min(repeats, 3)):
        for algorithm in (fim.eclat, fim.fpgrowth):
            found, seconds = timed(lambda work=algorithm: work(lists, supp=-minimum))
            times.append(seconds)
    return len(found), min(times)


def _wide(baskets: Transactions) -> pd.DataFrame:
    shape = (len(baskets), len(baskets.names))
    cells = np.ones(len(baskets.items), dtype=bool)
    matrix = sparse.csr_matrix((cells, baskets.items, baskets.indptr), shape=shape)
    return pd.DataFrame.sparse.from_spmatrix(matrix)


def _mlxtend(baskets: Transactions, minimum: int) -> tuple[Any, float]:
    from mlxtend.frequent_patterns import fpgrowth

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = _wide(baskets)
        return timed(lambda: fpgrowth(wide, min_support=minimum / len(baskets)))


def _write(rows: list[dict[str, Any]], quick: bool) -> None:
    ratio = [r["pyfim"] / r["ours"] for r in rows if r["pyfim"]]
    notes = "CPU seconds, fastest of several runs; kernels compiled before."
    if ratio:
        notes += (
            f" Beside the faster of pyfim's eclat and fpgrowth: at least {min(ratio):.1f} times, "
            f"geometric mean {np.exp(np.mean(np.log(ratio))):.1f} times as fast."
        )
    notes += (
        " *frame* is the public function with its lists of names. The mlxtend column is left out "
        "where it takes minutes."
    )
    write_table(
        "mining",
        "Frequent itemsets: CPU seconds beside pyfim and mlxtend",
        HEADER,
        [
            [
                r["name"], r["baskets"], r["itemsets"], r["ours"], r["frame"],
                _or_dash(r["pyfim"]), _or_dash(r["mlxtend"]),
                _or_dash(r["pyfim"] and r["pyfim"] / r["ours"]),
                _or_dash(r["mlxtend"] and r["mlxtend"] / r["ours"]),
            ]
            for r in rows
        ],
        notes=notes,
        packages=("numpy", "numba", "polars", "pyfim", "mlxtend"),
        quick=quick,
    )  # fmt: skip
    save_chart("mining", _chart(rows), quick=quick)


def _rules(files: list[tuple[str, float]], quick: bool) -> None:
    from mlxtend.frequent_patterns import association_rules as mlxtend_rules

    lines = []
    for name, share in files:
        baskets = _load(name)
        minimum = math.ceil(share * len(baskets) - 1e-9)
        itemsets_ = mine(baskets, minimum)
        names, n_baskets = baskets.names, len(baskets)

        def work(sets: Any = itemsets_, names: Any = names, n: int = n_baskets) -> Any:
            return rules_frame(implications(sets, Fraction(3, 5)), names, n)

        work()  # compile
        runs = [timed(work) for _ in range(5)]
        ours = min(seconds for _, seconds in runs)
        itemsets = _mlxtend(baskets, minimum)[0]
        start = time.process_time()
        theirs = mlxtend_rules(itemsets, metric="confidence", min_threshold=0.6)
        seconds = time.process_time() - start
        lines.append(
            [
                f"{name} {100 * share:g}%",
                runs[0][0].height,
                len(theirs),
                ours,
                seconds,
                seconds / ours,
            ]
        )
    write_table(
        "mining_rules",
        "Rules from itemsets at 60% confidence: CPU seconds beside mlxtend",
        ["file", "rules", "mlxtend's rules", "ours", "mlxtend", "/ mlxtend"],
        lines,
        notes="Without the mining of the itemsets; ours includes the frame with all measures. "
        "mlxtend loses rules at exactly 60%.",
        packages=("numpy", "numba", "polars", "mlxtend"),
        quick=quick,
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    points = [
        {"file": r["name"], "miner": miner, "seconds": r[miner]}
        for r in rows
        for miner in ("ours", "frame", "pyfim", "mlxtend")
        if r[miner]
    ]
    return (
        alt.Chart(alt.Data(values=points))
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X("seconds:Q", scale=alt.Scale(type="log"), title="CPU seconds"),
            y=alt.Y("file:N", sort=None, title=None),
            color=alt.Color("miner:N", title=None),
        )
        .properties(width=520, title="Mining frequent itemsets")
    )


def _or_dash(value: Any) -> Any:
    return "-" if value is None else value


if __name__ == "__main__":
    main("--quick" in sys.argv)
