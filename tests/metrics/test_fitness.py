"""Fitness for use: each measure against a slow count, pandas, SciPy or a hand calculation."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from tests.examples import few
from tulle._metrics.cells import (
    Cells,
    Subgroup,
    by_chance,
    by_column,
    differences,
    equivalent_share,
    joined,
    line,
    marginals_within,
    number_cells,
    score,
    sets_of,
    subgroups,
)
from tulle._metrics.marginals import heaps
from tulle._metrics.models import propensity
from tulle._metrics.peers import (
    adversarial_accuracy,
    copied_combinations,
    dcr_share,
    disco,
    divergence,
    epsilon_risk,
    proximity,
    replicated_uniques,
    unique_matches,
    unique_matches_of_strangers,
)
from tulle._metrics.sense import dependencies, orders, unseen_pairs

rows = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=12)


def test_a_k_marginal_by_hand() -> None:
    # shares of (a, b): before 1/2 of 00, 1/4 of 01, 1/4 of 11; after 1/4 of 00, 3/4 of 11
    before = np.array([[0, 0], [0, 0], [0, 1], [1, 1]])
    after = np.array([[0, 0], [1, 1], [1, 1], [1, 1]])
    found = differences(before, after, (2, 2), [(0, 1)])
    assert found.tolist() == [1 / 4 + 1 / 4 + 1 / 2]
    assert score(found) == 500
    assert score(differences(before, before, (2, 2), [(0, 1)])) == 1000


@few(40)
@given(rows, rows)
def test_differences_agree_with_counters(
    left: list[tuple[int, ...]], right: list[tuple[int, ...]]
) -> None:
    sets = sets_of(3, 2, 100, np.random.default_rng(0))
    assert sets == list(combinations(range(3), 2))
    found = differences(np.array(left), np.array(right), (3, 3, 3), sets)
    for value, (i, j) in zip(found, sets):
        before, after = (Counter((row[i], row[j]) for row in table) for table in (left, right))
        expected = sum(
            abs(before[key] / len(left) - after[key] / len(right)) for key in before | after
        )
        assert value == pytest.approx(expected)


def _cut_as_nist(target: pd.Series, release: pd.Series) -> list[pd.Series]:
    """The bins of NIST's scores, by pandas."""
    values = target.dropna()
    edges = np.unique(np.percentile(values, np.arange(0, 100, 100 / 19), method="higher"))
    ends = min(values.min(), release.min()), max(values.max(), release.max())
    edges = np.unique(np.r_[ends[0], edges[1:], ends[1]])
    return [pd.cut(part, edges, labels=False, include_lowest=True) for part in (target, release)]


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_numbers_are_cut_as_nist_cuts_them(shift: float) -> None:
    rng = np.random.default_rng(0)
    before = np.where(rng.random(500) < 0.3, 0.0, rng.exponential(size=500))
    after = rng.exponential(size=300) - shift
    before[:7] = np.nan
    after[:9] = np.nan
    found = number_cells([before, after])
    for mine, theirs in zip(found, _cut_as_nist(pd.Series(before), pd.Series(after))):
        assert ((mine == 0) == theirs.isna()).all()
        known = theirs.notna()
        assert (mine[known] == theirs[known] + 1).all()


def test_few_numbers_are_not_cut() -> None:
    first, second = number_cells([np.array([3.0, 1.0, np.nan]), np.array([2.0, 3.0])])
    assert first.tolist() == [3, 1, 0]
    assert second.tolist() == [2, 3]


def test_combinations_of_many_columns_are_numbered_alike() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 50, (200, 12)) for _ in range(2)]
    tables[1][:20] = tables[0][:20]
    first, second = joined(tables, [50] * 12, range(12))
    known = {tuple(row): key for row, key in zip(tables[0].tolist(), first.tolist())}
    assert len(set(first.tolist())) == len(known)
    assert all(known.get(tuple(r), -1) == key or tuple(r) not in known
               for r, key in zip(tables[1].tolist(), second.tolist()))  # fmt: skip
    assert (first[:20] == second[:20]).all()


def test_columns_are_scored_by_the_sets_they_are_in() -> None:
    found = by_column(np.array([0.2, 0.4]), [(0, 1), (0, 2)], 4)
    assert found[:3].tolist() == pytest.approx([(2 - 0.3) * 500, 900, 800])
    assert np.isnan(found[3])


def test_a_subsample_is_equivalent_to_itself() -> None:
    rng = np.random.default_rng(0)
    original = rng.integers(0, 6, (4000, 4)).astype(np.int32)
    sets = sets_of(4, 2, 10, rng)
    for share in (0.03, 0.25, 0.7):
        part = original[np.random.default_rng(7).permutation(4000)[: round(share * 4000)]]
        cells = Cells(tuple("abcd"), (6,) * 4, (original, part))
        found = score(differences(original, part, cells.sizes, sets))
        assert equivalent_share(cells, sets, found, rng) == pytest.approx(share, rel=0.25)
    assert equivalent_share(cells, sets, 1000.0, rng) == 1
    assert equivalent_share(cells, sets, 0.0, rng) == 0


