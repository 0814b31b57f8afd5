"""A table and a target encoded side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Tags

from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.table._encoder import Affine, TableEncoder, side_by_side, unite
from tulle.table._frames import open_column
from tulle.table.schema import Column


class JointEncoder:
    """The features' encoder and, where there is a target, one of its own for the target."""

    def __init__(
        self,
        columns: Sequence[Column] | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        shared: TableEncoder | None = None,
    ) -> None:
        self.shared = shared is not None
        self.features = shared or TableEncoder(columns, weights=weights)
        self.target: TableEncoder | None = None

    def fit_encode(self, X: Any, y: Any = None) -> Floats:
        """Learns both from the data and returns the joint matrix, in natural units."""
        matrix = self.features.encode(X) if self.shared else self.features.fit_encode(X)
        if y is None:
            return matrix
        cells, container = open_column(y)
        self.target = TableEncoder().fit_opened(cells, container)
        column = self.target.encode_opened(cells)
        if len(column) != len(matrix):
            raise DataError(
                f"y has {len(column)} entries, but X has {len(matrix)} records: inconsistent "
                "numbers of samples"
            )
        return np.hstack([matrix, column])

    def decode(
        self,
        matrix: Floats,
        groups: Ints,
        rng: np.random.Generator,
        means: Floats,
        *,
        snap: bool,
    ) -> Any:
        """``X``, or ``(X, y)`` where there is a target."""
        width = len(self.features.feature_names_)
        options: dict[str, Any] = {"snap": snap}
        X = self.features.decode(matrix[:, :width], groups, rng, means=means[:, :width], **options)
        if self.target is None:
            return X
        y = self.target.decode(matrix[:, width:], groups, rng, means=means[:, width:], **options)
        return X, y

    def united(self, other: JointEncoder) -> tuple[JointEncoder, Affine, Affine]:
        """An encoder for the data of both, and the way of each one's dimensions into it."""
        if (self.target is None) != (other.target is None):
            raise DataError("one condenser has a target and the other has none")
        joined = JointEncoder()
        joined.features, *ways = unite(self.features, other.features)
        if self.target is None or other.target is None:
            return joined, ways[0], ways[1]
        joined.target, *more = unite(self.target, other.target)
        both = [side_by_side([way, further]) for way, further in zip(ways, more)]
        return joined, both[0], both[1]

    def rescale(self, variances: Floats) -> None:
        """Takes the scales from the variances of the dimensions, in natural units."""
        for part, block in self._blocks(variances[None, :]):
            part.rescale(block[0])

    def widen(self, matrix: Floats) -> None:
        """Widens the observed ranges of numbers by encoded records."""
        for part, block in self._blocks(matrix):
            part.widen(block)

    def confine(self, matrix: Floats) -> None:
        """Takes the observed ranges of numbers from these encoded records alone."""
        for part, block in self._blocks(matrix):
            part.confine(block)

    @property
    def parts(self) -> list[TableEncoder]:
        return [self.features] if self.target is None else [self.features, self.target]

    def _blocks(self, matrix: Floats) -> Iterator[tuple[TableEncoder, Floats]]:
        """Each part with its dimensions of a matrix."""
        start = 0
        for part in self.parts:
            stop = start + len(part.feature_names_)
            yield part, matrix[:, start:stop]
            start = stop

    @property
    def scales(self) -> Floats:
        return np.concatenate([part.scales_ for part in self.parts])

    @property
    def feature_names(self) -> list[str]:
        return [name for part in self.parts for name in part.feature_names_]

    @property
    def constant(self) -> list[str]:
        return [name for part in self.parts for name in part.constant_]

    @property
    def empty(self) -> list[str]:
        return [name for part in self.parts for name in part.empty_]

    @property
    def dropped(self) -> list[str]:
        return self.features.dropped_

    def rare_categories(self, k: int) -> dict[str, int]:
        """For each column of categories, how many are held by fewer than ``k`` records."""
        return {n: c for part in self.parts for n, c in part.rare_categories(k).items()}


def note_features(estimator: Any, encoder: TableEncoder) -> None:
    """Sets scikit-learn's ``n_features_in_``, and ``feature_names_in_`` where there are names."""
    names = encoder.input_names
    estimator.n_features_in_ = len(names)
    if encoder.named:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def takes_any_table(tags: Tags) -> Tags:
    """Tells scikit-learn that missing values, texts and categories are welcome."""
    tags.input_tags.allow_nan = True
    tags.input_tags.string = True
    tags.input_tags.categorical = True
    tags.non_deterministic = False
    return tags
