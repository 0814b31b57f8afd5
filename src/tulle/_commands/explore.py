"""``tulle explore``: a table in, a folder with the frontier of its releases out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tulle._choices import GATES
from tulle._commands._columns import plan_columns, without_opaque, words_of
from tulle._commands._condensing import Condensing
from tulle._commands._database import made_linked
from tulle._commands._linked import LinkedTables, is_linked, open_linked
from tulle._commands._memory import look_at
from tulle._commands._options import Gates, resolve
from tulle._commands._sources import check_files
from tulle._random import as_generator, spawn
from tulle._types import FilePath
from tulle.auditing._database import ComparedPeople
from tulle.auditing._learning import utility
from tulle.errors import DataError, GateError, ParameterError, PrivacyError
from tulle.exploring import Exploration, explore
from tulle.exploring._page import share_words
from tulle.exploring._points import (
    Folder,
    Point,
    PointSettings,
    Spec,
    data_digest,
    is_quick,
    judged,
    planned,
    point_name,
)
from tulle.exploring.explore import explored, settled_seed, share_apart
from tulle.io._formats import display_name, format_of
from tulle.io.read import codes_as_text, read_like
from tulle.table.schema import Column

_NO_FRONTIER = ("synthesis", "task", "scoring")  # of a single table


@dataclass(frozen=True)
class Exploring(Gates):
    """The options of ``tulle explore``."""

    k: Sequence[int] = (3, 5, 10, 20, 50, 100)
    synthesis: Sequence[str] = ("shape", "uniform")
    task: str = "predict"
    scoring: str | None = None
    holdout: float | str | None = None
    attempts: int | None = None
    seed: int | None = None


def explore_file(
    source: FilePath,
    output: FilePath,
    *,
    target: str | None = None,
    control: FilePath | None = None,
    policy: FilePath | None = None,
    quick: bool = False,
    command: str = "",
    progress: Callable[[Point, int, int], None] | None = None,
    **given: Any,
) -> Exploration:
    """Measure releases of a table file; the folder ``output`` gets the points and the page.

    ``control`` are people who are not in the table; otherwise the option ``holdout`` keeps some of
    them out. Options left at None follow the section ``[explore]`` of the policy, else the
    defaults.
    """
    options = resolve("explore", Exploring(), policy, given)
    linked = is_linked(source, options.policy)
    if not linked:
        format_of(source)
    reads = {"INPUT": source, "--policy": policy, "--control": control}
    check_files(reads, folders=("INPUT", "--control"), force=True)
    if control is not None and options.on_command_line("holdout"):
        raise ParameterError(
            "--control names the people who are kept apart, --holdout draws them: give one of the "
            "two"
        )
    if linked:
        return _explore_linked(
            source, output, options, control=control, target=target, quick=quick, command=command,
            progress=progress,
        )  # fmt: skip
    looked = look_at(source, options.seed or 0)  # the same rows when it goes on
    table = looked.table
    if table.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to explore")
    columns = plan_columns(table, options, target=target)
    table, columns = without_opaque(table, columns)
    table, strangers = _with_control(table, source, control, columns)
    limits = {name: getattr(options, name, None) for name in GATES}
    gates = {name: limit for name, limit in limits.items() if limit is not None}
    with options.naming(methods=options.word("synthesis"), random_state=options.word("seed")):
        return explore(
            table,
            output,
            control=strangers,
            holdout=options.holdout,
            columns=columns,
            k=options.k,
            methods=options.synthesis,
            task=options.task,
            scoring=options.scoring,
            gates=gates,
            attempts=options.attempts,
            rounds=("quick",) if quick else ("quick", "whole"),
            random_state=options.seed,
            command=". ".join([command, *looked.notes]),
            progress=progress,
        )


def _with_control(
    table: pl.DataFrame, source: FilePath, control: FilePath | None, columns: list[Column]
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the table and, if there is a file of them, people who are not in it."""
    if control is None:
        return table, None
    outside = read_like(control, table, source, table.columns)
    table, outside = codes_as_text([table, outside], (source, control), words_of(columns))
    return table, outside


