"""The Quest generator has the shape that its parameters promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle.datasets import quest
from tulle.errors import ParameterError


def test_quest_mean_length_follows_t():
    for T in (10, 20, 30):
        baskets = quest(T=T, I=4, D=5_000, L=500, N=1_000, random_state=0)
        assert abs(baskets.nnz / 5_000 - T) < 0.06 * T


def test_quest_rows_are_sorted_sets_and_never_empty():
    baskets = quest(T=8, I=4, D=40_000, L=200, N=300, random_state=1)
    assert baskets.shape == (40_000, 300)
    assert np.all(np.diff(baskets.indptr) >= 1)
    assert set(np.unique(baskets.data)) == {1}
    assert baskets.has_canonical_format
    assert baskets.indices.dtype == baskets.indptr.dtype == np.int32  # scikit-learn asks for it


def test_quest_same_seed_same_baskets_other_seed_others():
    first, again, other = (
        quest(T=8, I=3, D=300, L=50, N=100, random_state=seed) for seed in (3, 3, 4)
    )
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


def test_quest_without_corruption_every_basket_holds_whole_patterns():
    baskets = quest(T=1, I=5, D=400, L=3, N=400, corruption=0, correlation=0, random_state=5)
    # T=1: every basket is filled by one copy, or two when a small one leaves room
    distinct = {tuple(baskets.indices[a:b]) for a, b in zip(baskets.indptr, baskets.indptr[1:])}
    assert len(distinct) <= 6


def test_quest_patterns_make_items_meet_more_often_than_chance():
    baskets = quest(T=10, I=4, D=5_000, L=100, N=500, random_state=2).astype(float)
    together = (baskets.T @ baskets).toarray()
    share = np.diag(together) / 5_000
    lift = together / (5_000 * np.outer(share, share) + 1e-9)
    np.fill_diagonal(lift, 0)
    assert np.quantile(lift[together > 50], 0.5) > 1.5


@given(
    T=st.floats(1, 12),
    I=st.floats(1, 12),
    D=st.integers(1, 40),
    L=st.integers(1, 20),
    N=st.integers(12, 60),
    correlation=st.floats(0, 2),
    corruption=st.floats(0, 0.99),
)
@few(40)
def test_quest_any_parameters_give_the_shape_asked(T, I, D, L, N, correlation, corruption):  # noqa: E741
    baskets = quest(T, I, D, L, N, correlation=correlation, corruption=corruption, random_state=0)
    assert baskets.shape == (D, N)
    assert np.all(np.diff(baskets.indptr) >= 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"T": 0},
        {"I": 0.5},
        {"D": 0},
        {"L": 0},
        {"N": 0},
        {"corruption": 1.0},
        {"N": 3},
        {"N": 2**31},
        {"T": 1e300},
    ],
)
def test_quest_wrong_parameter_is_named(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        quest(**wrong)
