"""Tables as matrices of the encoder that condensation uses."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.reference.audit_people import people_table
from tulle import audit
from tulle.auditing import _tables
from tulle.auditing._measures import covariance_compatibility
from tulle.auditing._tables import align
from tulle.table._encoder import TableEncoder


def test_the_matrix_is_that_of_the_condensation_encoder() -> None:
    table = people_table(np.random.default_rng(1), 200).with_columns(pl.col("pay").fill_nan(None))
    aligned = align(table, table, None, None)
    encoder = TableEncoder().fit(table)
    expected = encoder.encode(table) / encoder.scales_
    matrix = aligned.view.matrix(aligned.frames[0])
    assert matrix - matrix.mean(axis=0) == pytest.approx(expected - expected.mean(axis=0))


def test_moments_and_projections_need_no_matrix_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = people_table(rng, 250).with_columns(far=pl.Series(rng.normal(1e6, 1, 250)))
    aligned = align(table, table, None, None)
    view, frame = aligned.view, aligned.frames[0]
    matrix = view.matrix(frame)
    axes = rng.normal(size=(matrix.shape[1], 2))
    for rows in (1000, 97):
        monkeypatch.setattr(_tables, "_NUMBERS", rows * matrix.shape[1])
        mean, covariance = view.moments(frame)
        assert mean == pytest.approx(matrix.mean(axis=0))
        assert covariance == pytest.approx(np.cov(matrix.T, bias=True), abs=1e-9)
        assert view.projected(frame, mean, axes) == pytest.approx((matrix - mean) @ axes)


@pytest.mark.slow
def test_what_the_original_does_not_have_can_be_released_all_the_same() -> None:
    original = pl.DataFrame({"x": [1.0, 3.0] * 20, "c": ["a", "b"] * 20, "t": [True, False] * 20})
    release = pl.DataFrame({"x": [1.0, None], "c": ["new", None], "t": [True, None]})
    aligned = align(original, release, None, None)
    expected = [[1, 0, 0, 1], [2, 0, 0, 0.5]]  # neither a nor b; what is missing is at the mean
    scales = [1, np.sqrt(0.5), np.sqrt(0.5), 0.5]
    assert aligned.view.matrix(aligned.frames[1]) == pytest.approx(np.array(expected) / scales)
    assert aligned.view.matrix(aligned.frames[1], without="c").shape == (2, 2)
    audit(original, release, control=release, random_state=0).html()


@pytest.mark.parametrize("column", [[None] * 30, [1.5] * 30, ["a"] * 30, [None, *["a"] * 29]])
def test_columns_that_are_empty_or_constant_have_a_matrix_too(column: list) -> None:
    original = pl.DataFrame({"c": column, "x": range(30)}, strict=False)
    others = pl.DataFrame({"c": ["b"] * 30 if "a" in column else [2.5] * 30, "x": range(30)})
    for release in (original, others, original.with_columns(c=None)):
        assert np.isfinite(covariance_compatibility(align(original, release, None, None)))
