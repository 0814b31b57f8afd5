"""Every estimate is unbiased and has exactly the variance that is promised (by simulation)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import sketch_variance as variance
from tulle import SecretKey, Sketcher
from tulle.sketch.sketcher import coefficients, sign_table

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


@pytest.mark.slow
def test_every_estimate_of_a_release_over_many_keys():
    """The public way, with records of different lengths: each pair uses its shared components."""
    X = np.array([[2, 1, 0, 1, 0, 3, 1], [1, 1, 1, 0, 2, 0, 1], [0, 1, 0, 1, 0, 1, 0]], float)
    draws: dict[str, list[np.ndarray]] = {name: [] for name in ("dot", "far", "norm", "cell")}
    for seed in range(600):
        owner = Sketcher(key=SecretKey(seed.to_bytes(32, "big")), delta=1.0, max_components=6)
        S = owner.fit(X).transform(X)
        draws["dot"].append(S.dot())
        draws["far"].append(S.distances(squared=True))
        draws["norm"].append(S.norms(squared=True))
        draws["cell"].append(owner.reconstruct(S))
    found = {name: np.array(values) for name, values in draws.items()}
    m = S.lengths
    assert m.tolist() == [6, 4, 2]
    for i in range(3):
        agrees(found["norm"][:, i], X[i] @ X[i], variance.squared_norm([X[i]], m[i])[0])
        for k in range(7):
            agrees(found["cell"][:, i, k], X[i, k], variance.attribute([X[i]], [k], m[i])[0])
        for j in range(3):
            shared = min(m[i], m[j])
            x, y, gap = [X[i]], [X[j]], X[i] - X[j]
            agrees(found["dot"][:, i, j], X[i] @ X[j], variance.dot(x, y, shared)[0])
            agrees(found["far"][:, i, j], gap @ gap, variance.squared_distance(x, y, shared)[0])
