"""The nearest records: two searches, one answer, and it is the obvious one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._attacks.records import (
    MISMATCH,
    Records,
    _by_blocks,
    _by_kernel,
    between,
    chosen,
    nearest,
    spacing,
)
from tulle.errors import ParameterError


def some_records(rng: np.random.Generator, rows: int, width: int, marks: int) -> Records:
    return Records(
        rng.integers(-3, 4, (rows, width)).astype(float) / 2,
        rng.integers(0, 3, (rows, marks)),
        tuple(f"n{i}" for i in range(width)),
        tuple(f"c{i}" for i in range(marks)),
    )


def obvious(targets: Records, reference: Records, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, squares = [], []
    for target in range(len(targets)):
        found = []
        for row in range(len(reference)):
            square = float(((targets.numbers[target] - reference.numbers[row]) ** 2).sum())
            square += MISMATCH * int((targets.codes[target] != reference.codes[row]).sum())
            found.append((square, row))
        best = sorted(found)[:count]
        rows.append([row for _, row in best])
        squares.append([square for square, _ in best])
    return np.array(rows), np.array(squares)


@pytest.mark.slow
@few(25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 20),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 4),
)
def test_both_searches_find_the_nearest_and_the_first_of_equals(
    seed: int, targets: int, rows: int, width: int, marks: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    people, reference = (some_records(rng, n, width, marks) for n in (targets, rows))
    count = min(count, rows)
    expected_rows, expected = obvious(people, reference, count)
    for search in (_by_blocks, _by_kernel):
        found, squares = search(people, reference, count)
        assert (found == expected_rows).all()
        assert squares == pytest.approx(expected)


def test_distances_between_pairs_agree_with_the_search() -> None:
    rng = np.random.default_rng(0)
    people, reference = some_records(rng, 30, 2, 2), some_records(rng, 40, 2, 2)
    found = nearest(people, reference)
    assert between(people, reference.take(found.rows[:, 0])) == pytest.approx(found.distances[:, 0])


def test_spacing_leaves_the_person_out_and_is_zero_for_a_twin() -> None:
    records = Records.of_numbers(np.array([[0.0], [3.0], [3.0], [10.0]]))
    assert spacing(np.arange(4), records).tolist() == [3.0, 0.0, 0.0, 7.0]
    assert spacing(np.arange(1), Records.of_numbers(np.zeros((1, 1)))).tolist() == [np.inf]


def test_records_select_columns_and_scramble_each_on_its_own() -> None:
    rng = np.random.default_rng(0)
    records = Records(np.arange(20.0).reshape(10, 2), np.arange(10)[:, None], ("a", "b"), ("a",))
    assert records.columns == ("a", "b")
    assert records.without("a").columns == ("b",)
    with pytest.raises(ParameterError, match="'a'"):
        records.only(["aa"])
    shuffled = records.scrambled(rng)
    assert sorted(shuffled.numbers[:, 1]) == sorted(records.numbers[:, 1])
    # the code that belongs to a number moves with it
    assert (shuffled.numbers[:, 0] == 2 * shuffled.codes[:, 0]).all()
    with pytest.raises(ParameterError):
        Records(np.zeros((2, 2)), np.zeros((2, 0)), ("a",), ())


def test_attempts_are_a_sample_only_if_there_are_more_records() -> None:
    rng = np.random.default_rng(0)
    assert chosen(5, 10, rng).tolist() == [0, 1, 2, 3, 4]
    picked = chosen(100, 10, rng)
    assert len(set(picked.tolist())) == 10
