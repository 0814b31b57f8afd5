"""SPSS, Stata and SAS: labels, codes for no answer and formats go in and come out again."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyreadstat
import pytest
from polars.testing import assert_frame_equal

from tulle import DataError, estimate, read_manifest, read_table, verify_release, write_table
from tulle._commands.audit import audit_files
from tulle._commands.condense import condense
from tulle._commands.inspect import inspect
from tulle.io.read import read_written

pytestmark = pytest.mark.slow

LABELS = {"sex": {1.0: "male", 2.0: "female", 9.0: "refused"}, "trust": {0.0: "none", 77.0: "n/a"}}


def answers(n: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    trust = np.where(rng.random(n) < 0.1, 77, rng.integers(0, 11, n))
    income = np.where(rng.random(n) < 0.08, 999_999, rng.integers(500, 9_000, n))
    return pl.DataFrame(
        {
            "sex": rng.choice([1, 2, 9], n, p=[0.45, 0.45, 0.1]),
            "trust": trust,
            "income": income,
            "share": rng.uniform(0, 1, n).round(3),
            "day": [datetime.date(2021, 1, 1) + datetime.timedelta(int(d)) for d in range(n)],
            "town": rng.choice(["Oslo", "Bergen"], n),
        }
    )


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        answers(), str(path), column_labels={"sex": "Sex of the person"},
        variable_value_labels=LABELS, variable_format={"share": "F8.3"},
        missing_ranges={"sex": [9], "trust": [{"lo": 70, "hi": 99}], "income": [999_999]},
    )  # fmt: skip
    return path


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta", "xpt"])
def test_values_go_out_and_come_in_again(ending: str, tmp_path: Path) -> None:
    table = answers().with_columns(town=pl.when(pl.col("sex") == 1).then("town"))
    write_table(table, tmp_path / f"table.{ending}")
    assert_frame_equal(read_table(tmp_path / f"table.{ending}"), table, check_dtypes=False)


def test_labels_and_codes_for_no_answer_come_out_as_they_went_in(
    survey: Path, tmp_path: Path
) -> None:
    table, labels = read_written(survey)
    assert table.schema["sex"] == table.schema["income"] == pl.Int64
    write_table(table, tmp_path / "again.sav", like=survey)
    _, meta = pyreadstat.read_sav(str(tmp_path / "again.sav"), user_missing=True)
    assert meta.variable_value_labels == LABELS
    assert meta.column_names_to_labels["sex"] == "Sex of the person"
    assert meta.missing_ranges["trust"] == [{"lo": 70.0, "hi": 99.0}]
    assert meta.original_variable_types["share"] == "F8.3"
    assert_frame_equal(read_written(tmp_path / "again.sav")[0], table)
    assert read_written(tmp_path / "again.sav")[1] == labels


def test_text_with_labels_stays_text(tmp_path: Path) -> None:
    table = pl.DataFrame({"sex": ["m", "f", "f", "x"] * 5})
    told = {"sex": {"m": "male", "f": "female"}}
    pyreadstat.write_sav(table, str(tmp_path / "text.sav"), variable_value_labels=told)
    assert_frame_equal(read_table(tmp_path / "text.sav"), table)
    write_table(table, tmp_path / "again.sav", like=tmp_path / "text.sav")
    _, meta = pyreadstat.read_sav(str(tmp_path / "again.sav"))
    assert meta.variable_value_labels == told


def test_letters_of_stata_stay_letters(tmp_path: Path) -> None:
    values: list[Any] = [1.0, 2.0, "a", None, "b"] * 10
    first = tmp_path / "letters.dta"
    pyreadstat.write_dta(
        pd.DataFrame({"x": values}), str(first), missing_user_values={"x": ["a", "b"]},
        variable_value_labels={"x": {1: "yes", "a": "refused"}},
    )  # fmt: skip
    table, labels = read_written(first)
    assert set(table["x"].drop_nulls()) == {1, 2, -1_000_000_001, -1_000_000_002}
    write_table(table, tmp_path / "again.dta", like=labels)  # type: ignore[arg-type]
    found, meta = pyreadstat.read_dta(str(tmp_path / "again.dta"), user_missing=True)
    assert [None if value != value else value for value in found["x"]] == values
    assert meta.variable_value_labels == {"x": {1: "yes", "a": "refused"}}
    write_table(table, tmp_path / "again.sav", like=labels)  # type: ignore[arg-type]
    assert set(read_table(tmp_path / "again.sav")["x"].drop_nulls()) == {1, 2}  # it has no letters


def test_single_precision_of_stata_stays_as_written(tmp_path: Path) -> None:
    short = pd.DataFrame({"x": np.array([0.1, 2.7, 3.3], dtype=np.float32)})
    short.to_stata(tmp_path / "single.dta", write_index=False)
    table = read_table(tmp_path / "single.dta")
    assert table.schema["x"] == pl.Float32
    write_table(table, tmp_path / "again.dta")
    assert read_table(tmp_path / "again.dta")["x"].to_list() == [0.1, 2.7, 3.3]


def test_codes_for_no_answer_are_states_and_labels_are_of_released_values(
    survey: Path, tmp_path: Path
) -> None:
    release = tmp_path / "release.sav"
    condense(survey, release, k=10, seed=0, audit=False)
    table, original = read_table(release), read_table(survey)
    for name, code in (("trust", 77), ("income", 999_999)):
        shares = [(one[name] == code).mean() for one in (original, table)]
        assert shares[0] == pytest.approx(shares[1], abs=0.05)  # type: ignore[arg-type]
        others = table.filter(pl.col(name) != code)[name]
        assert others.max() <= original.filter(pl.col(name) != code)[name].max() * 1.01  # type: ignore[operator]
    _, meta = pyreadstat.read_sav(str(release), user_missing=True)
    assert meta.variable_value_labels["sex"] == LABELS["sex"]
    assert meta.missing_ranges["income"] == [{"lo": 999_999.0, "hi": 999_999.0}]
    assert read_manifest(release).columns["sex"]["kind"] == "category"


def test_inspect_writes_the_codes_into_the_policy_and_audit_reads_the_files(
    survey: Path, tmp_path: Path
) -> None:
    found = inspect(survey, output=tmp_path / "policy.toml").policy
    columns = {column.name: column for column in found.columns}
    assert 999_999 in columns["income"].missing
    assert 77 in columns["trust"].missing
    other = tmp_path / "other.sav"
    write_table(answers(seed=1), other)
    assert audit_files(survey, other, seed=0, attempts=50).verdict["privacy"]["level"] != "bad"


def test_labels_of_values_that_are_not_released_are_not_written(tmp_path: Path) -> None:
    table = answers().with_columns(sex=pl.when(pl.int_range(pl.len()) < 2).then(3).otherwise("sex"))
    path = tmp_path / "rare.sav"
    pyreadstat.write_sav(table, str(path), variable_value_labels={"sex": {3: "only two people"}})
    condense(path, tmp_path / "release.sav", k=10, seed=0, audit=False)
    assert b"only two" not in (tmp_path / "release.sav").read_bytes()


def test_codes_for_no_answer_are_not_averaged_in_estimates(survey: Path) -> None:
    (found,) = estimate(survey, "mean(income)").to_dicts()
    known = read_table(survey).filter(pl.col("income") != 999_999)["income"]
    assert found["estimate"] == pytest.approx(known.mean())
    assert found["records"] == len(known)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two words", "not one that Stata takes"),
        ("x" * 40, "at most 32 letters"),
        ("X", "does not distinguish"),
    ],
)
def test_names_that_a_format_does_not_take_are_named(name: str, said: str, tmp_path: Path) -> None:
    table = pl.DataFrame({"x": [1], name: [2]})
    with pytest.raises(DataError, match=said):
        write_table(table, tmp_path / "table.dta")
    assert not (tmp_path / "table.dta").exists()


def test_broken_and_read_only_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.sav").write_bytes(b"$FL2@(#) nothing else")
    with pytest.raises(DataError, match=r"broken\.sav: cannot be read as SPSS"):
        read_table(tmp_path / "broken.sav")
    with pytest.raises(DataError, match=r"read, not written: write SAS transport, \.xpt"):
        write_table(answers(), tmp_path / "table.sas7bdat")
    with pytest.raises(DataError, match="read, not written: write Parquet, which DuckDB reads"):
        condense(tmp_path / "broken.sav", f"duckdb:///{tmp_path}/x.duckdb#t")


def test_a_codebook_says_what_k_records_show(survey: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.sav"
    condense(survey, release, k=10, seed=0, audit=False, codebook=True)
    book = json.loads((tmp_path / "release.sav.codebook.json").read_text())["codeBook"]
    assert book["fileDscr"] == {"caseQnty": 400, "varQnty": 6}
    variables = {one["name"]: one for one in book["dataDscr"]["var"]}
    assert variables["sex"]["labl"] == "Sex of the person"
    assert {one["labl"] for one in variables["sex"]["catgry"]} == {"male", "female", "refused"}
    income = variables["income"]
    assert income["missing"] == pytest.approx(0.08, abs=0.04)
    assert [one["catValu"] for one in income["catgry"]] == [999_999]
    values = read_table(release).filter(pl.col("income") != 999_999)["income"].sort()
    assert income["valrng"] == {"min": values[9], "max": values[-10]}
    page = (tmp_path / "release.sav.codebook.html").read_text()
    assert "Sex of the person" in page
    assert "<script" not in page
    assert all(row["holds"] for row in verify_release(release))
    (tmp_path / "release.sav.codebook.html").write_text("other")
    assert not all(row["holds"] for row in verify_release(release))
    assert estimate(release, "mean(share)").height == 1
