"""Effects that a regression finds in the original, and in the release."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._metrics.covariance import effects, scores


def table(rng: np.random.Generator, count: int = 400, slope: float = 1.0) -> np.ndarray:
    """Two causes, of which the first has an effect on the outcome in front."""
    causes = rng.normal(size=(count, 2))
    return np.column_stack([slope * causes[:, 0] + rng.normal(size=count), causes])


def oracle(design: np.ndarray, outcome: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Return slopes over their clustered errors, term by term as in a textbook."""
    full = np.column_stack([np.ones(len(design)), design])
    inverse = np.linalg.inv(full.T @ full)
    slopes = inverse @ full.T @ outcome
    rest = outcome - full @ slopes
    middle = np.zeros((full.shape[1],) * 2)
    for person in np.unique(people):
        own = full[people == person].T @ rest[people == person]
        middle += np.outer(own, own)
    errors = np.sqrt(np.diag(inverse @ middle @ inverse))
    return (slopes / errors)[1:]


@pytest.mark.parametrize("each", [1, 4])
def test_slopes_in_standard_errors_by_people(rng: np.random.Generator, each: int) -> None:
    data = table(rng)
    people = np.arange(len(data)) // each
    found = scores(data[:, 1:], data[:, 0], people)
    assert found == pytest.approx(oracle(data[:, 1:], data[:, 0], people), rel=1e-6)
    if each == 1:
        assert scores(data[:, 1:], data[:, 0], None) == pytest.approx(found, rel=1e-6)


def test_rows_of_one_person_are_no_more_evidence(rng: np.random.Generator) -> None:
    data = np.repeat(table(rng, 100), 9, axis=0)
    people = np.repeat(np.arange(100), 9)
    by_rows, by_people = (scores(data[:, 1:], data[:, 0], who)[0] for who in (None, people))
    assert by_rows == pytest.approx(3 * by_people, rel=0.02)


def test_an_effect_that_is_gone_or_turned_around_is_lost(rng: np.random.Generator) -> None:
    before = table(rng)
    kept, gone, turned = (effects(before, table(rng, slope=s), 1) for s in (1.0, 0.0, -1.0))
    assert (kept.outcomes.tolist(), kept.causes.tolist()) == ([0], [1])
    assert (kept.share, gone.share, turned.share) == (0.0, 1.0, 1.0)


def test_nothing_clear_is_nothing_lost(rng: np.random.Generator) -> None:
    noise = rng.normal(size=(300, 4))
    assert effects(noise, rng.normal(size=(300, 4)), 4).share == 0.0


def test_columns_that_follow_from_others_have_no_effect_of_their_own(
    rng: np.random.Generator,
) -> None:
    data = table(rng)
    twice = np.column_stack([data, data[:, 1], np.ones(len(data))])
    found = scores(twice[:, 1:], twice[:, 0], None)
    assert np.isfinite(found).all()
    assert found[3] == 0
