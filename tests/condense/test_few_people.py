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
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets

from benchmarks.columns_hospital import hospital
from benchmarks.columns_shown import DISCRETE, held_by, planned, release_of, shown_columns
from tests.reference.census import census
from tulle import Condenser
from tulle.condense._histories import LinkedRows
from tulle.errors import DataError, PrivacyWarning
from tulle.table.schema import Kind, Role


def sklearn_table(name: str) -> pl.DataFrame:
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    return pl.from_pandas(found.frame)


TABLES = {
    "hospital": lambda rng: hospital(rng, 300),
    "census": census,
    **{
        name: lambda rng, name=name: sklearn_table(name)
        for name in ("iris", "wine", "breast_cancer", "diabetes")
    },
}


def exact_values(condenser: Condenser, name: str) -> list[float]:
    """What the fitted model can give out of a column as it is."""
    synthesis: Any = condenser._synthesis
    if isinstance(synthesis, LinkedRows):  # of people, and of each of their rows
        [part] = synthesis.parts
        rows, model = part.tables[0].model, part.people.tables[0].model
        own = [t.cells for chain in rows.chains for t in chain.targets if not t.base]
        columns, dependencies = [*own, *model.columns], [*rows.dependencies, *model.dependencies]
    else:
        [shaped] = synthesis.tables
        columns, dependencies = shaped.model.columns, shaped.model.dependencies
    found: list[float] = []
    for cells in columns:
        if cells.name == name and getattr(cells, "quantiles", None) is not None:
            quantiles = cells.quantiles
            found += quantiles.low[quantiles.low == quantiles.high].tolist()
    for dependency in dependencies:
        if dependency.target == name and not dependency.codes:
            found += dependency.answers[np.isfinite(dependency.answers)].tolist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("k", [5, 20])
def test_nothing_that_few_people_hold_is_shown(name: str, k: int) -> None:
    table = TABLES[name](np.random.default_rng(k))
    columns = planned(table)
    condenser, release = release_of(table, columns, k)
    who = next((c.name for c in columns if c.role is Role.PERSON), None)
    assert set(release.columns) - {who} == {c.name for c in columns if c.role.released}
    people = None if who is None else table[who]
    assert not any(shown_columns(table, release, columns, k).values())
    for column in columns:
        if not column.role.released:
            continue
        before, after = table[column.name], release[column.name]
        if column.kind in DISCRETE:
            continue
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


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize(
    "column", ["Kosten_DRG", "Kosten_Medikamente", "Einkommen", "CRP", "Hochrechnung", "Messzeit"]
)
def test_rare_numbers_come_out_no_more_often_than_those_of_strangers(column: str, k: int) -> None:
    tables = [hospital(np.random.default_rng(seed), 500) for seed in (1, 2)]
    columns = [c for c in planned(tables[0]) if c.name in (column, "Alter", "Station")]
    rates = np.zeros(2)
    for seed in range(4):  # one release is a matter of luck
        condenser = Condenser(k, columns=columns, random_state=seed)
        release = condenser.fit_resample(tables[0].select(c.name for c in columns))
        codec = next(c for c in condenser._encoder._codecs if c.name == column)
        drawn, there, _ = codec._read(release[column])  # type: ignore[attr-defined]
        for place, table in enumerate(tables):
            values, states, _ = codec._read(table[column])  # type: ignore[attr-defined]
            held = held_by(pl.Series(values[states == 0]), None)
            rare = np.array([value for value, count in held.items() if count < k])
            rates[place] += np.isin(drawn[there == 0], rare).mean() / len(rare) / 4
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


@given(tables(), st.integers(2, 9), st.sampled_from(["shape", "uniform", "mean"]))
def test_random_tables(table: pl.DataFrame, k: int, synthesis: str) -> None:
    condenser = Condenser(k, synthesis=synthesis, random_state=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            release = condenser.fit_resample(table)
    except DataError:  # free text
        return
    assert not any(shown_columns(table, release, list(condenser._encoder.columns_), k).values())


@pytest.mark.slow
@pytest.mark.parametrize("odd", [1e300, 1e15, 1234.56789])
def test_one_persons_odd_number_gives_nobody_else_more_decimals(odd: float) -> None:
    pay = np.round(np.random.default_rng(0).lognormal(8, 0.5, 300), 2)
    pay[17] = odd
    release = Condenser(10, random_state=0).fit_resample(pl.DataFrame({"pay": pay, "id": pay % 7}))
    drawn = release["pay"].to_numpy()
    assert (np.round(drawn, 2) == drawn).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_a_tree_of_a_tiny_table_may_be_grown_on_nobody() -> None:
    for seed in range(12):
        table = np.random.default_rng(seed).normal(size=(4, 2))
        assert Condenser(2, random_state=seed).fit_resample(table).shape == table.shape
