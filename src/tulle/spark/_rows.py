"""What is done to each record alone: sketches, and the encoding of a site's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tulle.errors import ParameterError, TulleError
from tulle.keys import SecretKey
from tulle.sites.agreement import SiteAgreement
from tulle.sites.codec import SiteCodec
from tulle.sketch.sketcher import Sketcher
from tulle.sketch.sketches import sketch_frame
from tulle.spark._jobs import frames_of, require_spark
from tulle.spark._session import refuse_unencrypted

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

_LOOKED_AT = 100  # rows that show which types the result has


def sketch(df: DataFrame, column: str, sketcher: Sketcher) -> DataFrame:
    """Sketch the texts or bags of words of a Spark table, record by record.

    The sketches are those of ``sketcher.transform``, in the order of the table. The key travels to
    the workers with the work, so the cluster must encrypt what it sends and keeps.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The table.
    column : str
        The column of texts, or of arrays of words.
    sketcher : Sketcher
        A fitted one of the model ``"delta"``, which looks at one record alone.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``length`` (0 for a suppressed record) and ``sketch`` (array).

    Examples
    --------
    >>> from tulle import Sketcher, spark
    >>> sketcher = Sketcher().fit(["a cat and a dog sat"])
    >>> sketches = spark.sketch(df, "note", sketcher)  # doctest: +SKIP
    """
    require_spark()
    if sketcher.model != "delta":
        raise ParameterError(
            "the model 'k-variance' compares all records with each other: use 'delta' on Spark"
        )
    refuse_unencrypted(df.sparkSession, "")
    parameters = {**sketcher.get_params(), "key": None}
    secret = sketcher.key_._secret

    def work(frame: pl.DataFrame) -> pl.DataFrame:
        own = Sketcher(**{**parameters, "key": SecretKey(secret)})
        return sketch_frame(own.fit_transform(frame.to_series().to_list()))

    return _mapped(df.select(f"`{column}`"), work, "length int, sketch array<float>")


def encode(
    df: DataFrame, agreement: SiteAgreement, *, random_state: int | None = None
) -> DataFrame:
    """Encode a site's Spark table as the sites agreed, record by record.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The site's table.
    agreement : SiteAgreement
        What the sites agreed on. It travels to the workers with the work, so the cluster must
        encrypt what it sends and keeps.
    random_state : int, optional
        The seed of aliases that are chosen among several; by default the operating system's
        entropy, drawn once.

    Returns
    -------
    pyspark.sql.DataFrame
        The agreed columns, encoded as :meth:`tulle.SiteCodec.transform` encodes them.

    Examples
    --------
    >>> from tulle import SiteAgreement, spark
    >>> agreement = SiteAgreement.load("sites.agreement", "passphrase")  # doctest: +SKIP
    >>> encoded = spark.encode(df, agreement)  # doctest: +SKIP
    """
    require_spark()
    refuse_unencrypted(df.sparkSession, "")
    sealed = agreement._to_json()
    seed = np.random.SeedSequence(random_state).generate_state(4).tolist()

    def work(frame: pl.DataFrame) -> pl.DataFrame:
        from pyspark import TaskContext

        task = TaskContext.get()
        # of this part of the table: a part that is done again is the same
        rng = np.random.default_rng([*seed, task.partitionId() if task is not None else 0])
        own = SiteAgreement._from_json(sealed, "the agreement")
        encoded: pl.DataFrame = SiteCodec(own, random_state=rng).transform(frame)
        return encoded

    shown = pl.from_arrow(df.limit(_LOOKED_AT).toArrow())
    assert isinstance(shown, pl.DataFrame)
    return _mapped(df, work, _schema_of(work(shown)))


def _mapped(df: DataFrame, work: Callable[[pl.DataFrame], pl.DataFrame], schema: str) -> DataFrame:
    """Return the table that ``work`` makes of each batch of rows."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    types = to_arrow_schema(StructType.fromDDL(schema))

    def on_worker(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for frame in frames_of(batches):
            if not frame.height:
                continue
            try:
                found = work(frame)
            except TulleError as error:  # says no value
                raise error from None
            except Exception as error:
                raise RuntimeError(f"{type(error).__name__} on a worker of Tulle") from None
            yield from found.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(types).to_batches()

    return df.mapInArrow(on_worker, schema)


def _schema_of(frame: pl.DataFrame) -> str:
    """Return the columns of a frame as Spark writes them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    arrow = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    schema = from_arrow_schema(arrow)
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)