def test_heaps_that_are_kept_lost_and_new() -> None:
    original = np.r_[np.full(40, 40.0), np.full(10, 0.0), np.arange(100, 150)]
    assert heaps(original, original).kept == 1
    smoothed = np.r_[np.full(10, 40.0), np.linspace(1.5, 90.5, 90)]
    found = heaps(original, smoothed)
    assert found.share == 0.5
    assert found.kept == pytest.approx(0.1 / 0.5)
    assert found.piled == 0
    assert heaps(original, np.r_[smoothed[:60], np.full(40, -1.0)]).piled == 0.4
    assert heaps(original, np.r_[smoothed[:97], np.full(3, -1.0)]).piled == 0  # chance
    assert heaps(np.arange(100.0), np.arange(100.0)).kept is None
    assert heaps(np.empty(0), original) == (0, None, 0)


@few(40)
@given(rows, rows)
def test_uniques_agree_with_counters(
    left: list[tuple[int, ...]], right: list[tuple[int, ...]]
) -> None:
    tables = [np.array(left), np.array(right)]
    mine, theirs = joined(tables, [3] * 3, [0, 1])
    secret = [table[:, 2] for table in tables]
    before, after = (Counter(row[:2] for row in table) for table in (left, right))
    alone = [key for key, count in before.items() if count == 1]
    both = [key for key in alone if after[key] == 1]
    matched = sum(key in after for key in alone) / max(1, len(alone))
    assert unique_matches(mine, theirs) == pytest.approx(matched)
    assert replicated_uniques(mine, theirs) == pytest.approx(len(both) / len(left))
    answers = {key: {row[2] for row in right if row[:2] == key} for key in after}
    correct = sum(answers.get(row[:2]) == {row[2]} for row in left) / len(left)
    assert disco(mine, secret[0], theirs, secret[1]) == pytest.approx(correct)


@few(40)
@given(rows, rows, rows)
def test_figures_by_distance_agree_with_loops(
    left: list[tuple[int, ...]], right: list[tuple[int, ...]], outside: list[tuple[int, ...]]
) -> None:
    def gap(one: tuple[int, ...], table: list[tuple[int, ...]]) -> float:
        return min((math.dist(one, other) for other in table), default=math.inf)

    def apart(table: list[tuple[int, ...]]) -> list[float]:
        return [gap(row, table[:i] + table[i + 1 :]) for i, row in enumerate(table)]

    there, back = [gap(row, right) for row in left], [gap(row, left) for row in right]
    strange = [gap(row, outside) for row in right]
    sides = (*zip(there, apart(left)), *zip(back, apart(right)))
    own = [far > near for far, near in sides]
    expected = (sum(own[: len(left)]) / len(left) + sum(own[len(left) :]) / len(right)) / 2
    found = map(np.array, (there, apart(left), back, apart(right)))
    assert adversarial_accuracy(*found) == pytest.approx(expected)
    nearer = sum(one < other for one, other in zip(there, apart(left)))
    assert epsilon_risk(np.array(there), np.array(apart(left))) == pytest.approx(nearer / len(left))
    points = sum((one < two) + (one == two) / 2 for one, two in zip(back, strange))
    assert dcr_share(np.array(back), np.array(strange)) == pytest.approx(points / len(right))
    mine, theirs = joined([np.array(left), np.array(right)], [3] * 3, [0, 1, 2])
    copied = sum(row in left for row in right) / len(right)
    assert copied_combinations(mine, theirs) == pytest.approx(copied)


def test_the_papers_examples_of_breaches() -> None:
    """Incomes of 10,000 and 10,050 in one group; gastritis and cancer in another."""
    group = np.array([0, 0])
    pay, illness = np.array([10_000.0, 10_050.0]), np.array([1, 2])
    assert proximity(group, pay, group, pay, 50).tolist() == [1, 1]  # a short range, surely
    assert proximity(group, pay, group, pay, 0).tolist() == [0.5, 0.5]  # the income itself
    assert divergence(group, illness, group, illness).tolist() == [0.5, 0.5]


@given(rows, rows)
def test_breaches_agree_with_counting(
    left: list[tuple[int, ...]], right: list[tuple[int, ...]]
) -> None:
    tables = [np.array(left), np.array(right)]
    mine, theirs = joined(tables, [3] * 3, [0, 1])
    near, wrong = [], []
    for row in left:
        like = [other[2] for other in right if other[:2] == row[:2]]
        others = Counter(value for value in like if value != row[2])
        near.append(sum(abs(value - row[2]) <= 1.5 for value in like) / max(1, len(like)))
        wrong.append(max(others.values(), default=0) / max(1, len(like)))
    numbers = [table[:, 2].astype(float) for table in tables]
    found = proximity(mine, numbers[0], theirs, numbers[1], 1.5)
    assert found.tolist() == pytest.approx(near)
    found = divergence(mine, tables[0][:, 2], theirs, tables[1][:, 2])
    assert found.tolist() == pytest.approx(wrong)


