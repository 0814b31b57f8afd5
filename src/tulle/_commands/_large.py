"""``tulle condense`` for a table larger than memory: read in batches, released in parts."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._commands._columns import (
    class_column,
    column_entries,
    column_of,
    left_out_rows,
    plan_columns,
    told_counts,
    told_source,
    unit_notes,
    unit_of,
    without_opaque,
)
from tulle._commands._decision import with_verdict
from tulle._commands._sources import source_entry
from tulle._plurals import counted
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.io._formats import (
    Format,
    display_name,
    existing_file,
    format_of,
    is_compressed,
    parts_of,
)
from tulle.table.schema import Column, Role, Schema

if TYPE_CHECKING:
    import polars as pl

    from tulle._commands.condense import Condensed, Condensing
    from tulle._large.facts import HashSample
    from tulle._large.outcome import CellRelease
    from tulle._large.plan import ReleasedClasses
    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.condense.condenser import Condenser
    from tulle.keys import SigningKey
    from tulle.releases import Manifest

Suspects = dict[str, "HashSample"]  # by column

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(i?)b?\s*", re.IGNORECASE)
_EACH = 120  # bytes that a number of a table takes while it is condensed in memory
_WORD = 8  # times as many that a word takes: each of its column's words is a coordinate
_PER_BYTE = {Format.CSV: 30, Format.NDJSON: 12}  # ... and a byte of text
_LIBRARIES = 300_000_000  # bytes that are taken before anything is read
_PACKED = 4  # times as large as it is packed
_LEAST = 100_000_000
RESTS_ON = "people that what is shown rests on, at least"
_UNTRIED = "attack the release with tulle audit"
_MEASURED = 6_000_000  # coordinates of records that a release is compared by
_REPEATED = 1.02  # rows a value from which what looks unique in a sample is not
_VALUES = 20_000  # looked at for that


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``500MB``, ``1.5 GB`` or ``2GiB``.

    >>> parse_size("500MB"), parse_size("1.5 GB"), parse_size("2GiB")
    (500000000, 1500000000, 2147483648)
    """
    found = _SIZE.fullmatch(str(text))
    if found is None:
        raise ParameterError(
            "--memory must be a size with its unit, such as 500MB or 2GB", parameter="memory"
        )
    unit = 1024 if found[3] else 1000
    size = int(float(found[1]) * unit ** ("kmgt".index(found[2].lower()) + 1))
    if size < _LEAST:
        raise ParameterError(
            "--memory must be at least 100MB: the libraries alone take more", parameter="memory"
        )
    return size


def is_large(source: FilePath, options: Condensing) -> bool:
    """Return whether a table should not be read into memory whole, by an estimate of its size."""
    with options.naming():
        given = None if options.memory is None else parse_size(options.memory)
    if format_of(source) is Format.SQL:
        return given is not None
    room = half_of_memory() if given is None else max(given - _LIBRARIES, _LEAST)
    return needed(source) > room


class Looked(NamedTuple):
    """A table to look at, or rows of it where memory does not hold it."""

    table: pl.DataFrame
    records: int  # of the whole table
    notes: list[str]  # which say so

    @property
    def sampled(self) -> bool:
        return self.table.height < self.records


def look_at(source: FilePath, seed: int | None = None) -> Looked:
    """Read a table, or draw rows of one that is larger than memory."""
    from tulle._large.facts import SAMPLE
    from tulle._large.machine import sample_rows
    from tulle._random import as_generator
    from tulle.io.read import open_table, read_table

    if format_of(source) is Format.SQL or needed(source) <= half_of_memory():
        table = read_table(source)
        return Looked(table, table.height, [])
    words = tuple(as_generator(seed).integers(2**63, size=4).tolist())
    opened = open_table(source)
    sample, records = sample_rows(opened.batches, SAMPLE, words)
    note = (
        f"the table has {records:,} records, more than memory holds: what is said here rests on "
        f"{sample.height:,} of them, drawn at random"
    )
    return Looked(sample, records, [note])


def repeated_in(source: FilePath, columns: list[Column], records: int) -> list[str]:
    """Say which columns look unique in a sample of a table but repeat in the whole."""
    from tulle.io.read import open_table

    suspects = suspects_of(columns, None, records)
    for frame in open_table(source).batches(list(suspects)) if suspects else ():
        look_for_repeated(suspects, frame, 0)
    try:
        refuse_repeated(suspects)
    except DataError as error:
        return [str(error)]
    return []


