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
from tulle._columns import CategoryColumn, Column, NumberColumn, take_rows
from tulle._people import Owners
from tulle._shape.cells import fit_cells
from tulle._shape.model import (
    Group,
    condense,
    drawing_order,
    fit_shape,
    hand_out,
    in_common,
    telling_columns,
)
from tulle._types import Floats, Ints


def grouping(columns: list[Column], label: str | None = None) -> Group:
    """Groups of at least as many rows as are asked for, along the first column; none mixes
    classes.
    """
    first = np.nan_to_num(columns[0].values)  # type: ignore[union-attr]
    classes = np.zeros(len(first), dtype=np.int64)
    if label is not None:
        classes = next(c for c in columns if c.name == label).codes  # type: ignore[union-attr]

    def group(points: Floats, demands: Ints) -> Ints:
        groups, at, size = np.zeros(len(points), dtype=np.int64), 0, int(demands.max())
        for one in np.unique(classes):
            rows = np.flatnonzero(classes == one)
            place = np.argsort(np.argsort(first[rows], kind="stable"))
            groups[rows] = at + np.minimum(place // size, max(len(rows) // size - 1, 0))
            at = int(groups.max()) + 1
        return groups

    return group


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
    group = grouping(columns, "class") if groups else None
    model = fit_shape(columns, 20, rng, label="class", group=group, exact=exact)
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
    model = fit_shape(columns, k, rng, group=grouping(columns), exact=exact)
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
        model = fit_shape(columns, 20, rng, group=grouping(columns))
        return [np.asarray(column).tobytes() for column in model.sample(500, rng)]

    assert one() == one()


def test_many_rows_are_several_draws_of_as_many_as_were_fitted() -> None:
    columns = table()
    model = fit_shape(columns, 10, np.random.default_rng(0), group=grouping(columns))
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    many, parts = model.sample(3200, one), [model.sample(n, other) for n in (1500, 1500, 200)]
    for whole, *some in zip(many, *parts):
        np.testing.assert_array_equal(whole, np.concatenate(some))


def test_the_model_is_small_and_holds_no_row() -> None:
    columns = table(5000)
    rng = np.random.default_rng(0)
    model = fit_shape(columns, 20, rng, label="class", group=grouping(columns, "class"))
    kept = pickle.dumps(model)
    assert len(kept) < 4_000_000  # ten trees a column
    assert pickle.loads(kept).sample(10, np.random.default_rng(0))[0].shape == (10,)
    incomes = columns[1].values  # type: ignore[union-attr]
    alone = incomes[np.isfinite(incomes)]
    alone = alone[np.isin(alone, np.unique(alone)[np.unique(alone, return_counts=True)[1] == 1])]
    quantiles = next(c for c in model.columns if c.name == "income").quantiles  # type: ignore[union-attr]
    assert not np.isin(quantiles.low, alone).any()
    assert not np.isin(quantiles.high, alone).any()
    assert model.groups is not None
    assert model.groups.fewest >= 100
    assert model.groups.counts.sum() == 5000


def test_everything_rests_on_people_not_rows() -> None:
    n = 1200
    columns = table(n)
    person = np.arange(n) // 4
    model = fit_shape(columns, 10, np.random.default_rng(0), people=person, exact=True)
    owners = Owners.of(person, n)
    assert np.isclose(owners.weights.sum(), 300)
    for column in columns:
        fitted, codes = fit_cells(column, 10, owners, np.random.default_rng(0), exact=True)
        held = owners.holders(codes, fitted.size)
        assert held[held > 0].min() >= 10
    for forest in model.forests:
        assert forest.fewest >= 10


def test_a_person_with_many_rows_counts_once() -> None:
    """Shares of cells, moments of everybody and means of groups are of people, not of rows."""
    n, many = 1500, 500
    columns, person = table(n), np.maximum(np.arange(n) - many + 1, 0)
    once = [take_rows(column, np.arange(many - 1, n)) for column in columns]
    job = CategoryColumn("job", np.where(person == 0, 3, columns[4].codes), 4)  # type: ignore[union-attr]
    fitted, cells = fit_cells(job, 10, Owners.of(person, n), np.random.default_rng(0), exact=True)
    alone, few = fit_cells(
        once[4], 10, Owners.of(None, n - many + 1), np.random.default_rng(0), exact=True
    )
    assert np.allclose(fitted.shares, alone.shares, atol=2 / n)
    places, sex = [alone.coordinates(), np.eye(2)], columns[3].codes  # type: ignore[union-attr]
    rows = in_common(places, [cells, sex], person)
    assert np.allclose(rows, in_common(places, [few, sex[many - 1 :]]), atol=0.01)
    points = np.where(person == 0, 1.0, 0.0)[:, None]
    groups = condense(points, np.zeros(n, dtype=np.int64), Owners.of(person, n), 10)
    assert groups.means[0, 0] <= 0.1 + 1e-9  # one part in k
    assert groups.factor[0, 0] ** 2 <= 0.1


def high_levels(n: int = 1500, few: int = 30) -> Ints:
    levels = np.full(n, 10)
    levels[:few] = 200
    return levels


def test_who_asks_for_more_shows_only_through_a_group_that_large() -> None:
    """Whatever these people hold alone never comes out, and the others keep their k."""
    columns, levels = table(), high_levels()
    ages = columns[0].values  # type: ignore[union-attr]
    codes = columns[4].codes.copy()  # type: ignore[union-attr]
    codes[:30] = 4  # a job that only they have: thirty people, more than the others' k
    columns[4] = CategoryColumn("job", codes, 5)
    rng = np.random.default_rng(0)
    model = fit_shape(columns, 10, rng, group=grouping(columns), levels=levels)
    assert (model.sample(5000, rng)[4] != 4).all()
    assert model.rests_on()["a stretch of numbers"] == 10
    cells = next(c for c in model.columns if c.name == "age")
    alike = fit_shape(columns, 10, np.random.default_rng(0), group=grouping(columns))
    usual = next(c for c in alike.columns if c.name == "age")
    assert cells.size > 0.8 * usual.size > 20  # few who ask for more do not coarsen the others
    assert np.isfinite(ages).all()


def test_what_replaces_a_demanding_row_comes_from_all_of_its_group() -> None:
    from tulle._shape.model import _blur

    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], [200, 50])
    cells = [np.arange(250), np.arange(250)]
    points = np.column_stack([np.arange(250.0), np.arange(250.0)])
    high = np.arange(250) < 100
    first, second = _blur(points, cells, np.array([1, 2]), groups, high, rng)
    assert (first[100:] == np.arange(100, 250)).all()
    assert len(np.unique(first[:100])) > 50  # from anybody of the two hundred,
    assert first[:100].max() < 200
    assert (first[:100] != second[:100]).any()  # each column by its own lot
    assert (points[:, 0] == first).all()


