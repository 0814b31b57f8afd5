"""``tulle tune``: which group size? A table of sizes, the choice with its reason, the release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tulle import _report as reports
from tulle._checks import check_choice
from tulle._choices import TUNED_FOR
from tulle._commands._columns import column_of, names_classes, plan_columns, without_opaque
from tulle._commands._condensing import Condensing
from tulle._commands._decision import Done, check_accepted
from tulle._commands._memory import look_at
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files, writing_beside
from tulle._commands.condense import condense
from tulle._commands.split import drawn_apart
from tulle._random import seed_policy
from tulle._report.model import Block, Level, Result, Verdict, chart, table
from tulle._report.words import number
from tulle._types import FilePath
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import ParameterError
from tulle.io._formats import display_name, format_of
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.tuning import GroupSizeSearch

_NOT_OF_SEARCH = ("miner", "grouping", "synthesis", "target_weight", "holdout", "seed")
_WORDS = {
    "k": "group size",
    "utility": "utility",
    "utility_std": "spread",
    "ratio": "of the original's",
    "privacy": "privacy",
    "interval": "interval, uncut",
    "risk": "linkage risk",
    "seconds": "seconds",
    "chosen": "chosen",
}


@dataclass(frozen=True)
class Tuning(Options):
    """The options of ``tulle tune``; ``sizes`` is a number, or in a policy the sizes themselves."""

    strategy: str = "rule"
    sizes: Any = 12
    repeats: int = 3
    accuracy_gap: float = 0.05
    min_group: int | None = None
    max_group: int | None = None
    max_risk: float | None = None
    min_accuracy_ratio: float | None = None
    miner: str = "nearest"
    scoring: str | None = None  # balanced accuracy, or R2
    grouping: str | None = None  # that of [condense], else fast
    synthesis: str | None = None  # that of [condense], else shape
    target_weight: float | None = None  # of a target of numbers, when records are compared; 1
    holdout: float | str | None = None
    seed: int | None = None


def tune(
    source: FilePath,
    *,
    target: str | None = None,
    policy: FilePath | None = None,
    output: FilePath | None = None,
    report: FilePath | None = None,
    sign_key: FilePath | None = None,
    accept_risk: str | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Done:
    """Search the group size; with ``output``, condense the table with it too.

    The people of a ``holdout`` take part neither in the search nor in the release.
    """
    check_accepted(accept_risk)
    for table_file in (source, output):
        if table_file is not None:
            format_of(table_file)
    reads = {"INPUT": source, "--policy": policy, "--sign-key": sign_key}
    check_files(reads, release=output, report=report, folders=("INPUT",), force=force)
    options = resolve("tune", Tuning(), policy, given)
    condensing = resolve("condense", Condensing(), policy, {})
    options = replace(
        options,
        grouping=options.grouping or condensing.grouping,
        synthesis=options.synthesis or condensing.synthesis,
    )
    if options.on_command_line("sizes") and options.strategy != "grid":
        raise ParameterError("--sizes is for --strategy grid: pass that as well")

    looked = look_at(source, options.seed)
    table = looked.table
    if looked.sampled and options.holdout is not None:
        raise ParameterError(
            f"{options.word('holdout')} needs the whole table in memory, and this one is larger "
            "than that: drop it"
        )
    columns = plan_columns(table, options, target=target)
    table, columns = without_opaque(table, columns)
    aim = _target(columns)
    rows = drawn_apart(table, columns, options, options.holdout, options.seed)
    members = table if rows is None else table[rows.members]
    search = _searched(members, columns, aim, options, condensing)
    made = _done(search, members.height, looked.notes)
    if output is not None:
        released = condense(
            source,
            output,
            policy=policy,
            target=aim.name,
            k=search.best_k_,
            grouping=options.grouping,
            synthesis=options.synthesis,
            seed=options.seed,
            sign_key=sign_key,
            apart=rows,
            accept_risk=accept_risk,
            force=force,
        )
        made = made._replace(verdict=released.verdict)
    if report is not None:
        there = f"the search chose groups of {search.best_k_:,}"
        if output is not None:
            there = f"the release {display_name(output)} was written"
        with writing_beside(there, report):
            reports.save(_report(search, made, command, options.seed), report, force=force)
    return made


def _target(columns: list[Column]) -> Column:
    """Return what a miner predicts; levels are refused, because they leave no size to find."""
    aim, levels = column_of(columns, Role.TARGET), column_of(columns, Role.LEVEL)
    if aim is None:
        raise ParameterError("tune needs --target COLUMN, or a policy with a target")
    if levels is not None:
        raise ParameterError(
            f"the levels in column '{levels.name}' determine the group sizes, so there is no "
            "size to find: give the column the role 'ignored'"
        )
    return aim


def _searched(
    table: pl.DataFrame, columns: list[Column], aim: Column, options: Tuning, condensing: Condensing
) -> GroupSizeSearch:
    """Search for the size of the condensation that ``[condense]`` and the options describe."""
    from tulle.tuning import GroupSizeSearch
    from tulle.tuning.search import miner_named

    others = [column for column in columns if column is not aim]
    template: Any = Condenser(
        grouping=options.grouping or condensing.grouping,
        synthesis=options.synthesis or condensing.synthesis,
        exact_totals=condensing.exact_totals,
        exact_moments=condensing.exact_moments,
        columns=others,
        rules=options.policy.rules,
        accept_broken_rules=True,  # a size that breaks rules is a trial; the release is refused
    )
    classes = names_classes(aim, table)
    if classes:
        if options.target_weight is not None:
            raise ParameterError(
                f"{options.word('target_weight')} is for a target of numbers: the classes of "
                f"'{aim.name}' are condensed one by one"
            )
        template = ClassCondenser(template, small_classes=condensing.small_classes)
    elif options.target_weight is not None:
        template.set_params(target_weight=options.target_weight)
    chosen = {n: v for n, v in options.values().items() if n not in _NOT_OF_SEARCH}
    with options.naming():
        miner = miner_named(check_choice("tune", "miner", options.miner, TUNED_FOR), classes)
    chosen |= {"miner": miner, "n_jobs": -1, "random_state": options.seed}
    search = GroupSizeSearch(template, **chosen)
    with options.naming(y=f"the target '{aim.name}'"):
        return search.fit(table.drop(aim.name), table[aim.name])


def _done(search: GroupSizeSearch, records: int, notes: list[str]) -> Done:
    summary = {
        "records": records,
        "chosen_k": search.best_k_,
        "sizes_tried": search.results_.height,
        "original_utility": search.baseline_,
    }
    reason = ". ".join([search.reason_.rstrip("."), *notes])
    tables = {"sizes": search.results_.to_dicts(), "classes": search.class_results_.to_dicts()}
    if search.strategies_:  # the rule and brute force side by side, if both were asked
        tables["strategies"] = search.strategies_
    return Done(summary, tables, [reason])


def verdict_of(made: Done) -> Verdict:
    """Return what a search can say: of privacy next to nothing, of use what a miner lost."""
    chosen = next(row for row in made.tables["sizes"] if row["chosen"])
    k, ratio = chosen["k"], float(chosen["ratio"])
    level: Level = "good" if ratio >= 0.95 else "caution" if ratio >= 0.8 else "bad"
    return {
        "privacy": {
            "level": "undecided",
            "reason": "Not decided: a search measures linkage only, and nothing is released here.",
            "next": f"Make one and let it be attacked: tulle condense -k {k} --holdout 10%, or let "
            "tulle explore find the smallest k that passes.",
            "details": [],
        },
        "use": {
            "level": level,
            "reason": f"Groups of {k:,} keep {number(ratio, 'share')} of the score that a miner "
            "reaches on the original.",
            "next": "Compare the classes in the table: an average hides the rare ones.",
            "details": [],
        },
    }


def _report(search: GroupSizeSearch, made: Done, command: str, seed: int | None) -> Result:
    cells = [[row[name] for name in _WORDS] for row in made.tables["sizes"]]
    curves, text = search.curve(classes=True), (
        "Utility: how well a miner trained on the release predicts held-out originals. Privacy: "
        "the width of the interval in which an original value lies, over the range of its column."
    )  # fmt: skip
    # few records of a small class are held out: not for the public edition
    of_classes = [chart("over_k", curves, title="Each class", owner_only=True)]
    blocks: list[Block] = [
        chart("over_k", search.curve(), title="The trade-off"),
        *(of_classes if curves else []),
        table(_WORDS.values(), cells),
    ]
    return {
        "title": "Which group size?",
        "summary": made.notes[0],
        "verdict": verdict_of(made),
        "k": search.best_k_,
        "metrics": {"original_utility": search.baseline_},
        "sections": [{"id": "sizes", "title": "Group sizes", "text": text, "blocks": blocks}],
        "limits": ["The table of sizes describes averages, not individual people."],
        "command": command,
        "provenance": {"seed": seed_policy(seed)},
    }
