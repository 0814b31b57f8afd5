"""The nearest neighbours of sparse records by blocks of the Gram matrix: slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def by_scipy(rows: Any, inverse: npt.NDArray[np.float32], k: int) -> tuple[Any, Any]:
    """Blocks of the Gram matrix, then the best k of each row, ties to the first."""
    n = rows.shape[0]
    scores, neighbours = np.empty((n, k), np.float32), np.empty((n, k), np.int32)
    transposed = rows.T.tocsc()
    step = max(1, 4_000_000 // n)
    for start in range(0, n, step):
        block = (rows[start : start + step] @ transposed).toarray() * inverse
        own = np.arange(len(block))
        block[own, own + start] = -np.inf
        # the k-th best score, then all ties with it, so that the first ones can be taken
        worst = -np.partition(-block, k - 1, axis=1)[:, k - 1]
        for row, limit in enumerate(worst):
            candidates = np.flatnonzero(block[row] >= limit)
            order = np.argsort(-block[row, candidates], kind="stable")[:k]
            neighbours[start + row] = candidates[order]
            scores[start + row] = block[row, candidates[order]]
    return scores, neighbours
