"""Calibration where people have several records: attacks count people, each of them once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks.test_table_attacks import ATTACKS, shuffled
from tests.examples import few
from tulle import Condenser, audit
from tulle._attacks.inference import homogeneity
from tulle._attacks.reconstruction import exact_values
from tulle._attacks.records import Records, nearest, spacing
from tulle._attacks.result import Scene
from tulle.errors import DataError

pytestmark = pytest.mark.slow

ALIKE = {"homogeneity": lambda o, r, c, g: homogeneity(Scene(o, r, c), "c1", g)}


def visits(rng: np.random.Generator, count: int = 150, most: int = 8) -> Records:
    """Return records of people who have up to ``most`` of them, nearly alike."""
    who = np.repeat(np.arange(count), rng.integers(1, most + 1, count))
    numbers = rng.standard_normal((count, 3))[who] + 0.001 * rng.standard_normal((len(who), 3))
    codes = np.column_stack([rng.integers(0, 4, count)[who], numbers[:, 1] > 0])
    return Records(numbers, codes, ("n0", "n1", "n2"), ("c0", "c1"), who)


def alone(records: Records) -> Records:
    return replace(records, people=None)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_copy_is_broken_however_often_people_are_in_it(name: str) -> None:
    rng = np.random.default_rng(3)
    original, control = visits(rng), visits(rng)
    result = ATTACKS[name](original, shuffled(alone(original), rng), control, rng)
    assert result.rate > 0.95
    assert result.attempts <= 150


@pytest.mark.parametrize("name", [*ATTACKS, *ALIKE])
def test_strangers_tell_nothing_about_people(name: str) -> None:
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        original, control, others = (visits(rng, 300) for _ in range(3))
        result = (ATTACKS | ALIKE)[name](original, alone(others), control, rng)
        found.append(result.rate - (result.control or 0.0))
    assert abs(np.mean(found)) < 0.1


def test_counting_records_would_have_hidden_the_copies() -> None:
    rng = np.random.default_rng(4)
    original, control = visits(rng), visits(rng)
    release = shuffled(alone(original), rng)
    near = replace(release, numbers=release.numbers + 0.0005 * rng.standard_normal((1, 3)))
    by_people = ATTACKS["near copies"](original, near, control, rng).rate
    by_records = ATTACKS["near copies"](alone(original), near, alone(control), rng).rate
    assert by_people > 0.95
    assert by_records < 0.5


@few(40)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 9))
def test_the_nearest_of_another_person_is_found(seed: int, count: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    records = visits(rng, count, most)
    assert records.people is not None
    rows = records.sample(20, rng)
    assert len(set(records.people[rows])) == len(rows) == min(20, count)
    for row, apart in zip(rows, spacing(rows, records)):
        others = records.take(np.flatnonzero(records.people != records.people[row]))
        expected = nearest(records.take(np.array([row])), others).distances if len(others) else None
        assert apart == (np.inf if expected is None else pytest.approx(expected[0, 0]))


@few(20)
@given(st.integers(0, 2**32))
def test_halves_of_a_control_share_nobody(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (first, second), _ = visits(rng).parted(2, rng)
    assert first.people is not None
    assert second.people is not None
    assert not set(first.people) & set(second.people)
    assert abs(first.n_people - second.n_people) <= 1


def test_a_number_that_one_person_has_often_is_their_own() -> None:
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(300), 4)
    numbers = rng.standard_normal(300)[who, None]
    found = exact_values(numbers, numbers, np.zeros(1), rng, people=(who, None))
    assert found is not None
    assert found.rate > 0.95
    assert found.attempts <= 300
    assert exact_values(numbers, numbers, np.zeros(1), rng) is None


def table(seed: int, first: int) -> pl.DataFrame:
    records = visits(np.random.default_rng(seed), 120)
    assert records.people is not None
    data = {f"n{i}": column for i, column in enumerate(records.numbers.T)}
    return pl.DataFrame(data).with_columns(
        who=pl.Series(records.people + first), kind=pl.Series(records.codes[:, 0]).cast(pl.String)
    )


def test_an_audit_counts_people() -> None:
    policy = {"who": "person"}
    original, control = table(1, 0), table(2, 1000)
    leak = audit(original, original.drop("who"), control, policy, 0).to_dict()
    assert leak["attacks"]["linkage"]["rate"] > 0.95
    assert leak["attacks"]["exact_copies"]["attempts"] == 120
    assert max(attack["attempts"] for attack in leak["attacks"].values()) <= 120
    release = Condenser(10, columns=policy, random_state=0).fit_resample(original)
    safe = audit(original, release, control, policy, 0).to_dict()
    assert safe["attacks"]["linkage"]["risk"] < 0.1
    assert "120 people" in safe["summary"]


def test_a_control_must_not_share_people() -> None:
    original = table(1, 0)
    control = table(2, 119).with_columns(pl.col("n0") + 50)
    with pytest.raises(DataError, match="1 of the 120 people"):
        audit(original, original.drop("who"), control, {"who": "person"}, 0)


def test_the_worst_case_takes_one_record_of_each_person() -> None:
    original = table(1, 0)
    policy = {"who": "person"}
    condenser = Condenser(10, columns=policy)
    release = condenser.fit_resample(original)
    found = audit(original, release, None, policy, 0, worst_case=condenser, attempts=4).to_dict()
    assert found["attacks"]["worst_case:outlier"]["details"]["records in each"] <= 120


def test_a_number_counts_once_whoever_has_it() -> None:
    rng = np.random.default_rng(0)
    held = np.arange(0, 1000, 10.0)[:, None]
    strangers = np.repeat(np.arange(5, 955, 10.0), 2)[:, None]  # two have each, nobody in the data
    found = exact_values(
        held, held, np.ones(1), rng, control=strangers, people=(np.arange(100), np.arange(190))
    )
    assert found is not None
    assert found.outside is not None
    assert found.control_attempts == 190
    assert len(np.unique(found.outside.people)) == 95
