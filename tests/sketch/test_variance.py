"""Every estimate is unbiased and has exactly the variance that is promised (by simulation)."""

from __future__ import annotations

import numpy as np
import pytest

from tulle.keys import SecretKey
from tulle.sketch import variance
from tulle.sketch._signs import coefficients, sign_table

COMPONENTS = 12_000
SIGNS = sign_table(
    coefficients(SecretKey(b"a key for tests, never for data!"), 0, COMPONENTS),
    np.arange(12, dtype=np.uint64),
).astype(float)

RNG = np.random.default_rng(0)
PAIRS = [
    (RNG.integers(0, 3, 12), RNG.integers(0, 3, 12)),
    (RNG.normal(size=12), RNG.normal(size=12)),
    ((RNG.random(12) < 0.4) * 1.0, (RNG.random(12) < 0.4) * 1.0),
    (np.arange(12), np.arange(12)),
]


def agrees(samples, mean, spread):
    """Sample mean and variance of independent components against the predicted ones."""
    n = len(samples)
    assert abs(samples.mean() - mean) < 4.5 * np.sqrt(spread / n) + 1e-9
    fourth = ((samples - samples.mean()) ** 4).mean()
    error = np.sqrt(max(fourth - samples.var() ** 2, 0) / n)
    assert abs(samples.var() - spread) < 4.5 * error + 1e-9


@pytest.mark.parametrize("x,y", PAIRS)
def test_dot_product(x, y):
    agrees((x @ SIGNS) * (y @ SIGNS), x @ y, variance.dot([x], [y], 1)[0])


@pytest.mark.parametrize("x,y", PAIRS)
def test_squared_length(x, y):
    agrees((x @ SIGNS) ** 2, x @ x, variance.squared_norm([x], 1)[0])


@pytest.mark.parametrize("x,y", PAIRS)
def test_squared_distance(x, y):
    gap = x - y
    agrees((gap @ SIGNS) ** 2, gap @ gap, variance.squared_distance([x], [y], 1)[0])


@pytest.mark.parametrize("x,y", PAIRS)
def test_attribute(x, y):
    for column in (0, 5):
        spread = variance.attribute([x], [column], 1)[0]
        agrees((x @ SIGNS) * SIGNS[column], x[column], spread)


def test_printed_variance_of_the_dot_product_is_wrong():
    x = np.ones(12)
    samples = (x @ SIGNS) ** 2
    printed, exact = variance.printed_dot([x], [x], 1)[0], variance.dot([x], [x], 1)[0]
    assert printed == 0
    assert abs(samples.var() - exact) < 0.1 * exact


def test_variance_falls_with_the_number_of_components():
    x, y = PAIRS[0]
    assert variance.dot([x, x], [y, y], np.array([1, 4])) == pytest.approx(
        variance.dot([x], [y], 1)[0] / np.array([1, 4])
    )
