"""``tulle tune``: which group size? A table of sizes, the choice with its reason, the release."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from tulle import _report as reports
from tulle._commands._columns import column_of, plan_columns, without_opaque
from tulle._commands._options import check_classes, check_number, is_class
from tulle._commands._sources import check_names, sources_read, writing_beside
from tulle._commands.condense import condense
from tulle._files import refuse_existing, refuse_same
from tulle._random import seed_policy
from tulle._report.model import Chart, Result
from tulle._types import FilePath
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import ParameterError
from tulle.io._formats import display_name
from tulle.io.read import read_table
from tulle.releases import check_target
from tulle.table.schema import Role
from tulle.tuning import GroupSizeSearch

DEFAULTS: dict[str, Any] = {
    "strategy": "rule",
    "sizes": 12,
    "repeats": 3,
    "accuracy_gap": 0.05,
    "min_group": None,
    "max_group": None,
    "max_risk": None,
    "min_accuracy_ratio": None,
    "grouping": "fast",
    "seed": None,
}
_WORDS = {
    "k": "group size",
    "utility": "utility",
    "utility_std": "spread",
    "ratio": "of the original's",
    "privacy": "privacy",
    "risk": "linkage risk",
    "seconds": "seconds",
    "chosen": "chosen",
}
_SEARCH = [name for name in DEFAULTS if name not in ("grouping", "seed")]


class Tuned(NamedTuple):
    """The search's answer."""

    summary: dict[str, Any]
    results: list[dict[str, Any]]
    class_results: list[dict[str, Any]]
    reason: str


def tune(
    source: str | os.PathLike[str],
    *,
    target: str | None = None,
    policy: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    command: str = "",
    force: bool = False,
    **options: Any,
) -> Tuned:
    """Searches the group size; with ``output``, condenses the table with it too."""
    _check_files(source, policy, output, report, force)
    table = read_table(source)
    columns, wanted = plan_columns(table, policy, "tune", DEFAULTS, options, target=target)
    if options.get("sizes") is not None and wanted["strategy"] != "grid":
        raise ParameterError("--sizes is how many sizes --strategy grid tries: ask for that too")
    table = without_opaque(table, columns)
    columns = [column for column in columns if column.name in table.columns]
    aim = column_of(columns, Role.TARGET)
    if aim is None:
        raise ParameterError("tune needs --target COLUMN, or a policy with a target")
    levels = column_of(columns, Role.LEVEL)
    if levels is not None:
        raise ParameterError(
            f"the levels in column '{levels.name}' say how large groups are, so that there is no "
            "size to find: give the column the role 'ignored'"
        )
    _check_numbers(wanted)
    others = [column for column in columns if column is not aim]
    template: Any = Condenser(grouping=wanted["grouping"], columns=others)
    if is_class(aim, table):
        check_classes(table, aim)
        template = ClassCondenser(template)
    search = GroupSizeSearch(
        template,
        n_jobs=-1,
        random_state=wanted["seed"],
        **{name: wanted[name] for name in _SEARCH},
    ).fit(table.drop(aim.name), table[aim.name])

    made = _tuned(search, table.height)
    if output is not None:
        condense(
            source,
            output,
            policy=policy,
            target=aim.name,
            k=search.best_k_,
            grouping=wanted["grouping"],
            seed=wanted["seed"],
            force=force,
        )
    if report is not None:
        there = f"the search chose groups of {search.best_k_:,}"
        if output is not None:
            there = f"the release {display_name(output)} is there"
        with writing_beside(there, report):
            reports.save(_report(search, made, command, wanted), report, force=force)
    return made


def _check_files(
    source: FilePath,
    policy: FilePath | None,
    output: FilePath | None,
    report: FilePath | None,
    force: bool,
) -> None:
    """Refuses names that cannot be written, or are one file, before any work is done."""
    read = sources_read(source, policy)
    if output is not None:
        check_target(output, sources=read, force=force)
        others = {"INPUT": read[0], "--policy": policy}
        check_names(output=output, report=report, others=others, force=force)
    elif report is not None:
        refuse_existing(report, force=force)
        for name in read:
            refuse_same(name, report)


def _check_numbers(wanted: dict[str, Any]) -> None:
    """Refuses sizes and counts that cannot be, in the words of the options."""
    check_number("tune", "repeats", wanted["repeats"], 1)
    if isinstance(wanted["sizes"], int):  # a policy may list the sizes
        check_number("tune", "sizes", wanted["sizes"], 1)
    low, high = (check_number("tune", name, wanted[name], 2) for name in ("min_group", "max_group"))
    if low is not None and high is not None and low > high:
        raise ParameterError(f"--min-group {low} is larger than --max-group {high}")


def _tuned(search: GroupSizeSearch, records: int) -> Tuned:
    summary = {
        "records": records,
        "chosen_k": search.best_k_,
        "sizes_tried": search.results_.height,
        "original_utility": search.baseline_,
    }
    return Tuned(
        summary, search.results_.to_dicts(), search.class_results_.to_dicts(), search.reason_
    )


def _class_curves(search: GroupSizeSearch) -> list[Chart]:
    rows = search.class_curve()
    if not rows:
        return []
    # few records of a small class are held out: not for the public edition
    return [
        {
            "type": "chart",
            "chart": "class_curve",
            "title": "Each class",
            "owner_only": True,
            "rows": rows,
        }
    ]


def _report(search: GroupSizeSearch, made: Tuned, command: str, wanted: dict[str, Any]) -> Result:
    table = [[row[name] for name in _WORDS] for row in made.results]
    return {
        "title": "Which group size?",
        "summary": made.reason,
        "verdict": {
            "level": "good",
            "text": f"Groups of {search.best_k_:,} are the choice.",
            "reasons": [],
        },
        "k": search.best_k_,
        "metrics": {"original_utility": search.baseline_},
        "sections": [
            {
                "id": "sizes",
                "title": "Group sizes",
                "text": "Utility: how well a miner who gets the release predicts held-out "
                "originals. Privacy: the width of the interval in which an original value lies, "
                "over the range of its column.",
                "blocks": [
                    {
                        "type": "chart",
                        "chart": "curve",
                        "title": "The trade",
                        "rows": search.curve(),
                    },
                    *_class_curves(search),
                    {"type": "table", "columns": list(_WORDS.values()), "rows": table},
                ],
            }
        ],
        "limits": ["The table of sizes says what happens on average, not to each person."],
        "command": command,
        "provenance": {"seed": seed_policy(wanted["seed"])},
    }
