"""Dates in mixed forms are read; what is not understood is counted."""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.table._date_format import read_dates

days = st.lists(st.dates(date(1932, 1, 1), date(2029, 12, 31)), min_size=1, max_size=30)


@pytest.mark.slow
@given(
    days, st.lists(st.sampled_from(["%d.%m.%Y", "%Y-%m-%d", "%d.%m.%y", "%Y/%m/%d"]), min_size=1)
)
def test_mixed_forms_are_read(dates, forms):
    texts = [day.strftime(forms[i % len(forms)]) for i, day in enumerate(dates)]
    reading = read_dates(pl.Series(texts))
    long = [i for i in range(len(dates)) if "%Y" in forms[i % len(forms)]]
    assert [reading.values[i] for i in long] == [dates[i] for i in long]
    assert reading.values.null_count() == 0


def test_impossible_dates_are_left_out_and_counted():
    reading = read_dates(pl.Series(["31.02.1990", "00.00.0000", "unbekannt", "01.02.1990"]))
    assert reading.values.to_list() == [None, None, None, date(1990, 2, 1)]


def test_two_digit_years_lie_in_the_past():
    born = [f"0{i % 9 + 1}.01.19{i + 30}" for i in range(25)] + ["05.05.62", "06.06.03"]
    reading = read_dates(pl.Series(born))
    assert reading.values[-2:].to_list() == [date(1962, 5, 5), date(1903, 6, 6)]
    assert dict(reading.formats)["%d.%m.%y"] == 2


def test_day_and_month_are_told_by_all_values():
    assert read_dates(pl.Series(["03/04/2024", "25/04/2024"])).values[0] == date(2024, 4, 3)
    assert read_dates(pl.Series(["03/04/2024", "04/25/2024"])).values[0] == date(2024, 3, 4)
    assert read_dates(pl.Series(["03/04/2024"])).ambiguous == 1


def test_months_have_names_in_several_languages():
    texts = pl.Series(["12. März 1980", "3 May 1990", "1 dicembre 2001", "15 août 1999"])
    assert read_dates(texts).values.dt.month().to_list() == [3, 5, 12, 8]


def test_region_codes_are_not_dates():
    assert read_dates(pl.Series(["01-01301", "38-00100"])) is None