def _explore_linked(
    source: FilePath,
    output: FilePath,
    options: Exploring,
    *,
    control: FilePath | None,
    target: str | None,
    quick: bool,
    command: str,
    progress: Callable[[Point, int, int], None] | None,
) -> Exploration:
    """Measure releases of linked tables at several k; ``output`` gets the points and the page."""
    words = ["--target"] if target is not None else []
    words += [options.word(name) for name in _NO_FRONTIER if name in options.words]
    if words:
        raise ParameterError(f"{words[0]} is for a single table, not for linked ones: drop it")
    members = open_linked(source, options.policy, options.policy_file)
    place = Folder(output)
    seed = settled_seed(options.seed, place)
    if control is not None:
        apart = open_linked(control, options.policy, options.policy_file, like=members)
    else:
        share = options.holdout or share_apart(members.database.n_people)
        with options.naming(share=options.word("holdout")):
            members, apart = members.divided(share, spawn(as_generator(seed), 1)[0])
    given = resolve("condense", Condensing(), options.policy_file, {"seed": seed})
    asked = {name: getattr(options, name, None) for name in GATES}
    limits = {name: float(limit) for name, limit in asked.items() if limit is not None}
    settings = PointSettings(seed, attempts=options.attempts, limits=limits)
    tables = [*members.database.tables.values(), *apart.database.tables.values()]
    digest = data_digest(tables, (members.columns, members.arguments, given.values()))
    specs = planned("quick" if quick else "whole", sorted({*options.k}), [("shape", False)],
                    members.database.n_people)  # fmt: skip
    names = {spec: point_name(spec, settings, digest) for spec in specs}
    work = [
        (spec, name, partial(_linked_point, name, spec, members, apart, given, settings))
        for spec, name in names.items()
    ]
    return explored(work, place, command, progress)


def _linked_point(
    name: str,
    spec: Spec,
    members: LinkedTables,
    apart: LinkedTables,
    given: Condensing,
    settings: PointSettings,
) -> Point:
    """Make a release of linked tables, or the reference in its place, attack it and use it."""
    rng, people = np.random.default_rng(settings.seed), members.database.n_people
    frames: Mapping[str, Any] = members.database.tables
    try:
        if spec.is_release:
            frames = made_linked(members, apart, replace(given, k=spec.k)).frames
    except (DataError, PrivacyError) as error:
        return Point(name, spec, people, error=str(error))
    if spec.share is not None:
        frames = members.of(rng.permutation(people)[: round(spec.share * people)]).frames
    elif spec.method == "shuffled":
        frames = {table: _shuffled(frame, members.columns.get(table, ()), rng)
                  for table, frame in frames.items()}  # fmt: skip
    released = members.like(frames)
    compared = ComparedPeople(members.database, released, apart.database, members.columns)
    used = utility(compared.aligned(is_quick(spec))[0], None, None, rng)
    made = Point(name, spec, people, released.n_people)
    return judged(made, compared, used, settings, {})


def _shuffled(frame: pl.DataFrame, columns: Sequence[Column], rng: Any) -> pl.DataFrame:
    """Return a table in which columns have nothing to do with each other."""
    return frame.with_columns(
        frame[column.name].gather(rng.permutation(frame.height))
        for column in columns
        if column.role.released
    )


def check_gated(found: Exploration) -> None:
    """Raise an error if gates were asked for and no release passes them."""
    gated = any(point.gates for point in found.latest)
    if gated and found.k is None:
        raise GateError(f"no release passes the gates. {found.choice.reason}")


def shown_rows(found: Exploration) -> list[dict[str, Any]]:
    """Return the points as rows for a terminal: what fits there."""
    return [
        {
            "release": f"{row['release']} *" if row["chosen"] else row["release"],
            "risk": _share(row["risk"]),
            "utility": row["utility"],
            "as_useful_as": _share(row["as_useful_as"]),
            "as_risky_as": _share(row["as_risky_as"]),
            "privacy": "not possible" if row["error"] else row["privacy"],
        }
        for row in found.rows()
    ]


def _share(value: float | None) -> str | None:
    return None if value is None else share_words(value)
