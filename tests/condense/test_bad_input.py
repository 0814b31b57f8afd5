"""Every wrong input has its own word, says what to do, and shows no value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tulle import ClassCondenser, Condenser
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning
from tulle.table.schema import Column, Kind, Role

X = np.random.default_rng(0).normal(size=(20, 3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 1}, "'k'.*2.*1"),
        ({"k": 0}, "'k'"),
        ({"k": 2.5}, "'k'"),
        ({"k": None}, "'k'"),
        ({"grouping": "fats"}, "'fast'"),
        ({"synthesis": "gauss"}, "'uniform'.*'normal'.*'mean'"),
        ({"time_budget": -1}, "'time_budget'"),
        ({"exact_moments": "yes"}, "'exact_moments'"),
        ({"on_infeasible": "drop"}, "'error'.*'suppress'"),
        ({"random_state": -3}, "random_state"),
        ({"random_state": "seed"}, "random_state"),
        ({"weights": [1, 2]}, "2 entries.*3 columns"),
    ],
)
def test_parameters(options, words):
    with pytest.raises(ParameterError, match=words):
        Condenser(**options).fit(X)


def test_k_above_n():
    with pytest.raises(PrivacyError, match="n_samples=20.*k=21"):
        Condenser(k=21).fit(X)


def test_level_above_n():
    levels = np.full(20, 3)
    levels[:2] = 50
    with pytest.raises(PrivacyError, match="level=50.*2 records"):
        Condenser().fit(X, levels=levels)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (np.full(19, 3), "19 entries.*20 records"),
        (np.full(20, 2.5), "20 of 20"),
        (np.r_[np.full(19, 3.0), np.nan], "1 of 20"),
        ([3] * 19 + [None], "1 of 20"),
        (pl.Series([3] * 18 + [None, None]), "2 of 20"),
        (pd.Series([3] * 19 + [None], dtype="Int64"), "1 of 20"),
        (np.full(20, -2), "below 1.*20 of 20"),
        (np.zeros(20), "below 1.*20 of 20"),
        (np.full(20, 2**63 - 1), "20 of 20"),
        (np.r_[np.full(19, 3.0), np.inf], "1 of 20"),
        (["3"] * 20, "type"),
        (np.ones(20, dtype=bool), "type"),
        (np.full((20, 2), 3), "'levels'"),
        ("level", "column"),
    ],
)
def test_levels(levels, words):
    with pytest.raises(DataError, match=words):
        Condenser().fit(X, levels=levels)


def test_columns_that_are_none_and_two_of_levels():
    asked = [Column(name, Kind.INTEGER, Role.LEVEL) for name in ("a", "b")]
    table = pl.DataFrame({"a": [2] * 20, "b": [9] * 20, "c": X[:, 0]})
    with pytest.raises(DataError, match="2 columns"):
        Condenser(columns=asked).fit(table)
    with pytest.raises(ParameterError, match="'columns'"):
        Condenser(columns=["a"]).fit(table)


@pytest.mark.parametrize("level", [0, -3, True, 2**70])
def test_one_level_for_all(level):
    with pytest.raises(ParameterError, match="'levels'"):
        Condenser().fit(X, levels=level)


def test_levels_of_an_unknown_column():
    table = pd.DataFrame(X.copy(), columns=["a", "b", "level"])
    with pytest.raises(DataError, match="'levl'.*'level'"):
        Condenser().fit(table, levels="levl")


def test_a_class_smaller_than_the_smallest_group():
    words = r"1 of 2 classes .*min_group=6 \(the smallest has 3\)"
    with pytest.raises(PrivacyError, match=words) as refused:
        ClassCondenser(min_group=6).fit(X, ["a"] * 17 + ["rare"] * 3)
    assert "rare" not in str(refused.value)


def test_constant_columns_are_kept_and_named():
    table = pd.DataFrame(X.copy(), columns=["a", "b", "c"]).assign(b=7.5)
    condenser = Condenser(k=5, random_state=0).fit(table)
    assert "column 'b' has a single value, which the release shows" in condenser.notes_
    assert (condenser.sample()["b"] == 7.5).all()


@pytest.mark.slow
def test_missing_columns_are_kept_and_named():
    table = pd.DataFrame(X.copy(), columns=["a", "b", "c"]).assign(b=np.nan)
    condenser = Condenser(k=5, random_state=0).fit(table)
    assert "column 'b' has no values" in condenser.notes_
    assert condenser.sample()["b"].isna().all()
    everything = pd.DataFrame({"b": [None] * 20})
    with pytest.warns(PrivacyWarning, match="1 of 1 group"):
        Condenser(k=5, random_state=0).fit(everything)


def test_infinities():
    table = pd.DataFrame(X.copy(), columns=["a", "b", "c"])
    table.loc[3, "b"] = np.inf
    table.loc[4, "b"] = -np.inf
    with pytest.raises(DataError, match="'b'.*2 of 20 records"):
        Condenser(k=5).fit(table)


def test_duplicates_only():
    with pytest.warns(PrivacyWarning):
        condenser = Condenser(k=5, random_state=0).fit(np.ones((20, 3)))
    assert condenser.n_degenerate_ == len(condenser.counts_)
    assert condenser.information_loss_ == 0
    np.testing.assert_allclose(condenser.sample(), 1)


def test_groups_no_larger_than_the_number_of_columns():
    wide = np.random.default_rng(1).normal(size=(30, 12))
    with pytest.warns(PrivacyWarning, match="6 of 6 groups"):
        condenser = Condenser(k=5, synthesis="uniform", random_state=0).fit(wide)
    assert condenser.n_singular_ == (condenser.counts_ <= 12).sum() > 0
    assert np.isfinite(condenser.sample()).all()
    condenser = Condenser(k=5, random_state=0).fit(wide)
    assert condenser.n_singular_ == 0
    assert np.linalg.matrix_rank(np.cov(condenser.sample().T)) == 12


def test_exact_moments_with_too_few_records_asked_for():
    condenser = Condenser(k=5, exact_moments=True, random_state=0).fit(X)
    with pytest.raises(DataError):
        condenser.sample(3)


@pytest.mark.parametrize("table", [X[:0], pd.DataFrame({"a": []}), pl.DataFrame({"a": []})])
def test_no_record_at_all(table):
    with pytest.raises(DataError, match="0 records"):
        Condenser(k=2).fit(table)


def test_one_record():
    with pytest.raises(PrivacyError, match="n_samples=1.*k=2"):
        Condenser(k=2).fit(X[:1])
    with pytest.warns(PrivacyWarning) as warned:
        Condenser(synthesis="uniform", random_state=0).fit(X[:1], levels=[1])
    assert str(warned[0].message).startswith("1 record ")


def test_no_column_at_all():
    with pytest.raises(DataError, match="0 feature"):
        Condenser(k=2).fit(X[:, :0])


def test_a_target_of_another_length():
    with pytest.raises(DataError, match="has 19 entries.*has 20 records"):
        Condenser(k=2).fit(X, np.zeros(19))


def test_sampling_before_fitting():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        Condenser().sample()
    with pytest.raises(NotFittedError):
        ClassCondenser().sample()


def test_errors_show_no_cell():
    table = pd.DataFrame({"name": [f"SECRET{i}" for i in range(20)], "a": X[:, 0]})
    with pytest.raises(DataError, match="'name'") as caught:
        Condenser(k=5).fit(table)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 1}, "'k'.*ClassCondenser"),
        ({"min_group": 1}, "'min_group'.*ClassCondenser"),
        ({"small_classes": "drop"}, "'error'.*'suppress'.*'pool'"),
        ({"k": 3, "min_group": 5}, "k=3.*min_group=5"),
        ({"condenser": "fast"}, "Condenser"),
        ({"condenser": Condenser(time_budget="long")}, "'time_budget'"),
    ],
)
def test_parameters_of_the_class_condenser(options, words):
    with pytest.raises(ParameterError, match=words):
        ClassCondenser(**options).fit(X, np.arange(20) % 2)


def test_statistics_beyond_memory_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("tulle.condense._papers._memory", lambda: 100.0)
    with pytest.raises(DataError, match="3 dimensions"):
        Condenser(k=5, synthesis="uniform", random_state=0).fit(X)
    Condenser(k=5, random_state=0).fit(X)  # which keeps no covariances of groups


def test_levels_that_are_categories_are_refused_without_their_names():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(DataError, match="20 of 20"):
        Condenser().fit(X, levels=pd.Series(["secret"] * 20, dtype="category"))
