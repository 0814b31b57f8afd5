"""No release shows a value that fewer than k people hold.

Categories, ordered values, booleans, missing and special values: none at all. Numbers are drawn on
the grid of their column, so a drawn one may equal one person's by chance; what must not be is that
it does so because of that person. So every exact value that the fitted model can give out (a heap,
a special value, the entry of a map) is held by at least k people, numbers without a grid never
equal a rare one, and on a grid rare values of the table come out no more often than those of
people who were never in it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import datasets

from benchmarks.columns_hospital import hospital
from tulle import Condenser
from tulle.errors import DataError, PrivacyWarning
from tulle.table.inference import guess_columns
from tulle.table.schema import Column, Kind, Role

DISCRETE = (Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN)


def survey(rng: np.random.Generator, n: int = 800) -> pl.DataFrame:
    """An excerpt of a census as statistical offices publish it, with N for "not applicable"."""
    age = rng.integers(0, 96, n)
    grown = age >= 15
    income = np.where(rng.random(n) < 0.3, 0, rng.lognormal(10, 1, n).round(-1)).astype(int)
    industry = rng.choice(rng.integers(100, 9_999, 120), n, p=_falling(120))
    decile = np.ceil(10 * (income.argsort().argsort() + 1) / n).astype(int)
    return pl.DataFrame(
        {
            "PUMA": rng.choice(["01-01301", "06-08507", "38-00100", "51-51255"], n),
            "AGEP": age,
            "SEX": rng.integers(1, 3, n),
            "RAC1P": rng.choice(np.arange(1, 10), n, p=_falling(9)),
            "PINCP": _or_n(income, grown),
            "PINCP_DECILE": _or_n(decile, grown),
            "INDP": _or_n(industry, grown),
            "EDU": _or_n(1 + rng.binomial(11, 0.6, n), age > 2),
            "DVET": _or_n(rng.integers(1, 7, n), rng.random(n) < 0.004),
            "DENSITY": rng.choice(rng.gamma(2, 900, 20).round(1), n),
            "WGTP": rng.gamma(2, 60, n).astype(int),
        }
    )


def _falling(count: int) -> Any:
    shares = 0.75 ** np.arange(count)
    return shares / shares.sum()


def _or_n(values: Any, has: Any) -> list[str]:
    return np.where(has, values.astype(str), "N").tolist()


def sklearn_table(name: str) -> pl.DataFrame:
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    return pl.from_pandas(found.frame)


TABLES = {
    "hospital": lambda rng: hospital(rng, 300),
    "survey": survey,
    **{
        name: lambda rng, name=name: sklearn_table(name)
        for name in ("iris", "wine", "breast_cancer", "diabetes")
    },
}


def planned(table: pl.DataFrame) -> list[Column]:
    return [
        guess.column
        if guess.column.role not in (Role.TARGET, Role.LEVEL)
        else Column(guess.column.name, guess.column.kind)
        for guess in guess_columns(table)
    ]


def held_by(values: pl.Series, people: pl.Series | None) -> dict[Any, int]:
    """How many people hold each value; None is missing."""
    person = pl.Series("p", np.arange(len(values))) if people is None else people.alias("p")
    table = pl.DataFrame({"v": values, "p": person})
    return dict(table.group_by("v").agg(pl.col("p").n_unique()).iter_rows())


def assert_shared(
    before: pl.Series, after: pl.Series, k: int, people: pl.Series | None, *, only: Any = None
) -> None:
    """Every value that is shown is held by k people, or stands for all that are not."""
    held = held_by(before, people)
    common = [value for value in after.unique().to_list() if held.get(value, 0) >= k]
    gone = ~before.is_in(common, nulls_equal=True)
    merged = held_by(gone, people).get(True, 0)
    shown = set(after.unique().to_list()) if only is None else set(after.unique()) & set(only)
    for value in shown:
        everything = after.n_unique() == 1  # nothing else was left to show
        rest = value not in held or value is None
        assert held.get(value, 0) >= k or (rest and (merged >= k or everything)), before.name


def exact_values(condenser: Condenser, name: str) -> list[float]:
    """What the fitted model can give out of a column as it is."""
    [shaped] = condenser._shapes
    model = shaped.model
    found: list[float] = []
    for cells in model.columns:
        if cells.name == name and getattr(cells, "quantiles", None) is not None:
            quantiles = cells.quantiles  # type: ignore[union-attr]
            found += quantiles.low[quantiles.low == quantiles.high].tolist()
    for dependency in model.dependencies:
        if dependency.target == name and not dependency.codes:
            found += dependency.answers[np.isfinite(dependency.answers)].tolist()
    return found


def release_of(
    table: pl.DataFrame, columns: list[Column], k: int
) -> tuple[Condenser, pl.DataFrame]:
    condenser = Condenser(k, columns=columns, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return condenser, condenser.fit_resample(table)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("k", [5, 20])
def test_nothing_that_few_people_hold_is_shown(name: str, k: int) -> None:
    table = TABLES[name](np.random.default_rng(k))
    columns = planned(table)
    condenser, release = release_of(table, columns, k)
    assert set(release.columns) == {c.name for c in columns if c.role.released}
    who = next((c.name for c in columns if c.role is Role.PERSON), None)
    people = None if who is None else table[who]
    for column in columns:
        if not column.role.released:
            continue
        before, after = table[column.name], release[column.name]
        if column.kind in DISCRETE:
            assert_shared(before, after, k, people)
            continue
        assert_shared(before, after, k, people, only=[None, *column.special])
        codec = next(c for c in condenser._encoder._codecs if c.name == column.name)
        values, states, _ = codec._read(before)  # type: ignore[attr-defined]
        held = held_by(
            pl.Series(values[states == 0]),
            None if people is None else people.filter(pl.Series(states == 0)),
        )
        for value in exact_values(condenser, column.name):
            assert value < -1e299 or held.get(value, 0) >= k or len(held) < 3, column.name
        drawn, there, _ = codec._read(after)  # type: ignore[attr-defined]
        rare = {value for value, count in held.items() if count < k}
        if codec.kind is Kind.DECIMAL and codec.decimals is None:  # type: ignore[attr-defined]
            assert not rare & set(drawn[there == 0].tolist()), column.name


@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize(
    "column", ["Kosten_DRG", "Kosten_Medikamente", "Einkommen", "CRP", "Hochrechnung", "Messzeit"]
)
def test_rare_numbers_come_out_no_more_often_than_those_of_strangers(column: str, k: int) -> None:
    tables = [hospital(np.random.default_rng(seed), 500) for seed in (1, 2)]
    columns = [c for c in planned(tables[0]) if c.name in (column, "Alter", "Station")]
    condenser, release = release_of(tables[0].select(c.name for c in columns), columns, k)
    codec = next(c for c in condenser._encoder._codecs if c.name == column)
    rates = []
    for table in tables:
        values, states, _ = codec._read(table[column])  # type: ignore[attr-defined]
        held = held_by(pl.Series(values[states == 0]), None)
        rare = np.array([value for value, count in held.items() if count < k])
        drawn, there, _ = codec._read(release[column])  # type: ignore[attr-defined]
        rates.append(np.isin(drawn[there == 0], rare).mean() / len(rare))
    size = len(release)
    assert rates[0] * size <= rates[1] * size * 1.15 + 0.02


TEXTS = st.sampled_from(["a", "b", "c", "Meier", "N", "k.A.", "", "9999", "12", "7"])
CELLS = {
    pl.Int64(): st.integers(-3, 12) | st.sampled_from([9999, -99]),
    pl.Float64(): st.floats(-1e6, 1e6, allow_nan=False) | st.sampled_from([0.0, 9999.0]),
    pl.Boolean(): st.booleans(),
    pl.String(): TEXTS,
    pl.Categorical(): TEXTS,
    pl.Date(): st.dates(),
}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(12, 40))
    made = {}
    for place in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(list(CELLS)))
        cells = st.lists(st.none() | CELLS[dtype], min_size=rows, max_size=rows)
        made[f"c{place}"] = pl.Series(draw(cells), dtype=dtype)
    return pl.DataFrame(made)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.integers(2, 9), st.sampled_from(["shape", "uniform", "mean"]))
def test_random_tables(table: pl.DataFrame, k: int, synthesis: str) -> None:
    condenser = Condenser(k, synthesis=synthesis, random_state=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            release = condenser.fit_resample(table)
    except DataError:  # free text
        return
    for column in condenser._encoder.columns_:
        if column.kind in DISCRETE:
            assert_shared(table[column.name], release[column.name], k, None)
        else:
            assert_shared(
                table[column.name], release[column.name], k, None, only=[None, *column.special]
            )


@pytest.mark.parametrize("odd", [1e300, 1e15, 1234.56789])
def test_one_persons_odd_number_gives_nobody_else_more_decimals(odd: float) -> None:
    pay = np.round(np.random.default_rng(0).lognormal(8, 0.5, 300), 2)
    pay[17] = odd
    release = Condenser(10, random_state=0).fit_resample(pl.DataFrame({"pay": pay, "id": pay % 7}))
    drawn = release["pay"].to_numpy()
    assert (np.round(drawn, 2) == drawn).all()
