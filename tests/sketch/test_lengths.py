"""How many components a record gets: both models against slow oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, random_array, vstack

from tests.examples import few
from tests.reference.sketch_neighbours import by_scipy
from tests.reference.sketch_printed import printed_lengths
from tests.reference.sketch_variance import dot
from tulle._choices import CRITERIA
from tulle.sketch import _neighbours
from tulle.sketch import sketcher as _delta
from tulle.sketch import sketcher as _kvariance

tables = arrays(
    float, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.integers(-3, 3).map(float)
)


def baskets(n, d, density, seed):
    rng = np.random.default_rng(seed)
    matrix = random_array((n, d), density=density, rng=rng, format="csr")
    matrix.data[:] = rng.integers(1, 4, len(matrix.data))
    return matrix[np.diff(matrix.indptr) > 0]


# --- delta --------------------------------------------------------------------------------


@pytest.mark.guarantee
@given(tables, st.floats(0.01, 5))
def test_delta_length_is_the_largest_that_keeps_the_promise(table, delta):
    lengths = _delta.delta_lengths(csr_array(table), delta, 50)
    for x, r in zip(table, lengths):
        variances = (x**2).sum() - x**2
        assert r == 50 or np.any(variances < (r + 1) * delta)
        assert r == 0 or np.all(variances >= r * delta * (1 - 1e-12))
    assert _delta.broken_records(csr_array(table), lengths, delta) == 0


def test_delta_spread_does_not_cancel():
    x = csr_array(np.array([[1e9, 1.0, 2.0], [3e8, 0, 0], [2.0, 2.0, 0], [0, 0, 0]]))
    assert _delta.spread(x).tolist() == [5.0, 0.0, 4.0, 0.0]


def test_delta_verification_counts_what_is_broken():
    x = csr_array(np.array([[1.0, 1.0], [1.0, 1.0], [5.0, 0.0]]))
    assert _delta.broken_records(x, np.array([1, 2, 0]), 1.0) == 1
    assert _delta.broken_records(x, np.array([1, 1, 1]), 1.0) == 1


# --- neighbours ---------------------------------------------------------------------------


def brute_neighbours(matrix, k):
    dense = matrix.toarray()
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    cosines = dense @ dense.T
    np.fill_diagonal(cosines, -np.inf)
    return -np.sort(-cosines, axis=1)[:, :k]


@pytest.mark.parametrize("seed,density", [(0, 0.02), (1, 0.3)])
def test_neighbours_have_the_largest_cosines(seed, density):
    matrix = baskets(700, 60, density, seed).astype(np.float32)
    inverse = (1 / np.sqrt(_neighbours._squares(matrix))).astype(np.float32)
    scores, found = _neighbours.best_cosines(matrix, inverse, 7, 300)
    assert np.allclose(scores * inverse[:, None], brute_neighbours(matrix, 7), atol=1e-5)
    assert all(len(set(row)) == 7 and i not in row for i, row in enumerate(found.tolist()))


@pytest.mark.slow
def test_neighbours_are_those_of_the_whole_matrix_and_ties_go_to_the_first():
    matrix = baskets(900, 40, 0.1, 3).astype(np.float32)
    inverse = (1 / np.sqrt(_neighbours._squares(matrix))).astype(np.float32)
    one = by_scipy(matrix, inverse, 5)
    for block in (100, 256, 4096):
        other = _neighbours.best_cosines(matrix, inverse, 5, block)
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])
    same = csr_array(np.ones((6, 3), np.float32))
    ones = np.ones(6, np.float32)
    assert _neighbours.best_cosines(same, ones, 2, 4)[1].tolist()[3:] == [[0, 1]] * 3


def test_partition_finds_neighbours_inside_parts_and_most_of_the_best(monkeypatch):
    monkeypatch.setattr(_neighbours, "_PART", 200)
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 300, (20, 12))
    rows = np.repeat(np.arange(1000), 8)
    columns = topics[rng.integers(0, 20, 1000)][
        np.arange(1000)[:, None], rng.integers(0, 12, (1000, 8))
    ]
    matrix = csr_array((np.ones(8000), (rows, columns.ravel())), shape=(1000, 300))
    exact = _neighbours.nearest(matrix, 5, "exact", rng)
    near = _neighbours.nearest(matrix, 5, "partition", rng)
    assert all(i not in row for i, row in enumerate(near.neighbours.tolist()))
    assert near.similarities.mean() > 0.8 * exact.similarities.mean()
    sizes = [len(part) for part in _neighbours._parts(matrix, 200, rng)]
    assert max(sizes) <= 200
    assert sum(sizes) == 1000


# --- k-variance ---------------------------------------------------------------------------


def graph_and_pairs(matrix, k, criterion):
    graph = _neighbours.nearest(matrix, k, "exact", np.random.default_rng(0))
    return graph, _kvariance.pairs_of(matrix, graph, criterion)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_pairs_have_the_exact_variance_and_the_bound_of_the_criterion(criterion):
    matrix = baskets(60, 30, 0.2, 5)
    graph, pairs = graph_and_pairs(matrix, 3, criterion)
    dense = matrix.toarray()
    for place in range(3):
        others = graph.neighbours[:, place]
        assert np.allclose(pairs.variance[:, place], dot(matrix, matrix[others], 1))
        norms = np.linalg.norm(dense, axis=1) * np.linalg.norm(dense[others], axis=1)
        gap = norms - np.abs((dense * dense[others]).sum(axis=1))
        expected = gap if criterion == "definition" else gap**2
        assert np.allclose(pairs.squared_bound[:, place], expected, atol=1e-9)


@pytest.mark.guarantee
@given(st.integers(0, 10_000), st.sampled_from(CRITERIA), st.integers(1, 6))
@few(40)
def test_every_directed_pair_holds_and_no_length_could_be_larger(seed, criterion, k):
    matrix = baskets(40, 25, 0.15, seed)
    graph, pairs = graph_and_pairs(matrix, k, criterion)
    most = np.full(len(graph.neighbours), 64)
    m = _kvariance.k_variance_lengths(pairs, graph.similarities[:, -1], most)
    assert _kvariance.broken_pairs(pairs, m) == 0
    caps = _kvariance.own_caps(_kvariance.limits_of(pairs))
    assert np.all(m <= np.minimum(caps, 64))
    for i in range(len(m)):
        more = m.copy()
        more[i] += 1
        at_cap = more[i] > min(caps[i], 64)
        assert at_cap or _kvariance.broken_pairs(pairs, more) > 0


def test_lengths_equal_the_printed_algorithm_with_both_repairs():
    for seed in range(5):
        matrix = baskets(80, 40, 0.1, seed)
        graph, pairs = graph_and_pairs(matrix, 4, "definition")
        limits = _kvariance.limits_of(pairs)
        order = np.argsort(graph.similarities[:, -1], kind="stable")
        oracle = printed_lengths(
            graph.neighbours, limits, order, 99, both_directions=True, own_cap=True
        )
        most = np.full(len(oracle), 99)
        m = _kvariance.k_variance_lengths(pairs, graph.similarities[:, -1], most)
        assert np.array_equal(m, oracle)


def test_printed_algorithm_breaks_pairs_and_leaves_records_without_limit():
    broken = unlimited = 0
    for seed in range(10):
        matrix = baskets(80, 40, 0.1, seed)
        graph, pairs = graph_and_pairs(matrix, 4, "definition")
        limits = _kvariance.limits_of(pairs)
        order = np.argsort(graph.similarities[:, -1], kind="stable")
        printed = printed_lengths(graph.neighbours, limits, order, 10**6, passes=2)
        broken += _kvariance.broken_pairs(pairs, printed)
        unlimited += int(np.sum(printed == 10**6))
    assert broken > 0
    assert unlimited > 0


def test_identical_and_parallel_records_have_no_bound_from_their_pair():
    x = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.3, 0.6, 0.0], [0.0, 1.0, 5.0]])
    pairs = graph_and_pairs(csr_array(x), 2, "gap")[1]
    assert np.all(_kvariance.limits_of(pairs)[:3] == _kvariance._NO_LIMIT)
    assert _kvariance.limits_of(pairs)[3].max() < 100


def test_a_duplicate_does_not_free_a_record_from_its_other_neighbours():
    limits = np.array([[_kvariance._NO_LIMIT, 3, 5], [_kvariance._NO_LIMIT] * 3, [0, 1, 0]])
    assert _kvariance.own_caps(limits).tolist() == [5, _kvariance._NO_LIMIT, 1]
    for seed in range(5):
        matrix = baskets(12, 14, 0.3, seed)
        twins = vstack([matrix, matrix[:1]], format="csr")
        graph, pairs = graph_and_pairs(twins, 3, "definition")
        most = np.full(len(graph.neighbours), 256)
        m = _kvariance.k_variance_lengths(pairs, graph.similarities[:, -1], most)
        limits = _kvariance.limits_of(pairs)
        assert max(m[0], m[-1]) <= limits[0][limits[0] < _kvariance._NO_LIMIT].max() < 256


def test_verification_sees_a_broken_pair():
    matrix = baskets(40, 25, 0.15, 1)
    graph, pairs = graph_and_pairs(matrix, 3, "gap")
    assert _kvariance.broken_pairs(pairs, np.full(len(graph.neighbours), 10**6)) > 0
