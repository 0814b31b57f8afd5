"""``tulle condense --engine spark``: a table that Spark reads, on the session that is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tulle._commands._condensed import Condensed
from tulle._commands._condensing import Condensing
from tulle._commands._decision import Job
from tulle._commands._options import resolve
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError
from tulle.spark._condense import condense_table, shared_folder
from tulle.spark._jobs import reported, require_spark
from tulle.spark._session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def condense_source(
    source: str,
    output: FilePath,
    *,
    master: str | None = None,
    policy: FilePath | None = None,
    levels: str | None = None,
    target: str | None = None,
    report: FilePath | None = None,
    control: FilePath | None = None,
    sign_key: FilePath | None = None,
    accept_risk: str | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Condensed:
    """Condense a table that Spark reads: Parquet, or a table of its catalogue."""
    require_spark()
    options = resolve("condense", Condensing(), policy, given)
    reads = {"--policy": policy, "--control": control}
    if _is_local(source):
        reads |= {"INPUT": source}
    job = Job.opened(
        shared_folder(output), reads,
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        in_parts=True, force=force,
    )  # fmt: skip
    with options.naming():
        return condense_table(
            _read(open_session(master), source), job, options,
            levels=levels, target=target, columns=None, control=control,
            source=os.path.basename(source),
        )[0]  # fmt: skip


def _is_local(source: str) -> bool:
    return "://" not in source and os.path.isfile(source)


def _read(session: SparkSession, source: str) -> DataFrame:
    """Return the table of a name: a path of Parquet files, else a table of the catalogue."""
    with reported():
        if source.lower().rstrip("/").endswith(".parquet"):
            if "://" not in source:
                if not Path(source).exists():
                    raise DataError(f"{source} does not exist")
                source = Path(source).absolute().as_uri()
            return session.read.parquet(source)
        if "." in source and not session.catalog.tableExists(source):
            raise ParameterError(
                f"the engine 'spark' reads Parquet and the tables of its catalogue: {source} is "
                "neither. Write it as Parquet first"
            )
        return session.table(source)
