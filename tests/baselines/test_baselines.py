"""Randomisation, rotation and generalisation: what each promises, on any table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import Column, Kind, Role, generalize, randomize, rotate
from tulle.errors import DataError, ParameterError, PrivacyError


def people(n: int = 300, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.lognormal(8, 0.5, n), 2),
            "town": rng.choice(["Bern", "Chur", "Genf", "Visp"], n),
            "ill": rng.choice(["flu", "cold", "asthma"], n, p=[0.6, 0.3, 0.1]),
        }
    )


def contains(label: str, value: Any) -> bool:
    """Whether an interval, a set or a single value holds a value."""
    if label in ("any", str(value)):
        return True
    if label.startswith("up to "):
        return value <= float(label[6:])
    if label.endswith(" and above"):
        return value >= float(label[:-10])
    if " | " in label:
        return str(value) in label.split(" | ")
    if " to " in label:
        low, high = label.split(" to ")
        return float(low) <= value <= float(high)
    return False


@pytest.mark.slow
@given(st.integers(2, 40), st.integers(0, 5))
@few(25)
def test_at_least_k_look_alike_and_every_label_is_true(k: int, seed: int) -> None:
    table = people(120, seed)
    made = generalize(table, k, columns={"ill": "sensitive"})
    known = ["age", "income", "town"]
    assert made.release.group_by(known).len()["len"].min() >= k
    assert made.counts.sum() == 120
    assert made.counts.min() >= k
    assert made.release["ill"].equals(table["ill"])
    for name in known:
        assert all(map(contains, made.release[name].to_list(), table[name].to_list()))
    assert 0 <= made.loss <= 1


def test_more_people_alike_lose_more() -> None:
    losses = [generalize(people(), k).loss for k in (2, 10, 50)]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1]


def test_demands_on_a_sensitive_column_hold_in_every_group() -> None:
    table = people()
    ill = Column("ill", Kind.CATEGORY, Role.SENSITIVE, diversity=3, closeness=0.2)
    made = generalize(table, 5, columns=[ill])
    whole = dict(table["ill"].value_counts(normalize=True).rows())
    for _, group in made.release.group_by("age", "income", "town"):
        shares = dict(group["ill"].value_counts(normalize=True).rows())
        assert len(shares) == 3
        assert sum(abs(shares[v] - whole[v]) for v in whole) / 2 <= 0.2 + 1e-9


def test_groups_count_people_where_a_column_names_them() -> None:
    table = people(200).with_columns(who=pl.Series(np.arange(200) // 4))
    made = generalize(table, 10, columns={"who": "person"})
    assert made.counts.min() >= 10  # of 50 people with four rows each
    assert "who" not in made.release.columns


def test_hierarchies_name_what_categories_share() -> None:
    towns = {"Bern": "west", "Genf": "west", "Chur": "east", "Visp": "west"}
    table = people(40).select("town")
    column = Column("town", Kind.CATEGORY, hierarchy=towns)
    release = generalize(table, 8, columns=[column]).release["town"]
    assert set(release) <= {"any", "west", "east", *towns}
    truth = [{town, towns[town], "any"} for town in table["town"]]
    assert all(label in allowed for label, allowed in zip(release, truth))


def test_missing_values_are_a_stretch_of_their_own() -> None:
    table = people(100).with_columns(
        age=pl.when(pl.int_range(100) < 30).then(None).otherwise(pl.col("age"))
    )
    release = generalize(table.select("age"), 20).release["age"]
    assert set(release.head(30)) == {"missing"}
    assert "missing" not in set(release.tail(70))


def test_means_keep_a_column_of_numbers() -> None:
    table = people().select("age", "income")
    release = generalize(table, 10, means=True).release
    assert release.schema == table.schema
    assert abs(release["income"].mean() / table["income"].mean() - 1) < 1e-5


def test_too_few_records_and_nothing_to_do_are_errors() -> None:
    with pytest.raises(PrivacyError):
        generalize(people(9), 10)
    with pytest.raises(DataError, match="quasi-identifier"):
        generalize(people(), 10, columns=dict.fromkeys(people().columns, "sensitive"))
    with pytest.raises(ParameterError):
        generalize(people(), 1)


# --- randomisation -------------------------------------------------------------------------


def test_noise_has_the_spread_that_is_told_and_types_stay() -> None:
    table = people(5_000)
    made = randomize(table, noise=0.5, random_state=0)
    assert made.release.schema == table.schema
    gaps = (made.release["income"] - table["income"]).to_numpy()
    assert gaps.std() == pytest.approx(made.spreads["income"], rel=0.05)
    assert made.spreads["income"] == pytest.approx(0.5 * table["income"].std(ddof=0))


def test_the_distribution_of_numbers_is_recovered() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, 3_000), rng.normal(12, 1, 3_000)])[:, None]
    made = randomize(X, noise=0.4, random_state=1)
    found = made.distribution("x0", bins=30)
    raw = ((made.release > 4) & (made.release < 8)).mean()
    between = found.filter(pl.col("value").is_between(4, 8))["share"].sum()
    assert found["share"].sum() == pytest.approx(1)
    assert between < raw / 2  # the noise fills the gap, the reconstruction empties it again


@pytest.mark.slow
@given(st.floats(0.3, 0.95))
@few(10)
def test_shares_of_categories_are_recovered(keep: float) -> None:
    table = people(20_000).select("ill")
    made = randomize(table, keep=keep, random_state=0)
    kept = (made.release["ill"] == table["ill"]).mean()
    assert kept == pytest.approx(keep + (1 - keep) / 3, abs=0.02)
    found = dict(made.distribution("ill").rows())
    for value, share in table["ill"].value_counts(normalize=True).rows():
        assert found[value] == pytest.approx(share, abs=0.06)


def test_missing_values_and_dates_go_through() -> None:
    table = people(200).with_columns(
        seen=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 7, 18), "1d"),
        ill=pl.when(pl.int_range(200) < 20).then(None).otherwise(pl.col("ill")),
        age=pl.when(pl.int_range(200) < 10).then(None).otherwise(pl.col("age")),
    )
    made = randomize(table, random_state=0)
    assert made.release.schema == table.schema
    assert made.release["age"].null_count() == 10
    assert None in made.domains["ill"]
    assert not made.release["seen"].equals(table["seen"])


def test_same_seed_same_release() -> None:
    first, again, other = (randomize(people(), random_state=s).release for s in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)


def test_identifiers_leave_and_free_text_is_refused() -> None:
    table = people(50).with_columns(name=pl.Series([f"person {n}" for n in range(50)]))
    with pytest.raises(DataError, match="name"):
        randomize(table)
    assert "name" not in randomize(table, columns={"name": "identifier"}).release.columns
    with pytest.raises(DataError, match="towm"):
        randomize(people()).distribution("towm")


# --- rotation ------------------------------------------------------------------------------


def test_rotation_keeps_distances_and_the_container() -> None:
    table = people(60).to_pandas()
    made = rotate(table, columns={"ill": "target"}, random_state=0)
    assert isinstance(made.release, pd.DataFrame)
    assert list(made.release["ill"]) == list(table["ill"])
    width = made.matrix.shape[0]
    assert np.allclose(made.matrix @ made.matrix.T, np.eye(width))
    assert list(made.release.columns) == [*(f"c{n}" for n in range(1, width + 1)), "ill"]


def test_projection_keeps_distances_about() -> None:
    X = np.random.default_rng(0).normal(size=(80, 60))
    new = rotate(X, components=40, random_state=0).release
    assert new.shape == (80, 40)
    old = (X - X.mean(axis=0)) / X.std(axis=0)
    pairs = np.random.default_rng(1).integers(0, 80, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    ratio = np.linalg.norm(new[pairs[:, 0]] - new[pairs[:, 1]], axis=1) / np.linalg.norm(
        old[pairs[:, 0]] - old[pairs[:, 1]], axis=1
    )
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert ratio.std() < 0.2


def test_noise_moves_rotated_records() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    plain, noisy = (rotate(X, noise=n, random_state=0).release for n in (0.0, 0.5))
    assert (noisy - plain).std() == pytest.approx(0.5, rel=0.2)


def test_survey_weights_are_generalized_too() -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.integers(18, 90, 200), "w": rng.uniform(0.5, 3, 200)})
    release = generalize(table, k=20, columns={"w": "weight"}).release
    assert release["w"].n_unique() <= 10
