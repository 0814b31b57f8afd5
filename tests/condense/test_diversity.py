"""Sensitive columns: every group and every leaf meets the demand, or nothing is released."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import few
from tulle import (
    ClassCondenser,
    Column,
    Condenser,
    Kind,
    ParameterError,
    PrivacyError,
    Role,
    StreamCondenser,
)
from tulle._shape.diversity import Diversity, in_steps, tally
from tulle.table.policy import PolicyError, load_policy


def _patients(rng: np.random.Generator, n: int = 400) -> pl.DataFrame:
    """Where a patient lives nearly decides the diagnosis."""
    ward = rng.integers(0, 4, n)
    diagnosis = np.where(rng.random(n) < 0.9, ward, rng.integers(0, 6, n))
    return pl.DataFrame(
        {
            "x": ward * 10 + rng.normal(size=n).round(2),
            "age": rng.integers(20, 90, n),
            "diagnosis": [f"d{code}" for code in diagnosis],
        }
    )


def _sensitive(**demand: float) -> dict[str, Column]:
    return {"diagnosis": Column("diagnosis", Kind.CATEGORY, Role.SENSITIVE, **demand)}


def _groups(condenser: Condenser, table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Fit, and return the group and the diagnosis of each record."""
    seen = {}
    condenser._fit(table, None, None, lambda matrix, groups, moments: seen.update(groups=groups))
    codes = table["diagnosis"].rank("dense").to_numpy().astype(int) - 1
    return seen["groups"], codes


@pytest.mark.slow
@pytest.mark.guarantee
@few(12)
@given(seed=st.integers(0, 2**32 - 1), values=st.integers(2, 4))
def test_every_group_holds_enough_different_values(seed: int, values: int) -> None:
    table = _patients(np.random.default_rng(seed), 160)
    condenser = Condenser(5, columns=_sensitive(diversity=values), random_state=seed)
    groups, codes = _groups(condenser, table)
    for group in range(groups.max() + 1):
        assert len(set(codes[groups == group])) >= values
    plain = Condenser(5, random_state=seed).fit(table)
    assert condenser.information_loss_ >= plain.information_loss_ - 1e-9


@pytest.mark.slow
@pytest.mark.guarantee
@few(12)
@given(seed=st.integers(0, 2**32 - 1), distance=st.sampled_from([0.2, 0.4, 0.6]))
@example(seed=7323, distance=0.6)  # what was drawn for a leaf was further away than its people
def test_every_group_and_every_leaf_is_close_to_the_table(seed: int, distance: float) -> None:
    table = _patients(np.random.default_rng(seed), 160)
    condenser = Condenser(5, columns=_sensitive(closeness=distance), random_state=seed)
    groups, codes = _groups(condenser, table)
    whole = np.bincount(codes) / len(codes)
    for group in range(groups.max() + 1):
        share = np.bincount(codes[groups == group], minlength=len(whole))
        assert np.abs(share / share.sum() - whole).sum() / 2 <= distance + 1e-9
    model = condenser._synthesis.tables[0].model  # type: ignore[union-attr]
    place = [column.name for column in model.columns].index("diagnosis")
    shares = model.columns[place].shares
    for tree in model.forests[place].trees:
        for counts in tree.tallied(len(shares)):
            alone = counts.sum() == len(codes)  # one leaf: the whole table
            assert alone or np.abs(counts / counts.sum() - shares).sum() / 2 <= distance + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("first", ["town", "diagnosis"])
def test_a_sensitive_column_is_never_restored_from_another(first: str) -> None:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 5, 500)
    table = pl.DataFrame(
        {
            "town": [f"t{code}" for code in town],
            "diagnosis": [f"d{code // 2}" for code in town],
            "age": rng.integers(20, 90, 500),
        }
    )
    columns = _sensitive(closeness=0.6)
    table = table.select(first, pl.exclude(first))
    released = Condenser(10, columns=columns, random_state=0).fit_resample(table)
    pairs = set(released.select("town", "diagnosis").iter_rows())
    assert len(pairs) > 5  # a map of five towns would have five


@pytest.mark.slow
def test_class_wise_groups_meet_the_demand_too() -> None:
    rng = np.random.default_rng(1)
    table = _patients(rng)
    y = rng.integers(0, 2, table.height)
    made = ClassCondenser(Condenser(5, columns=_sensitive(diversity=3)), random_state=0)
    made.fit(table, y)
    assert made.diversity_loss_ >= 0
    assert any("'diagnosis'" in note and "3" in note for note in made.notes_)


@pytest.mark.slow
def test_an_impossible_demand_releases_nothing() -> None:
    table = _patients(np.random.default_rng(2))
    with pytest.raises(PrivacyError, match="'diagnosis'"):
        Condenser(5, columns=_sensitive(diversity=50), random_state=0).fit(table)


def test_distances_are_those_of_a_hand_calculation() -> None:
    whole = np.array([2.0, 2.0, 2.0, 2.0])
    counts = np.array([[4.0, 0, 0, 0], [0, 2, 2, 0], [1, 1, 1, 1]])
    apart = Diversity("x", distance=0.5).distances(counts, whole)
    np.testing.assert_allclose(apart, [0.75, 0.5, 0.0])
    ordered = Diversity("x", distance=0.5, ordered=True).distances(counts, whole)
    np.testing.assert_allclose(ordered, [0.5, 0.5 / 3, 0.0])


def test_tallies_and_steps() -> None:
    groups, codes = np.array([0, 0, 1, 1]), np.array([0, 2, 2, 2])
    np.testing.assert_array_equal(tally(groups, codes), [[1, 0, 1], [0, 0, 2]])
    steps = in_steps(np.arange(1000))
    assert steps.max() == 49
    assert (np.diff(steps) >= 0).all()


@pytest.mark.parametrize("entry", ["diversity = 1", "closeness = 1.5", "diversity = true"])
def test_a_policy_with_a_wrong_demand_names_the_column(tmp_path, entry: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f'[columns.d]\nkind = "category"\nrole = "sensitive"\n{entry}\n')
    with pytest.raises(PolicyError, match="'d'"):
        load_policy(path)


def test_a_stream_refuses_a_demand_that_it_does_not_meet() -> None:
    table = _patients(np.random.default_rng(3), 60)
    with pytest.raises(ParameterError, match="'diagnosis'"):
        StreamCondenser(5, columns=_sensitive(diversity=3)).partial_fit(table)
