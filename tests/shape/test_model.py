"""The whole synthesis: what comes out looks like what went in, and nobody's row is kept."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import _threads
from tulle._shape.cells import fit_cells
from tulle._shape.columns import CategoryColumn, Column, NumberColumn, looks_coded
from tulle._shape.model import fit_shape, hand_out, weigh_people
from tulle._types import Ints


def groups_of(columns: list[Column], k: int, label: str | None = None) -> Ints:
    """Groups of at least k rows each, along the first column; none mixes classes."""
    first = np.nan_to_num(columns[0].values)  # type: ignore[union-attr]
    classes = np.zeros(len(first), dtype=np.int64)
    if label is not None:
        classes = next(c for c in columns if c.name == label).codes  # type: ignore[union-attr]
    groups = np.zeros(len(first), dtype=np.int64)
    at = 0
    for one in np.unique(classes):
        rows = np.flatnonzero(classes == one)
        place = np.argsort(np.argsort(first[rows], kind="stable"))
        groups[rows] = at + np.minimum(place // k, max(len(rows) // k - 1, 0))
        at = int(groups.max()) + 1
    return groups


def table(n: int = 1500, seed: int = 0) -> list[Column]:
    rng = np.random.default_rng(seed)
    age = np.round(rng.uniform(0, 90, n))
    income = np.where(age < 15, np.nan, np.round(np.exp(rng.normal(8, 1, n)) + 50 * age, 2))
    income[(age >= 15) & (rng.random(n) < 0.3)] = 0.0
    hours = np.where(rng.random(n) < 0.5, 40.0, np.round(rng.normal(38, 10, n)))
    sex = rng.integers(0, 2, n)
    job = np.where(age < 15, -1, rng.integers(0, 4, n))
    ill = (rng.random(n) < 1 / (1 + np.exp(3 - age / 20))).astype(np.int64)
    return [
        NumberColumn("age", age, 0),
        NumberColumn("income", income, 2),
        NumberColumn("hours", hours, 0),
        CategoryColumn("sex", sex, 2),
        CategoryColumn("job", job, 4),
        CategoryColumn("class", ill, 2),
    ]


@pytest.mark.parametrize("groups", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_shape_is_kept(groups: bool, exact: bool) -> None:
    columns = table(4000)
    rng = np.random.default_rng(1)
    members = groups_of(columns, 20, "class") if groups else None
    model = fit_shape(columns, 20, rng, label="class", members=members, exact=exact)
    age, income, hours, _, job, ill = model.sample(None, rng)
    before = [c.values if isinstance(c, NumberColumn) else c.codes for c in columns]
    assert abs((hours == 40).mean() - (before[2] == 40).mean()) < 0.03
    assert abs((income == 0).mean() - (before[1] == 0).mean()) < 0.03
    assert (np.isnan(income) == (age < 15)).mean() > 0.99
    assert ((job == -1) == (age < 15)).mean() > 0.99
    assert abs(ill.mean() - before[5].mean()) < 0.03
    assert abs(np.corrcoef(age, ill)[0, 1] - np.corrcoef(before[0], before[5])[0, 1]) < 0.08


@given(st.integers(0, 2**16), st.integers(40, 300), st.sampled_from([5, 20]), st.booleans())
@few(20)
def test_any_table_is_sampled_from(seed: int, n: int, k: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = table(n, seed)
    columns.append(NumberColumn("constant", np.full(n, 3.0), 0))
    columns.append(NumberColumn("nothing", np.full(n, np.nan)))
    columns.append(CategoryColumn("no domain", np.full(n, -1), 0))
    model = fit_shape(columns, k, rng, members=groups_of(columns, k), exact=exact)
    drawn = model.sample(n + 7, rng)
    assert [len(one) for one in drawn] == [n + 7] * len(columns)
    for column, values in zip(columns, drawn):
        if isinstance(column, CategoryColumn):
            assert values.min() >= -1
            assert values.max() < max(column.size, 1)
    assert (drawn[-3] == 3).all()
    assert np.isnan(drawn[-2]).all()
    assert (drawn[-1] == -1).all()


def test_the_same_seed_gives_the_same_rows() -> None:
    def one() -> list[bytes]:
        rng = np.random.default_rng(5)
        columns = table()
        model = fit_shape(columns, 20, rng, members=groups_of(columns, 20))
        return [np.asarray(column).tobytes() for column in model.sample(500, rng)]

    assert one() == one()


def test_the_model_is_small_and_holds_no_row() -> None:
    columns = table(5000)
    rng = np.random.default_rng(0)
    members = groups_of(columns, 20, "class")
    model = fit_shape(columns, 20, rng, label="class", members=members)
    kept = pickle.dumps(model)
    assert len(kept) < 1_000_000
    assert pickle.loads(kept).sample(10, np.random.default_rng(0))[0].shape == (10,)
    incomes = columns[1].values  # type: ignore[union-attr]
    alone = incomes[np.isfinite(incomes)]
    alone = alone[np.isin(alone, np.unique(alone)[np.unique(alone, return_counts=True)[1] == 1])]
    quantiles = next(c for c in model.columns if c.name == "income").quantiles  # type: ignore[union-attr]
    assert not np.isin(quantiles.low, alone).any()
    assert not np.isin(quantiles.high, alone).any()
    assert model.groups is not None
    assert len(model.groups.counts) == int(members.max()) + 1
    assert model.groups.counts.sum() == 5000


def test_everything_rests_on_people_not_rows() -> None:
    n = 1200
    columns = table(n)
    person = np.arange(n) // 4
    model = fit_shape(columns, 10, np.random.default_rng(0), people=person, exact=True)
    weights = weigh_people(person, n)
    assert np.isclose(weights.sum(), 300)
    cells = [fit_cells(c, 10, weights, np.random.default_rng(0), exact=True) for c in columns]
    for fitted, codes in cells:
        held = np.bincount(codes, weights=weights, minlength=fitted.size)
        assert held[held > 0].min() >= 10 - 1e-9
    for tree in model.trees:
        leaves = np.flatnonzero(tree.split < 0)
        rows = tree.rises[tree.starts[leaves + 1]] - tree.rises[tree.starts[leaves]]
        assert rows.min() >= 10


def test_a_state_of_few_people_does_not_exist() -> None:
    columns = table(600)
    income = columns[1].values.copy()  # type: ignore[union-attr]
    income[np.isnan(income)] = 1.0
    income[:5] = np.nan
    model = fit_shape([NumberColumn("income", income, 2)], 20, np.random.default_rng(0))
    assert not np.isnan(model.sample(5000, np.random.default_rng(1))[0]).any()


def test_special_codes_are_states() -> None:
    rng = np.random.default_rng(0)
    weight = np.where(rng.random(2000) < 0.1, 9999.0, np.round(rng.normal(70, 10, 2000), 1))
    column = NumberColumn("weight", weight, 1, specials=(9999.0,))
    drawn = fit_shape([column], 20, rng).sample(4000, rng)[0]
    assert abs((drawn == 9999).mean() - 0.1) < 0.03
    assert drawn[drawn != 9999].max() < 200


def test_two_releases_do_not_show_the_difference_of_totals() -> None:
    columns = table(1000)
    totals = set()
    for seed in range(10):
        rng = np.random.default_rng(seed)
        members = groups_of(columns, 20, "class")
        model = fit_shape(columns, 20, rng, label="class", members=members)
        totals.add(int(model.sample(None, rng)[3].sum()))
    assert len(totals) > 5


@given(st.integers(0, 2**16))
@few(20)
def test_handing_out_keeps_what_was_drawn_in_each_leaf(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for column in (
        CategoryColumn("c", rng.integers(0, 4, 200), 4),
        NumberColumn("x", rng.normal(size=200)),
    ):
        cells, codes = fit_cells(column, 5, np.ones(200), rng, exact=True)
        leaves = rng.integers(0, 5, 200)
        place = cells.coordinates()
        points = rng.normal(size=(200, place.shape[1]))
        order = np.argsort(points[:, 0])
        given_out = hand_out(codes, leaves, points, order, cells, place, rng)
        for leaf in range(5):
            assert sorted(given_out[leaves == leaf]) == sorted(codes[leaves == leaf])


@pytest.mark.parametrize("label", [None, "sex"])
def test_threads_do_not_change_a_release(
    label: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = table()
    members = groups_of(columns, 20, label)
    monkeypatch.setattr(_threads, "_LITTLE", 0)

    def release(cores: int) -> list[Any]:
        monkeypatch.setattr(_threads, "cores", lambda: cores)
        rng = np.random.default_rng(3)
        return fit_shape(columns, 10, rng, label=label, members=members).sample(None, rng)

    for one, three in zip(release(1), release(3)):
        np.testing.assert_array_equal(one, three)


def test_codes_are_told_from_numbers() -> None:
    rng = np.random.default_rng(0)
    assert looks_coded(rng.choice([1070.0, 2290.0, 4170.0, 8190.0], 500), 20)
    assert not looks_coded(np.round(rng.uniform(18, 80, 5000)), 20)
    assert not looks_coded(rng.normal(size=500), 20)
    gains = np.where(rng.random(5000) < 0.9, 0.0, np.round(rng.gamma(2, 3000, 5000)))
    assert not looks_coded(gains, 20)
