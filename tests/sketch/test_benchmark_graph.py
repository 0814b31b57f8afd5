"""The benchmark's neighbourhood, made once for all k, gives what the estimator gives."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_sketch_quality import Neighbourhood
from benchmarks.sketch_data import KEY
from tulle import Sketcher
from tulle.datasets import quest


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["definition", "gap"])
def test_one_graph_serves_every_smaller_k(criterion):
    X = quest(T=10, I=4, D=400, L=60, N=150, random_state=0).tolil()
    X[7] = 0
    X = X.tocsr().astype(np.float32)
    neighbourhood = Neighbourhood(X, 12)
    for k in (2, 12):
        expected = Sketcher("k-variance", k=k, criterion=criterion, key=KEY).fit(X).transform(X)
        found = neighbourhood.sketches(k, criterion)
        assert np.array_equal(found.lengths, expected.lengths)
        assert np.array_equal(found.values, expected.values)