def needed(source: FilePath) -> float:
    """Estimate the bytes that condensing or attacking a table in memory takes."""
    kind = format_of(source)
    if kind is Format.EXCEL:
        return 0.0  # a sheet has a million rows at most
    parts = parts_of(source)
    if parts:
        return sum(map(needed, parts))
    path = existing_file(source)
    if kind in _PER_BYTE:
        packed = _PACKED if is_compressed(source) else 1
        return float(path.stat().st_size * _PER_BYTE[kind] * packed)
    if path.stat().st_size * 100 < _LEAST:
        return 0.0  # nothing packs that well: no need to load a library to look
    import polars as pl

    from tulle.io._formats import readable_as

    with readable_as(source, kind):
        lazy = (pl.scan_parquet if kind is Format.PARQUET else pl.scan_ipc)(path, glob=False)
        rows = int(lazy.select(pl.len()).collect().item())
        kinds = lazy.collect_schema().dtypes()
        words = sum(kind in (pl.String, pl.Categorical, pl.Enum) for kind in kinds)
        return float(rows * (len(kinds) + (_WORD - 1) * words) * _EACH)


def half_of_memory() -> float:
    """Return half of the bytes of memory that this process may use."""
    sizes = [math.inf]
    try:
        sizes.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        sizes.append(float(limit) if limit != "max" else math.inf)
    except (AttributeError, ValueError, OSError):
        pass
    return min(sizes) / 2


def refuse_in_parts(
    options: Condensing,
    *,
    report: FilePath | None,
    control: FilePath | None,
    policy: FilePath | None,
) -> None:
    """Raise for options that need the table in memory."""
    asked = {
        "--report": report is not None,
        "--control": control is not None,
        options.word("holdout"): options.holdout is not None,
        options.word("rows"): options.rows is not None,
        options.word("copies"): options.copies != 1,
        options.word("ledger"): options.ledger,
        f"{policy}: [rules]": bool(options.policy.rules),
    }
    for word in (word for word, given in asked.items() if given):
        raise ParameterError(
            f"{word} needs the whole table in memory, and this one is larger than that: drop it, "
            "or raise --memory"
        )


def condense_large(
    source: FilePath,
    output: FilePath,
    options: Condensing,
    *,
    policy: FilePath | None,
    levels: str | None,
    target: str | None,
    signer: SigningKey | None,
    sources: tuple[str, ...],
    accepted: str,
    command: str,
    force: bool,
) -> Condensed:
    """Condense a table in cells and write the release as a folder of parts.

    It is not attacked: a part of a release understates the risk of the whole.
    """
    from tulle._large.machine import Budget, condense_batches, sample_rows
    from tulle._threads import cores
    from tulle.io.read import open_table

    refuse_single_file(output)
    opened = open_table(source)
    limit = int(half_of_memory()) if options.memory is None else parse_size(options.memory)
    budget = Budget.of(limit, cores(), len(opened.schema))
    seed = seed_words(options)
    sample, records = sample_rows(opened.batches, budget.sample, seed)
    if not records:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, records)
    columns = plan_columns(sample, options, target=target, levels=levels)
    suspects = suspects_of(columns, policy, records)
    for frame in opened.batches(list(suspects)) if suspects else ():
        look_for_repeated(suspects, frame, seed[2])
    refuse_repeated(suspects)
    table = plan_table(sample, records, columns, options)

    def run(folder: Path, parts: WrittenParts) -> CellRelease:
        return condense_batches(
            lambda: opened.batches(table.sample.columns),
            table.schema,
            table.decide,
            lambda number, frame: parts.take(parts.writer.write(folder, number, frame)),
            target=table.label,
            sample=table.sample,
            records=records,
            budget=budget,
            seed=seed,
        )

    with options.naming(**table.names):
        return write_in_parts(
            output, table, run, entry=entry, context=dict(options.policy.context),
            accepted=accepted,
            command=command, sources=sources, signer=signer, force=force,
        )[0]  # fmt: skip


