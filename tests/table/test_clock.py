"""Times of day are a circle, and time stamps have hours at which people are awake."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle.table._numbers import NumberCodec
from tulle.table._precision import even_cycle, from_even_days, to_even_days
from tulle.table.schema import Kind

pytestmark = pytest.mark.slow


def interviews(n: int = 900, seed: int = 0) -> pl.DataFrame:
    """Return interviews by day, of half a year; a few last, none begins at night."""
    rng = np.random.default_rng(seed)
    minutes = np.clip(rng.normal(14.5 * 60, 150, n), 8 * 60, 21 * 60).astype(int)
    days = rng.integers(0, 180, n)
    start = [
        datetime(2021, 6, 1) + timedelta(days=int(d), minutes=int(m), seconds=int(s))
        for d, m, s in zip(days, minutes, rng.integers(0, 60, n))
    ]
    lasted = rng.gamma(9, 6, n)
    end = [at + timedelta(minutes=float(long)) for at, long in zip(start, np.round(lasted))]
    return pl.DataFrame({"start": start, "end": end, "age": rng.integers(18, 90, n)})


@pytest.fixture(scope="module")
def released() -> pl.DataFrame:
    return Condenser(k=10, random_state=0).fit_resample(interviews())


def night(times: pl.Series) -> float:
    return float((times.dt.hour() < 6).mean())  # type: ignore[arg-type]


def test_interviews_start_by_day_in_a_release_as_in_the_table(released: pl.DataFrame) -> None:
    table = interviews()
    assert night(table["start"]) == 0
    assert night(released["start"]) <= 0.002
    hours = [frame["start"].dt.hour().cast(pl.Float64) for frame in (table, released)]
    assert hours[1].mean() == pytest.approx(hours[0].mean(), abs=0.5)  # type: ignore[arg-type]
    assert hours[1].std() == pytest.approx(hours[0].std(), abs=0.5)  # type: ignore[arg-type]


def test_days_keep_their_shape_and_interviews_their_length(released: pl.DataFrame) -> None:
    table = interviews()
    for share in (0.1, 0.5, 0.9):
        days = [frame["start"].quantile(share, "nearest") for frame in (table, released)]
        assert abs((days[1] - days[0]).days) <= 7  # type: ignore[operator]
    long = [(frame["end"] - frame["start"]).dt.total_minutes() for frame in (table, released)]
    assert long[1].median() == pytest.approx(long[0].median(), abs=6)  # type: ignore[arg-type]
    assert float((long[1] > 6 * 60).mean()) == 0  # type: ignore[arg-type]


def test_a_night_shift_is_one_stretch_of_the_circle() -> None:
    rng = np.random.default_rng(1)
    late = rng.integers(0, 2, 600).astype(bool)  # people of two sorts: half past 23 and half past 0
    minutes = (np.where(late, 23.5 * 60, 24.5 * 60) + rng.normal(0, 12, 600)).astype(int) % 1440
    table = pl.DataFrame({"at": [time(m // 60, m % 60) for m in minutes.tolist()], "late": late})
    drawn = Condenser(k=20, random_state=0).fit_resample(table)
    assert drawn.schema == table.schema
    hours = drawn["at"].dt.hour()
    assert hours.is_in([22, 23, 0, 1]).all()
    before = drawn.filter(pl.col("late"))["at"].dt.hour().is_in([22, 23]).mean()
    assert before > 0.85  # type: ignore[operator]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_time_stamps_of_few_people_have_no_clock_and_come_back(unit: str) -> None:
    table = interviews(60).cast({"start": pl.Datetime(unit)})  # type: ignore[arg-type]
    drawn = Condenser(k=30, random_state=0).fit_resample(table)
    assert drawn.schema == table.schema
    assert drawn["start"].is_between(datetime(2021, 5, 31), datetime(2021, 12, 1)).all()


def test_hours_stay_where_a_time_lies_days_after_another() -> None:
    rng = np.random.default_rng(4)
    admitted = interviews(700)["start"]
    stay = pl.Series(rng.integers(1, 9, 700) * 86_400 * 10**6).cast(pl.Duration("us"))
    morning = pl.Series(rng.integers(9 * 60, 12 * 60, 700) * 60 * 10**6).cast(pl.Duration("us"))
    left = admitted.dt.truncate("1d") + stay + morning
    table = pl.DataFrame({"admitted": admitted, "left": left})
    drawn = Condenser(k=10, random_state=0).fit_resample(table)
    assert (drawn["left"] >= drawn["admitted"]).all()
    assert float(drawn["left"].dt.hour().is_between(8, 12).mean()) > 0.98  # type: ignore[arg-type]
    days = [(f["left"] - f["admitted"]).dt.total_hours().mean() / 24 for f in (table, drawn)]  # type: ignore[operator]
    assert days[1] == pytest.approx(days[0], abs=0.5)


def test_an_hour_that_hardly_anybody_has_is_no_part_of_its_neighbours() -> None:
    """Together with them it would be as frequent as they are."""
    hours = np.repeat([6, 7, 8, 9, 12, 15], [3, 2, 12, 13, 200, 236])
    before = even_cycle(hours, 24, None, 20.0)
    shares = np.diff(before)
    assert shares[[6, 7]].max() < 1e-5
    assert shares[8:10].sum() > 0.05


def test_hours_are_taken_together_round_the_clock() -> None:
    """What is left at the end of the day belongs to its beginning, not to what nobody has."""
    counts = [9, 5, 8, 12, 10, 0, 3, 2, 12, 5, 11, 26, 33, 24, 21, 93, 62, 42, 19, 24, 18, 8, 11, 8]
    shares = np.diff(even_cycle(np.repeat(np.arange(24), counts), 24, None, 25.0))
    assert shares[5:8].max() < 1e-5
    assert shares[[21, 22, 23, 0, 1]].min() > 0.01


def test_a_time_that_passes_does_not_lead_into_hours_that_hardly_anybody_has() -> None:
    codec = NumberCodec("end", Kind.DATETIME, pl.Datetime("us"))
    codec.clock = even_cycle(np.repeat(np.arange(8, 20), 50), 24, None, 20.0)
    since, until = np.array([18.5, 18.5, 33.0, 23.0]), np.array([19.5, 21.5, 29.0, 23.5])
    moved = 24 * codec.awake(since / 24, until / 24, np.random.default_rng(0))
    assert moved[0] == 19.5  # people are awake then
    assert 18.5 <= moved[1] < 20
    assert 32 < moved[2] <= 33  # the time before it, of the next day
    assert moved[3] == 23.5  # it began at night


def appointments(n: int = 1500) -> pl.DataFrame:
    """Return days of four years, never in August nor on weekends, and a few days after each."""
    rng = np.random.default_rng(0)
    days = [date(2015, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 1461, 3 * n)]
    open_days = [day for day in days if day.weekday() < 5 and day.month != 8][:n]
    stay = rng.poisson(4, n)
    left = [day + timedelta(days=int(more)) for day, more in zip(open_days, stay)]
    return pl.DataFrame({"came": open_days, "left": left, "stay": stay})


def test_days_stay_in_the_months_and_on_the_weekdays_that_there_are() -> None:
    table = appointments()
    drawn = Condenser(k=15, random_state=0).fit_resample(table)
    assert float((drawn["came"].dt.weekday() > 5).mean()) == 0  # type: ignore[arg-type]
    assert float((drawn["came"].dt.month() == 8).mean()) < 0.01  # type: ignore[arg-type]
    assert ((drawn["left"] - drawn["came"]).dt.total_days() == drawn["stay"]).all()
    for share in (0.1, 0.5, 0.9):
        days = [frame["came"].quantile(share, "nearest") for frame in (table, drawn)]
        assert abs((days[1] - days[0]).days) <= 30  # type: ignore[operator]


@pytest.mark.parametrize("week", [(), (0.0, 0.2, 0.4, 0.6, 0.8, 1 - 1e-6, 1 - 5e-7, 1.0)])
@pytest.mark.parametrize("year", [(), (*np.linspace(0, 1 - 1e-6, 12).tolist(), 1.0)])
def test_an_even_calendar_gives_days_back(week: tuple[float, ...], year: tuple[float, ...]) -> None:
    days = np.random.default_rng(0).uniform(-9000, 30_000, 500)
    there = to_even_days(days, week, year)
    assert np.allclose(from_even_days(there, week, year), days, atol=1e-4)
    assert (np.diff(to_even_days(np.sort(days), week, year)) >= 0).all()
