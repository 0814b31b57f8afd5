"""Attacks that recover what people said: near certain on a broken release, nothing on others."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.broken_releases import from_leaves, measured, of_one_secret, own_planes
from tulle._attacks.inference import homogeneity
from tulle._attacks.membership import area_under_curve, membership, named_at
from tulle._attacks.reconstruction import affine_hull, exact_values, sums_on_grid
from tulle._attacks.records import Records
from tulle._attacks.result import Scene
from tulle.auditing._tables import align

UNITS = np.full(10, 0.01)


def people(seed: int, count: int = 300) -> np.ndarray:
    return measured(np.random.default_rng(seed), count)


def of(matrix: np.ndarray, like: np.ndarray) -> Records:
    return Records.of_numbers((matrix - like.mean(axis=0)) / like.std(axis=0))


# Sums on the grid.


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 5, 8])
def test_rows_that_keep_the_sum_of_their_group_are_named(k: int) -> None:
    original, rng = people(1), np.random.default_rng(2)
    release = own_planes(original, k, rng, exact=True)
    result = sums_on_grid(release, of(release, original), UNITS, rng)
    assert result is not None
    assert result.rate > (0.75 if k < 8 else 0.1)
    assert not result.failed


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [2, 6])
def test_rows_without_exact_sums_do_not_add_up(decimals: int) -> None:
    original, rng = people(1), np.random.default_rng(2)
    release = np.round(own_planes(original, 5, rng), decimals)
    result = sums_on_grid(release, of(release, original), UNITS, rng)
    assert result is not None
    assert result.rate == 0
    assert result.failed


def test_numbers_without_a_grid_have_no_sums_on_it() -> None:
    original, rng = people(1), np.random.default_rng(2)
    assert sums_on_grid(original, of(original, original), np.zeros(10), rng) is None


# Planes of released rows.


@pytest.mark.slow
@pytest.mark.parametrize("k, least", [(3, 0.8), (5, 0.25)])
def test_members_lie_in_the_plane_of_a_group_smaller_than_the_dimensions(k, least) -> None:
    rng = np.random.default_rng(3)
    original, strangers = measured(rng, 300, 20), measured(rng, 200, 20)
    release = own_planes(original, k, rng)
    tables = (of(table, original) for table in (original, release, strangers))
    members, released, outside = tables
    result = affine_hull(Scene(members, released, outside), rng)
    assert result is not None
    assert result.rate > least
    assert result.control is not None
    assert result.control < 0.2


@pytest.mark.slow
def test_the_plane_says_nothing_of_people_who_are_not_in_it() -> None:
    rng = np.random.default_rng(3)
    original, strangers = measured(rng, 300, 20), measured(rng, 200, 20)
    other = own_planes(measured(rng, 300, 20), 3, rng)
    members, released, outside = (of(table, original) for table in (original, other, strangers))
    result = affine_hull(Scene(members, released, outside), rng)
    assert result is not None
    assert result.risk_interval.low < 0.02


def test_few_columns_have_no_planes() -> None:
    table = Records.of_numbers(np.random.default_rng(0).normal(size=(100, 5)))
    assert affine_hull(Scene(table, table), np.random.default_rng(0)) is None


# Exact values.


def test_numbers_handed_out_from_leaves_are_found() -> None:
    original, strangers, rng = people(4), people(5), np.random.default_rng(6)
    release = from_leaves(original, 20, rng)
    result = exact_values(original, release, UNITS, rng, control=strangers)
    assert result is not None
    assert result.rate > 0.5
    assert result.control is not None
    assert result.control < 0.1
    assert result.baseline < 0.1


def test_a_copy_holds_everybody_s_numbers() -> None:
    original, rng = people(4), np.random.default_rng(6)
    result = exact_values(original, original, UNITS, rng)
    assert result is not None
    assert result.rate == 1


@pytest.mark.parametrize("count", [300, 20_000])
def test_other_people_s_numbers_are_no_surprise(count: int) -> None:
    # so many released rows that they fill most of the grid: chance rises as the attack does
    original, strangers, rng = people(4, 2000), people(5, 2000), np.random.default_rng(6)
    result = exact_values(original, people(7, count), UNITS, rng, control=strangers)
    assert result is not None
    assert result.rate - result.baseline < 0.05
    assert result.risk_interval.low < 0.02


def test_dense_whole_numbers_are_nobody_s_own() -> None:
    ages = np.arange(18.0, 90.0).repeat(3)[:, None]
    assert exact_values(ages, ages, np.ones(1), np.random.default_rng(0)) is None


# Membership by the best of several scores.


def test_membership_sees_own_numbers_where_distances_see_nothing() -> None:
    original, strangers, rng = people(4, 600), people(5, 600), np.random.default_rng(6)
    release = np.column_stack([rng.permutation(column) for column in original.T])
    tables = (of(table, original) for table in (original, release, strangers))
    members, released, outside = tables
    result = membership(Scene(members, released, outside), rng)
    assert result.details["most telling"] == "own numbers"
    assert result.details["membership_auc"] > 0.95
    assert result.details["membership_at_1_percent"] > 0.5
    assert result.risk > 0.8


def test_membership_sees_columns_that_were_copied_three_at_a_time() -> None:
    original, strangers, rng = people(4, 600), people(5, 600), np.random.default_rng(6)
    blocks = [original[rng.permutation(len(original)), i : i + 3] for i in range(0, 10, 3)]
    release = np.hstack(blocks) + rng.normal(scale=1e-3, size=original.shape)  # no value is a copy
    members, released, outside = (of(table, original) for table in (original, release, strangers))
    result = membership(Scene(members, released, outside), rng)
    assert result.details["most telling"].startswith("three columns")
    assert result.details["membership_auc"] > 0.6


def test_strangers_are_told_from_strangers_by_chance_only() -> None:
    rng = np.random.default_rng(6)
    original, release, strangers = (people(seed, 1000) for seed in (1, 2, 3))
    tables = (of(table, original) for table in (original, release, strangers))
    members, released, outside = tables
    result = membership(Scene(members, released, outside), rng)
    assert 0.44 < result.details["membership_auc"] < 0.56
    assert result.details["membership_at_1_percent"] < 0.05
    assert result.details["membership_at_0.1_percent"] < 0.03


def test_the_area_under_the_curve_counts_pairs() -> None:
    mine, theirs = np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.0])
    above = [(m > t) + 0.5 * (m == t) for m in mine for t in theirs]
    assert area_under_curve(mine, theirs) == pytest.approx(np.mean(above))


def test_the_share_named_counts_what_is_above_all_but_the_false_alarms() -> None:
    strangers = np.arange(1000.0)
    members = np.array([998.5, 1000.0, 500.0, 989.5])
    assert named_at(members, strangers, 0.001) == 0.5
    assert named_at(members, strangers, 0.01) == 0.75
    assert named_at(members, strangers[:100], 0.001) == 1.0  # none may be named falsely


# Secrets that a group shares.


def test_a_group_of_one_secret_tells_it() -> None:
    rng = np.random.default_rng(8)
    original, release, strangers = of_one_secret(rng, 40, 10)
    tables = align(original, release, strangers, None)
    result = homogeneity(Scene(tables.original, tables.release, tables.control), "secret", rng)
    assert result.rate > 0.95
    assert result.control is not None
    assert 0.35 < result.control < 0.65
    assert not result.failed


def test_a_group_of_mixed_secrets_tells_nothing() -> None:
    rng = np.random.default_rng(8)
    original, release, strangers = of_one_secret(rng, 40, 10)
    mixed = release.with_columns(secret=release["secret"].shuffle(seed=1))
    tables = align(original, mixed, strangers, None)
    result = homogeneity(Scene(tables.original, tables.release, tables.control), "secret", rng)
    assert result.rate < 0.1
    assert result.risk_interval.low < 0.02
