"""``tulle explore``: a table in, a folder with the frontier of its releases out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tulle._choices import GATES
from tulle._commands._columns import plan_columns, without_opaque, words_of
from tulle._commands._linked import is_linked
from tulle._commands._memory import look_at
from tulle._commands._options import Gates, resolve
from tulle._commands._sources import check_files
from tulle.errors import DataError, GateError, ParameterError
from tulle.io._formats import display_name, format_of

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.exploring import Exploration
    from tulle.exploring._points import Point
    from tulle.table.schema import Column


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
        from tulle._commands._database import explore_linked

        return explore_linked(
            source, output, options, control=control, target=target, quick=quick, command=command,
            progress=progress,
        )  # fmt: skip
    from tulle.exploring import explore

    looked = look_at(source, options.seed or 0)  # the same rows when it goes on
    table = looked.table
    if table.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to explore")
    columns = plan_columns(table, options, target=target)
    table = without_opaque(table, columns)
    columns = [column for column in columns if column.name in table.columns]
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
    from tulle.io.read import codes_as_text, read_like

    outside = read_like(control, table, source, table.columns)
    table, outside = codes_as_text([table, outside], (source, control), words_of(columns))
    return table, outside


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
    from tulle.exploring._page import share_words

    return None if value is None else share_words(value)
