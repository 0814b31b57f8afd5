from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import SiteAgreement, SiteCodec
from tulle.errors import DataError
from tulle.sites import SiteSummary
from tulle.table.schema import Column, Kind, Role

TABLE = pl.DataFrame({"age": [34, 51], "illness": ["Flu", "Gastritis"]})


def test_summaries_show_no_category_and_no_extreme(tmp_path: Path) -> None:
    summary = SiteSummary.of(TABLE.with_columns(weight=pl.Series([61.37, 93.2])))
    summary.save(tmp_path / "one.json")
    content = (tmp_path / "one.json").read_text()
    for secret in ("Flu", "Gastritis", "34", "51", "61.37", "93.2"):
        assert secret not in content
    assert SiteSummary.load(tmp_path / "one.json") == summary
    (tmp_path / "two.json").write_text("{}")
    with pytest.raises(DataError):
        SiteSummary.load(tmp_path / "two.json")


def test_agreement_from_summaries_fits_every_site() -> None:
    other = pl.DataFrame({"age": [5, 99], "illness": ["Mumps", None]})
    agreement = SiteAgreement.from_summaries([SiteSummary.of(TABLE), SiteSummary.of(other)])
    for table in (TABLE, other):
        codec = SiteCodec(agreement)
        assert codec.inverse_transform(codec.transform(table)).equals(table)


def test_summaries_of_different_tables_are_refused() -> None:
    one = SiteSummary.of(TABLE)
    with pytest.raises(DataError, match="1.*2.*'sex'"):
        SiteAgreement.from_summaries([one, SiteSummary.of(TABLE.with_columns(sex=pl.lit("f")))])
    texts = SiteSummary.of(TABLE.with_columns(pl.col("age").cast(pl.String)))
    with pytest.raises(DataError, match="'age'"):
        SiteAgreement.from_summaries([one, texts])
    with pytest.raises(DataError):
        SiteAgreement.from_summaries([])
    decimals = SiteSummary.of(TABLE.with_columns(age=pl.Series([1.5, 2])))
    assert SiteAgreement.from_summaries([one, decimals])["age"].type == "decimal"


def test_summary_takes_kinds_and_roles_from_a_policy() -> None:
    policy = [Column("age", Kind.CATEGORY, Role.TARGET), Column("illness", Kind.TEXT, Role.IGNORED)]
    columns = SiteSummary.of(TABLE, policy).columns
    assert [(c.kind, c.role, c.low) for c in columns] == [
        ("category", "target", None),
        ("text", "ignored", None),
    ]


def test_dates_are_summarised_too() -> None:
    born = pl.DataFrame({"born": [dt.date(1951, 3, 4), dt.date(1999, 5, 6)]})
    (column,) = SiteSummary.of(born).columns
    assert str(column.low) < "1951-03-04" < "1999-05-06" < str(column.high)
    agreement = SiteAgreement.from_summaries([SiteSummary.of(born)])
    codec = SiteCodec(agreement)
    assert codec.inverse_transform(codec.transform(born)).equals(born)


@pytest.mark.guarantee
@given(st.lists(st.floats(allow_nan=True, width=64), max_size=4), st.booleans())
def test_no_end_of_a_range_is_an_extreme(values: list[float], whole: bool) -> None:
    held = [float(round(v)) if whole and abs(v) < 1e15 else v for v in values]
    (column,) = SiteSummary.of(pl.DataFrame({"x": pl.Series(held, dtype=pl.Float64)})).columns
    finite = [v for v in held if v - v == 0]
    if not finite:
        assert (column.low, column.high) == (None, None)
    elif max(map(abs, finite)) < 1e307:  # the largest floats have nothing beyond them
        assert column.low < min(finite) <= max(finite) < column.high  # type: ignore[operator]


@pytest.mark.parametrize("value", [0, 2, 34, 100, -7])
def test_the_only_value_of_a_site_is_not_told(value: int) -> None:
    (column,) = SiteSummary.of(pl.DataFrame({"x": [value]})).columns
    assert column.low < value < column.high  # type: ignore[operator]
    SiteAgreement.from_summaries([SiteSummary.of(pl.DataFrame({"x": [value]}))])


