"""The smoothed quantile function: what it rests on and what it gives back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._people import Owners
from tulle._shape.quantiles import Quantiles, _ends, fit_quantiles

columns = st.builds(
    lambda seed, n, spread, heaps: _column(seed, n, spread, heaps),
    st.integers(0, 2**16),
    st.integers(30, 400),
    st.sampled_from([3.0, 40.0, 5000.0]),
    st.booleans(),
)


def _column(seed: int, n: int, spread: float, heaps: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0, spread, n))
    if heaps:
        values[rng.random(n) < 0.4] = 0.0
    return values


def fit(values: np.ndarray, k: int, *, half: bool = True, **options: object) -> Quantiles:
    rng = np.random.default_rng(1) if half else None
    return fit_quantiles(values, k, decimals=0, rng=rng, **options)  # type: ignore[arg-type]


@given(columns, st.sampled_from([5, 10]), st.booleans())
def test_cells_hold_k_people_and_atoms_are_held_by_k(
    values: np.ndarray, k: int, half: bool
) -> None:
    quantiles = fit(values, k, half=half)
    cells = quantiles.encode(values)
    assert np.bincount(cells, minlength=quantiles.n_cells).min() >= k
    atoms = quantiles.low[quantiles.low == quantiles.high]
    for atom in atoms[np.isin(atoms, values)]:
        if len(quantiles.low) > 1:
            assert (values == atom).sum() >= k or atom == 0


@given(columns, st.booleans())
@few(40)
def test_draws_fall_into_their_cell(values: np.ndarray, half: bool) -> None:
    quantiles = fit(values, 5, half=half)
    cells = quantiles.encode(values)
    drawn = quantiles.draw(cells, np.random.default_rng(2))
    lows = np.array([quantiles.low[quantiles.cells == c].min() for c in range(quantiles.n_cells)])
    highs = np.array([quantiles.high[quantiles.cells == c].max() for c in range(quantiles.n_cells)])
    assert (drawn >= np.round(lows[cells])).all()
    assert (drawn <= np.round(highs[cells])).all()
    assert (drawn == np.round(drawn)).all()


def test_ranks_give_values_in_order() -> None:
    quantiles = fit(_column(0, 400, 40.0, True), 5)
    ranks = np.linspace(0, 0.999, 200)
    piece = np.searchsorted(np.cumsum(quantiles.shares), ranks, side="right")
    values = quantiles.at(ranks, np.random.default_rng(0))
    assert (np.diff(piece) >= 0).all()
    assert (values >= np.round(quantiles.low[piece])).all()
    assert (values <= np.round(quantiles.high[piece])).all()


def test_one_outlier_moves_nothing_by_much() -> None:
    values = np.random.default_rng(0).normal(0, 1, 1000)
    far = values.copy()
    far[far.argmax()] = 1e9
    for half in (True, False):
        rng = np.random.default_rng(1) if half else None
        quantiles = fit_quantiles(far, 20, rng=rng)
        assert quantiles.high.max() < 6


def test_a_skewed_tail_keeps_its_mean_and_a_person_of_many_rows_counts_once() -> None:
    tail = np.random.default_rng(0).exponential(10.0, 4_000)
    drawn = fit_quantiles(tail, 400).at(
        np.linspace(0, 1, 4_000, endpoint=False), rng=np.random.default_rng(1)
    )
    assert drawn.mean() == pytest.approx(tail.mean(), rel=0.02)  # by the median 3 % too low
    people = np.r_[np.arange(400), np.full(60, 400)]
    values = np.r_[np.arange(400.0), np.full(60, 10_000.0)]
    fitted = fit_quantiles(values, 50, owners=Owners.of(people, len(people)))
    assert fitted.high[-1] < 500


def test_heaps_come_out_exactly_and_ages_do_not_become_heaps() -> None:
    rng = np.random.default_rng(0)
    hours = np.where(rng.random(5000) < 0.5, 40.0, np.round(rng.normal(40, 12, 5000)))
    quantiles = fit(hours, 20)
    drawn = quantiles.at(rng.random(5000), rng)
    assert abs((drawn == 40).mean() - (hours == 40).mean()) < 0.03
    ages = np.round(rng.uniform(20, 70, 900))  # about 18 a year: by chance 20
    blocks = fit(ages, 20)
    share = np.unique(blocks.at(rng.random(9000), rng), return_counts=True)[1] / 9000
    assert share.max() < 0.06


def test_a_value_of_most_people_stays_where_too_few_hold_the_other() -> None:
    values = np.repeat([1.0, 2.0], [471, 195])
    drawn = fit(values, 222).at(np.random.default_rng(0).random(666), np.random.default_rng(1))
    assert set(drawn) == {1.0}


def test_codes_are_never_invented() -> None:
    rng = np.random.default_rng(0)
    codes = rng.choice([1070.0, 2290.0, 4170.0, 8190.0], 500)
    codes[:7] = 3000.0 + np.arange(7)
    quantiles = fit(codes, 10, coded=True)
    drawn = quantiles.draw(quantiles.encode(codes), rng)
    assert set(drawn) <= {1070.0, 2290.0, 4170.0, 8190.0}


def test_the_sign_of_all_values_is_kept() -> None:
    values = np.abs(np.random.default_rng(0).normal(0, 1, 300))
    assert fit_quantiles(values, 20).low.min() >= 0
    assert fit_quantiles(-values, 20).high.max() <= 0


def test_rows_of_one_person_count_once() -> None:
    values = np.r_[np.full(50, 7.0), np.arange(100.0, 200.0)]
    owners = Owners.of(np.r_[np.zeros(50, np.int64), np.arange(1, 101)], 150)
    quantiles = fit_quantiles(values, 10, owners=owners, decimals=0)
    assert 7.0 not in quantiles.low[quantiles.low == quantiles.high]


def test_a_value_of_many_people_with_several_rows_is_an_atom() -> None:
    values = np.r_[np.full(30, 7.0), np.arange(100.0, 370.0)]
    people = np.arange(300) % 30  # thirty people, ten rows each, all of whom hold 7
    quantiles = fit_quantiles(values, 20, owners=Owners.of(people, 300), decimals=0)
    assert 7.0 in quantiles.low[quantiles.low == quantiles.high]


def test_a_value_that_too_few_share_is_blurred_even_where_most_of_its_block_do() -> None:
    values = np.r_[np.full(13, 0.1), np.full(9, 0.2), np.full(60, 5.0)]
    quantiles = fit_quantiles(values, 20)
    assert 0.1 not in quantiles.low[quantiles.low == quantiles.high]


def test_a_short_column_shows_its_median_only() -> None:
    quantiles = fit_quantiles(np.array([1.0, 2.0, 30.0]), 5, decimals=0)
    assert quantiles.low.tolist() == quantiles.high.tolist() == [2.0]


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_many_values_make_few_cells(n: int) -> None:
    rng = np.random.default_rng(0)
    assert fit_quantiles(rng.normal(size=n), 5, rng=rng).n_cells <= 256
    assert fit_quantiles(np.round(rng.normal(0, 500, n)), 5, decimals=0, rng=rng).n_cells <= 256


@given(st.integers(0, 2**16), st.integers(1, 300), st.sampled_from([2.0, 5.0, 7.3]))
def test_blocks_end_where_a_slow_search_says(seed: int, n: int, k: float) -> None:
    people = np.random.default_rng(seed).choice([1.0, 0.5, 1 / 3], n)
    rises = np.cumsum(people)
    blocks = max(1, int((rises[-1] + 1e-9) // k))
    ends: list[int] = []
    for level in rises[-1] / blocks * np.arange(1, blocks):
        done = rises[ends[-1] - 1] if ends else 0.0
        end = next((i for i in range(n) if rises[i] >= max(level, done + k) - 1e-9), n) + 1
        if end >= n or rises[-1] - rises[end - 1] < k - 1e-9:
            break
        ends.append(end)
    assert _ends(people, k).tolist() == ends


@given(st.integers(0, 2**16), st.integers(2, 8))
@few(25)
def test_cells_hold_different_people_where_they_have_several_rows(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    people = rng.integers(0, 60, 500)
    values = np.round(rng.normal(size=60)[people] + rng.normal(scale=0.5, size=500), 2)
    owners = Owners.of(people, 500)
    found = fit_quantiles(values, k, owners=owners, decimals=2, rng=rng)
    cells = found.encode(values)
    held = [len({*people[cells == cell].tolist()}) for cell in range(found.n_cells)]
    assert min(held) >= k
    # fractions of rows would ask for about eight times as many people
    assert found.n_cells > 500 / (20 * k)
