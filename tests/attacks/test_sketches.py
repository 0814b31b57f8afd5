"""Attacks on sketches: calibrated on what is open, failing on what is unrelated."""

from __future__ import annotations

import numpy as np
import pytest

from tulle import SecretKey, Sketcher
from tulle._attacks.sketches import (
    _explained_by,
    _largest,
    _likelihoods,
    signs_guessed,
    signs_learnt,
    sketch_linkage,
    sketch_reconstruction,
)
from tulle.datasets import quest

KEY = SecretKey(b"a key for tests, never for data!")
BASKETS = quest(T=10, I=4, D=400, L=60, N=150, random_state=0).astype(np.float32)


@pytest.fixture(scope="module")
def owner():
    return Sketcher(key=KEY, delta=0.001, max_components=200).fit(BASKETS)


@pytest.fixture(scope="module")
def open_sketches(owner):
    return owner.transform(BASKETS)


@pytest.mark.slow
def test_linkage_with_many_known_people_and_long_sketches_nearly_always_succeeds(open_sketches):
    rng = np.random.default_rng(0)
    known = rng.choice(400, 250, replace=False)
    result = sketch_linkage(open_sketches, BASKETS, rng, known=known)
    assert result.rate > 0.85  # one record in ten has a twin
    assert not result.failed


def test_linkage_of_unrelated_sketches_does_not_beat_guessing(owner):
    strangers = quest(T=10, I=4, D=400, L=60, N=150, random_state=9).astype(np.float32)
    unrelated = owner.transform(strangers)
    for helpers in (None, np.arange(50)):
        result = sketch_linkage(unrelated, BASKETS, np.random.default_rng(0), known=helpers)
        assert result.risk_interval.low < 0.005
        assert result.rate < 0.02


def test_linkage_without_known_people_sees_only_length_and_parity(open_sketches):
    result = sketch_linkage(open_sketches, BASKETS, np.random.default_rng(0))
    assert result.rate < 0.3


def test_linkage_works_on_weights_and_short_sketches():
    X = BASKETS.astype(np.float64) * 0.37
    S = Sketcher(key=KEY, delta=0.3).fit(X).transform(X)
    result = sketch_linkage(S, X, np.random.default_rng(0), known=np.arange(30), attempts=50)
    assert 0 <= result.rate < 0.5


def test_reconstruction_with_the_key_succeeds_on_long_sketches(owner, open_sketches):
    signs = owner.signs(np.arange(150), open_sketches.shape[1])
    result = sketch_reconstruction(open_sketches, BASKETS, signs, np.random.default_rng(0))
    assert result.rate > 0.95


def test_reconstruction_without_the_key_does_not_beat_guessing(open_sketches):
    rng = np.random.default_rng(1)
    signs = signs_guessed(150, open_sketches.shape[1], rng)
    result = sketch_reconstruction(open_sketches, BASKETS, signs, rng, holder="no key")
    assert result.failed


def test_signs_can_be_learnt_from_many_known_people(owner, open_sketches):
    known = np.arange(380)
    learnt = signs_learnt(open_sketches, BASKETS, known)
    truth = owner.signs(np.arange(150), open_sketches.shape[1])
    seen = np.asarray(BASKETS[known].sum(axis=0)).ravel() > 20
    assert np.mean(np.sign(learnt[seen, :100]) == truth[seen, :100]) > 0.9
    result = sketch_reconstruction(
        open_sketches, BASKETS, learnt, np.random.default_rng(0), holder="learnt signs"
    )
    assert result.rate > 0.8


def test_fewer_components_protect_better(owner):
    rates = []
    for delta in (0.01, 0.5, 3.0):
        S = Sketcher(key=KEY, delta=delta).fit(BASKETS).transform(BASKETS)
        signs = owner.signs(np.arange(150), S.shape[1])
        result = sketch_reconstruction(S, BASKETS, signs, np.random.default_rng(0), attempts=100)
        rates.append(result.rate)
    assert rates[0] > rates[1] > rates[2]


def test_attacks_repeat_with_a_seed(open_sketches):
    one, two = (
        sketch_linkage(open_sketches, BASKETS, np.random.default_rng(5), attempts=40)
        for _ in range(2)
    )
    assert one == two


def test_likelihood_of_all_pairs_is_that_of_each_pair(open_sketches):
    S = Sketcher(key=KEY, delta=0.2).fit(BASKETS).transform(BASKETS)
    for known in (None, np.arange(40)):
        explained, left = _explained_by(S, BASKETS.astype(float), known)
        norms = np.asarray(BASKETS.multiply(BASKETS).sum(axis=1), float).ravel()
        found = _likelihoods(S[100:110], explained, left, norms)
        for row, target in enumerate(range(100, 110)):
            m = S.lengths[target]
            shared = min(m, explained.shape[1])
            s = S.values[target, :m].astype(float)
            for c in (0, 7, target):
                expected = -shared * np.log(left[c]) - (m - shared) * np.log(norms[c])
                expected -= ((s[:shared] - explained[c, :shared]) ** 2).sum() / left[c]
                expected -= (s[shared:] ** 2).sum() / norms[c]
                assert found[row, c] == pytest.approx(expected)


def test_largest_scores_are_found_in_their_lanes():
    rng = np.random.default_rng(0)
    for size in (1, 5, 64, 65, 1000, 5000):
        scores = rng.normal(size=size).astype(np.float32)
        for count in {1, min(3, size), min(100, size)}:
            expected = np.sort(scores)[-count:]
            assert np.array_equal(np.sort(scores[_largest(scores, count)]), expected)