def test_the_last_day_of_the_calendar_is_a_date_like_others() -> None:
    ends = pl.DataFrame({"until": [dt.date(1, 1, 1), dt.date(1950, 3, 1), dt.date(9999, 12, 31)]})
    for table in (ends, ends.cast(pl.Datetime("us"))):
        codec = SiteCodec(SiteAgreement.from_summaries([SiteSummary.of(table)]))
        encoded = codec.transform(table)
        assert codec.inverse_transform(encoded).equals(table)
        assert codec.decode_text("until <= 99 until > -99").startswith("until <= 9999-12-31")


def test_durations_are_refused_without_showing_one() -> None:
    with pytest.raises(DataError, match="durations") as error:
        SiteSummary.of(pl.DataFrame({"stay": [dt.timedelta(days=3)]}))
    assert "3 days" not in str(error.value)


@pytest.mark.parametrize("dtype", [pl.String, pl.Null])
@pytest.mark.parametrize("rows", [0, 2])
def test_a_site_without_values_says_nothing_of_kinds(dtype: Any, rows: int) -> None:
    nothing = pl.DataFrame({name: pl.Series([None] * rows, dtype=dtype) for name in TABLE.columns})
    for tables in ((nothing, TABLE), (TABLE, nothing)):
        agreement = SiteAgreement.from_summaries([SiteSummary.of(table) for table in tables])
        assert [str(column.type) for column in agreement.columns] == ["integer", "category"]
        codec = SiteCodec(agreement)
        assert codec.inverse_transform(codec.transform(nothing)).height == rows
    assert SiteAgreement.from_summaries([SiteSummary.of(nothing)])["age"].type == "category"


def test_dates_at_one_site_and_time_stamps_at_another_are_time_stamps() -> None:
    days = pl.DataFrame({"seen": [dt.date(1900, 1, 1), dt.date(2030, 1, 1)]})
    stamps = pl.DataFrame({"seen": [dt.datetime(2020, 1, 1, 5, 6, 7)]})
    codec = SiteCodec(SiteAgreement.from_summaries([SiteSummary.of(days), SiteSummary.of(stamps)]))
    assert codec.inverse_transform(codec.transform(stamps)).equals(stamps)
    times = pl.DataFrame({"seen": [dt.time(3)]})
    with pytest.raises(DataError, match="'seen'"):
        SiteAgreement.from_summaries([SiteSummary.of(days), SiteSummary.of(times)])


def test_what_stays_at_home_is_not_told() -> None:
    policy = [Column("age", Kind.INTEGER, Role.LEVEL), Column("illness", Kind.TEXT)]
    assert SiteSummary.of(TABLE, policy).columns[0].low is None


@pytest.mark.parametrize(
    "column",
    [
        {"name": "age", "kind": "banana"},
        {"name": "age", "kind": "integer", "role": "king"},
        {"name": "age", "kind": "integer", "low": "x", "high": 3},
        {"name": "age", "kind": "integer", "low": 1, "high": None},
        {"name": "age", "kind": "integer", "low": [1], "high": 3},
        {"name": "age", "kind": "datetime", "low": "soon", "high": "late"},
        {"name": "age", "kind": "category", "low": 1, "high": 3},
        {"name": 5, "kind": "integer"},
        {"name": "age", "kind": "integer", "count": 3},
    ],
)
def test_edited_summaries_are_refused(column: dict[str, Any], tmp_path: Path) -> None:
    entries = {"format": "tulle-site-summary", "version": 1, "columns": [column]}
    (tmp_path / "one.json").write_text(json.dumps(entries))
    with pytest.raises(DataError):
        SiteSummary.load(tmp_path / "one.json")


def test_a_column_twice_and_deep_nests_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(DataError):
        SiteSummary.load(tmp_path / "deep.json")
    one = SiteSummary.of(TABLE)
    twice = SiteSummary((*one.columns, one.columns[0]))
    with pytest.raises(DataError, match="twice"):
        SiteAgreement.from_summaries([one, twice])
    with pytest.raises(DataError):
        SiteAgreement.from_summaries(["one.json"])
