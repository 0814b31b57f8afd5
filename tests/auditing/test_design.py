"""Records as a matrix, in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._attacks.records import Records
from tulle.auditing import _coding as design
from tulle.auditing._coding import Design


def test_moments_and_projections_need_no_matrix_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    numbers = np.column_stack([rng.normal(1e6, 1, 250), rng.normal(size=250)])
    records = Records(numbers, rng.integers(0, 40, (250, 2)), ("a", "b"), ("c", "d"))
    made = Design(records)
    matrix = made.matrix(records)
    for rows in (1000, 97):
        monkeypatch.setattr(design, "_ROWS", rows)
        mean, covariance = made.moments(records)
        assert mean == pytest.approx(matrix.mean(axis=0))
        assert covariance == pytest.approx(np.cov(matrix.T, bias=True), abs=1e-9)
        axes = rng.normal(size=(len(mean), 2))
        assert made.projected(records, mean, axes) == pytest.approx((matrix - mean) @ axes)
