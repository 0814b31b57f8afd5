"""Files without types take those of the table they belong to."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tulle.io.read import codes_as_text, read_like, read_table


def written(path: Path, name: str, *values: str) -> Path:
    path.write_text("\n".join([f"{name},n", *(f"{value},1" for value in values)]) + "\n")
    return path


@pytest.mark.parametrize(
    "original, other, expected",
    [
        (["01067", "80331"], ["80331", "10115"], ["80331", "10115"]),
        (["1.10", "x"], ["1.10", "2.0"], ["1.10", "2.0"]),
        (["true", "perhaps"], ["True", "false"], ["True", "false"]),
        (["2024-01-31", "soon"], ["2024-01-31"], ["2024-01-31"]),
        (["7", "8"], ["NA", "NA"], [None, None]),
        (["7", "8"], ["9.5", "1"], [9.5, 1.0]),
        (["7", "8"], ["09", "x"], ["09", "x"]),
        (["true", "false"], ["0", "1"], [0, 1]),
    ],
)
def test_a_column_is_what_it_is_in_the_other_table_if_its_values_allow_it(
    tmp_path: Path, original: list[str], other: list[str], expected: list[object]
) -> None:
    first = written(tmp_path / "first.csv", "value", *original)
    second = written(tmp_path / "second.csv", "value", *other)
    assert read_like(second, read_table(first), first)["value"].to_list() == expected


@pytest.mark.parametrize("day, form", [("27/08/2024", "%d/%m/%Y"), ("08/27/2024", "%m/%d/%Y")])
def test_days_are_told_from_months_as_in_the_other_table(
    tmp_path: Path, day: str, form: str
) -> None:
    first = written(tmp_path / "first.csv", "day", day)
    second = written(tmp_path / "second.csv", "day", "06/10/2024", " NA")
    found = read_like(second, read_table(first), first)
    assert found["day"].dtype == pl.Date
    assert found["day"].drop_nulls().dt.strftime(form).to_list() == ["06/10/2024"]


def test_a_table_with_types_is_a_model_and_keeps_its_own(tmp_path: Path) -> None:
    model = pl.DataFrame({"zip": ["01067"]}, schema={"zip": pl.Categorical})
    model.write_parquet(tmp_path / "model.parquet")
    second = written(tmp_path / "second.csv", "zip", "80331")
    assert read_like(second, model, tmp_path / "model.parquet")["zip"].to_list() == ["80331"]
    pl.DataFrame({"zip": [1067]}).write_parquet(tmp_path / "numbers.parquet")
    numbers = read_like(tmp_path / "numbers.parquet", model, tmp_path / "model.parquet")
    assert numbers["zip"].to_list() == [1067]  # its zero was lost: not the same code
    (tmp_path / "days.ndjson").write_text('{"day": "2024-01-31"}\n')
    words = pl.DataFrame({"day": ["2024-01-31", "soon"]})
    found = read_like(tmp_path / "days.ndjson", words, tmp_path / "model.parquet")
    assert found["day"].to_list() == ["2024-01-31"]


def test_codes_are_text_where_one_file_has_them_as_text(tmp_path: Path) -> None:
    tables = [pl.DataFrame({"zip": [80331], "age": [40]}), pl.DataFrame({"zip": ["01067"]})]
    first, second = codes_as_text(tables, ["a.csv", "b.csv"], ["zip", "age", "gone"])
    assert (first["zip"].to_list(), first["age"].to_list()) == (["80331"], [40])
    assert second.equals(tables[1])
    assert codes_as_text(tables, ["a.parquet", "b.csv"], ["zip"])[0].equals(tables[0])
