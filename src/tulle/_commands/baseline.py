"""``tulle baseline``: a table in, one of the older techniques with manifest and verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import BASELINES
from tulle._commands._columns import (
    column_entries,
    left_out_rows,
    plan_columns,
    unit_notes,
    without_opaque,
)
from tulle._commands._condensed import compared_frames
from tulle._commands._condensing import divided
from tulle._commands._decision import Done, Job, refuse_two_controls
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files, source_entry
from tulle._commands.split import drawn_apart
from tulle._random import as_generator, seed_policy
from tulle._report.model import Given, Judgement, Verdict
from tulle._types import FilePath
from tulle.auditing._tables import align_made
from tulle.auditing.audit import audited
from tulle.baselines.generalize import generalize
from tulle.baselines.randomize import randomize, shares_of_numbers, shares_of_values
from tulle.baselines.rotate import rotate, turned_back
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, format_of
from tulle.io._statistics_files import shown_in
from tulle.io.read import read_table, read_written
from tulle.io.write import write_table
from tulle.releases import Manifest, read_manifest
from tulle.table.schema import Column, Role

RANDOMISED = "randomisation"
LIMITS = {
    "randomize": (
        "A record with an unusual combination of values: noise blurs each value, not the person.",
        "Columns that follow from each other: noise averages out over them.",
    ),
    "generalize": (
        "Sensitive columns and the target: they are released as they are.",
        "What all members of a group share.",
    ),
    "rotate": (
        "Anything, from someone who knows as many records as there are dimensions: the attacks are "
        "on the table that somebody with twice as many turns back.",
        "The target: it is released as it is, row by row.",
    ),
}
_HELD = {
    "generalize": "every record looks like at least k - 1 others in the columns that others may "
    "know",
    "randomize": "every column has noise of the stated spread, or changes by the stated chance",
    "rotate": "no column of the release is one of the table's, but for the target",
}
_DONE = {"generalize": "generalisation", "randomize": RANDOMISED, "rotate": "rotation"}
_OF = {
    "noise": ("randomize", "rotate"),
    "keep": ("randomize",),
    "k": ("generalize",),
    "components": ("rotate",),
}
_DISTANCES: Judgement = {
    "level": "undecided",
    "reason": "Not measured: the new columns mean nothing by themselves. Distances between records "
    "stay, about so where dimensions are dropped or noise is added.",
    "next": "Mine it by distances only: nearest neighbours, clusters, support vectors.",
    "details": [],
}


_CONDENSE = "or make the release with tulle condense."
_STEPS = {  # by method: what takes more risk away, and what costs less
    "generalize": (f"Take a larger --k, {_CONDENSE}", f"Take a smaller --k, {_CONDENSE}"),
    "randomize": (
        f"Raise --noise and lower --keep, {_CONDENSE}",
        "Lower --noise and raise --keep if the privacy verdict allows it, mine the distributions "
        f"that --recover tells, {_CONDENSE}",
    ),
    "rotate": (
        "Add noise (--noise 0.3) or drop dimensions (--components): a rotation alone keeps every "
        "distance, so that who knows some of the people can turn it back.",
        "",
    ),
}


@dataclass(frozen=True)
class Comparing(Options):
    """The options of ``tulle baseline``."""

    method: str = "generalize"
    k: int = 10
    noise: float | None = None  # 0.5 of randomize; rotate: 0
    keep: float = 0.8
    components: int | None = None
    holdout: float | str | None = None
    plain: bool = False  # CSV in the normalised form, not in that of the source
    seed: int | None = None


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
) -> Done:
    """Change a table file by an older technique, audit it, and write it unless it is bad."""
    format_of(source), format_of(output)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        folders=("INPUT", "--control"), force=force,
    )  # fmt: skip
    options = resolve("baseline", Comparing(), policy, given)
    _refuse_contradictions(options, control)

    original, dialect = read_written(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to release")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, options, target=target)
    original, known = without_opaque(original, columns)
    apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    with options.naming():
        release, counts, made_with = _released(original, known, options)
    seen = release
    if options.method == "rotate":
        seen = turned_back(original, release, known, as_generator(options.seed))
    frames = compared_frames(original, seen, source, control, strangers, columns)
    tables = align_made(*frames, columns)
    quick = report is None
    own: Given = {"use": _DISTANCES} if options.method == "rotate" else {}
    audit = audited(tables, options.seed, k=options.k, title="Baseline", quick=quick).extended(
        limits=list(LIMITS[options.method]),
        verdict=own,
        command=command,
        context=dict(options.policy.context),
        accepted_risk=job.accepted,
    )
    audit = audit.extended(verdict=_advised(audit.verdict, options.method))
    manifest = _manifest(entry, original, release, columns, options, counts, made_with)
    job.write(release, manifest, audit, None if options.plain else shown_in(dialect, release))
    summary = {"records": original.height, "columns_released": release.width, **counts}
    shown = {"left_out": left_out_rows(columns)}
    return Done(summary, shown, unit_notes(columns), audit.verdict, audit)


def _advised(judged: Verdict, method: str) -> Verdict:
    """Return the verdict with steps that a baseline can take, where the usual ones are of groups.

    A control that is asked for decides more than any of them.
    """
    privacy, use = judged["privacy"], judged["use"]
    stronger, weaker = _STEPS[method]
    if privacy["level"] in ("bad", "caution") and "--holdout" not in privacy["next"]:
        privacy = {**privacy, "next": stronger}
    if weaker and use["level"] in ("bad", "caution"):
        use = {**use, "next": weaker}
    return {"privacy": privacy, "use": use}


def _refuse_contradictions(options: Comparing, control: FilePath | None) -> None:
    with options.naming():
        check_choice("baseline", "method", options.method, BASELINES)
        check_flag("baseline", "plain", options.plain)
    refuse_two_controls(options, control)
    for name, methods in _OF.items():
        if options.on_command_line(name) and options.method not in methods:
            these = " or ".join(methods)
            raise ParameterError(f"is for --method {these}", subject=options.word(name))


def _released(
    original: pl.DataFrame, columns: list[Column], options: Comparing
) -> tuple[pl.DataFrame, dict[str, Any], dict[str, Any]]:
    """Return the release, what can be counted about it, and what a receiver may know of it."""
    if options.method == "generalize":
        made = generalize(original, options.k, columns=columns, means=True)
        sizes = made.counts
        return (
            made.release,
            {
                "groups": len(sizes),
                "smallest_group": int(sizes.min()),
                "generalisation_loss": made.loss,
            },
            {"k": options.k},
        )
    if options.method == "rotate":
        noise = options.noise or 0.0
        turned = rotate(
            original, options.components, noise=noise, columns=columns, random_state=options.seed
        )
        counts = {"dimensions": turned.matrix.shape[0], "components": turned.matrix.shape[1]}
        return turned.release, counts, {"noise": noise}
    noise = 0.5 if options.noise is None else options.noise
    drawn = randomize(
        original, noise=noise, keep=options.keep, columns=columns, random_state=options.seed
    )
    counts = {"columns_with_noise": len(drawn.spreads), "columns_by_chance": len(drawn.domains)}
    return drawn.release, counts, {"noise": noise, "keep": options.keep, "spreads": drawn.spreads}


def recover(source: FilePath, output: FilePath, *, bins: int = 20, force: bool = False) -> Done:
    """Write what the columns of a randomised release looked like before, from its manifest."""
    check_files({"INPUT": source}, writes={"--output": output}, force=force)
    check_int("baseline", "bins", bins, 2)
    made = read_manifest(source)
    if made.method != RANDOMISED or "spreads" not in made.parameters:
        raise DataError(
            f"{display_name(source)} was not made by tulle baseline --method randomize: there is "
            "no noise to take out of its distributions"
        )
    release, spreads = read_table(source), made.parameters["spreads"]
    parts = []
    for series in release:
        if series.name in spreads:
            found = shares_of_numbers(series, spreads[series.name], bins)
        else:
            domain = series.unique().sort().to_list()
            found = shares_of_values(series, domain, made.parameters["keep"])
        name, value = pl.lit(series.name).alias("column"), pl.col("value")
        if found["value"].dtype.is_float():
            value = value.round_sig_figs(10)  # no 1.0500000000000003
        parts.append(found.select(name, value.cast(pl.String), "share"))
    shares = pl.concat(parts)
    write_table(shares, output, force=force)
    summary = {"records": release.height, "columns": release.width, "shares": shares.height}
    return Done(summary, {"distributions": shares.head(20).to_dicts()}, [])


def _manifest(
    source: dict[str, Any],
    original: pl.DataFrame,
    release: pl.DataFrame,
    columns: list[Column],
    options: Comparing,
    counts: dict[str, Any],
    made_with: dict[str, Any],
) -> Manifest:
    held = _HELD[options.method]
    if options.method == "generalize":
        holds = counts["smallest_group"] >= options.k
    elif options.method == "rotate":
        targets = {column.name for column in columns if column.role is Role.TARGET}
        holds = not (set(release.columns) & set(original.columns)) - targets
    else:
        holds = counts["columns_with_noise"] + counts["columns_by_chance"] == release.width
    return Manifest(
        method=_DONE[options.method],
        parameters=made_with,
        guarantee={held: True},
        verified={held: holds},
        counts={"records": original.height, "released": release.height, **counts},
        columns=column_entries(columns, declared=options.declared),
        source=source,
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(options.seed),
    )
