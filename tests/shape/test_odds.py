"""Of several drawn histories of a person, the one that people of the data are more like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tulle._columns import CategoryColumn, NumberColumn
from tulle._shape.odds import Odds, fit_odds, shown_of, traits_of
from tulle.errors import PrivacyError

pytestmark = pytest.mark.slow

K = 10
TIMES = 4


def traits(rng: np.random.Generator, n: int, spread: float) -> list[NumberColumn]:
    return [NumberColumn("level", rng.normal(0, spread, n)), NumberColumn("rows", np.ones(n))]


@pytest.fixture(scope="module")
def fitted() -> Odds:
    rng = np.random.default_rng(0)
    drawn = traits(rng, TIMES * 600, 1.0)
    return fit_odds(traits(rng, 600, 0.5), drawn, TIMES, K, 2 * K, rng)


def test_chosen_people_are_more_like_those_of_the_data(fitted: Odds) -> None:
    rng = np.random.default_rng(1)
    drawn = traits(rng, TIMES * 2_000, 1.0)
    chosen = fitted.choose(drawn, TIMES, rng)
    assert (chosen % 2_000 == np.arange(2_000)).all()  # one of the drawings of each person
    assert drawn[0].values[chosen].std() < 0.8
    assert drawn[0].values.std() > 0.95


def test_every_leaf_holds_twice_k_people_of_the_data(fitted: Odds) -> None:
    assert min(tree.fewest for tree in fitted.trees) >= 2 * K
    fitted.verify(2 * K)
    small = fitted._replace(trees=[fitted.trees[0]._replace(fewest=2 * K - 1)])
    with pytest.raises(PrivacyError, match="fewer than 20 people"):
        small.verify(2 * K)


def test_where_nothing_tells_them_apart_no_tree_is_kept() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        drawn = traits(rng, TIMES * 300, 1.0)
        assert not fit_odds(traits(rng, 300, 1.0), drawn, TIMES, K, 2 * K, rng).trees


def test_people_alike_in_everything_have_no_odds() -> None:
    rng = np.random.default_rng(0)
    same = NumberColumn("rows", np.ones(100))
    drawn = [replace(same, values=np.ones(400))]
    odds = fit_odds([same], drawn, TIMES, K, 2 * K, rng)
    assert len(set(odds.of(drawn).tolist())) == 1


def test_the_traits_of_a_person_are_those_of_their_rows() -> None:
    people = np.array([0, 0, 0, 2])
    weight = NumberColumn("weight", np.array([1.0, np.nan, 3.0, 5.0]))
    ward = CategoryColumn("ward", np.array([0, 1, 1, 1]), 3)
    shown = shown_of([weight, ward], people)
    found = {t.name: t.values for t in traits_of([weight, ward], people, 3, shown)}
    assert shown["ward"].tolist() == [1, 0, 2]
    np.testing.assert_array_equal(found["mean weight"], [2.0, np.nan, 5.0])
    np.testing.assert_array_equal(found["spread weight"], [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(found["gone weight"], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(found["first weight"], [1.0, np.nan, 5.0])
    np.testing.assert_array_equal(found["last weight"], [3.0, np.nan, 5.0])
    np.testing.assert_array_equal(found["different ward"], [2.0, 0.0, 1.0])
    np.testing.assert_allclose(found["1 ward"], [2 / 3, 0.0, 1.0])


def test_states_among_numbers_are_gone_and_not_far_away() -> None:
    values = np.array([1.0, -4e300, 3.0, -4e300])
    (mean, gone, spread, first, last) = traits_of(
        [NumberColumn("cost", values, specials=(-4e300,))], np.array([0, 0, 0, 1]), 2, {}
    )
    np.testing.assert_array_equal(mean.values, [2.0, np.nan])
    np.testing.assert_array_equal(gone.values, [1.0, 1.0])
    np.testing.assert_array_equal(spread.values, [1.0, np.nan])
    np.testing.assert_array_equal(first.values, [1.0, np.nan])
    np.testing.assert_array_equal(last.values, [3.0, np.nan])
