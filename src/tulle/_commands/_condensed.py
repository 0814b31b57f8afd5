"""What is said of a condensed table: its summary, manifest, notes and audit."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._commands._columns import (
    column_entries,
    column_of,
    left_out_rows,
    told_counts,
    told_source,
    unit_notes,
    unit_of,
    words_of,
)
from tulle._commands._condensing import Condensing
from tulle._commands._decision import UNAUDITED
from tulle._random import seed_policy
from tulle._report.model import Promise
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.auditing._database import ComparedPeople
from tulle.auditing._pictures import group_section, left_out_section, notes_section, rules_section
from tulle.auditing._splits import Splits, audit_of_splits
from tulle.auditing._tables import Aligned
from tulle.auditing.audit import audit_people, audited, unaudited
from tulle.io.read import codes_as_text, read_like
from tulle.releases import Manifest
from tulle.table.schema import Column, Role

RESTS_ON = "people that what is shown rests on, at least"
_SHARE = "share of the source that breaks it"  # of the owner's figures


class Made(NamedTuple):
    """A release of everybody, next to what it was made from."""

    condenser: Any
    release: pl.DataFrame
    tables: Aligned
    options: Condensing  # with the k that it has
    people: ComparedPeople | None  # where people have several rows, which stay together

    @property
    def size(self) -> int:
        """How many records are released."""
        return self.release.height

    @property
    def k(self) -> int | None:
        """The size of its groups; None where each record has a level."""
        k = getattr(self.condenser, "k_", self.condenser.k)
        return None if k is None else int(k)


def rule_entries(condenser: Any, release: pl.DataFrame) -> list[dict[str, Any]]:
    counts = condenser._rule_plan.count_broken(release)
    return [
        {
            "rule": one.rule,
            "source": "found in the table" if one.found else "given",
            _SHARE: round(one.share_broken, 4),
            "released records that break it": count,
        }
        for one, count in zip(condenser.rules_, counts)
    ]


def notes_of(condenser: Any, columns: list[Column], release: pl.DataFrame) -> list[str]:
    broken = [
        f"the rule '{rule}' is broken in {count:,} of {release.height:,} released records"
        for rule, count in condenser.broken_rules_.items()
    ]
    return [*unit_notes(columns), *condenser.notes_, *broken]


def summary_of(
    condenser: Any, tables: Aligned, apart: pl.DataFrame | None, audit: Audit
) -> dict[str, Any]:
    counts = condenser.counts_
    return {
        "records": len(tables.original),
        **({} if apart is None else {"kept_apart": apart.height}),
        "released": len(tables.release),
        "columns_released": len(tables.columns),
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "median_group": float(np.median(counts)),
        "largest_group": int(counts.max()),
        "information_loss": float(condenser.information_loss_),
        "covariance_compatibility": audit.result["metrics"].get(
            "covariance_compatibility", math.nan
        ),
        "degenerate_groups": int(condenser.n_degenerate_),
        "suppressed": int(condenser.n_suppressed_),
        "verbatim": int(condenser.n_verbatim_),
        "rules_kept": len(condenser.rules_) - len(condenser.broken_rules_),
    }


def manifest_of(
    made: Made,
    source: dict[str, Any],
    columns: list[Column],
    apart: pl.DataFrame | None,
    chosen: dict[str, Any],
) -> Manifest:
    condenser, release, options = made.condenser, made.release, made.options
    by_class = hasattr(condenser, "classes_")
    asked = column_of(columns, Role.LEVEL) is not None
    k = None if asked else condenser.k_ if by_class else condenser.k
    return Manifest(
        method="class-wise condensation" if by_class else "condensation",
        parameters={n: v for n, v in options.values().items() if n not in ("seed", "quick")}
        | {"k": k, "unit": unit_of(columns), "chosen": _told_choice(chosen)},
        guarantee={
            "every group at least as large as its members' levels": True,
            **({} if asked else {RESTS_ON: condenser.rests_on_}),
        },
        verified={
            "groups at least as large as their levels": bool(
                (condenser.people_ >= condenser.levels_).all()
            )
        },
        counts={
            **({} if apart is None else {"kept apart as the control": apart.height}),
            "released": release.height,
            "rules": [
                {name: told for name, told in one.items() if name != _SHARE}
                for one in rule_entries(condenser, release)
            ],
            **told_counts(condenser.groups_, k),
        },
        columns=column_entries(columns, declared=options.declared, released=release.columns),
        source=told_source(source, options),
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(options.seed),
    )


def _told_choice(chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """Return which sizes were tried and how they were judged, without figures."""
    return [{n: row[n] for n in ("k", "for", "privacy", "use")} for row in chosen["tried"]]


def compared_frames(
    original: pl.DataFrame,
    release: pl.DataFrame,
    source: FilePath,
    control: FilePath | None,
    apart: pl.DataFrame | None,
    columns: list[Column],
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame | None]:
    """Return the tables, a control that is a file in the types of the others."""
    if control is None:
        return original, release, apart
    person = [column.name for column in columns if column.role is Role.PERSON]
    wanted = list(dict.fromkeys([*release.columns, *person]))
    strangers = read_like(control, original, source, wanted)
    original, release, strangers = codes_as_text(
        [original, release, strangers], (source, control), words_of(columns)
    )
    return original, release, strangers


def audited_release(
    made: Made, splits: Splits | None, columns: list[Column], command: str, *, whole: bool
) -> Audit:
    """Return the audit, with what only the maker of the release knows."""
    condenser, release, tables, options = made[:4]
    asked = column_of(columns, Role.LEVEL) is not None
    k = max(min(condenser.rests_on_.values()), 2)  # not a level, which is one person's own
    told: dict[str, Any] = {"k": k, "title": "Condensed table"}
    if splits is not None:
        audit = audit_of_splits(tables, splits, options.seed, made.people, quick=not whole, **told)
    elif options.audit and made.people is not None:
        audit = audit_people(made.people, options.seed, quick=not whole, **told)
    elif options.audit:
        audit = audited(tables, options.seed, quick=not whole, **told)
    else:
        audit = unaudited(tables, **told).extended(untried=UNAUDITED)
    return audit.extended(
        guarantee={
            "text": condenser._synthesis.sentence(sizes=not asked),
            "rows": _promises(condenser, asked=asked),
        },
        metrics={"information_loss": float(condenser.information_loss_)},
        smallest_group=min(condenser.rests_on_.values()),
        sections=[
            # of levels, one person may have set the smallest or largest group
            {**group_section(condenser.counts_, condenser.levels_), "owner_only": asked},
            *rules_section(rule_entries(condenser, release)),
            *notes_section(notes_of(condenser, columns, release)),
            *left_out_section(left_out_rows(columns, release.columns)),
        ],
        limits=condenser._synthesis.limits(),
        command=command,
        provenance={"release seed": seed_policy(options.seed)},
    )


def _promises(condenser: Any, *, asked: bool) -> list[Promise]:
    """Return what was asked and found; of levels no size, for a person may be alone with one."""
    if asked:
        small = int((condenser.people_ < condenser.levels_).sum())
        name = "groups smaller than the level of a member"
        return [{"name": name, "asked": 0, "found": small, "holds": not small}]
    return [
        {
            "name": f"smallest group of those who require {row.level:,}",
            "asked": row.level,
            "found": row.smallest_group,
            "holds": row.smallest_group >= row.level,
        }
        for row in condenser.level_summary_
    ]
