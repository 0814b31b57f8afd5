from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import SiteAgreement, SiteCodec
from tulle.errors import DataError


def round_trip(values: pl.Series, kind: str, **choices: Any) -> pl.Series:
    table = pl.DataFrame({"x": values})
    codec = SiteCodec(SiteAgreement.create({"x": kind}, **choices))
    back: pl.Series = codec.inverse_transform(codec.transform(table))["x"]
    return back


def aliases(shared: SiteAgreement, values: Any) -> list[str]:
    found: list[str] = SiteCodec(shared).transform(pl.DataFrame({"x": values}))["x"].to_list()
    return found


@given(st.lists(st.one_of(st.floats(allow_nan=False), st.none()), max_size=8))
def test_any_float_has_an_alias_that_leads_back(cells: list[float | None]) -> None:
    values = pl.Series("x", cells, dtype=pl.Float64)
    assert round_trip(values, "decimal", alias=["x"]).to_list() == cells


@pytest.mark.slow
@given(st.lists(st.decimals(-(10**18), 10**18, places=6), max_size=8))
def test_any_decimal_has_an_alias_of_its_own(cells: list[Decimal]) -> None:
    values = pl.Series("x", cells, dtype=pl.Decimal(38, 6))
    assert round_trip(values, "decimal", alias=["x"]).equals(values)


def test_digits_beyond_floating_point_are_different_values() -> None:
    cells = [Decimal("12345678901234567890.12"), Decimal("12345678901234567890.13")]
    values = pl.Series("x", cells, dtype=pl.Decimal(38, 2))
    assert round_trip(values, "decimal", alias=["x"]).to_list() == cells


@pytest.mark.parametrize(
    "cells",
    [
        ["é", "e\u0301", "E\u0301", "\u212b", "\u00c5", "", " ", "\n", "\x00", "a\u202eb"],
        ["", None, "null", "NaN", "None"],
    ],
)
def test_texts_that_look_alike_stay_different(cells: list[str | None]) -> None:
    values = pl.Series("x", cells, dtype=pl.String)
    assert round_trip(values, "text").to_list() == cells


@pytest.mark.parametrize("dtype", [pl.Datetime("ns"), pl.Time])
def test_what_python_would_round_is_refused(dtype: Any) -> None:
    fine = pl.Series("x", [1, 2, 3000], dtype=pl.Int64).cast(dtype)
    with pytest.raises(DataError, match="'x'.*2 values"):
        round_trip(fine, "category")
    whole = pl.Series("x", [3000, 5000], dtype=pl.Int64).cast(dtype)
    assert round_trip(whole, "category").equals(whole)


def test_years_beyond_the_calendar_are_refused() -> None:
    far = pl.Series("x", [0, 5_000_000, -2_000_000], dtype=pl.Int32).cast(pl.Date)
    with pytest.raises(DataError, match="2 .*years 1 to 9999"):
        round_trip(far, "category")
    early = pl.Series("x", [dt.datetime(1, 1, 1)]).dt.replace_time_zone("Asia/Tokyo")
    with pytest.raises(DataError, match="holds 1 "):
        round_trip(early, "category")


def test_equal_values_have_equal_aliases_whatever_their_type() -> None:
    shared = SiteAgreement.create({"x": "category"})
    for alike in (
        [pl.Series([0.1], dtype=pl.Float32), [0.1], [Decimal("0.10")], ["0.1"]],
        [[dt.date(2020, 1, 2)], [dt.datetime(2020, 1, 2)], ["2020-01-02"]],
        [[2**53 + 1], [Decimal(2**53 + 1)], [str(2**53 + 1)]],
    ):
        assert len({aliases(shared, values)[0] for values in alike}) == 1


def test_truth_values_are_alike_at_every_site() -> None:
    shared = SiteAgreement.create({"x": "boolean"})
    bits: list[Any] = [
        [True, False, None], [1, 0, None], [1.0, 0.0, None], ["true", "false", None],
    ]  # fmt: skip
    assert len({tuple(aliases(shared, values)) for values in bits}) == 1
    for values in bits:
        codec = SiteCodec(shared)
        table = pl.DataFrame({"x": values})
        assert codec.inverse_transform(codec.transform(table)).equals(table)
    for strange in (["yes", "no"], ["True", "true"], [1, 2], ["1", "0"]):
        with pytest.raises(DataError, match="boolean") as error:
            aliases(shared, strange)
        assert "yes" not in str(error.value)


