"""Special values are states next to numbers and dates, and come back as they were written."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from benchmarks.columns_hospital import hospital
from tulle import Condenser
from tulle.errors import DataError
from tulle.guessing.columns import infer_columns
from tulle.table._encoder import TableEncoder
from tulle.table._states import writing_of
from tulle.table.schema import Column, Kind


def back(series: pl.Series, column: Column) -> pl.Series:
    """A column, split into values and states and joined again."""
    writing = writing_of(series, column)
    assert writing is not None
    return writing.join(*writing.split(series)).alias(series.name)


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["1.360,00 €", "-5,50 €", "k.A.", None], {"kind": Kind.DECIMAL, "missing": ("k.A.",)}),
        (["52%", "7%", "100%"], {"kind": Kind.INTEGER}),
        (["$1,234.50", "$0.10"], {"kind": Kind.DECIMAL}),
        (["12", "N", "7"], {"kind": Kind.INTEGER, "codes": {"N": "none"}}),
        (["1,5", "9999", "2,25"], {"kind": Kind.DECIMAL, "missing": (9999,)}),
        ([1, 9999, None, 3], {"kind": Kind.INTEGER, "missing": (9999,)}),
        ([1.5, -99.0, 3.25], {"kind": Kind.DECIMAL, "codes": {"-99": "refused"}}),
        (["03.11.1961", "unbekannt"], {"kind": Kind.DATETIME, "missing": ("unbekannt",)}),
        ([20240131, 19991231], {"kind": Kind.DATETIME, "format": "%Y%m%d"}),
        (["07:30", "23:15"], {"kind": Kind.DATETIME, "format": "%H:%M"}),
        ([date(2020, 1, 1), date(1900, 1, 1)], {"kind": Kind.DATETIME, "missing": ("1900-01-01",)}),
    ],
)
def test_columns_come_back_as_they_were_written(values: list[Any], column: dict[str, Any]) -> None:
    series = pl.Series("x", values)
    assert_series_equal(back(series, Column("x", **column)), series)
    table = series.to_frame()
    encoder = TableEncoder([Column("x", **column)]).fit(table)
    assert_series_equal(encoder.decode(encoder.encode(table))["x"], series)
    again = TableEncoder.from_json(encoder.to_json())
    assert_series_equal(again.decode(again.encode(table))["x"], series)


@pytest.mark.slow
def test_the_hospital_comes_back_in_its_own_forms() -> None:
    frame = hospital(np.random.default_rng(4), 300)
    for column in infer_columns(frame):
        series = frame[column.name]
        coded = column.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME) and column.role.released
        if not coded or column.name == "Geburtsdatum":
            continue
        assert_series_equal(back(series, column), series)


def test_mixed_dates_are_written_in_the_commonest_form_and_strange_ones_counted() -> None:
    born = pl.Series("born", ["03.11.1961"] * 30 + ["1987-02-28", "4.1.50", "00.00.0000"])
    encoder = TableEncoder([Column("born", Kind.DATETIME)]).fit(born.to_frame())
    assert encoder.unread() == ["born"]
    assert encoder.decode(encoder.encode(born.to_frame()))["born"].to_list()[-3:] == [
        "28.02.1987",
        "04.01.1950",
        None,
    ]


def test_a_kind_that_does_not_fit_is_refused_without_a_value() -> None:
    names = pl.DataFrame({"x": ["Meier", "Huber", "12"]})
    with pytest.raises(DataError, match="'x' is declared integer, but 2 of 3") as caught:
        TableEncoder([Column("x", Kind.INTEGER)]).fit(names)
    assert "Meier" not in str(caught.value)
    with pytest.raises(DataError, match="format of column 'x'"):
        TableEncoder([Column("x", Kind.INTEGER, format="none")]).fit(names)


@pytest.mark.slow
@pytest.mark.parametrize("synthesis", ["shape", "uniform", "normal"])
def test_codes_are_never_averaged(synthesis: str) -> None:
    rng = np.random.default_rng(0)
    n = 1_000
    crp = np.where(rng.random(n) < 0.08, 9999.0, rng.gamma(0.8, 30, n).round(1))
    score = np.where(rng.random(n) < 0.05, -99, rng.binomial(4, 0.4, n))
    pay = np.where(rng.random(n) < 0.1, "N", rng.integers(900, 5_000, n).astype(str))
    table = pl.DataFrame({"crp": crp, "score": score, "pay": pay})
    columns = [
        Column("crp", Kind.DECIMAL, missing=(9999,)),
        Column("score", Kind.ORDERED, missing=(-99,)),
        Column("pay", Kind.INTEGER, codes={"N": "not applicable"}),
    ]
    released = Condenser(k=10, columns=columns, synthesis=synthesis, random_state=0)
    release = released.fit_resample(table)
    assert release.schema == table.schema
    assert not release["crp"].is_between(400, 9_998).any()
    assert (release["crp"] == 9999).mean() == pytest.approx((crp == 9999).mean(), abs=0.03)
    assert set(release["score"].unique()) <= {-99, 0, 1, 2, 3, 4}
    assert (release["score"] == -99).mean() == pytest.approx((score == -99).mean(), abs=0.03)
    numbers = release["pay"].cast(pl.Int64, strict=False)
    assert set(release["pay"].filter(numbers.is_null())) == {"N"}
    assert numbers.null_count() / n == pytest.approx((pay == "N").mean(), abs=0.04)


CELLS = st.one_of(
    st.none(), st.integers(-999, 999).map(str), st.sampled_from(["N", "9999", "k.A."])
)


@pytest.mark.slow
@given(st.lists(CELLS, min_size=1, max_size=40))
def test_any_mixture_of_numbers_and_codes_comes_back(cells: list[str | None]) -> None:
    series = pl.Series("x", ["5", "6", "7", *cells])
    column = Column("x", Kind.INTEGER, missing=(9999, "k.A."), codes={"N": "none"})
    plain = series.replace("-0", "0")
    assert_series_equal(back(plain, column), plain)
