"""Files and folders that commands read, and files that they write beside a release."""

from __future__ import annotations

import errno
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle._commands._sources import check_files, writing_beside
from tulle._commands.audit import audit_files
from tulle._commands.condense import condense
from tulle._commands.inspect import inspect
from tulle._commands.split import split_file
from tulle.errors import DataError, ParameterError
from tulle.io.read import read_table
from tulle.releases import read_manifest, verify_release


def test_what_is_there_already_is_told_with_what_cannot_be_written() -> None:
    told = r"page\.html.*No space left on device.*the release is there"
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(DataError, match=told), writing_beside("the release is there", "page.html"):
        raise full


def parts(folder: Path, count: int = 3) -> Path:
    """A table in files of 30 visits, with post codes that only the last one shows as such."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for part in range(count):
        visits = {
            "post": ["01067" if part == count - 1 else "10115"] * 30,
            "age": rng.integers(18, 90, 30),
            "ward": [None] * 30 if part == 0 else rng.choice(["a", "b"], 30).tolist(),
            "cost": rng.integers(0, 99, 30) if part else rng.normal(50, 9, 30).round(2),
        }
        pl.DataFrame(visits).write_csv(folder / f"day-{part}.csv")
    return folder


def test_the_parts_of_a_table_have_one_type_for_each_column(tmp_path: Path) -> None:
    table = read_table(parts(tmp_path / "visits"))
    assert table.height == 90
    assert table.dtypes == [pl.String, pl.Int64, pl.String, pl.Float64]
    assert set(table["post"]) == {"10115", "01067"}


def test_the_parts_of_a_table_in_json_have_one_type_for_each_key(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"age": null, "day": "2024-01-31"}\n')
    (tmp_path / "b.ndjson").write_text('{"age": 40, "day": "2024-02-01", "ward": "a"}\n')
    table = read_table(tmp_path)
    assert table.rows() == [(None, date(2024, 1, 31), None), (40, date(2024, 2, 1), "a")]


def test_a_folder_of_parts_goes_through_every_command(tmp_path: Path) -> None:
    visits, release = parts(tmp_path / "visits"), tmp_path / "release.parquet"
    assert inspect(visits, tmp_path / "policy.toml").summary["records"] == 90
    two = [tmp_path / "members.csv", tmp_path / "control.csv"]
    assert split_file(visits, two[0], control=two[1], seed=0).summary["control"] == 9
    condense(visits, release, k=5, seed=0, audit=False, accept_risk="a test")
    assert read_manifest(release).source["records"] == 90
    assert audit_files(visits, release, seed=0, attempts=20).result["records"] == 90
    assert all(row["holds"] for row in verify_release(release))


def test_what_is_not_a_table_in_parts_is_refused(tmp_path: Path) -> None:
    visits = parts(tmp_path / "visits")
    with pytest.raises(ParameterError, match="--output is in the folder"):
        check_files(
            {"INPUT": visits},
            writes={"--output": visits / "x.csv"},
            folders=("INPUT",),
            force=False,
        )
    with pytest.raises(DataError, match="visits is a folder"):
        check_files({"--policy": visits}, folders=("INPUT",), force=False)
    pl.DataFrame({"age": [1]}).write_csv(visits / "late.csv")
    with pytest.raises(DataError, match="'post' is not in 1 of 4 parts"):
        read_table(visits)
    (visits / "README.txt").touch()
    with pytest.raises(DataError, match="other things"):
        read_table(visits)


def test_parts_whose_types_do_not_go_together_are_refused(tmp_path: Path) -> None:
    for name, values in (("a", [1.5]), ("b", [date(2020, 1, 1)])):
        pl.DataFrame({"code": values}).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(DataError, match="'code' has types"):
        read_table(tmp_path)
