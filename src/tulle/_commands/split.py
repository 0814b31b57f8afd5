"""``tulle split``: a table in, its members and a control out."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from tulle._commands._columns import column_of
from tulle._commands._decision import Done
from tulle._commands._linked import file_of, is_linked, open_linked, refuse_no_folder, suffix_of
from tulle._commands._options import Options
from tulle._commands._sources import check_files
from tulle._random import as_generator, spawn
from tulle._types import FilePath
from tulle.errors import DataError, OutputExists, ParameterError
from tulle.guessing.columns import infer_columns
from tulle.io._formats import display_name, existing_file, format_of
from tulle.io.read import read_schema, read_written
from tulle.io.write import write_table
from tulle.table.policy import Policy, load_policy
from tulle.table.schema import Column, Role
from tulle.table.split import Rows, split_rows


def split_file(
    source: FilePath,
    output: FilePath,
    *,
    control: FilePath,
    share: float = 0.1,
    policy: FilePath | None = None,
    person: str | None = None,
    target: str | None = None,
    seed: int | None = None,
    force: bool = False,
) -> Done:
    """Write the members and the control of a table, each in the format that its name says."""
    if is_linked(source, Policy() if policy is None else load_policy(existing_file(policy))):
        return _split_linked(source, output, control, share, policy, person, target, seed, force)
    for file in (source, output, control):
        format_of(file)
    reads = {"INPUT": source, "--policy": policy}
    writes = {"--output": output, "--control": control}
    check_files(reads, writes=writes, folders=("INPUT",), force=force)

    table, dialect = read_written(source)
    if table.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to split")
    columns = known_columns(table, policy)
    person = person or _name(columns, Role.PERSON)
    target = target or (_name(columns, Role.TARGET) if policy is not None else None)
    rows = split_rows(table, share, person=person, target=target, random_state=seed)
    for part, file in ((rows.members, output), (rows.control, control)):
        write_table(table[part], file, like=dialect, private=True, force=force)
    notes = [
        *_unread(table, output),
        "Release the members only; keep the control as carefully as the data. "
        f"Next: tulle condense {display_name(output)} -o RELEASE --control {display_name(control)}",
    ]
    return Done(summary_of(rows, person, target), {}, notes)


def _split_linked(
    source: FilePath,
    output: FilePath,
    control: FilePath,
    share: float,
    policy: FilePath | None,
    person: str | None,
    target: str | None,
    seed: int | None,
    force: bool,
) -> Done:
    """Write two folders with all tables, each person in one of them with all rows."""
    for word, given in (("--person", person), ("--target", target)):
        if given is not None:
            raise ParameterError(
                f"{word} is for a single table: [people] of the policy counts here"
            )
    folders = {"--output": output, "--control": control}
    for word, folder in folders.items():
        refuse_no_folder(folder, word)
        if os.path.isdir(folder) and os.listdir(folder) and not force:
            raise OutputExists(f"{folder} holds files already: pass --force to replace them")
    check_files({"INPUT": source, "--policy": policy}, databases=("INPUT",), force=force)
    if len({os.path.realpath(path) for path in (source, output, control)}) < 3:
        raise ParameterError("INPUT, --output and --control must be three different folders")
    known = Policy() if policy is None else load_policy(policy)
    whole = open_linked(source, known, policy)
    halves, suffix = whole.divided(share, seed), suffix_of(source)
    with ExitStack() as hidden:  # what is interrupted leaves nothing
        places = []
        for folder, half in zip(folders.values(), halves):
            parent = Path(folder).parent
            place = Path(hidden.enter_context(TemporaryDirectory(prefix=".tulle-", dir=parent)))
            for name, frame in half.frames.items():
                write_table(frame, place / file_of(name, suffix), private=True)
            places.append((place, Path(folder)))
        for place, there in places:
            there.mkdir(mode=0o700, exist_ok=True)
            for file in list(place.iterdir()):
                os.replace(file, there / file.name)
    counts = [half.database.n_people for half in halves]
    summary = {"members": counts[0], "control": counts[1], "people": sum(counts),
               "tables": len(whole.frames), "person": known.people.key}  # fmt: skip
    next_step = (
        "Release the members only; keep the control as carefully as the data. Next: tulle condense "
        f"{output} -o RELEASE --control {control} --policy {policy}"
    )
    return Done(summary, {}, [*whole.notes(), next_step])


def drawn_apart(
    table: pl.DataFrame,
    columns: list[Column],
    options: Options,
    share: float | str | None,
    seed: int | None,
) -> Rows | None:
    """Return which rows a command keeps out of its release, if a share of them is asked for."""
    if share is None:
        return None
    # a generator of its own: with the same seed, the members are condensed as they were before
    rng = spawn(as_generator(seed), 1)[0]
    person, target = _name(columns, Role.PERSON), _name(columns, Role.TARGET)
    with options.naming(share=options.word("holdout")):
        return split_rows(table, share, person=person, target=target, random_state=rng)


def known_columns(table: pl.DataFrame, policy: FilePath | None) -> list[Column]:
    declared = [] if policy is None else load_policy(policy, table.columns).resolve(table.columns)
    return declared or infer_columns(table)


def summary_of(rows: Rows, person: str | None, target: str | None) -> dict[str, Any]:
    summary: dict[str, Any] = {"members": len(rows.members), "control": len(rows.control)}
    if person is not None:
        summary |= {"people": rows.people, "people_in_the_control": rows.controls}
    return summary | {"person": person, "target": target}


def _name(columns: list[Column], role: Role) -> str | None:
    found = column_of(columns, role)
    return None if found is None else found.name


def _unread(table: pl.DataFrame, output: FilePath) -> list[str]:
    """Say which columns a file without types gives back in another type: the rest decided it."""
    found = read_schema(output)
    other = [name for name in table.columns if found[name] != table.schema[name]]
    if not other:
        return []
    shown = ", ".join(f"'{name}'" for name in other[:5]) + (", ..." if other[5:] else "")
    return [
        f"{len(other)} columns of {display_name(output)} read as another type than in the whole "
        f"table ({shown}): state their kinds in a policy, or write Parquet"
    ]
