"""A class condenser of streams: one stream condenser that never lets a group mix classes.

All classes share the columns, the scales and the initial records, so that a batch is taken as a
whole or not at all, and batches of any size give the same groups. A class that is too small for
its levels waits, and a new one may appear at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from tulle.errors import ParameterError
from tulle.keys import SecretKey
from tulle.random import RandomState


def streams(estimator: ClassStreams) -> bool:
    """Whether the condenser that is wrapped takes streams."""
    return hasattr(estimator.condenser, "partial_fit")


class ClassStreams:
    """What a ``ClassCondenser(StreamCondenser())`` can do beyond one of tables."""

    condenser: Any
    k: int | None
    min_group: int | None
    small_classes: str
    random_state: RandomState
    condensers_: list[Any]
    classes_: NDArray[Any]
    class_counts_: NDArray[np.int64]
    _check_parameters: Callable[[], None]

    @available_if(streams)
    def partial_fit(self, X: Any, y: Any, levels: Any = None) -> Self:
        """Takes more records of a stream and their classes; all, or none if one is refused."""
        self._check_parameters()
        stream = self.condensers_[0] if hasattr(self, "condensers_") else self._new_stream()
        return self._keep(stream.partial_fit(X, y, levels))

    @available_if(streams)
    def snapshot(self, n_samples: int | None = None) -> tuple[Any, Any]:
        """New records and labels that may leave beside earlier snapshots."""
        drawn: tuple[Any, Any] = self._stream.snapshot(n_samples)
        return drawn

    @available_if(streams)
    def merge(self, other: Self) -> Self:
        """A class condenser that has seen both streams, which must have the same columns."""
        if not isinstance(other, type(self)):
            raise ParameterError(f"classes merge with classes, not with a {type(other).__name__}")
        return clone(self)._keep(self._stream.merge(other._stream))

    @available_if(streams)
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        key: SecretKey | None = None,
        waiting: str = "seal",
        force: bool = False,
    ) -> None:
        """Writes the state, as :meth:`StreamCondenser.save` does."""
        self._stream.save(path, key=key, waiting=waiting, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: SecretKey | None = None) -> Self:
        """The class condenser of streams that was saved; it goes on as if it had never stopped."""
        from tulle.condense.stream import StreamCondenser

        stream = StreamCondenser.load(path, key=key)
        if not stream.classwise:
            raise ParameterError(f"{path} holds a stream without classes: use StreamCondenser.load")
        return cls(clone(stream))._keep(stream)  # type: ignore[call-arg]

    @property
    def n_seen_(self) -> int:
        return int(self._stream.n_seen_)

    @property
    def n_waiting_(self) -> int:
        return int(self._stream.n_waiting_)

    @property
    def n_small_(self) -> int:
        return int(self._stream.n_small_)

    @property
    def history_(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._stream.history_
        return rows

    @property
    def last_change_(self) -> Any:
        return self._stream.last_change_

    @property
    def _stream(self) -> Any:
        if not streams(self) or not hasattr(self, "condensers_"):
            raise AttributeError(
                f"this {type(self).__name__} has seen no stream: wrap a StreamCondenser and call "
                "partial_fit"
            )
        return self.condensers_[0]

    def _new_stream(self) -> Any:
        if self.min_group is not None or self.small_classes == "pool":
            raise ParameterError(
                "'min_group' and small_classes='pool' need the sizes of all classes, which a "
                "stream does not know: give k; small classes wait until they are large enough"
            )
        stream = clone(self.condenser).set_params(classwise=True)
        if self.k is not None:
            stream.set_params(k=self.k)
        if self.random_state is not None:
            stream.set_params(random_state=self.random_state)
        return stream

    def _keep(self, stream: Any) -> Self:
        self.condensers_ = [stream]
        self.k_ = stream.k
        self.classes_ = np.asarray(stream.classes_)
        self.class_counts_ = np.asarray(stream.class_counts_, dtype=np.int64)
        self.n_features_in_ = stream.n_features_in_
        if hasattr(stream, "feature_names_in_"):
            self.feature_names_in_ = stream.feature_names_in_
        return self
