"""What one call of ``partial_fit`` brings: a frame, classes, levels; and one caller at a time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, wraps
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl

from tulle._checks import check_real
from tulle._types import Ints
from tulle.condense._classes import NO_CLASSES, Labels, LabelSchema, labels_of
from tulle.errors import (
    DataError,
    KeyMaterialError,
    ParameterError,
    PrivacyError,
    TulleError,
    nearest_name,
)
from tulle.keys import SecretKey
from tulle.table._codecs import family_of
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, ColumnExit, check_length, enter_column, enter_with_target
from tulle.table._numbers import NumberCodec
from tulle.table._series import frame_of

# Records that leave this process only under a key that ends with it. A pickle may reach a disk.
# So a pickle holds the unchanged records of a stream only in sealed form: a copy in this process
# can open it, any other process gets an error that points to saved states.

_PICKLE_USE = "stream/pickle"
_PICKLE_BOUND = b"tulle-stream-pickle-v1"  # what the sealed bytes are bound to


class Sealed:
    """Anything of a length that is sealed when it is pickled, unless it is empty."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        if not len(self):
            return self.__dict__
        return {"sealed": _key().seal(pickle.dumps(self.__dict__), _PICKLE_USE, _PICKLE_BOUND)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_opened(state["sealed"]) if "sealed" in state else state)


@cache
def _key() -> SecretKey:
    return SecretKey.generate()


def _opened(sealed: bytes) -> Any:
    try:
        content = _key().unseal(sealed, _PICKLE_USE, _PICKLE_BOUND)
    except KeyMaterialError:
        raise KeyMaterialError(
            "the pickle of a stream holds waiting records or hashes of people, which only the "
            "process that made it can open: use save(path, key=...) to keep a stream"
        ) from None
    return pickle.loads(content)  # our own: the tag says so


@dataclass(frozen=True)
class Batch(Sealed):
    """Some records of the stream, not encoded yet."""

    frame: pl.DataFrame  # with a target that is condensed as its last column
    border: Border
    classes: tuple[pl.Series, ColumnExit] | None
    levels: Ints

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        return f"Batch({len(self)} hidden)"

    @classmethod
    def of(cls, X: Any, y: Any, *, classwise: bool, names: Sequence[str] | None) -> Batch:
        """Convert a table to a batch without levels; columns take the ``names`` known so far."""
        classes = None
        if classwise:
            if y is None:
                raise DataError(NO_CLASSES)
            frame, border = enter_with_target(X, None)
            classes = enter_column(y)
            check_length(classes[0], frame.height)
        else:
            frame, border = enter_with_target(X, y)
        if names is not None:
            frame = _renamed(frame, border, names)
        return cls(frame, border, classes, np.zeros(frame.height, dtype=np.int64))

    @property
    def features(self) -> pl.DataFrame:
        """The records without a target that is condensed with them."""
        return self.frame if self.border.target is None else self.frame[:, :-1]

    def part(self, start: int, stop: int) -> Batch:
        return self.only(slice(start, stop))

    def only(self, rows: Ints | slice) -> Batch:
        classes = None if self.classes is None else (self.classes[0][rows], self.classes[1])
        return Batch(self.frame[rows], self.border, classes, self.levels[rows])

    @classmethod
    def joined(cls, batches: list[Batch]) -> Batch:
        first = batches[0]
        if len(batches) == 1:
            return first
        classes = None
        if first.classes is not None:
            labels = [batch.classes[0] for batch in batches if batch.classes is not None]
            classes = _concatenated(labels), first.classes[1]
        columns = [
            _concatenated([batch.frame[name] for batch in batches]) for name in first.frame.columns
        ]
        levels = np.concatenate([batch.levels for batch in batches])
        return cls(frame_of(columns), first.border, classes, levels)

    def labels(self, first: LabelSchema | None) -> Labels:
        """Return the class of each record, in the type of the first labels."""
        labels = self._labels
        if first is None:
            return labels
        return Labels(labels.codes, replace(first, domain=first.converted(labels.schema.domain)))

    @cached_property
    def _labels(self) -> Labels:
        assert self.classes is not None
        return labels_of(*self.classes)


def _renamed(frame: pl.DataFrame, border: Border, names: Sequence[str]) -> pl.DataFrame:
    """Give an array the column names known so far, and a target the name of the first one.

    So does a frame in a stream that began with arrays, whose columns are x0, x1, ...
    """
    known = list(names) if len(names) == frame.width else []
    given = frame.columns
    if known == given or not known:
        return frame
    features = border.features(frame)
    by_place = border.table.plain or not set(known) & set(features)
    if not by_place:
        known[: len(features)] = features
    return frame_of([series.alias(name) for series, name in zip(frame, known)])


def _concatenated(parts: list[pl.Series]) -> pl.Series:
    name = parts[0].name
    frames = [part.alias("cells").to_frame() for part in parts]
    types = [frame.dtypes[0] for frame in frames if frame.dtypes[0] != pl.Null]
    try:
        if len({family_of(dtype) for dtype in types}) <= 1:
            return pl.concat(frames, how="vertical_relaxed").to_series(0).alias(name)
    except pl.exceptions.PolarsError:  # categories, for example, of which each batch has its own
        pass
    words = ", ".join(sorted({str(dtype.base_type()) for dtype in types}))
    raise DataError(
        f"column '{name}' has incompatible types in different batches ({words}): convert it to "
        "one type"
    )


# Scales that the owner gives, in place of those of the initial records.


def fix_scales(
    encoder: TableEncoder,
    scales: Mapping[str, float] | Sequence[float] | None,
    features: Sequence[str],
) -> None:
    """Replace the standard deviations that a fitted encoder found for the features."""
    if scales is None:
        return
    codecs = {codec.name: codec for codec in encoder._codecs if codec.name in features}
    if not isinstance(scales, Mapping):
        if len(scales) != len(codecs):
            raise ParameterError(
                f"'scales' has {len(scales)} entries, but {len(codecs)} columns are condensed"
            )
        scales = dict(zip(codecs, scales))
    for name, scale in scales.items():
        if name not in codecs:
            raise ParameterError(f"'scales' names '{name}': {nearest_name(name, codecs)}")
        codec = codecs[name]
        if not isinstance(codec, NumberCodec):
            raise ParameterError(
                f"'scales' names '{name}', which is not a numeric column: use 'weights'"
            )
        deviation = check_real("StreamCondenser", "scales", scale, 0, closed="neither")
        own = codec.scales.copy()
        # where values can be missing, the value and the states of missing share the weight
        own[0] = deviation * (own[1] if len(own) > 1 else 1.0 / codec.weight)
        codec.scales = own
    encoder._collect()


# One user of a stream at a time, and none after an interrupted change. Kernels write into the
# arrays of a stream without any lock: two threads in one stream, or a batch that Ctrl-C has left
# half done, would count records twice or write beyond an array.

_door = threading.Lock()
_users: set[int] = set()  # streams in use, by identity

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Make a method refuse to run while another thread runs such a method of the same stream."""

    @wraps(method)
    def guarded(stream: Any, /, *args: Any, **kwargs: Any) -> Any:
        with _door:
            if id(stream) in _users:
                raise TulleError("another thread is using this stream: give each thread its own")
            _users.add(id(stream))
        try:
            return method(stream, *args, **kwargs)
        finally:
            _users.discard(id(stream))

    return cast(Method, guarded)


@contextmanager
def changing(stream: Any) -> Iterator[None]:
    """Mark a stream as interrupted until its groups have changed as a whole."""
    stream._cut_off = True
    yield
    stream._cut_off = False


def check_whole(stream: Any) -> None:
    if stream._cut_off:
        raise PrivacyError(
            "this stream was interrupted while it was taking records and may have counted some "
            "twice: load the last saved state, or fit again"
        )
