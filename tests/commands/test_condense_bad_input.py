"""tulle condense on tables that cannot, or can only with a word of warning, be condensed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle.cli import tulle
from tulle.errors import PrivacyWarning, TulleError
from tulle.io.read import read_table
from tulle.releases import verify_release

N = 40


def table(**columns: object) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    usual = {"height": rng.normal(170, 8, N).round(1), "weight": rng.normal(70, 9, N).round(1)}
    return pl.DataFrame({**usual, **columns})


def condense(data: pl.DataFrame, folder: Path, *options: str) -> Result:
    data.write_parquet(folder / "people.parquet")
    arguments = [folder / "people.parquet", "-o", folder / "release.csv", "--seed", "1", *options]
    return CliRunner().invoke(tulle, ["condense", *map(str, arguments)])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({}, ["--k", "41"], "--k: n_samples=40 is smaller than k=41"),
        ({}, ["--min-group", "41"], "--min-group: n_samples=40 is smaller than k=41"),
        ({}, ["--k", "1"], "--k must be an int in the range [2, inf). Got 1"),
        ({}, ["--k", "0"], "--k must be"),
        ({"ill": ["y", "n"] * 20}, ["--target", "ill", "--k", "0"], "--k must be"),
        ({"ill": ["y", "n"] * 20}, ["--target", "ill", "--min-group", "0"], "--min-group must be"),
        (
            {"asked": [77] * 2 + [3] * 38},
            ["--levels", "asked"],
            "the levels in column 'asked': n_samples=40 is smaller than level=77, which 2 records",
        ),
        ({"asked": [2.5] * N}, ["--levels", "asked"], "not a whole number (40 of 40 records)"),
        ({"asked": [None] * 3 + [4] * 37}, ["--levels", "asked"], "missing (3 of 40 records)"),
        ({"asked": ["many"] * N}, ["--levels", "asked"], "type String (40 of 40 records)"),
        ({"asked": [0] * N}, ["--levels", "asked"], "below 1 (40 of 40 records)"),
        (
            {"ill": ["cholera"] * 4 + ["no"] * 36},
            ["--target", "ill", "--min-group", "6"],
            "the target 'ill': 1 of 2 classes",
        ),
        ({"age": [np.inf, -np.inf] + [30.0] * 38}, [], "'age' is infinite (2 of 40 records)"),
        (
            {"ill": ["cholera", None] * 20},
            ["--target", "ill"],
            "the target 'ill' is missing (null or NaN) in 20 records",
        ),
    ],
)
def test_no_guarantee_no_output(
    columns: dict[str, object], options: list[str], words: str, tmp_path: Path
) -> None:
    result = condense(table(**columns), tmp_path, *options)
    assert isinstance(result.exception, TulleError)
    assert words in str(result.exception)
    assert "cholera" not in str(result.exception)
    assert os.listdir(tmp_path) == ["people.parquet"]


def test_duplicates_only_are_released_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning, match="4 of 4 groups"):
        result = condense(pl.DataFrame({"a": [1, 2] * 100, "b": [2.5, 3.5] * 100}), tmp_path)
    assert result.exit_code == 0
    assert "degenerate groups 4" in " ".join(result.output.split())


def test_one_value_throughout_leaves_nothing_to_condense(tmp_path: Path) -> None:
    result = condense(pl.DataFrame({"a": [1] * N, "b": ["x"] * N}), tmp_path)
    assert "no column is left" in str(result.exception)
    assert os.listdir(tmp_path) == ["people.parquet"]


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (table(country=["CH"] * N), [], "country the same value in every record"),
        (table(faxes=pl.Series([None] * N, dtype=pl.Int64)), [], "faxes no value at all"),
    ],
)
def test_odd_tables_are_released_with_a_word(
    data: pl.DataFrame, options: list[str], words: str, tmp_path: Path
) -> None:
    result = condense(data, tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.output.replace("│", " ").split())
    release = tmp_path / "release.csv"
    verify_release(release)
    assert read_table(release).height == N


def test_words_that_are_all_different_are_no_classes(tmp_path: Path) -> None:
    data = pl.DataFrame({"age": [30.5, 41.5] * 30, "code": [f"w{i}x" for i in range(60)]})
    result = condense(data, tmp_path, "--target", "code")
    assert isinstance(result.exception, TulleError)
    assert "the target 'code': " in str(result.exception)
    assert "60 different values in 60 records" in str(result.exception)