@pytest.mark.parametrize("k", [3, 30, 200])
def test_numbers_stay_related_at_any_group_size(k: int) -> None:
    """Where k leaves no tree to grow, ranks come from the groups alone."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=600)
    columns: list[Column] = [
        NumberColumn("x", x),
        NumberColumn("y", x + rng.normal(0, 0.3, 600)),
        CategoryColumn("high", (x > 0).astype(np.int64), 2),
    ]
    a, b, high = fit_shape(columns, k, rng, group=grouping(columns)).sample(4000, rng)
    assert np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1] > 0.8
    assert abs(np.corrcoef(a, high)[0, 1]) > 0.6


def test_trees_of_a_wide_table_split_on_the_columns_that_say_most() -> None:
    rng = np.random.default_rng(0)
    cells = [rng.integers(0, 8, 2000) for _ in range(90)]
    cells.append(np.clip(cells[70] + rng.integers(0, 2, 2000), 0, 7))
    places = [(np.arange(8) - 3.5)[:, None] / 2.3 for _ in cells]
    chosen = telling_columns(in_common(places, cells))
    assert 70 in chosen[90]
    assert len(chosen[90]) == 32
    assert [len(some) for some in chosen[:50]] == list(range(33)) + [32] * 17
    assert all((some < place).all() for place, some in enumerate(chosen))


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
        model = fit_shape(columns, 20, rng, label="class", group=grouping(columns, "class"))
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
        cells, codes = fit_cells(column, 5, Owners.of(None, 200), rng, exact=True)
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
    group = grouping(columns, label)
    monkeypatch.setattr(_threads, "_LITTLE", 0)

    def release(cores: int) -> list[Any]:
        monkeypatch.setattr(_threads, "cores", lambda: cores)
        rng = np.random.default_rng(3)
        return fit_shape(columns, 10, rng, label=label, group=group).sample(None, rng)

    for one, three in zip(release(1), release(3)):
        np.testing.assert_array_equal(one, three)


def test_columns_are_drawn_by_what_they_have_in_common_whatever_their_order():
    columns = table()
    names = [model.name for model in fit_shape(columns, 10, np.random.default_rng(0)).columns]
    turned = fit_shape(columns[::-1], 10, np.random.default_rng(0))
    assert [model.name for model in turned.columns] == names
    assert set(names[:2]) == {"age", "income"}


def test_each_column_follows_those_it_has_most_in_common_with():
    shared = np.array(
        [[1.0, 0.1, 0.0, 0.1], [0.1, 1.0, 0.9, 0.0], [0.0, 0.9, 1.0, 0.3], [0.1, 0.0, 0.3, 1.0]]
    )
    assert drawing_order(shared, settled=False) == [2, 1, 3, 0]
    assert drawing_order(shared, settled=True) == [0, 1, 2, 3]
    assert np.diag(shared).all()  # what was passed is left as it was