def test_a_missing_number_is_close_to_none() -> None:
    keys, numbers = np.array([0, 0, 1]), np.array([5.0, np.nan, np.nan])
    assert proximity(keys, numbers, keys, numbers, 1).tolist() == [0.5, 0, 0]
    nothing = np.empty(0, dtype=np.int64)
    assert proximity(keys, numbers, nothing, np.empty(0), 1).tolist() == [0, 0, 0]
    assert divergence(keys, keys, nothing, nothing).tolist() == [0, 0, 0]


def test_strangers_count_only_if_they_would_stand_alone() -> None:
    control, original = np.array([1, 2, 2, 3, 4]), np.array([1, 9])
    assert unique_matches_of_strangers(control, original, np.array([1, 3, 2])) == 0.5
    assert unique_matches_of_strangers(original, original, original) == 0


def test_laws_that_rows_break() -> None:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 12, 600)
    state, coin = town // 4, rng.integers(0, 2, 600)
    other = rng.integers(0, 13, 400)  # 12 is a town that the original lacks
    wrong = np.where(np.arange(400) < 40, (other // 4 + 1) % 3, other // 4)
    columns = [(town, other), (state, wrong), (coin, rng.integers(0, 2, 400))]
    laws = {(law.source, law.target): law for law in dependencies(columns, "follows", columns)}
    assert set(laws) == {(0, 1)}
    (broken,) = laws[0, 1].broken
    assert broken.tolist() == ((np.arange(400) < 40) & (other < 12)).tolist()


def test_a_law_that_a_shuffled_column_keeps_is_none() -> None:
    rng = np.random.default_rng(0)
    many, rare = rng.integers(0, 50, 600), np.zeros(600, np.int64)
    rare[0] = 1
    many[0] = 50  # the only one who has it
    columns = [(many, many), (rare, rare)]
    assert not list(dependencies(columns, "follows", columns))


def test_orders_that_rows_break() -> None:
    rng = np.random.default_rng(0)
    begin = rng.uniform(0, 100, 500)
    end = begin + rng.exponential(5, 500)
    end[:5] = np.nan
    apart = rng.uniform(1000, 1100, 500)  # always larger, but that says nothing
    released = np.array([1.0, 9.0, np.nan]), np.array([2.0, 8.0, 1.0])
    (law,) = orders([(begin, released[0]), (end, released[1]), (apart, released[1])])
    assert (law.source, law.target) == (0, 1)
    assert law.broken[0].tolist() == [False, True, False]


def test_pairs_that_nobody_has() -> None:
    known = [np.array([[0, 0, 1], [1, 1, 0]]), np.array([[0, 1, 1]])]
    found = unseen_pairs(known, np.array([[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1]]), (2, 2, 2))
    assert found.tolist() == [False, True, False, True]


def test_subgroups_and_how_far_they_moved() -> None:
    original = np.array([[0, 0], [0, 0], [0, 1], [1, 1]], np.int32)
    release = np.array([[0, 1], [0, 1], [0, 1]], np.int32)
    cells = Cells(("sex", "smokes"), (2, 2), (original, release))
    groups = subgroups(cells, [0], 1, 10)
    assert groups == [Subgroup(0, 0, 3), Subgroup(0, 1, 1)]
    first, second = marginals_within(cells, groups)
    assert first.distance == pytest.approx(2 / 3)
    assert first.by_chance == pytest.approx(np.sqrt(2 / np.pi * (2 / 9) * (2 / 3)))
    assert (first.released, second.released, second.distance, second.by_chance) == (3, 0, 1, 0)
    assert subgroups(cells, [0], 2, 10) == groups[:1]


def test_what_chance_moves_agrees_with_a_simulation() -> None:
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    samples = [rng.multinomial(size, shares, 4000) / size for size in (400, 150)]
    simulated = np.abs(samples[0] - samples[1]).sum(axis=1).mean() / 2
    assert by_chance(shares, 400, 150) == pytest.approx(simulated, rel=0.02)


def test_a_line_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = 3 * x + rng.normal(size=40)
    expected = linregress(x, y)
    found = line(np.r_[x, np.nan], np.r_[y, 1.0])
    assert found is not None
    assert found == pytest.approx((expected.slope, expected.stderr))
    assert line(np.ones(9), y[:9]) is None
    assert line(x[:2], y[:2]) is None


@pytest.mark.slow
def test_the_column_that_gives_a_release_away() -> None:
    rng = np.random.default_rng(0)
    original, release = rng.normal(size=(600, 3)), rng.normal(size=(600, 3))
    release[:, 1] = np.round(release[:, 1])
    found = propensity(original, release, rng)
    assert found.auc > 0.95
    assert found.given_away.argmax() == 1
    assert abs(found.given_away[[0, 2]]).max() < 0.05


def test_nine_people_of_178_are_no_heap_that_chance_could_not_take() -> None:
    rng = np.random.default_rng(0)
    smooth = rng.permutation(1000)[:169] / 1000
    original = np.r_[np.full(9, 1.35), smooth]  # 5.1 % have it
    assert heaps(original, np.r_[[1.35], smooth, smooth[:8]]).kept == 1
    assert heaps(np.tile(original, 5), np.tile(np.r_[[1.35], smooth, smooth[:8]], 5)).kept < 0.2
