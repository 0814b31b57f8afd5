"""Condensation of a Spark table: facts, cuts, records to their cells, a part from each cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tulle._commands._columns import plan_columns, with_roles
from tulle._commands._decision import Job
from tulle._commands._large import (
    LargeTable,
    PartsMade,
    Strangers,
    Suspects,
    look_for_repeated,
    plan_table,
    refuse_repeated,
    refuse_single_file,
    seed_words,
    suspects_of,
)
from tulle._commands._options import resolve
from tulle._commands.condense import Condensed, Condensing, refuse_contradictions
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
from tulle._large.machine import Sampled, pack, together, unpack
from tulle._large.plan import BLOCK, Deal, PartedRelease, Tally, make_plan, verified
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
    order_free,
    refuse_other_versions,
    refuse_unencrypted,
    versions,
)
from tulle.table.schema import Column, Role

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Seed = tuple[int, ...]
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
) -> tuple[Condensed, Manifest]:
    """Condense a Spark table, with options that are resolved."""
    refuse_contradictions(options, job.report, control)
    unencrypted = refuse_unencrypted(df.sparkSession, job.accepted)
    if columns is not None and options.policy_file is not None:
        raise ParameterError("columns and policy both say what the columns are: give one of them")
    refuse_single_file(job.output)
    seed = seed_words(options)
    sample = _sampled(df, seed)
    if columns is None:
        known = plan_columns(sample.rows, options, target=target, levels=levels)
    else:
        known = with_roles(list(columns), target, levels)
    table = plan_table(sample, known, options, seed)
    suspects = (
        {} if columns is not None else suspects_of(known, options.policy_file, sample.records)
    )
    rows = df.select(*(f"`{name}`" for name in table.sample.rows.columns))
    strangers = None
    if table.apart is not None:  # who is kept apart may not be seen in what is learnt
        strangers = _strangers(rows, table)
        table = replace(table, sample=_sampled(rows, seed, table))
    entry = {"name": source, "records": sample.records}
    made_by = {"engine": "spark", "encrypted on the cluster": not unencrypted}
    made = PartsMade(job, table, entry, control or "", control, strangers, made_by)

    def run(folder: Path) -> PartedRelease:
        with order_free(df.sparkSession):
            return _condensed(rows, made, suspects, seed, folder)

    with options.naming(rules=f"{options.policy_file}: [rules]", **table.names):
        manifest = made.write(run)
    return made.condensed, manifest


def _over_members(
    rows: DataFrame, table: LargeTable | None, work: Callable[[Frames], Iterable[Block]]
) -> DataFrame:
    """Return the blocks that ``work`` yields for the rows of people who are not kept apart."""
    apart = None if table is None else table.apart
    if apart is None:
        return over_rows(rows, work)
    return over_rows(
        rows, lambda frames: work(frame.filter(~apart.among(frame)) for frame in frames)
    )


def _strangers(rows: DataFrame, table: LargeTable) -> Strangers:
    """Return people who are kept apart."""
    apart, empty = table.apart, Strangers.empty(table.sample.records)
    assert apart is not None

    def look(frames: Frames) -> Iterator[Block]:
        found = deepcopy(empty)
        for frame in frames:
            found.add(frame, apart)
        yield answer(found)

    found = deepcopy(empty)
    for part in answers(over_rows(rows, look)):
        found.merge(part)
    return found


def _sampled(df: DataFrame, seed: Seed, table: LargeTable | None = None) -> Sampled:
    """Return rows of the table, the same for any partitioning."""

    def look(frames: Frames) -> Iterator[Block]:
        count, common = KeyCount(), CommonKeys()
        for frame in frames:
            keys = row_keys(frame, seed[0])
            count.add(keys)
            common.add(keys)
        yield answer((versions(), count, common))

    found = answers(_over_members(df, table, look))
    refuse_other_versions([of_worker for of_worker, _, _ in found])
    count, common = KeyCount(), CommonKeys()
    for _, of_count, of_common in found:
        count.merge(of_count)
        common.merge(of_common)
    if not count.records:
        raise DataError("the table has no records: there is nothing to condense")
    limit = count.limit(SAMPLE)
    candidates = common.candidates()

    def draw(frames: Frames) -> Iterator[Block]:
        sample = RowSample(SAMPLE, seed[0], limit, candidates)
        for frame in frames:
            sample.add(frame)
        yield answer(sample.shrunk())

    sample = RowSample(SAMPLE, seed[0], limit, candidates)
    for part in answers(_over_members(df, table, draw)):
        sample.merge(part)
    return Sampled(sample.rows(), count.records, sample.common())


def _condensed(
    rows: DataFrame, made: PartsMade, suspects: Suspects, seed: Seed, folder: Path
) -> PartedRelease:
    """Condense the blocks of a table on the workers, who write the parts into the folder."""
    from pyspark import StorageLevel

    table, writer = made.table, made.writer
    facts, some, people = _facts(rows, table, suspects, seed)
    plan = make_plan(
        table.schema, facts, some, people, table.sample.common, table.decide, lambda _: BLOCK, seed
    )

    def place(frames: Frames) -> Iterator[Block]:
        deal, tally = Deal(plan.common), Tally()
        for frame in frames:
            for number, part in plan.placed(frame, deal, tally):
                yield number, pack(part)
        yield answer(tally)

    def work(number: int, blocks: list[bytes]) -> Iterator[Block]:
        if not folder.is_dir():
            raise DataError("a worker does not see the folder of the release: it must be shared")
        stay_on_thread()  # Spark gives every task its core
        frame = unpack(blocks)
        drawn, summary = plan.condense(frame, number)
        attacked = (frame, drawn) if number in plan.attacked else None
        yield answer((summary, writer.write(folder, number, drawn), attacked))

    placed = _over_members(rows, table, place).persist(StorageLevel.DISK_ONLY)
    try:
        tally = Tally()
        for part in answers(placed):
            tally.merge(part)
        summaries, attacked = [], {}
        for summary, part, frames in answers(over_groups(placed, int(plan.firsts[-1]), work)):
            made.take(part)
            summaries.append(summary)
            if frames is not None:
                attacked[summary.number] = frames
    finally:
        with reported():
            placed.unpersist()
    return verified(plan, summaries, tally, facts.records, together(attacked))


def _facts(
    rows: DataFrame, table: LargeTable, suspects: Suspects, seed: Seed
) -> tuple[TableFacts, pl.DataFrame, Keys | None]:
    """Return the facts of a table, and rows of it: those of whole people if there are people."""
    schema, label = table.schema, table.label
    person = next(iter(schema.named(Role.PERSON)), None)
    sample = table.sample
    empty = TableFacts(schema, label), HashSample.of_table(SAMPLE, sample.records), suspects

    def look(frames: Frames) -> Iterator[Block]:
        facts, whole, repeated = deepcopy(empty)
        for frame in frames:
            keys = None if person is None else person_keys(frame[person], seed[1])
            facts.add(frame, keys)
            look_for_repeated(repeated, frame, seed[2])
            if keys is not None:
                whole.add(frame, keys)
        yield answer((facts, whole, repeated))

    facts, whole, repeated = deepcopy(empty)
    for some_facts, some_people, some_values in answers(_over_members(rows, table, look)):
        facts.merge(some_facts)
        whole.merge(some_people)
        for name, values in some_values.items():
            repeated[name].merge(values)
    refuse_repeated(repeated)
    return (facts, sample.rows, None) if person is None else (facts, *whole.rows())
