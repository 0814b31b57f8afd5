"""What few people hold is merged or suppressed, and bounds rest on many."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.table._encoder import TableEncoder
from tulle.table._rare import Crowd, Hierarchy, Tails, merge_categories, safe_bounds
from tulle.table.schema import Column, Kind


def crowd(k: int, rows: int) -> Crowd:
    return Crowd(k, np.ones(rows, dtype=bool))


def shown(values: list[Any], k: int, **options: Any) -> list[Any]:
    """What a release may hold of a column: encoded and decoded, row by row."""
    table = pl.DataFrame({"c": values}, strict=False)
    columns = [Column("c", options.pop("kind", Kind.CATEGORY), **options)]
    encoder = TableEncoder(columns).fit(table, crowd=crowd(k, len(values)))
    return encoder.decode(encoder.encode(table))["c"].to_list()


def test_rare_values_become_a_rest_with_a_name_that_nothing_else_has() -> None:
    values = ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"]
    assert shown(values, 3) == ["a"] * 5 + ["b"] * 4 + ["other"] * 3
    values[-1] = "other"
    assert len(set(shown(values, 3))) == 3


def test_a_rest_of_too_few_people_is_missing_or_the_commonest() -> None:
    assert shown(["a"] * 9 + ["b"] * 8 + ["c", "d"], 4) == ["a"] * 9 + ["b"] * 8 + ["a"] * 2
    with_missing = ["a"] * 9 + ["c", "d"] + [None] * 3
    assert shown(with_missing, 4) == ["a"] * 9 + [None] * 5


def test_numbers_as_categories_have_no_room_for_a_rest() -> None:
    assert shown([1] * 9 + [2] * 8 + [3, 4, 5, 6], 4) == [1] * 9 + [2] * 8 + [None] * 4


def test_a_few_values_that_are_no_number_are_merged_like_others() -> None:
    assert set(shown([0.0, 1.0] * 50 + [float("nan")] * 2, 10)) == {0.0, 1.0}


def test_few_missing_values_are_not_a_state() -> None:
    assert shown(["a"] * 9 + ["b"] * 8 + [None], 4) == ["a"] * 9 + ["b"] * 8 + ["a"]
    assert shown([True] * 9 + [False] * 8 + [None], 4, kind=Kind.BOOLEAN)[-1] is True
    assert shown([True] * 9 + [False], 4, kind=Kind.BOOLEAN) == [True] * 10


@pytest.mark.parametrize("hierarchy", [(3, 1), {"Q90.9": "Q90", "Q90.1": "Q90", "Q87": "Q"}])
def test_rare_codes_go_up_the_hierarchy(hierarchy: Any) -> None:
    values = ["I10"] * 9 + ["Q90.9"] * 3 + ["Q90.1"] * 2 + ["I21", "I44"]
    found = shown(values, 4, hierarchy=hierarchy)
    assert found[:14] == ["I10"] * 9 + ["Q90"] * 5


def test_keeping_rare_values_is_a_choice() -> None:
    values = ["a"] * 9 + ["b"]
    assert shown(values, 4, keep_rare=True) == values
    assert shown([1] * 9 + [2], 4, kind=Kind.ORDERED, keep_rare=True) == [1] * 9 + [2]


def test_rare_ordered_values_become_their_neighbour() -> None:
    values = [1] * 9 + [2] * 8 + [3] * 7 + [5]
    assert shown(values, 4, kind=Kind.ORDERED) == [*values[:-1], 3]
    assert shown([1, 2, 3, 4], 3, kind=Kind.ORDERED) == [None] * 4


@pytest.mark.parametrize("kind", [Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN])
def test_a_value_of_many_people_with_several_rows_is_not_rare(kind: Kind) -> None:
    # 90 of 300 people, each with one of their six rows: by sixths they would add up to 15
    people = np.repeat(np.arange(300), 6)
    held = (np.arange(1_800) % 6 == 0) & (people < 90)
    values = {Kind.BOOLEAN: held, Kind.ORDERED: np.where(held, 7, 3)}
    table = pl.DataFrame({"c": values.get(kind, np.where(held, "A41.9", "I50.1"))})
    everybody = Crowd.of_kept(20, np.ones(1_800, dtype=bool), people, np.random.default_rng(0))
    encoder = TableEncoder([Column("c", kind)]).fit(table, crowd=everybody)
    assert encoder.merged() == []
    assert encoder.decode(encoder.encode(table))["c"].to_list() == table["c"].to_list()
    assert everybody.hold(held) == 90


def test_a_value_in_many_rows_of_few_people_is_rare() -> None:
    people = np.repeat(np.arange(100), 6)
    table = pl.DataFrame({"c": np.where(people < 5, "a", np.where(people < 9, "b", "c"))})
    few = Crowd.of_kept(10, np.ones(600, dtype=bool), people)
    encoder = TableEncoder([Column("c", Kind.CATEGORY)]).fit(table, crowd=few)
    assert encoder.merged() == ["c"]


def test_a_bound_rests_on_different_people() -> None:
    people = np.r_[np.repeat(0, 50), np.arange(1, 201)]
    values = np.r_[np.full(50, 9_999.0), np.arange(200.0)]
    _, high = safe_bounds(values, Crowd.of_kept(10, values >= 0, people), slice(None))
    assert high < 300


TREES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("abcdefghXYZ"), max_size=8)


@given(
    st.lists(st.sampled_from([*"abcdefgh", None]), min_size=1, max_size=60),
    st.integers(1, 12),
    TREES,
    st.booleans(),
    st.integers(0, 5),
)
def test_everything_that_is_shown_is_held_by_k_people(
    values: list[str | None], k: int, parents: dict[str, str], nameless: bool, seed: int
) -> None:
    people = np.random.default_rng(seed).integers(0, 15, len(values))
    domain = sorted({value for value in values if value is not None})
    codes = np.array([-1 if value is None else domain.index(value) for value in values])
    rng = np.random.default_rng(seed)
    merging, new = merge_categories(
        codes,
        domain,
        Crowd.of_kept(k, np.ones(len(values), dtype=bool), people, rng),
        Hierarchy.of(parents),
        nameless=nameless,
    )
    for place in set(new.tolist()) - {-1}:
        held = len(set(people[new == place].tolist()))
        whole = merging.rest == place and merging.size == 0  # nothing else is there
        assert held >= k or whole or len(set(people.tolist())) < k
    assert (new[codes < 0] == -1).all()


NUMBERS = st.lists(
    st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-50, 50).map(float),
    min_size=1,
    max_size=80,
)


@given(NUMBERS, st.integers(2, 10))
def test_bounds_rest_on_k_people(values: list[float], k: int) -> None:
    numbers = np.array(values)
    low, high = safe_bounds(numbers, crowd(k, len(values)), slice(None))
    assert low <= high
    for end, least in ((low, numbers.min()), (-high, (-numbers).min())):
        assert end >= least - max(1.0, np.ptp(numbers)) or len(values) < k
    sign = numbers >= 0
    assert low >= 0 or not sign.all()


def test_the_smallest_and_largest_value_of_one_person_are_no_bounds() -> None:
    rng = np.random.default_rng(0)
    values = np.r_[rng.gamma(2, 90, 5_000), 0.137, 98_765.43]
    low, high = safe_bounds(values, crowd(10, len(values)), slice(None))
    assert low != 0.137
    assert high < 2_000
    heap = np.r_[np.zeros(50), values]
    assert safe_bounds(heap, crowd(10, len(heap)), slice(None))[0] == 0.0


def test_one_outlier_does_not_move_a_bound_by_much() -> None:
    values = np.random.default_rng(0).normal(50, 10, 1_000)
    bounds = [safe_bounds(np.r_[values, far], crowd(10, 1_001), slice(None)) for far in (90.0, 9e9)]
    assert bounds[0] == pytest.approx(bounds[1], abs=1.0)


@given(NUMBERS, st.integers(2, 5), st.integers(1, 7))
def test_bounds_follow_a_stream_in_batches_of_any_size(
    values: list[float], k: int, size: int
) -> None:
    numbers = np.array(values)
    tails = Tails.of(-1.0, 1.0)
    at_once = tails.with_values(numbers).bounds(k)
    for start in range(0, len(numbers), size):
        tails = tails.with_values(numbers[start : start + size])
    low, high = tails.bounds(k)
    assert (low, high) == at_once
    assert low == -1.0 or (numbers <= low * (1 - 1e-9)).sum() >= k
    assert high == 1.0 or (numbers >= high * (1 - 1e-9)).sum() >= k


def test_states_of_too_few_people_are_where_the_mean_is() -> None:
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 5 + [9999.0, float("nan"), None]})
    column = Column("x", Kind.DECIMAL, missing=(9999,))
    encoder = TableEncoder([column]).fit(table, crowd=crowd(4, 18))
    np.testing.assert_array_equal(encoder.encode(table)[-3:], [[2.0]] * 3)
    assert encoder.merged() == ["x"]


@pytest.mark.parametrize("written", [int, str, lambda code: f"{code:05}"])
def test_rare_codes_become_the_nearest_common_one(written: Any) -> None:
    common = [written(code) for code in range(1000, 2000, 100)]
    shows = shown([*common * 5, written(1130), written(1160), written(9999)], 5)
    assert shows == [*common * 5, written(1100), written(1200), written(1900)]


def test_few_codes_are_no_system_in_which_near_ones_are_alike() -> None:
    assert shown(["1", "2", "5", "8"] * 5 + ["3", "4", "6"], 3)[-3:] == ["other"] * 3
