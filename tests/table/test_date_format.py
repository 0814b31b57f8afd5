"""Dates in mixed forms are read; what is not understood is counted."""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.table._date_format import parse_dates, read_dates, read_whole_dates, write_dates

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


@pytest.mark.parametrize(
    ("texts", "form", "sort"),
    [
        (["13:30", "09:05", "00:00"], "%H:%M", pl.Time()),
        (["13:30:05", "9:05:00"], "%-H:%M:%S", pl.Time()),
        (["1:30 pm", "11:05 am"], "%-I:%M %P", pl.Time()),
        (["01:30PM", "11:05AM"], "%I:%M%p", pl.Time()),
        (["1:23:45", "26:00:00", "0:59:01", "31:10:10"], "[h]:mm:ss", pl.Duration("us")),
        (["40:15", "37:30", "8:00"], "[h]:mm", pl.Duration("us")),
        (["PT1H30M", "PT45M", "PT2H0.5S", "PT0S"], "PT1H30M", pl.Duration("us")),
        (["P1DT2H", "P3D", "P10DT5M"], "P1DT1H30M", pl.Duration("us")),
        (["2021-03", "2021-11", "2020-01"], "%Y-%m", pl.Date()),
        (["03/2021", "11/2021"], "%m/%Y", pl.Date()),
        (["Mar 2021", "Nov 2021"], "%b %Y", pl.Date()),
        (["2021-W05", "2020-W53"], "%G-W%V", pl.Date()),
        (["2021Q1", "2019Q4"], "%YQ%q", pl.Date()),
        (["Q3 2021", "Q2 2019"], "Q%q %Y", pl.Date()),
        (["3.11.1961", "14.7.1962"], "%-d.%-m.%Y", pl.Date()),
        (["3-Nov-1961", "14-Jul-1962"], "%-d-%b-%Y", pl.Date()),
        (["November 3, 1961", "July 14, 1962"], "%B %-d, %Y", pl.Date()),
        (
            ["2021-09-20 17:47:07 Europe/Oslo", "2021-12-01 08:00:00 Europe/Oslo"],
            "%Y-%m-%d %H:%M:%S Europe/Oslo",
            pl.Datetime("us"),
        ),
        (
            ["2021-09-20T17:47+02:00", "2021-12-01T08:00+02:00"],
            "%Y-%m-%dT%H:%M+02:00",
            pl.Datetime("us"),
        ),
    ],
)
def test_times_are_read_and_written_back(texts: list[str], form: str, sort: pl.DataType) -> None:
    reading = read_dates(pl.Series(texts))
    assert reading is not None
    assert reading.format == form
    assert reading.values.dtype == sort
    assert reading.values.null_count() == 0
    assert write_dates(reading.values, form).to_list() == texts
    again = parse_dates(pl.Series(texts), [form], reading.years)
    assert again.equals(reading.values)


def test_school_years_are_no_months() -> None:
    assert read_dates(pl.Series(["2001-02", "2004-05", "2010-11"])) is None
    assert read_dates(pl.Series(["90 min", "12", "Q5", "9:75"])) is None


def test_seconds_since_1970_are_moments_in_columns_that_say_so() -> None:
    numbers = pl.Series([1_600_000_000, None, 1_609_459_200])
    assert read_whole_dates(numbers, named=False) is None
    for form, scale in (("%s", 1), ("%s%3f", 1000)):
        found = read_whole_dates(numbers * scale, named=True)
        assert found is not None
        assert found[1] == form
        assert found[0].dt.year().to_list() == [2020, None, 2021]
        texts = (numbers * scale).cast(pl.String)
        assert write_dates(found[0], form).equals(texts)
