"""Work on the parts of a Spark table, without a value of it in an error, a plan or a log.

What goes out to the workers travels in the pickled function, never in an expression; what comes
back is bytes. An error of Tulle comes back as an answer. Of any other, only its class is reported:
libraries quote values in theirs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl

from tulle.errors import DataError, TulleError, missing_extra
from tulle.io.read import rebatched

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table
    from pyspark.sql import DataFrame

BLOCKS = "place int, block binary"  # what the workers yield
ANSWER, ERROR = -1, -2  # the places of what is meant for the driver
_ROWS = 200_000  # that a worker looks at at a time

Block = tuple[int, bytes]
Work = Callable[[Iterator[pl.DataFrame]], Iterable[Block]]
GroupWork = Callable[[int, list[bytes]], Iterable[Block]]


def require_spark() -> None:
    """Raise if the packages for Spark are not installed."""
    for package in ("pyspark", "pyarrow", "pandas"):
        try:
            __import__(package)
        except ImportError:
            raise missing_extra(package, "spark", "the engine 'spark'") from None


def answer(found: Any) -> Block:
    return ANSWER, pickle.dumps(found)


def over_rows(table: DataFrame, work: Work) -> DataFrame:
    """Return the blocks that ``work`` yields for the rows of each part of a table."""

    def on_worker(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for blocks in _guarded(work, frames_of(batches)):
            yield from blocks.to_batches()

    return table.mapInArrow(on_worker, BLOCKS)


def over_groups(blocks: DataFrame, groups: int, work: GroupWork) -> DataFrame:
    """Return the blocks that ``work`` yields for all blocks of each place."""

    def on_worker(key: tuple[Any, ...], table: Table) -> Table:
        import pyarrow as pa

        held = [block.as_py() for block in table["block"]]
        return pa.concat_tables(_guarded(lambda kept: work(key[0].as_py(), kept), held))

    from pyspark.sql import functions as F

    kept = blocks.where(F.col("place") >= 0).repartition(max(groups, 1), "place")
    return kept.groupBy("place").applyInArrow(on_worker, BLOCKS)


def answers(blocks: DataFrame) -> list[Any]:
    """Return what the workers found; raise the first of their errors."""
    from pyspark.sql import functions as F

    with reported():
        rows = blocks.where(F.col("place") < 0).collect()
    for row in rows:
        if row.place == ERROR:
            raise pickle.loads(bytes(row.block))
    return [pickle.loads(bytes(row.block)) for row in rows]


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of Spark, which may quote the table, into one that does not."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise DataError(
            f"Spark did not finish ({type(error).__name__}): look into the logs of its executors"
        ) from None


def _guarded(work: Callable[[Any], Iterable[Block]], given: Any) -> Iterator[Table]:
    """Yield what ``work`` does, and its errors without a value of the data."""
    try:
        for block in work(given):
            yield _table(*block)
    except TulleError as error:
        yield _table(ERROR, pickle.dumps(error))
    except Exception as error:
        # Spark tries again: it may be the machine
        raise RuntimeError(f"{type(error).__name__} on a worker of Tulle") from None


def _table(place: int, block: bytes) -> Table:
    import pyarrow as pa

    return pa.table({"place": pa.array([place], pa.int32()), "block": pa.array([block])})


def frames_of(batches: Iterator[RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows that Spark hands to a worker, in frames of a good size."""
    yield from rebatched((_frame(batch) for batch in batches), _ROWS)


def _frame(batch: RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame
