"""Groups count different people where people have several rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import ClassCondenser, Condenser, GroupSizeSearch
from tulle.errors import DataError, PrivacyError
from tulle.tuning import search as search_module
from tulle.tuning._evaluation import Split
from tulle.tuning.search import Trials

ROLES = {"who": "person"}


def visits(seed: int, people: int, most: int = 12) -> pl.DataFrame:
    """Return a table in which the rows of a person are alike, as visits are."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    place = rng.normal(size=(people, 2))[who] + rng.normal(scale=0.01, size=(len(who), 2))
    town = rng.choice(["a", "b", "c"], people)[who]
    return pl.DataFrame({"who": who, "x": place[:, 0], "y": place[:, 1], "town": town})


class Groups:
    """Remember the groups of a fit."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray[Any, Any]] = []

    def __call__(self, matrix: Any, groups: Any, moments: Any) -> None:
        self.seen.append(groups)


@pytest.mark.guarantee
@pytest.mark.slow
@few(25)
@given(
    st.integers(0, 2**32),
    st.integers(12, 60),
    st.integers(2, 12),
    st.sampled_from(["fast", "mdav", "levels"]),
    st.sampled_from(["shape", "uniform"]),
)
def test_every_group_holds_k_different_people(
    seed: int, people: int, k: int, grouping: str, synthesis: str
) -> None:
    table = visits(seed % 1000, people)
    watch = Groups()
    options = {"grouping": grouping, "synthesis": synthesis, "random_state": seed}
    condenser = Condenser(k, columns=ROLES, **options)
    condenser._fit(table, None, None, watch)
    (groups,) = watch.seen
    linked = synthesis == "shape"  # then people are condensed, one row each
    who = np.arange(people) if linked else table["who"].to_numpy()
    held = [len(set(who[groups == g])) for g in range(groups.max() + 1)]
    assert min(held) >= k
    assert condenser.people_.tolist() == held
    assert condenser.counts_.sum() == len(who)
    released = condenser.sample()
    assert released.columns == ["who", "x", "y", "town"][not linked :]
    assert not linked or released["who"].n_unique() == people


@pytest.mark.slow
def test_levels_are_per_person() -> None:
    table = visits(1, 40).with_columns(level=pl.when(pl.col("who") == 0).then(9).otherwise(3))
    condenser = Condenser(columns={**ROLES, "level": "level"}, random_state=0).fit(table)
    assert (condenser.people_ >= condenser.levels_).all()
    assert {row.level: row.smallest_group >= row.level for row in condenser.level_summary_} == {
        3: True,
        9: True,
    }


@pytest.mark.slow
def test_classes_are_condensed_by_people() -> None:
    table = visits(2, 90)
    parts = ClassCondenser(Condenser(columns=ROLES), min_group=5, random_state=0)
    parts.fit(table.drop("town"), table["town"])
    assert parts.people_.min() >= 5
    assert (parts.people_ >= parts.levels_).all()
    people = [table.filter(town=town)["who"].n_unique() for town in "abc"]
    assert parts.k_ is not None
    assert parts.k_ <= min(people)


def test_too_few_people_are_refused_however_many_rows_they_have() -> None:
    table = visits(3, 6, most=40)
    with pytest.raises(PrivacyError, match="6 different"):
        Condenser(10, columns=ROLES).fit(table)


@pytest.mark.slow
def test_rows_without_a_person_count_as_one_person() -> None:
    table = visits(4, 30).with_columns(pl.when(pl.col("who") > 4).then("who"))
    assert Condenser(6, columns=ROLES, random_state=0).fit(table).people_.min() >= 6
    with pytest.raises(PrivacyError):
        Condenser(27, columns=ROLES).fit(table)


@pytest.mark.slow
def test_a_category_that_one_person_holds_often_is_not_shown() -> None:
    table = visits(5, 40, most=1)
    rare = pl.concat([table.head(1).with_columns(town=pl.lit("elsewhere"))] * 60)
    release = Condenser(5, columns=ROLES, random_state=0).fit_resample(pl.concat([table, rare]))
    assert "elsewhere" not in release["town"].to_list()


@pytest.mark.slow
def test_one_person_a_row_changes_nothing() -> None:
    table = visits(6, 80, most=1)
    first = Condenser(5, columns=ROLES, random_state=0).fit(table)
    second = Condenser(5, columns={"who": "identifier"}, random_state=0).fit(table)
    assert first.sample().equals(second.sample())


@pytest.mark.slow
def test_merged_condensers_keep_their_people() -> None:
    first, second = (Condenser(5, columns=ROLES, random_state=0).fit(visits(s, 30)) for s in (7, 8))
    assert first.merge(second).people_.tolist() == [*first.people_, *second.people_]


@pytest.mark.slow
@few(3)
@given(st.integers(0, 2**32), st.integers(40, 90))
def test_a_search_counts_people_and_does_not_separate_them(seed: int, people: int) -> None:
    table = visits(seed % 1000, people)
    search = GroupSizeSearch(
        ClassCondenser(Condenser(columns=ROLES), small_classes="pool"),
        strategy="gcd",
        repeats=1,
        min_group=3,
        test_size=0.3,
        random_state=seed,
    )
    splits: list[Split] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            search_module, "Trials", lambda *a, **o: splits.append(a[1]) or Trials(*a, **o)
        )
        search.fit(table.drop("town"), table["town"])
    (split,) = splits
    assert split.people is not None
    assert not set(split.people[split.train]) & set(split.people[split.test])
    held = table["town"].to_numpy()[split.train], split.people[split.train]
    assert max(split.class_sizes()) <= max(len(set(held[1][held[0] == t])) for t in "abc")
    assert search.best_estimator_.people_.min() >= search.best_k_


def test_one_column_names_the_person() -> None:
    with pytest.raises(DataError):
        Condenser(columns={"who": "person", "town": "person"}).fit(visits(9, 40))
