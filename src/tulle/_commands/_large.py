"""``tulle condense`` for a table larger than memory: read in batches, released in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tulle._commands._columns import (
    class_column,
    column_of,
    left_out_rows,
    plan_columns,
    with_roles,
    without_opaque,
)
from tulle._commands._condensed import (
    Made,
    audited_release,
    compared_frames,
    manifest_of,
    notes_of,
    summary_of,
)
from tulle._commands._condensing import (
    Condensing,
    class_condenser_of,
    condenser_of,
    group_size,
    refuse_unused,
)
from tulle._commands._decision import Done, Job, with_verdict
from tulle._commands._memory import EngineOf, half_of_memory, parse_size, refuse_repeated
from tulle._commands._sources import source_entry
from tulle._large.facts import Apart, HashSample, Sampled, person_keys, row_keys, sample_rows
from tulle._large.machine import Budget, Machine
from tulle._large.plan import PartedRelease, Units, condense_blocks, divide_classes
from tulle._plurals import counted
from tulle._random import as_generator
from tulle._threads import cores
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.auditing._database import compared_rows
from tulle.auditing._tables import align_made
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, ParameterError
from tulle.io._dialect import Dialect
from tulle.io._formats import Format, display_name, format_of, is_compressed
from tulle.io.read import open_table
from tulle.io.write import put_table
from tulle.releases import Manifest, write_part, write_parts
from tulle.table.schema import Column, Role, Schema
from tulle.table.split import check_part

_STRANGERS = 20_000  # rows of people kept apart that a release is attacked with


def refuse_in_blocks(options: Condensing) -> None:
    """Raise for what needs the whole table in memory."""
    asked = {
        options.word("people"): options.people is not None,
        options.word("rows"): options.rows is not None,
        options.word("copies"): options.copies != 1,
        options.word("ledger"): options.ledger,
        options.word("codebook"): options.codebook,
    }
    for word in (word for word, given in asked.items() if given):
        raise ParameterError(
            f"{word} needs the whole table in memory, and this one is larger than that: drop it, "
            "or raise --memory"
        )


def condense_large(
    source: FilePath,
    job: Job,
    options: Condensing,
    *,
    levels: str | None,
    target: str | None,
    control: FilePath | None,
) -> Done:
    """Condense a table in blocks on this machine, and write the release as a folder of parts."""
    refuse_in_blocks(options)
    opened = open_table(source)
    limit = int(half_of_memory()) if options.memory is None else parse_size(options.memory)
    budget = Budget.of(limit, cores(), len(opened.schema))

    def engine(names: list[str] | None = None, apart: Apart | None = None) -> Machine:
        def batches() -> Iterator[pl.DataFrame]:
            for frame in opened.batches(names):
                yield frame if apart is None else frame.filter(~apart.among(frame))

        return Machine(batches, budget)

    csv = format_of(job.output) is Format.CSV and not options.plain
    written = opened.dialect() if csv else None
    dialect = written if isinstance(written, Dialect) else None
    made = PartsMade(job, options, source, control, dialect=dialect)
    made.write(engine, partial(source_entry, source), levels=levels, target=target)
    return made.condensed


def refuse_single_file(output: FilePath) -> None:
    """Raise for a release that cannot be a folder of files."""
    if format_of(output) in (Format.EXCEL, Format.SQL):
        raise ParameterError(
            "a release of many parts is a folder of files: name --output .parquet, .arrow, .csv "
            "or .ndjson, or raise --memory"
        )


def seed_words(options: Condensing) -> tuple[int, ...]:
    """Return the secret that everything random in a release of many parts follows from."""
    return tuple(as_generator(options.seed).integers(2**63, size=4).tolist())


@dataclass(frozen=True)
class LargeTable:
    """A table that is not held in memory: rows of it, and what is decided about its columns."""

    sample: Sampled  # without columns that cannot be released
    columns: list[Column]  # all of them
    known: list[Column]  # those of the sample
    label: str | None  # the column of classes
    condenser: Condenser  # without the size of its groups
    options: Condensing
    apart: Apart | None  # whom the release leaves out

    @property
    def schema(self) -> Schema:
        return Schema.of(self.condenser.columns, self.sample.rows.drop(self.label or []))

    @property
    def names(self) -> dict[str, str]:
        """What errors call the parameters that the user does not know."""
        levels = column_of(self.known, Role.LEVEL)
        names = {} if levels is None else {"levels": f"the levels in column '{levels.name}'"}
        if self.label is not None:
            names["y"] = f"the target '{self.label}'"
        elif self.options.k is None and self.options.min_group is not None:
            names["k"] = self.options.word("min_group")
        return names

    def decide(self, counted: pl.DataFrame) -> tuple[Units, Condenser]:
        """Return what is condensed apart, and the condenser with the size of its groups."""
        level = column_of(self.known, Role.LEVEL)
        if self.label is None:
            size = 2 if level is not None else group_size(self.options)
            return Units.whole(int(counted["rows"].sum())), self.condenser.set_params(k=size)
        persons = column_of(self.known, Role.PERSON) is not None
        by_class = class_condenser_of(self.condenser, self.options)
        asked = None if level is None else level.name
        return divide_classes(by_class, counted, self.label, asked, persons=persons)


def plan_table(
    sample: Sampled, columns: list[Column], options: Condensing, seed: tuple[int, ...]
) -> LargeTable:
    """Return what is decided about a table, or raise if blocks cannot meet what is asked."""
    refuse_unused(sample.rows, columns, options)
    rows, known = without_opaque(sample.rows, columns)
    classes, person = class_column(known, rows), column_of(known, Role.PERSON)
    condenser = condenser_of(known, classes, options.policy.rules, options)
    apart = None
    if options.holdout is not None:
        with options.naming(share=options.word("holdout")):
            share = check_part(options.holdout)
        name = None if person is None else person.name
        apart = Apart(share, seed[3], name, seed[0], sample.common)
    label = None if classes is None else classes.name
    condenser.set_params(random_state=None)
    return LargeTable(sample._replace(rows=rows), columns, known, label, condenser, options, apart)


class Strangers:
    """Rows of people who are kept apart, and how many there are."""

    def __init__(self, apart: Apart, records: int) -> None:
        self.records = 0
        self.sample = HashSample.of_table(_STRANGERS, records)
        self._apart = apart

    def add(self, frame: pl.DataFrame) -> None:
        some, person = frame.filter(self._apart.among(frame)), self._apart.person
        keys = row_keys(some, 0) if person is None else person_keys(some[person], 0)
        self.records += some.height
        self.sample.add(some, keys)

    def merge(self, other: Strangers) -> None:
        self.records += other.records
        self.sample.merge(other.sample)


class PartWriter(NamedTuple):
    """How a part is written: by a thread of this process or on another machine."""

    output: str
    columns: list[str]  # in their order
    dialect: Dialect | None  # of CSV

    def write(self, folder: Path, number: int, frame: pl.DataFrame) -> tuple[str, dict[str, Any]]:
        """Write a part; return its name, and what the manifest says of it."""
        if not folder.is_dir():
            raise DataError("a worker does not see the folder of the release: it must be shared")
        frame = frame.select(name for name in self.columns if name in frame.columns)
        name = f"part-{number:05d}{_suffix(self.output)}"
        put = partial(put_table, frame, name=name, dialect=self.dialect)
        entry = write_part(folder, name, frame.height, put)
        return name, entry


@dataclass
class PartsMade:
    """A release of many parts while it is made, and what is to be said of it."""

    job: Job
    options: Condensing
    source: FilePath
    control: FilePath | None
    made_by: Mapping[str, Any] = field(default_factory=dict)  # for the manifest's parameters
    dialect: Dialect | None = None  # in which CSV is written: that of the source, if it is a file
    table: LargeTable = field(init=False)
    entry: dict[str, Any] = field(init=False)  # of the source
    strangers: Strangers | None = None
    condensed: Done = field(init=False)

    def write(
        self,
        engine: EngineOf,
        entry: Callable[[int], dict[str, Any]],
        *,
        levels: str | None,
        target: str | None,
        columns: Sequence[Column] | None = None,
    ) -> Manifest:
        """Look at a table, condense it and write all parts, or nothing."""
        job, options = self.job, self.options
        refuse_single_file(job.output)
        seed = seed_words(options)
        sample = sample_rows(engine().read, engine().sample, seed)
        if not sample.records:
            named = display_name(self.source)
            raise DataError(f"{named} has no records: there is nothing to condense")
        self.entry = entry(sample.records)
        if columns is None:
            known = plan_columns(
                sample.rows, options, target=target, levels=levels, strict=options.strict
            )
            if options.policy_file is None:
                refuse_repeated(engine, known, sample.records, seed[2])
        else:
            known = with_roles(list(columns), target, levels)
        self.table = table = plan_table(sample, known, options, seed)
        names = table.sample.rows.columns
        if table.apart is not None:  # who is kept apart may not be seen in what is learnt
            self.strangers = engine(names).read(Strangers(table.apart, sample.records))
            sample = sample_rows(engine(names, table.apart).read, engine().sample, seed)
            self.table = table = replace(table, sample=sample)
        writer = PartWriter(str(job.output), names, self.dialect)

        def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
            made = condense_blocks(
                engine(names, table.apart), table.schema, table.decide,
                partial(writer.write, folder),
                target=table.label, sample=table.sample, seed=seed,
            )  # fmt: skip
            manifest, audit = self._judged(made)
            report.enter_context(job.reported(audit))
            return manifest, dict(made.parts)

        names_of = options.naming(rules=f"{options.policy_file}: [rules]", **table.names)
        with names_of, ExitStack() as report:
            return write_parts(
                job.output, put, sources=job.sources, sign_key=job.signer, force=job.force
            )

    def _judged(self, made: PartedRelease) -> tuple[Manifest, Audit]:
        """Attack the release as one in memory is, and return its manifest and the audit."""
        job, table = self.job, self.table
        members, released = made.attacked
        names = [name for name in table.sample.rows.columns if name in released.columns]
        released = released.select(names)
        apart = None if self.strangers is None else self._strangers(members)
        frames = compared_frames(members, released, self.source, self.control, apart, table.columns)
        tables = align_made(*frames, table.columns)
        people = compared_rows(frames, table.columns, made.plan.condenser.order or ())
        whole = job.report is not None
        here = Made(made, released, tables, table.options, people)
        audit = audited_release(here, None, table.columns, job.command, whole=whole).extended(
            context=dict(table.options.policy.context),
            accepted_risk=job.accepted,
            limits=[_attacked(made)],
        )
        why = "nothing was attacked to choose it by"
        chosen: dict[str, Any] = {"k": here.k, "tried": [], "why": why}
        manifest = manifest_of(here, self.entry, table.columns, apart, chosen)
        counts = {"released": made.released, "blocks": len(made.blocks)}
        summary = summary_of(made, tables, apart, audit) | counts | {"records": made.records}
        summary["chosen"] = chosen
        if self.strangers is not None:
            counts["kept apart as the control"] = self.strangers.records
            summary["kept_apart"] = self.strangers.records
        notes = [*notes_of(made, table.columns, released), _how(made, table.sample)]
        levels = [dict(row._asdict()) for row in made.level_summary_]
        shown = {"levels": levels, "tried": [], "left_out": left_out_rows(table.columns, names)}
        self.condensed = Done(summary, shown, notes, audit.verdict, audit)
        job.refuse_bad(audit)
        told = {} if self.dialect is None else {"written as": self.dialect.told(names)}
        complete = replace(
            manifest,
            method=f"{manifest.method} in blocks",
            parameters={**manifest.parameters, **self.made_by},
            verified={**manifest.verified, "every record in exactly one block": True},
            counts={**manifest.counts, **counts},
            output={"records": made.released, "columns": names, **told},
        )
        return with_verdict(complete, audit, job.accepted), audit

    def _strangers(self, members: pl.DataFrame) -> pl.DataFrame:
        """Return some of those who are kept apart, of the classes that are attacked."""
        assert self.strangers is not None
        rows = self.strangers.sample.rows()[0]
        label = self.table.label
        return rows if label is None else rows.filter(rows[label].is_in(members[label].implode()))


def _attacked(made: PartedRelease) -> str:
    """Say who is attacked."""
    of_blocks = f"{len(made.plan.attacked)} of {counted(len(made.blocks), 'block')}"
    return (
        f"Attacks were tried on {of_blocks}, drawn by lot: the people of "
        f"{counted(made.attacked.members.height, 'record')} were looked for among all records that "
        "were drawn from them; measures of use rest on these too."
    )


def _how(made: PartedRelease, sample: Sampled) -> str:
    return (
        f"the table was condensed in {counted(len(made.blocks), 'block')} of people, drawn by lot; "
        f"ranges of numbers and rules between columns rest on a sample of {sample.rows.height:,} "
        "records, and the rules were counted in all"
    )


def _suffix(output: FilePath) -> str:
    """Return the extensions of a file name that say its format: ``.csv.gz``."""
    suffixes = Path(output).suffixes
    return "".join(suffixes[-2:]) if is_compressed(output) else suffixes[-1]
