"""Reading 1M x 20 and 50,000 x 200 in batches beside pandas, pyarrow and plain polars.

Each reader runs in a process of its own, so that its peak memory is its own; the CPU time is that
of the process and its threads. Tulle looks at every value before it settles a type; the peers
guess from the first rows (polars and pyarrow) or from each chunk by itself (pandas).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import save_chart, write_table

SEED = 20
PARTS = {"ndjson": 10, "wide.csv": 20}  # these files have fewer records
_MEASURED = """
import json, sys, time
def peak():  # of this process alone; what getrusage tells begins with its parent's
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
{setup}
base, start, records = peak(), time.process_time(), 0
{work}
print(json.dumps([records, time.process_time() - start, peak(), base]))
"""
_TULLE = (
    "import tulle.io._csv, tulle.io._json_lines\n"
    "from tulle.io.read import read_batches, read_table",
    "for batch in read_batches(path): records += batch.height",
)
_CSV = {
    "tulle batches": _TULLE,
    "tulle whole": (_TULLE[0], "records = read_table(path).height"),
    "pandas chunks": (
        "import pandas",
        "for chunk in pandas.read_csv(path, chunksize=50_000): records += len(chunk)",
    ),
}
READERS: dict[str, dict[str, tuple[str, str]]] = {
    "csv": {
        **_CSV,
        "pyarrow dataset": (
            "import pyarrow.dataset as d",
            "for b in d.dataset(path, format='csv').to_batches(): records += b.num_rows",
        ),
        "polars batches, 100 rows guess": (
            "import polars as pl",
            "for b in pl.scan_csv(path, try_parse_dates=True).collect_batches(chunk_size=50_000):"
            " records += b.height",
        ),
        "polars, every row judges": (
            "import polars as pl",
            "records = pl.read_csv(path, infer_schema_length=None, try_parse_dates=True).height",
        ),
    },
    "wide.csv": _CSV,
    "parquet": {
        "tulle batches": _TULLE,
        "pandas whole": ("import pandas", "records = len(pandas.read_parquet(path))"),
        "pyarrow batches": (
            "import pyarrow.parquet as q",
            "for b in q.ParquetFile(path).iter_batches(50_000): records += b.num_rows",
        ),
    },
    "ndjson": {
        "tulle batches": _TULLE,
        "pandas chunks": (
            "import pandas",
            "for c in pandas.read_json(path, lines=True, chunksize=50_000): records += len(c)",
        ),
        "polars, 100 rows guess": ("import polars as pl", "records = pl.read_ndjson(path).height"),
    },
}


def main(quick: bool) -> None:
    records = 20_000 if quick else 1_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in _files(Path(folder), records).items():
            found = {name: _measure(path, *code) for name, code in READERS[kind].items()}
            assert {result[0] for result in found.values()} == {records // PARTS.get(kind, 1)}
            own = found["tulle batches"]
            for name, (_, seconds, peak, base) in found.items():
                ratio = seconds / own[1] if own[1] else float("nan")
                rows.append((kind, name, seconds, ratio, round(peak), round(peak - base)))
    write_table(
        "tables_reading",
        f"Reading {records:,} x 20 (NDJSON: a tenth; wide: {records // 20:,} x 200)",
        ("format", "reader", "CPU s", "times tulle batches", "peak MB", "above its imports MB"),
        rows,
        notes=__doc__.partition("\n\n")[2].strip(),
        packages=("polars", "pandas", "pyarrow"),
        seed=SEED,
        quick=quick,
    )
    save_chart("tables_reading", _chart(rows), quick=quick)


def _files(folder: Path, records: int) -> dict[str, Path]:
    import polars as pl

    rng = np.random.default_rng(SEED)
    columns: dict[str, Any] = {"id": np.arange(records)}
    columns |= {f"x{i}": rng.normal(size=records).round(4) for i in range(12)}
    columns |= {f"n{i}": rng.integers(0, 10 ** (i + 1), records) for i in range(4)}
    columns["word"] = rng.choice(["alpha", "beta", "gamma", "delta"], records)
    columns["code"] = np.char.add("c", rng.integers(0, 10**6, records).astype(str))
    columns["moment"] = np.datetime64("2024-01-01T00:00:00", "us") + np.arange(records) * 10**6
    frame = pl.DataFrame(columns)
    paths = {kind: folder / f"table.{kind}" for kind in READERS}
    frame.write_csv(paths["csv"])
    frame.write_parquet(paths["parquet"])
    frame.head(records // PARTS["ndjson"]).write_ndjson(paths["ndjson"])
    some = frame.head(records // PARTS["wide.csv"])
    pl.concat(
        [some.rename(lambda name, i=i: f"{name}_{i}") for i in range(10)], how="horizontal"
    ).write_csv(paths["wide.csv"])
    return paths


def _measure(path: Path, setup: str, work: str) -> tuple[int, float, float, float]:
    code = _MEASURED.format(setup=f"path = sys.argv[1]\n{setup}", work=work)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    records, seconds, peak, base = json.loads(done.stdout)
    return records, seconds, peak, base


def _chart(rows: list[tuple[Any, ...]]) -> Any:
    import altair as alt

    values = [
        {"format": kind, "reader": name, "CPU s": seconds, "MB above imports": above}
        for kind, name, seconds, _, _, above in rows
    ]
    base = alt.Chart(alt.Data(values=values)).mark_bar()
    reader = alt.Y("reader:N", sort="x", title=None)
    colour = alt.condition(
        "indexof(datum.reader, 'tulle') == 0", alt.value("#b5476b"), alt.value("#9aa5b1")
    )
    panels = [
        base.encode(x=alt.X(f"{measure}:Q"), y=reader, color=colour)
        .properties(width=230, height=alt.Step(18), title=title)
        .facet(row=alt.Row("format:N", title=None))
        .resolve_scale(x="independent", y="independent")
        for measure, title in (("CPU s", "CPU seconds"), ("MB above imports", "memory"))
    ]
    return alt.hconcat(*panels)


if __name__ == "__main__":
    main("--quick" in sys.argv)
