"""The default release on twelve tables: what it is good for, and who can be found in it.

``TULLE_DATA=folder python -m benchmarks.bench_recipe [--quick] [--tables german,gss] [--seeds 0,1]
[--k 10] [--options '{"synthesis": "uniform"}'] [--set module.NAME=value] [--label NAME]``
"""

from __future__ import annotations

import sys

from benchmarks.judged_measures import as_numbers, best_of, judge, membership
from benchmarks.judged_tables import (
    TWELVE,
    cell,
    load,
    means,
    options,
    parted,
    release,
    released,
    say,
    warm,
    write_versions,
)

MOST = 8000
MEASURES = {
    "apart": "told apart",
    "tv": "three-way TV",
    "model": "model loses",
    "membership": "membership",
    "tpr": "caught at 1 %",
    "cpu": "CPU s",
    "null": "membership, nothing to find",
    "null_tpr": "caught, nothing to find",
}


def main(quick: bool = False) -> None:
    asked = options(tables=TWELVE, seeds=(0,) if quick else (0, 1, 2))
    rows_most = asked.rows or (2000 if quick else MOST)
    warm()
    rows, all_found = [], []
    for k in asked.k:
        for name in asked.tables:
            found = [measured(name, k, seed, rows_most, asked.options) for seed in asked.seeds]
            all_found.append(mean := means(found) | nothing_to_find(name, k, rows_most))
            rows.append([name, k, *(mean[measure] for measure in MEASURES)])
            say(name, k, *(f"{what} {cell(mean[key])}" for key, what in MEASURES.items()))
    if len(asked.k) == 1:
        mean = means(all_found)
        rows.append(
            [f"**mean of {len(rows)}**", asked.k[0], *(mean[measure] for measure in MEASURES)]
        )
    write_versions(
        "recipe",
        "The default release on twelve tables",
        ["table", "k", *MEASURES.values()],
        rows,
        asked.label,
        quick,
        keys=2,
        notes=f"Two thirds of a table (of at most {rows_most} rows) are members and are released "
        "with the defaults; one third are strangers. Told apart: AUC of gradient boosting, release "
        "against strangers (0.5 is best). Three-way TV: total variation of 60 triples of columns, "
        "release to strangers less members to strangers. Model loses: AUC or R2 on strangers of a "
        "model trained on members less that of one trained on the release. Membership: AUC of the "
        "best of four attacks (nearest, ratio of distances, classifier, 240 margins) by one who "
        "holds half of the strangers; caught: members above 99 % of the strangers. Nothing to "
        "find: the same attacks on people who did not make the release (one seed). "
        f"Means of {len(asked.seeds)} seeds; CPU of making the release.",
        seed=asked.seeds[0],
    )


def measured(name: str, k: int, seed: int, most: int, more: dict) -> dict[str, float]:
    """Release the members of a table and judge it."""
    frame, target = load(name, most)
    members, strangers = parted(frame, seed)
    made, cpu = released(members, k, seed, **more)
    return judge(made, members, strangers, target, seed) | {"cpu": cpu}


def nothing_to_find(name: str, k: int, most: int) -> dict[str, float]:
    """Attack people who made no release: half of the members is released, the others attacked."""
    members, strangers = parted(load(name, most)[0], 0)
    half = len(members) // 2
    made = release(members.iloc[:half].reset_index(drop=True), k, 0)[list(members)]
    tables, numeric = as_numbers([made, members.iloc[half:], strangers])
    found = best_of(membership(*tables, numeric, 0))
    return {"null": found["membership"], "null_tpr": found["tpr"]}


if __name__ == "__main__":
    main("--quick" in sys.argv)
