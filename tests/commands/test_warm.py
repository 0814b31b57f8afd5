"""tulle warm: every kernel of the source is compiled, and real work then compiles nothing."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tulle._commands import warm
from tulle.cli import tulle as command_line
from tulle.errors import DataError

SOURCE = Path(__file__).parents[2] / "src"
AFTERWARDS = """
import numpy as np, polars as pl
rng = np.random.default_rng(1)
people = pl.DataFrame({
    "age": rng.integers(18, 90, 6_000), "pay": rng.normal(3_000, 500, 6_000).round(2),
    "sex": rng.choice(["f", "m"], 6_000),
    "born": pl.Series(rng.integers(0, 9_000, 6_000)).cast(pl.Date),
})
people.write_csv("people.csv")
with open("shop.dat", "w") as file:
    for _ in range(30_000):
        file.write(" ".join(map(str, [0, *np.flatnonzero(rng.random(40) < 0.2) + 1])) + "\\n")
"""
COMMANDS = (
    "condense people.csv -o mine.csv --k 5 --seed 1 --holdout 10% --accept-risk test",
    "condense people.csv -o apart.csv --k 5 --seed 1 --target sex --no-audit --accept-risk test",
    "stream people.csv -o snaps --state s.state --every 3000 --init 1000",
    "mine shop.dat --min-support 2% --min-confidence 10% -o rules.csv",
)


def kernels_of_the_source() -> set[str]:
    """The functions that are compiled for callers in Python, by module and name."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                words = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
                found |= {f"{module}.{node.name}"} if "kernel" in words else set()
    return found


@pytest.mark.slow
def test_warm_compiles_every_kernel_and_real_work_then_compiles_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(kept), "PYTHONPATH": str(SOURCE)}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = json.loads(run("-m", "tulle", "warm", "--json"))
    rows = told["kernels_ready"]
    assert {row["kernel"] for row in rows} == kernels_of_the_source()
    assert told["compiled_now"] >= told["kernels"] == len(rows)
    assert all(Path(row["kept_in"]).is_relative_to(kept) for row in rows)
    compiled = {path: path.stat().st_mtime_ns for path in kept.rglob("*.nb[ic]")}
    run("-c", AFTERWARDS)
    for line in COMMANDS:
        run("-m", "tulle", *line.split())
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.nb[ic]")} == compiled
    assert json.loads(run("-m", "tulle", "warm", "--json"))["compiled_now"] == 0


def test_where_nothing_can_be_kept_warm_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_WORK", [])
    monkeypatch.setattr(warm, "_ready", list)
    with pytest.raises(DataError, match="NUMBA_CACHE_DIR"):
        warm.warm()


def test_warm_is_a_command() -> None:
    context = command_line.make_context("tulle", [], resilient_parsing=True)
    assert "warm" in command_line.list_commands(context)
