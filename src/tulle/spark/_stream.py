"""Streams: the micro-batches of Structured Streaming, each condensed exactly once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tulle._files import atomic_write
from tulle.keys import SecretKey
from tulle.spark._jobs import reported, require_spark
from tulle.stream._saved import load_state, write_state
from tulle.stream.condenser import StreamCondenser

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH = "batch of Spark"


def into_stream(
    condenser: StreamCondenser, state: str | os.PathLike[str], key: SecretKey
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that condenses each micro-batch exactly once.

    The state is written after each batch, with the number of the batch inside. Spark hands over a
    batch again when it does not know whether it came to its end: one that the state holds is
    skipped. The first batch must have enough records to form groups.

    Parameters
    ----------
    condenser : StreamCondenser
        An unfitted one, for the first batch; later the file's continues.
    state : path-like
        The file of the state, on the driver's machine.
    key : SecretKey
        Seals the records that wait for a group.

    Returns
    -------
    callable
        Takes the rows of a batch and its number.

    Examples
    --------
    >>> from tulle import SecretKey, StreamCondenser, spark
    >>> sink = spark.into_stream(StreamCondenser(k=20), "visits.state", SecretKey.generate())
    >>> query = table.writeStream.foreachBatch(sink).start()  # doctest: +SKIP
    """
    require_spark()

    def take(rows: DataFrame, batch: int) -> None:
        current = condenser
        if Path(state).exists():
            current, extra = load_state(StreamCondenser, state, key)
            if batch <= extra.get(_BATCH, -1):
                return
        with reported():
            frame = pl.from_arrow(rows.toArrow())
        assert isinstance(frame, pl.DataFrame)
        if frame.height:
            current.partial_fit(frame)
        current._require_groups()
        with atomic_write(state, force=True, mode=0o600) as file:
            write_state(file, current, key, extra={_BATCH: int(batch)})

    return take
