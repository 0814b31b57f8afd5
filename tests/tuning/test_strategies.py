from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.tuning.search import grid_sizes, rule_search, trade_off


class Curve:
    """A utility curve that counts the sizes it was asked for."""

    def __init__(self, utility: dict[int, float] | None, seed: int = 0) -> None:
        self.utility = utility
        self.seed = seed
        self.asked: set[int] = set()

    def __call__(self, sizes: Sequence[int]) -> list[float]:
        self.asked.update(sizes)
        return [hash((self.seed, size)) % 1000 / 1000 for size in sizes]


@given(st.integers(2, 3000), st.integers(2, 3000), st.integers(0, 10**6))
def test_rule_ends_for_every_pair_of_ends_and_any_curve(t: int, top: int, seed: int) -> None:
    curve = Curve(None, seed)
    found = rule_search(curve, t, top, 0.05)
    assert found in curve.asked
    assert min(t, top) <= found <= max(t, top)
    # the logarithm of the range halves each time, down to neighbours that differ by one
    assert len(curve.asked) <= 2 + 15


@pytest.mark.parametrize("low", range(2, 12))
@pytest.mark.parametrize("width", range(4))
def test_neighbouring_ends_end_at_once(low: int, width: int) -> None:
    assert rule_search(lambda sizes: [0.5] * len(sizes), low, low + width, 0.05) >= low


def test_flat_utility_goes_for_privacy_and_steep_for_utility() -> None:
    flat = rule_search(lambda sizes: [0.9] * len(sizes), 10, 500, 0.05)
    steep = rule_search(lambda sizes: [1 / size for size in sizes], 10, 500, 0.05)
    assert flat >= 490
    assert steep == 10


def test_grid_has_its_ends_and_no_doubles() -> None:
    assert grid_sizes(5, 5, 9) == [5]
    sizes = grid_sizes(5, 12, 20)
    assert sizes[0] == 5
    assert sizes[-1] == 12
    assert sizes == sorted(set(sizes))


def test_trade_off_takes_the_largest_size_near_the_best() -> None:
    assert trade_off([5, 10, 20], [0.5, 0.9, 0.88], 0.05) == 20
    assert trade_off([5], [0.0], 0.05) == 5
    assert trade_off([5, 10], [-2.0, -1.0], 0.05) == 10
