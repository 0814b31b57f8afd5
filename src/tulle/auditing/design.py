"""Records as a plain matrix, for models and principal axes."""

from __future__ import annotations

import numpy as np

from tulle.attacks.records import Floats, Records

_WIDTH = 30  # indicators of one column; rarer categories stand at 0 in all of them


def ranked(records: Records, original: Records) -> Floats:
    """Numbers as they are, categories by how common they are in the original: enough for trees."""
    parts = [records.numbers]
    for place in range(original.codes.shape[1]):
        codes, counts = np.unique(original.codes[:, place], return_counts=True)
        ranks = np.full(max(records.codes[:, place].max(initial=0), codes.max()) + 1, len(codes))
        ranks[codes[np.argsort(-counts, kind="stable")]] = np.arange(len(codes))
        parts.append(ranks[records.codes[:, place]][:, None].astype(np.float64))
    return np.hstack(parts)


class Design:
    """Numbers as they are, categories as indicators of the original's commonest ones."""

    def __init__(self, original: Records) -> None:
        self._commonest = []
        for place in range(original.codes.shape[1]):
            codes, counts = np.unique(original.codes[:, place], return_counts=True)
            self._commonest.append(codes[np.argsort(-counts, kind="stable")][:_WIDTH])

    def matrix(self, records: Records) -> Floats:
        """One row a record."""
        parts = [records.numbers]
        for place, commonest in enumerate(self._commonest):
            parts.append((records.codes[:, place, None] == commonest).astype(np.float64))
        return np.hstack(parts)