def test_values_of_others_are_not_squeezed_into_ones_own_type() -> None:
    shared = SiteAgreement.create({"x": "decimal"}, ranges={"x": (0, 999)})
    named = SiteAgreement.create({"x": "decimal"}, alias=["x"])
    theirs = pl.DataFrame({"x": [2.53, 300.0, 7.0]})
    for dtype in (pl.Int64, pl.Int8, pl.Float32, pl.Decimal(5, 1), pl.UInt8):
        mine = pl.DataFrame({"x": pl.Series([1, 2], dtype=dtype)})
        codec = SiteCodec(shared).learn(mine)
        assert codec.inverse_transform(codec.transform(mine)).equals(mine)
        codes = SiteCodec(shared).transform(theirs)
        assert codec.inverse_transform(codes)["x"].cast(pl.Float64).to_list() == [2.53, 300, 7]
        reader = SiteCodec(named).learn(theirs).learn(mine)
        decoded = reader.inverse_transform(SiteCodec(named).transform(theirs))["x"]
        assert [float(value) for value in decoded] == [
            pytest.approx(number, abs=1e-6) for number in (2.53, 300, 7)
        ]


def test_finer_time_stamps_of_others_are_kept() -> None:
    shared = SiteAgreement.create(
        {"x": "timestamp"}, ranges={"x": ("2020-01-01T00:00", "2021-01-01T00:00")}
    )
    mine = pl.DataFrame({"x": pl.Series([dt.datetime(2020, 2, 3)], dtype=pl.Datetime("ms"))})
    theirs = pl.DataFrame({"x": [dt.datetime(2020, 2, 3, 4, 5, 6, 789012)]})
    codec = SiteCodec(shared).learn(mine)
    assert codec.inverse_transform(codec.transform(mine)).equals(mine)
    assert codec.inverse_transform(SiteCodec(shared).transform(theirs)).equals(theirs)


def test_midnight_is_the_date_where_the_site_is() -> None:
    shared = SiteAgreement.create({"x": "date"}, ranges={"x": ("2020-01-01", "2021-01-01")})
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Tokyo"):
        table = pl.DataFrame({"x": pl.Series([dt.datetime(2020, 7, 1)])})
        table = table.with_columns(pl.col("x").dt.replace_time_zone(zone))
        codec = SiteCodec(shared)
        encoded = codec.transform(table)
        assert codec.inverse_transform(encoded).equals(table)
        assert SiteCodec(shared).inverse_transform(encoded)["x"][0] == dt.date(2020, 7, 1)


def test_moments_in_text_are_read_or_refused_without_showing_one() -> None:
    ends = {"x": ("2020-01-01T00:00", "2021-01-01T00:00")}
    codec = SiteCodec(SiteAgreement.create({"x": "timestamp"}, ranges=ends))
    table = pl.DataFrame({"x": ["2020-03-01 10:00", None]})
    back = codec.inverse_transform(codec.transform(table))
    assert back["x"][0] == dt.datetime(2020, 3, 1, 10)
    for strange in (["Ann"], ["2020-03-01 10:00", "Ann"], [""]):
        with pytest.raises(DataError, match="'x': 1 value cannot be read as timestamp") as error:
            codec.transform(pl.DataFrame({"x": strange}))
        assert "Ann" not in str(error.value)


@pytest.mark.parametrize("name", ["*", "^a$"])
def test_names_that_read_like_patterns_are_refused(name: str) -> None:
    with pytest.raises(DataError):
        SiteAgreement.create({name: "category"})


def test_codes_in_single_precision_are_refused_where_they_tell_too_little() -> None:
    wide = SiteAgreement.create({"x": "integer"}, ranges={"x": (0, 300_000_000)})
    codes = SiteCodec(wide).transform(pl.DataFrame({"x": [123_456_789]}))
    with pytest.raises(DataError):
        SiteCodec(wide).inverse_transform(codes.cast(pl.Float32))
    narrow = SiteAgreement.create({"x": "integer"}, ranges={"x": (0, 1000)})
    ages = pl.DataFrame({"x": list(range(1001))})
    single = SiteCodec(narrow).transform(ages).cast(pl.Float32)
    assert SiteCodec(narrow).inverse_transform(single).equals(ages)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([[1.5, 2.25], [np.nan, 4.0]]),
        np.array([[1, 2], [3, 4]], dtype=np.int8),
    ],
)
def test_arrays_of_numbers_come_back(array: np.ndarray) -> None:
    kind = "decimal" if array.dtype.kind == "f" else "integer"
    ranges = {"x0": (0, 9), "x1": (0, 99)}
    for order in (["x0", "x1"], ["x1", "x0"]):
        codec = SiteCodec(SiteAgreement.create(dict.fromkeys(order, kind), ranges=ranges))
        back = codec.inverse_transform(codec.transform(array))
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_columns_of_arrays_are_not_taken_for_others() -> None:
    from tulle.table.schema import Column, Kind, Role

    schema = [Column("x0", Kind.TEXT, Role.IDENTIFIER), *(
        Column(name, Kind.INTEGER) for name in ("x1", "x2")
    )]  # fmt: skip
    codec = SiteCodec(SiteAgreement.create(schema, ranges={"x1": (0, 9), "x2": (0, 99)}))
    encoded = codec.transform([["ann", 1, 20], ["bob", 3, 40]])
    assert codec.inverse_transform(encoded) == [[1, 20], [3, 40]]
    with pytest.raises(DataError, match="1 column.*2"):
        codec.inverse_transform([[row[0]] for row in encoded])
