"""``tulle baseline``: a table in, a randomised or generalised one with manifest and verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._checks import check_choice, check_flag
from tulle._choices import BASELINES
from tulle._commands._columns import (
    column_entries,
    left_out_rows,
    plan_columns,
    unit_notes,
    without_opaque,
)
from tulle._commands._condensed import compared
from tulle._commands._condensing import divided
from tulle._commands._decision import Job, refuse_two_controls
from tulle._commands._options import Options, resolve
from tulle._commands._sources import source_entry
from tulle._commands.split import drawn_apart
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, format_of
from tulle.table.schema import Column

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.releases import Manifest

LIMITS = {
    "randomize": (
        "A record with an unusual combination of values: noise blurs each value, not the person.",
        "Columns that follow from each other: noise averages out over them.",
    ),
    "generalize": (
        "Sensitive columns and the target: they are released as they are.",
        "What all members of a group share.",
    ),
}
_HELD = {
    "generalize": "every record looks like at least k - 1 others in the columns that others may "
    "know",
    "randomize": "every column has noise of the stated spread, or changes by the stated chance",
}
_OF = {"noise": "randomize", "keep": "randomize", "k": "generalize"}


@dataclass(frozen=True)
class Comparing(Options):
    """The options of ``tulle baseline``."""

    method: str = "generalize"
    k: int = 10
    noise: float = 0.5
    keep: float = 0.8
    holdout: float | str | None = None
    plain: bool = False  # CSV in the normalised form, not in that of the source
    seed: int | None = None


class Baseline(NamedTuple):
    """The outcome of a finished release."""

    summary: dict[str, Any]
    left_out: list[dict[str, str]]
    notes: list[str]
    audit: Audit


def baseline(
    source: FilePath,
    output: FilePath,
    *,
    policy: FilePath | None = None,
    target: str | None = None,
    report: FilePath | None = None,
    control: FilePath | None = None,
    sign_key: FilePath | None = None,
    accept_risk: str | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Baseline:
    """Randomise or generalise a table file, audit the release, and write it unless it is bad."""
    format_of(source), format_of(output)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        folders=("INPUT", "--control"), force=force,
    )  # fmt: skip
    options = resolve("baseline", Comparing(), policy, given)
    _refuse_contradictions(options, control)

    from tulle.auditing.audit import audited
    from tulle.io._statistics_files import shown_in
    from tulle.io.read import read_written

    original, dialect = read_written(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to release")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, options, target=target)
    original = without_opaque(original, columns)
    known = [column for column in columns if column.name in original.columns]
    apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    with options.naming():
        release, counts = _released(original, known, options)
    tables = compared(original, release, source, control, strangers, columns)
    quick = report is None
    found = audited(tables, options.seed, k=options.k, title="Baseline", quick=quick).extended(
        limits=list(LIMITS[options.method]),
        command=command,
        context=dict(options.policy.context),
        accepted_risk=job.accepted,
    )
    manifest = _manifest(entry, original, release, columns, options, counts)
    job.write(release, manifest, found, None if options.plain else shown_in(dialect, release))
    summary = {"records": original.height, "columns_released": release.width, **counts}
    return Baseline(summary, left_out_rows(columns), unit_notes(columns), found)


def _refuse_contradictions(options: Comparing, control: FilePath | None) -> None:
    with options.naming():
        check_choice("baseline", "method", options.method, BASELINES)
        check_flag("baseline", "plain", options.plain)
    refuse_two_controls(options, control)
    for name, method in _OF.items():
        if options.on_command_line(name) and options.method != method:
            raise ParameterError(f"is for --method {method}", subject=options.word(name))


def _released(
    original: pl.DataFrame, columns: list[Column], options: Comparing
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the release, and what can be counted about it."""
    if options.method == "generalize":
        from tulle.baselines.generalize import generalize

        made = generalize(original, options.k, columns=columns, means=True)
        sizes = made.counts
        return made.release, {
            "groups": len(sizes),
            "smallest_group": int(sizes.min()),
            "generalisation_loss": made.loss,
        }
    from tulle.baselines.randomize import randomize

    drawn = randomize(
        original,
        noise=options.noise,
        keep=options.keep,
        columns=columns,
        random_state=options.seed,
    )
    return drawn.release, {
        "columns_with_noise": len(drawn.spreads),
        "columns_by_chance": len(drawn.domains),
    }


def _manifest(
    source: dict[str, Any],
    original: pl.DataFrame,
    release: pl.DataFrame,
    columns: list[Column],
    options: Comparing,
    counts: dict[str, Any],
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    generalised = options.method == "generalize"
    held = _HELD[options.method]
    if generalised:
        holds = counts["smallest_group"] >= options.k
    else:
        holds = counts["columns_with_noise"] + counts["columns_by_chance"] == release.width
    used = [name for name, method in _OF.items() if method == options.method]
    return Manifest(
        method="generalisation" if generalised else "randomisation",
        parameters={name: getattr(options, name) for name in used},
        guarantee={held: True},
        verified={held: holds},
        counts={"records": original.height, "released": release.height, **counts},
        columns=column_entries(columns, declared=options.declared),
        source=source,
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(options.seed),
    )
