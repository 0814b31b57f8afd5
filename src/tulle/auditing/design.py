"""Records as a plain matrix, for models and principal axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tulle.attacks.records import Floats, Records

_WIDTH = 30  # indicators of one column; rarer categories stand at 0 in all of them
_ROWS = 20_000  # records whose indicators are held at once


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

    def moments(self, records: Records) -> tuple[Floats, Floats]:
        """Mean and covariance of the columns, without the matrix of all records."""
        shift = self.matrix(records.take(np.arange(min(_ROWS, len(records))))).mean(axis=0)
        total, products = np.zeros(len(shift)), np.zeros((len(shift), len(shift)))
        for block in self._blocks(records):
            block -= shift  # small numbers: their squares stay exact
            total += block.sum(axis=0)
            products += block.T @ block
        mean = total / len(records)
        return mean + shift, products / len(records) - np.outer(mean, mean)

    def projected(self, records: Records, middle: Floats, axes: Floats) -> Floats:
        """Where the records are on some axes through a middle."""
        return np.vstack([(block - middle) @ axes for block in self._blocks(records)])

    def _blocks(self, records: Records) -> Iterator[Floats]:
        for start in range(0, len(records), _ROWS):
            yield self.matrix(records.take(np.arange(start, min(start + _ROWS, len(records)))))
