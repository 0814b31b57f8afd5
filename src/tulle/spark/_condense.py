"""Condensation of a Spark table, also for ``tulle condense --engine spark``: blocks on workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tulle._commands._condensing import Condensing, refuse_contradictions
from tulle._commands._decision import Done, Job
from tulle._commands._large import PartsMade
from tulle._commands._options import resolve
from tulle._large.facts import SAMPLE, Apart, Learnt
from tulle._large.machine import pack, unpack
from tulle._large.plan import BLOCK, BlockPlan, Deal, Finished, Tally, Write
from tulle._threads import stay_on_thread
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError
from tulle.releases import Manifest
from tulle.spark._jobs import (
    Block,
    answer,
    answers,
    over_groups,
    over_rows,
    reported,
    require_spark,
)
from tulle.spark._session import (
    open_session,
    order_free,
    refuse_other_versions,
    refuse_unencrypted,
    versions,
)
from tulle.table.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames = Iterator[pl.DataFrame]


def condense(
    df: DataFrame,
    output: FilePath,
    *,
    k: int | None = None,
    levels: str | None = None,
    target: str | None = None,
    columns: Sequence[Column] | None = None,
    policy: FilePath | None = None,
    random_state: int | None = None,
    accept_risk: str | None = None,
    sign_key: FilePath | None = None,
    report: FilePath | None = None,
    control: FilePath | None = None,
    force: bool = False,
    **options: Any,
) -> Manifest:
    """Condense a Spark table into a release of many parts, and return its manifest.

    The table is read several times: it must not change, and a costly one should be persisted. The
    same seed gives the same release for any partitioning, on a cluster or on one machine, and when
    workers are lost, unless equal records are more than one in 500 of the table. The folder of the
    release must be one that all workers share.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The table.
    output : path
        The folder of the release, named as its parts: ``release.parquet``, ``release.csv``.
    k : int, optional
        The smallest group; 10 unless the policy says otherwise.
    levels : str, optional
        The column with each record's own smallest group.
    target : str, optional
        The column whose classes are condensed each on its own.
    columns : sequence of Column, optional
        The columns with kinds and roles; by default they are guessed from a sample.
    policy : path, optional
        A policy file, in place of ``columns``.
    random_state : int, optional
        The seed; by default the operating system's entropy.
    accept_risk : str, optional
        Why records may lie on the cluster's disks unencrypted, if they do. It goes into the
        manifest.
    sign_key : path, optional
        The key that signs the manifest.
    report : path, optional
        Where the report of the whole audit goes.
    control : path, optional
        A file of records that stayed out of the table; ``holdout="10%"`` keeps a share out.
    force : bool
        Whether to replace a release.
    **options
        Further options of ``tulle condense``, such as ``grouping`` and ``synthesis``.

    Returns
    -------
    Manifest

    Examples
    --------
    >>> from tulle import spark
    >>> manifest = spark.condense(df, "release.parquet", k=20)  # doctest: +SKIP
    """
    require_spark()
    given = {"k": k, "seed": random_state, **options}
    resolved = resolve("condense", Condensing(), policy, given)
    job = Job.opened(
        shared_folder(output), {"policy": policy, "control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command="", in_parts=True,
        force=force,
    )  # fmt: skip
    return condense_table(
        df, job, resolved,
        levels=levels, target=target, columns=columns, control=control, source="a Spark table",
    )[1]  # fmt: skip


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
) -> Done:
    """Condense a table that Spark reads: Parquet, or a table of its catalogue."""
    require_spark()
    options = resolve("condense", Condensing(), policy, given)
    reads = {"--policy": policy, "--control": control}
    if "://" not in source and os.path.isfile(source):
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


def shared_folder(output: FilePath) -> str:
    """Return the whole path of a release, for workers that have another folder."""
    if "://" in str(output):
        raise ParameterError("the release must be a folder in a file system that all workers share")
    return os.path.abspath(output)


def condense_table(
    df: DataFrame,
    job: Job,
    options: Condensing,
    *,
    levels: str | None,
    target: str | None,
    columns: Sequence[Column] | None,
    control: FilePath | None,
    source: str,
) -> tuple[Done, Manifest]:
    """Condense a Spark table, with options that are resolved."""
    refuse_contradictions(options, job.report, control)
    unencrypted = refuse_unencrypted(df.sparkSession, job.accepted)
    if columns is not None and options.policy_file is not None:
        raise ParameterError("columns and policy both say what the columns are: give one of them")

    def engine(names: list[str] | None = None, apart: Apart | None = None) -> Cluster:
        rows = df if names is None else df.select(*(f"`{name}`" for name in names))
        return Cluster(rows, apart)

    made_by = {"engine": "spark", "encrypted on the cluster": not unencrypted}
    made = PartsMade(job, options, control or source, control, made_by)
    with order_free(df.sparkSession):
        manifest = made.write(
            engine, lambda records: {"name": source, "records": records},
            levels=levels, target=target, columns=columns,
        )  # fmt: skip
    return made.condensed, manifest


@dataclass(frozen=True)
class Cluster:
    """A cluster that reads a Spark table and condenses its blocks on workers."""

    rows: DataFrame
    apart: Apart | None  # whom the release leaves out

    @property
    def sample(self) -> int:
        return SAMPLE

    def block_of(self, dimensions: int) -> int:
        return BLOCK

    def read(self, reading: Learnt) -> Learnt:
        """Show the rows of each part of the table to a copy of a reading, and merge them."""
        members = self._members()

        def look(frames: Frames) -> Iterator[Block]:
            own = deepcopy(reading)
            for frame in members(frames):
                own.add(frame)
            yield answer((versions(), own))

        found = answers(over_rows(self.rows, look))
        refuse_other_versions([of_worker for of_worker, _ in found])
        for _, part in found:
            reading.merge(part)
        return reading

    def condense(self, plan: BlockPlan, write: Write) -> tuple[Tally, list[Finished]]:
        """Condense the blocks on the workers, who write the parts."""
        from pyspark import StorageLevel

        members = self._members()

        def place(frames: Frames) -> Iterator[Block]:
            deal, tally = Deal(plan.common), Tally()
            for frame in members(frames):
                for number, part in plan.placed(frame, deal, tally):
                    yield number, pack(part)
            yield answer(tally)

        def work(number: int, blocks: list[bytes]) -> Iterator[Block]:
            stay_on_thread()  # Spark gives every task its core
            yield answer(plan.finish(unpack(blocks), number, write))

        placed = over_rows(self.rows, place).persist(StorageLevel.DISK_ONLY)
        try:
            tally = Tally()
            for part in answers(placed):
                tally.merge(part)
            return tally, answers(over_groups(placed, int(plan.firsts[-1]), work))
        finally:
            with reported():
                placed.unpersist()

    def _members(self) -> Any:
        """Return what leaves those out of a batch who are kept apart, to travel to workers."""
        apart = self.apart

        def members(frames: Frames) -> Frames:
            for frame in frames:
                if frame.height:
                    yield frame if apart is None else frame.filter(~apart.among(frame))

        return members