def refuse_single_file(output: FilePath) -> None:
    """Raise for a release that cannot be a folder of files."""
    if format_of(output) in (Format.EXCEL, Format.SQL):
        raise ParameterError(
            "a release of many parts is a folder of files: name --output .parquet, .arrow, .csv "
            "or .ndjson, or raise --memory"
        )


def seed_words(options: Condensing) -> tuple[int, ...]:
    """Return the secret that everything random in a release of many parts follows from."""
    from tulle._random import as_generator

    return tuple(as_generator(options.seed).integers(2**63, size=4).tolist())


@dataclass(frozen=True)
class LargeTable:
    """A table that is not held in memory: rows of it, and what is decided about its columns."""

    sample: pl.DataFrame  # without columns that cannot be released
    records: int
    columns: list[Column]  # all of them
    known: list[Column]  # those of the sample
    label: str | None  # the column of classes
    condenser: Condenser  # without the size of its groups
    options: Condensing

    @property
    def schema(self) -> Schema:
        """Return the columns with their roles, without the classes."""
        return Schema.of(self.condenser.columns, self.sample.drop(self.label or []))

    @property
    def names(self) -> dict[str, str]:
        """Return what errors call the parameters that the user does not know."""
        levels = column_of(self.known, Role.LEVEL)
        names = {} if levels is None else {"levels": f"the levels in column '{levels.name}'"}
        if self.label is not None:
            names["y"] = f"the target '{self.label}'"
        elif self.options.k is None and self.options.min_group is not None:
            names["k"] = self.options.word("min_group")
        return names

    def decide(self, units: pl.DataFrame) -> tuple[ReleasedClasses, Condenser]:
        """Return the classes to release, and the condenser with the size of its groups."""
        return _decide(units, self.label, self.condenser, self.options, self.known)


def plan_table(
    sample: pl.DataFrame, records: int, columns: list[Column], options: Condensing
) -> LargeTable:
    """Return what is decided about a table, or raise if cells cannot meet what is asked."""
    from tulle._commands.condense import condenser_of, refuse_unused

    refuse_unused(sample, columns, options)
    _refuse_demands(columns)
    sample = without_opaque(sample, columns)
    known = [column for column in columns if column.name in sample.columns]
    classes = class_column(known, sample)
    label = None if classes is None else classes.name
    condenser = condenser_of(known, classes, (), options).set_params(random_state=None)
    return LargeTable(sample, records, columns, known, label, condenser, options)


Run = Callable[[Path, "WrittenParts"], "CellRelease"]


def write_in_parts(
    output: FilePath,
    table: LargeTable,
    run: Run,
    *,
    entry: dict[str, Any],
    context: dict[str, str],
    accepted: str,
    command: str,
    sources: tuple[str, ...],
    signer: SigningKey | None,
    force: bool,
    made_by: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Condensed, Manifest]:
    """Write a release of many parts, with what ``run`` puts into its folder, or nothing.

    ``made_by`` goes into the manifest's parameters.
    """
    from tulle._commands.condense import Condensed
    from tulle.releases import write_parts

    parts = WrittenParts(
        PartWriter(str(output), table.sample.columns, table.sample.height / table.records)
    )
    made: list[Any] = []

    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        outcome = run(folder, parts)
        found = _measured(table, outcome, parts, context, accepted, command)
        made.extend([outcome, found])
        manifest = _manifest(table, outcome, parts, entry, made_by)
        return with_verdict(manifest, found, accepted), parts.entries

    manifest = write_parts(output, put, sources=sources, sign_key=signer, force=force)
    outcome, found = made
    notes = [*unit_notes(table.columns), *outcome.notes, *_how(outcome, table.sample.height)]
    summary = _summary(outcome, parts, found)
    left_out = left_out_rows(table.columns)
    return Condensed(summary, _levels(outcome), left_out, notes, found), manifest


