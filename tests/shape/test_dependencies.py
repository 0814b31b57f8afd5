"""Dependencies: found where they hold, restored without a contradiction."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._columns import CategoryColumn, Column, NumberColumn
from tulle._shape.dependencies import Dependency, find_dependencies

N = 2000


def found(*columns: Column, k: int = 10, keep: str | None = None) -> dict[str, Dependency]:
    everybody = np.ones(N)
    return {one.target: one for one in find_dependencies(columns, k, everybody, keep=keep)}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_of_two_that_follow_from_one_another_the_category_stays(rng: np.random.Generator) -> None:
    level = rng.integers(0, 8, N)
    years = np.array([3.0, 9, 5, 1, 12, 16, 7, 10])[level]
    links = found(NumberColumn("years", years, 0), CategoryColumn("level", level, 8))
    assert links.keys() == {"years"}
    assert links["years"].source == "level"
    assert (links["years"].restore(level, rng) == years).all()


def test_chains_end_in_the_finest_column(rng: np.random.Generator) -> None:
    town = rng.integers(0, 30, N)
    county, state = town // 3, town // 15
    links = found(
        CategoryColumn("state", state, 2),
        CategoryColumn("town", town, 30),
        CategoryColumn("county", county, 10),
    )
    assert {name: link.source for name, link in links.items()} == {
        "county": "town",
        "state": "town",
    }
    assert (links["county"].restore(town, rng) == county).all()


def test_codes_that_are_numbers_determine_a_category(rng: np.random.Generator) -> None:
    place = rng.integers(0, 40, N)
    codes = np.array([170 + 37 * i for i in range(40)], float)[place]
    sector = rng.integers(0, 5, 40)[place]
    codes[:50], sector[:50] = np.nan, -1
    links = found(NumberColumn("code", codes, 0, coded=True), CategoryColumn("sector", sector, 5))
    assert links["sector"].source == "code"
    assert (links["sector"].restore(codes, rng) == sector).all()


def test_bands_of_a_number_are_steps(rng: np.random.Generator) -> None:
    age = np.round(rng.uniform(0, 99, N), 2)
    band = np.searchsorted([18.0, 65.0], age, side="right")
    links = found(NumberColumn("age", age, 2), CategoryColumn("band", band, 3))
    assert links["band"].steps
    asked = np.array([0.0, 17.5, 19.0, 64.5, 66.0, 120.0])
    assert links["band"].restore(asked, rng).tolist() == [0, 0, 1, 1, 2, 2]


def test_merged_values_of_the_source_get_the_rates_of_their_people(
    rng: np.random.Generator,
) -> None:
    town = rng.integers(0, 20, N)
    country = town // 5
    other = rng.random(N) < 0.1
    merged = np.where(other, 20, town)
    links = found(
        CategoryColumn("town", merged, 21, other=20), CategoryColumn("country", country, 4)
    )
    restored = links["country"].restore(np.full(4000, 20), rng)
    assert np.abs(np.bincount(restored) / 4000 - 0.25).max() < 0.1


def test_nothing_follows_from_chance(rng: np.random.Generator) -> None:
    columns: list[Column] = [
        CategoryColumn(f"c{i}", rng.integers(0, 2 + i, N), 2 + i) for i in range(5)
    ]
    rare = (rng.random(N) < 0.02).astype(np.int64)
    columns += [CategoryColumn("rare", rare, 2), NumberColumn("x", rng.normal(size=N))]
    assert not found(*columns)


def test_a_few_exceptions_are_left_behind(rng: np.random.Generator) -> None:
    town = rng.integers(0, 10, N)
    country = town // 5
    country[:2] = 1 - country[:2]
    links = found(CategoryColumn("town", town, 10), CategoryColumn("country", country, 2))
    assert (links["country"].restore(town, rng) == town // 5).all()


def test_the_label_is_never_left_out(rng: np.random.Generator) -> None:
    town = rng.integers(0, 10, N)
    links = found(
        CategoryColumn("town", town, 10), CategoryColumn("class", town // 5, 2), keep="class"
    )
    assert "class" not in links


def test_rows_whose_code_was_moved_do_not_break_what_the_others_follow(
    rng: np.random.Generator,
) -> None:
    code = rng.integers(0, 20, N)
    moved = rng.random(N) < 0.05
    sector = np.where(moved, rng.integers(0, 4, N), code // 5)
    links = found(
        CategoryColumn("code", code, 20, moved=moved), CategoryColumn("sector", sector, 4)
    )
    assert links["sector"].source == "code"
    assert (links["sector"].restore(np.arange(20), rng) == np.arange(20) // 5).all()


def test_rare_codes_that_took_a_code_nearby_do_not_refute_a_map() -> None:
    """The counties of few people moved to one of another state, which has none of them."""
    of_many = np.repeat([0, 1, 2, 3], 300)
    moved = np.arange(N) >= len(of_many)
    county = np.r_[of_many, np.repeat([0, 2], 400)]
    state = np.r_[of_many // 2, np.repeat([1, 0], 400)]
    links = found(
        CategoryColumn("county", county, 4, moved=moved), CategoryColumn("state", state, 2)
    )
    assert links["state"].source == "county"
