"""Condensation of a Spark table: facts, cuts, records to their cells, a part from each cell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tulle._commands._columns import plan_columns, with_roles
from tulle._commands._decision import check_accepted
from tulle._commands._large import (
    LargeTable,
    PartWriter,
    Suspects,
    WrittenParts,
    look_for_repeated,
    plan_table,
    refuse_in_parts,
    refuse_repeated,
    refuse_single_file,
    seed_words,
    suspects_of,
    write_in_parts,
)
from tulle._commands._options import resolve
from tulle._commands._sources import signing_key, sources_read
from tulle._commands.condense import Condensed, Condensing
from tulle._large.facts import (
    SAMPLE,
    CommonKeys,
    HashSample,
    KeyCount,
    Keys,
    RowSample,
    TableFacts,
    person_keys,
    row_keys,
)
from tulle._large.layout import Records
from tulle._large.outcome import CellRelease, verified
from tulle._large.plan import CELL, Cell, CellPlan, make_plan
from tulle._threads import stay_on_thread
from tulle._types import FilePath, Ints
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
    order_free,
    refuse_other_versions,
    refuse_unencrypted,
    versions,
)
from tulle.table.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Seed = tuple[int, ...]


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
    force: bool = False,
    **options: Any,
) -> Manifest:
    """Condense a Spark table into a release of many parts, and return its manifest.

    The table is read several times: it must not change, and a costly one should be persisted. The
    same seed gives the same release for any partitioning, on a cluster or on one machine, and when
    workers are lost. The folder of the release must be one that all workers share.

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
    refuse_in_parts(resolved, report=None, control=None, policy=policy)
    return condense_table(
        df, output, resolved,
        levels=levels, target=target, columns=columns, policy=policy, accept_risk=accept_risk,
        sign_key=sign_key, command="", source="a Spark table", force=force,
    )[1]  # fmt: skip


def condense_table(
    df: DataFrame,
    output: FilePath,
    options: Condensing,
    *,
    levels: str | None,
    target: str | None,
    columns: Sequence[Column] | None,
    policy: FilePath | None,
    accept_risk: str | None,
    sign_key: FilePath | None,
    command: str,
    source: str,
    force: bool,
) -> tuple[Condensed, Manifest]:
    """Condense a Spark table, with options that are resolved."""
    accepted = check_accepted(accept_risk)
    unencrypted = refuse_unencrypted(df.sparkSession, accepted)
    if columns is not None and policy is not None:
        raise ParameterError("columns and policy both say what the columns are: give one of them")
    if "://" in str(output):
        raise ParameterError("the release must be a folder in a file system that all workers share")
    refuse_single_file(output)
    signer = signing_key(sign_key)
    seed = seed_words(options)
    sample, records = _sampled(df, seed)
    if columns is None:
        known = plan_columns(sample, options, target=target, levels=levels, strict=options.strict)
    else:
        known = with_roles(list(columns), target, levels)
    table = plan_table(sample, records, known, options)
    suspects = {} if columns is not None else suspects_of(known, policy, records)

    def run(folder: Path, parts: WrittenParts) -> CellRelease:
        with order_free(df.sparkSession):
            return _condensed(df, table, suspects, seed, folder, parts)

    return write_in_parts(
        os.path.abspath(output), table, run,
        entry={"name": source, "records": records}, context=dict(options.policy.context),
        accepted=accepted,
        command=command, sources=sources_read(policy, sign_key), signer=signer, force=force,
        made_by={"engine": "spark", "encrypted on the cluster": not unencrypted},
    )  # fmt: skip