def _measured(
    table: LargeTable,
    outcome: CellRelease,
    parts: WrittenParts,
    context: dict[str, str],
    accepted: str,
    command: str,
) -> Audit:
    """Return what can be said of the release from a sample of the table and of its parts."""
    from tulle.auditing._tables import align_made
    from tulle.auditing.audit import unaudited

    release = parts.sample()
    every = max(1, math.ceil(release.height * outcome.plan.dimensions / _MEASURED))
    release, sample = release.gather_every(every), table.sample.gather_every(every)
    tables = align_made(sample, release, None, table.columns)
    k = max(min(outcome.rests_on.values()), 2)
    return unaudited(tables, k=k, title="Condensed table").extended(
        untried=_UNTRIED,
        context=context,
        accepted_risk=accepted,
        smallest_group=min(outcome.rests_on.values()),
        command=command,
    )


def _refuse_demands(columns: list[Column]) -> None:
    """Raise for demands on sensitive columns, which are met by groups of the whole table."""
    asked = [c.name for c in columns if c.diversity is not None or c.closeness is not None]
    if asked:
        raise ParameterError(
            f"the column '{asked[0]}' has a diversity or closeness, which needs the whole table in "
            "memory: raise --memory, or leave these demands out"
        )


class WrittenPart(NamedTuple):
    """A part that lies in the folder of a release, and some of its records."""

    number: int
    name: str
    entry: dict[str, Any]
    some: pl.DataFrame


class PartWriter(NamedTuple):
    """How a part is written: by a thread of this process or on another machine."""

    output: str
    columns: list[str]  # in their order
    share: float  # of the records that are kept to measure the release with

    def write(self, folder: Path, number: int, frame: pl.DataFrame) -> WrittenPart:
        """Write a part, and keep some of its records."""
        from tulle.io.write import put_table
        from tulle.releases import write_part

        frame = frame.select(name for name in self.columns if name in frame.columns)
        name = f"part-{number:05d}{_suffix(self.output)}"
        entry = write_part(folder, name, frame.height, lambda file: put_table(frame, file, name))
        # gathered: a slice would keep the whole part in memory
        some = frame[list(range(math.ceil(frame.height * self.share)))]
        return WrittenPart(number, name, entry, some)


class WrittenParts:
    """The parts of a release that are written."""

    def __init__(self, writer: PartWriter) -> None:
        self.writer = writer
        self.entries: dict[str, Any] = {}
        self._some: dict[int, pl.DataFrame] = {}

    @property
    def columns(self) -> list[str]:
        """Return the columns of the release."""
        return self._some[0].columns

    def take(self, part: WrittenPart) -> None:
        """Take note of a part."""
        self.entries[part.name] = part.entry
        self._some[part.number] = part.some

    def sample(self) -> pl.DataFrame:
        """Return records of all parts, each part by its share."""
        import polars as pl

        return pl.concat([self._some[number] for number in sorted(self._some)])


def _suffix(output: FilePath) -> str:
    """Return the extensions of a file name that say its format: ``.csv.gz``."""
    suffixes = Path(output).suffixes
    return "".join(suffixes[-2:]) if is_compressed(output) else suffixes[-1]


def suspects_of(columns: list[Column], policy: FilePath | None, records: int) -> Suspects:
    """Return an empty sample for each column that looks unique in a sample of the table.

    It may name people with several rows, who would then be counted once for each row.
    """
    from tulle._large.facts import HashSample

    if policy is not None or any(c.role is Role.PERSON for c in columns):
        return {}
    names = [c.name for c in columns if c.role is Role.IDENTIFIER]
    return {name: HashSample.of_table(_VALUES, records) for name in names}


def look_for_repeated(suspects: Suspects, frame: pl.DataFrame, seed: int) -> None:
    """Take in the values of a batch."""
    from tulle._large.facts import person_keys

    for name, sample in suspects.items():
        present = frame.select(name).drop_nulls()
        sample.add(present, person_keys(present[name], seed))


def refuse_repeated(suspects: Suspects) -> None:
    """Raise if the values of a column that looked unique repeat in the table."""
    for name, sample in suspects.items():
        values = sample.rows()[0][name]
        if len(values) > _REPEATED * values.n_unique():
            raise DataError(
                f"column '{name}' looks like an identifier, but its values repeat: about "
                f"{len(values) / values.n_unique():.1f} rows each. If it names people with several "
                'rows, state so in a policy (role = "person"), else that it is an identifier'
            )


