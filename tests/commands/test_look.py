"""Commands that look at a table larger than memory: at a sample of it, and they say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle._commands import _memory
from tulle._commands.explore import explore_file
from tulle._commands.inspect import inspect
from tulle._commands.tune import tune
from tulle.errors import ParameterError


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, 900)
    table = pl.DataFrame(
        {
            "person": rng.integers(0, 10**9, 450).repeat(2),
            "age": age,
            "income": np.round(rng.normal(3_000, 400, 900) + 20 * age),
            "ill": age + rng.normal(0, 9, 900) > 55,
        }
    )
    path = tmp_path / "people.parquet"
    table.write_parquet(path)
    monkeypatch.setattr(_memory, "needed", lambda source: float("inf"))
    monkeypatch.setattr(_memory, "SAMPLE", 300)
    monkeypatch.chdir(tmp_path)
    return path


def test_inspect_looks_at_a_sample(source: Path, tmp_path: Path) -> None:
    found = inspect(source, tmp_path / "p.toml")
    assert found.summary["records"] == 900
    assert any("900" in note and "300" in note for note in found.notes)


@pytest.mark.slow
def test_tune_and_explore_look_at_a_sample(source: Path, tmp_path: Path) -> None:
    pl.read_parquet(source).drop("person").write_parquet(source)
    made = tune(source, target="ill", strategy="grid", sizes=2, repeats=1, seed=1)
    assert "900" in made.notes[0]
    assert made.summary["records"] == 300
    with pytest.raises(ParameterError, match="holdout"):
        tune(source, target="ill", holdout=0.1)
    found = explore_file(source, tmp_path / "e", k=[5], synthesis=["shape"], quick=True, seed=1)
    assert "900" in found.command