def _sampled(df: DataFrame, seed: Seed) -> tuple[pl.DataFrame, int]:
    """Return rows of the table, the same for any partitioning, and how many there are."""

    def look(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        count, common = KeyCount(), CommonKeys()
        for frame in frames:
            keys = row_keys(frame, seed[0])
            count.add(keys)
            common.add(keys)
        yield answer((versions(), count, common))

    found = answers(over_rows(df, look))
    refuse_other_versions([of_worker for of_worker, _, _ in found])
    count, common = KeyCount(), CommonKeys()
    for _, of_count, of_common in found:
        count.merge(of_count)
        common.merge(of_common)
    if not count.records:
        raise DataError("the table has no records: there is nothing to condense")
    limit = count.limit(SAMPLE)
    candidates = common.candidates()

    def draw(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        sample = RowSample(SAMPLE, seed[0], limit, candidates)
        for frame in frames:
            sample.add(frame)
        yield answer(sample.shrunk())

    sample = RowSample(SAMPLE, seed[0], limit, candidates)
    for part in answers(over_rows(df, draw)):
        sample.merge(part)
    return sample.rows(), count.records


def _condensed(
    df: DataFrame,
    table: LargeTable,
    suspects: Suspects,
    seed: Seed,
    folder: Path,
    parts: WrittenParts,
) -> CellRelease:
    """Condense the cells of a table on the workers, who write the parts into the folder."""
    from pyspark import StorageLevel

    rows = df.select(*(f"`{name}`" for name in table.sample.columns))
    facts, some, people = _facts(rows, table, suspects, seed)
    plan = make_plan(table.schema, facts, some, people, table.decide, lambda _: CELL, seed)
    placed = _placed(rows, plan).persist(StorageLevel.DISK_ONLY)
    try:
        leaves = plan.no_leaves()
        for counted in answers(placed):
            leaves.merge(counted)
        cells = plan.cells(plan.joined(leaves))
        summaries = []
        for summary, part in answers(_written(placed, plan, cells, folder, parts.writer)):
            parts.take(part)
            summaries.append(summary)
    finally:
        with reported():
            placed.unpersist()
    summaries.sort(key=lambda summary: summary.cell)
    return verified(summaries, plan, leaves, facts.records)


def _facts(
    rows: DataFrame, table: LargeTable, suspects: Suspects, seed: Seed
) -> tuple[TableFacts, pl.DataFrame, Keys | None]:
    """Return the facts of a table, and rows of it: those of whole people if there are people."""
    schema, label = table.schema, table.label
    person = _person_of(schema)
    empty = TableFacts(schema, label), HashSample.of_table(SAMPLE, table.records), suspects

    def look(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        facts, whole, repeated = deepcopy(empty)
        for frame in frames:
            keys = None if person is None else person_keys(frame[person], seed[1])
            facts.add(frame, keys)
            look_for_repeated(repeated, frame, seed[2])
            if keys is not None:
                whole.add(frame, keys)
        yield answer((facts, whole, repeated))

    facts, whole, repeated = deepcopy(empty)
    for some_facts, some_people, some_values in answers(over_rows(rows, look)):
        facts.merge(some_facts)
        whole.merge(some_people)
        for name, values in some_values.items():
            repeated[name].merge(values)
    refuse_repeated(repeated)
    return (facts, table.sample, None) if person is None else (facts, *whole.rows())


def _person_of(schema: Schema) -> str | None:
    from tulle.table.schema import Role

    return next(iter(schema.named(Role.PERSON)), None)


def _placed(rows: DataFrame, plan: CellPlan) -> DataFrame:
    """Return the records as blocks by leaf, with counts; whole people go to one leaf."""
    dtype = plan.layout.dtype

    def by_leaf(records: Records) -> Iterator[Block]:
        counted = plan.no_leaves()
        yield from _blocks(*plan.placed(records, counted))
        yield answer(counted)

    if plan.person is None:

        def place(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
            for frame in frames:
                if frame.height:
                    yield from by_leaf(plan.records(frame))

        return over_rows(rows, place)
    buckets = int(plan.classes.records.sum()) // CELL + 1

    def encode(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        for frame in frames:
            if frame.height:
                records = plan.records(frame)
                yield from _blocks(records, (records["person"] % np.uint64(buckets)).astype(int))

    def gather(bucket: int, blocks: list[bytes]) -> Iterable[Block]:
        return by_leaf(_joined(blocks, dtype))

    return over_groups(over_rows(rows, encode), buckets, gather)


def _written(
    placed: DataFrame, plan: CellPlan, cells: list[Cell], folder: Path, writer: PartWriter
) -> DataFrame:
    """Return the summaries of the cells, each of which is condensed and written by a worker."""
    from pyspark.sql import functions as F

    owner = np.full(int(plan.first_leaves[-1]), -1)
    for cell in cells:
        owner[cell.leaves] = cell.number
    dtype = plan.layout.dtype

    def work(number: int, blocks: list[bytes]) -> Iterator[Block]:
        if not folder.is_dir():
            raise DataError("a worker does not see the folder of the release: it must be shared")
        stay_on_thread()  # Spark gives every task its core
        drawn, summary = plan.condense(_joined(blocks, dtype), cells[number])
        yield answer((summary, writer.write(folder, number, drawn)))

    numbers = F.array(*(F.lit(int(number)) for number in owner))  # numbers of cells, no values
    records = placed.where(F.col("place") >= 0)
    celled = records.withColumn("place", F.element_at(numbers, F.col("place") + 1))
    return over_groups(celled, len(cells), work)


def _blocks(records: Records, places: Ints) -> Iterator[Block]:
    """Yield the records of each place as bytes."""
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    for place, part in zip(found.tolist(), np.split(records[order], starts[1:])):
        yield place, part.tobytes()


def _joined(blocks: list[bytes], dtype: np.dtype[Any]) -> Records:
    return np.concatenate([np.frombuffer(block, dtype) for block in blocks])