def _decide(
    units: pl.DataFrame,
    label: str | None,
    condenser: Condenser,
    options: Condensing,
    columns: list[Column],
) -> tuple[ReleasedClasses, Condenser]:
    """Return the classes to release, and the condenser with the size of its groups."""
    import numpy as np
    import polars as pl

    from tulle._commands.condense import group_size
    from tulle._large.plan import ReleasedClasses
    from tulle.condense._classes import labels_of
    from tulle.table._frames import enter_column

    level = column_of(columns, Role.LEVEL)
    if label is None:
        size = 2 if level is not None else group_size(options)
        total = np.array([int(units["rows"].sum())])
        return ReleasedClasses(None, pl.Series([]), total), condenser.set_params(k=size)
    labels_of(*enter_column(units[label]))  # refuses missing ones
    asked = pl.lit(0) if level is None else pl.col(level.name)
    table = units.group_by(label).agg(pl.col("rows").sum(), asked.max().alias("level")).sort(label)
    k = options.k if level is None else 2
    least = k if k is not None else options.min_group or 10
    small = table.filter(pl.col("rows") < pl.max_horizontal("level", pl.lit(least)))
    if small.height and (options.small_classes != "suppress" or small.height == table.height):
        raise PrivacyError(
            f"{small.height} of {table.height} classes have fewer records than a group needs: "
            "lower it, withhold them with --small-classes suppress, or raise --memory so that "
            "they can be pooled",
            parameter="y",
        )
    kept = table.filter(pl.col("rows") >= pl.max_horizontal("level", pl.lit(least)))
    counts = kept["rows"].cast(pl.Int64).to_numpy()
    if k is None:
        from tulle.condense import approximate_gcd

        person = column_of(columns, Role.PERSON)
        k = least if person is not None else approximate_gcd(counts.tolist(), least)
    return ReleasedClasses(label, kept[label], counts), condenser.set_params(k=k)


def _levels(outcome: CellRelease) -> list[dict[str, Any]]:
    return [dict(row._asdict()) for row in outcome.groups.level_summary]


def _how(outcome: CellRelease, sample: int) -> list[str]:
    """Return how the release was made, and what was left undone."""
    return [
        f"the table was condensed in {counted(len(outcome.cells), 'cell')}; scales, ranges and "
        f"stretches of numbers rest on a sample of {sample:,} records, and so does covariance "
        "compatibility",
        "rules between columns were neither looked for nor kept: that needs the whole table in "
        "memory",
    ]


def _summary(outcome: CellRelease, parts: WrittenParts, found: Audit) -> dict[str, Any]:
    import numpy as np

    groups = outcome.groups
    return {
        "records": outcome.records,
        "released": outcome.released,
        "columns_released": len(parts.columns),
        "cells": len(outcome.cells),
        "groups": len(groups.counts),
        "smallest_group": int(groups.counts.min()),
        "median_group": float(np.median(groups.counts)),
        "largest_group": int(groups.counts.max()),
        "information_loss": groups.loss,
        "covariance_compatibility": found.result["metrics"].get(
            "covariance_compatibility", math.nan
        ),
        "degenerate_groups": groups.degenerate,
        "suppressed": groups.suppressed,
        "verbatim": groups.verbatim,
    }


def _manifest(
    table: LargeTable,
    outcome: CellRelease,
    parts: WrittenParts,
    source: dict[str, Any],
    made_by: Mapping[str, Any],
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    k = None if column_of(table.columns, Role.LEVEL) is not None else outcome.k
    by_class = outcome.classes.name is not None
    return Manifest(
        method="class-wise condensation in cells" if by_class else "condensation in cells",
        parameters={n: v for n, v in table.options.values().items() if n != "seed"}
        | {"k": k, "unit": unit_of(table.columns), **made_by},
        guarantee={
            "every group at least as large as its members' levels": True,
            **({} if k is None else {RESTS_ON: outcome.rests_on}),
        },
        verified={
            "groups at least as large as their levels": outcome.groups.valid,
            "every record in exactly one cell": True,
            "sums of all cells are those of the table": True,
        },
        counts={
            "released": outcome.released,
            "cells": len(outcome.cells),
            **told_counts(outcome.groups, k),
        },
        columns=column_entries(table.columns, declared=table.options.declared),
        source=told_source(source, table.options),
        output={"records": outcome.released, "columns": parts.columns},
        seed=seed_policy(table.options.seed),
    )
