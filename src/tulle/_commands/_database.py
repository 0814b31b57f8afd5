"""``tulle condense`` of linked tables: other people with rows of their own, one file a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._checks import check_int
from tulle._commands._columns import column_entries
from tulle._commands._condensed import RESTS_ON
from tulle._commands._condensing import Condensing, Work, told_choice
from tulle._commands._decision import UNAUDITED, Done, Job, with_verdict
from tulle._commands._linked import LinkedTables, file_of, open_linked, refuse_no_folder, suffix_of
from tulle._commands._sources import source_entry
from tulle._plurals import counted
from tulle._random import as_generator, seed_policy, spawn
from tulle._shape.model import LEAF_PIECE
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.auditing._database import ComparedPeople
from tulle.auditing._pictures import left_out_section, notes_section, rules_section
from tulle.auditing._splits import Splits, attack_linked_splits, audit_of_splits
from tulle.auditing.audit import audit_people, unaudited_people
from tulle.database.condenser import DatabaseCondenser
from tulle.database.database import Database
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.io.write import put_table
from tulle.releases import Manifest, write_part, write_parts
from tulle.table.schema import Kind, Role

METHOD = "condensation of linked tables"
_OTHERS = (  # options that are those of a single table
    *("grouping", "time", "min_group", "synthesis", "exact_moments", "small_classes"),
    *("on_infeasible", "memory"),
)
_UNTOLD = ("seed", "quick", *_OTHERS)


class LinkedRelease(NamedTuple):
    """A release of linked tables, and what it was made from."""

    original: LinkedTables
    apart: LinkedTables | None
    condenser: Any
    frames: dict[str, pl.DataFrame]

    @property
    def size(self) -> int:
        """How many people are released."""
        return self.original.like(self.frames).n_people


def condense_linked(
    source: FilePath, job: Job, options: Condensing, control: FilePath | None
) -> Done:
    """Condense linked tables, attack the release, and write it unless the verdict is bad."""
    whole = open_linked(source, options.policy, options.policy_file)
    entry = source_entry(source, whole.database.n_people)  # before it can change
    original, apart = whole, None
    if options.holdout is not None:
        # a generator of its own: with the same seed, the members are drawn as before
        rng = spawn(as_generator(options.seed), 1)[0]
        with options.naming(share=options.word("holdout")):
            original, apart = whole.divided(options.holdout, rng)
    if control is not None:
        apart = open_linked(control, options.policy, options.policy_file, like=whole)
    people, count = original.columns[original.database.people], original.database.n_people
    levelled = any(column.role is Role.LEVEL for column in people)
    work = _LinkedWork(
        options, job.command, job.report is not None,
        count, count, apart is not None, levelled, original, apart,
    )  # fmt: skip
    made, climbed = work.finished()
    chosen = work.chosen(made.condenser.k, climbed)
    audit = work.judged(climbed, chosen, job.accepted)
    manifest = _manifest(made, entry, options, chosen["tried"])
    _write(job, made, manifest, audit, suffix_of(source))
    notes = [*whole.notes(), *made.condenser.notes_, *_table_notes(made)]
    notes += told_choice(chosen)
    summary = _summary(made) | {"chosen": chosen}
    tables = {"levels": [], "tried": chosen["tried"], "left_out": whole.left_out()}
    return Done(summary, tables, notes, audit.verdict, audit)


@dataclass(frozen=True)
class _LinkedWork(Work):
    """The release of linked tables."""

    original: LinkedTables
    apart: LinkedTables | None

    def make(self, options: Condensing) -> LinkedRelease:
        return made_linked(self.original, self.apart, options)

    def audited(self, made: LinkedRelease, splits: Splits | None, *, whole: bool) -> Audit:
        return _audited(made, splits, self.options, self.command, whole=whole)

    def attacked(
        self, options: Condensing, rng: np.random.Generator, *, patient: bool, **how: Any
    ) -> Splits:
        def make(members: Any, strangers: Any, seed: int) -> ComparedPeople:
            parts = self.original.of(members), self.original.of(strangers)
            return _compared(made_linked(*parts, replace(options, seed=seed)))

        return attack_linked_splits(self.people, make, rng, **how)


def refuse_others(options: Condensing, output: FilePath, refused: Mapping[str, Any]) -> None:
    """Raise for what linked tables do not have; ``refused`` are arguments of a single table."""
    words = [f"--{name}" for name, value in refused.items() if value is not None]
    words += [options.word(name) for name in _OTHERS if name in options.words]
    if words:
        raise ParameterError(f"{words[0]} is for a single table, not for linked ones: drop it")
    if options.people is not None:
        with options.naming():
            check_int("condense", "people", options.people, 1)
    refuse_no_folder(output, "--output")


def made_linked(
    original: LinkedTables, apart: LinkedTables | None, options: Condensing
) -> LinkedRelease:
    """Return a release of linked tables, checked as it is written."""
    condenser = DatabaseCondenser(
        k=10 if options.k is None else options.k,
        rules=options.policy.rules,
        exact_totals=options.exact_totals,
        accept_broken_rules=options.accept_broken_rules,
        random_state=options.seed,
    )
    _refuse_two_people(original)
    with options.naming(rules=f"{options.policy_file}: [rules]"):
        frames = condenser.fit(original.database).sample(options.people)
    made = LinkedRelease(original, apart, condenser, _with_persons(original, frames))
    _refuse_unlinked(made)
    return made


def _person_columns(tables: LinkedTables) -> dict[str, list[str]]:
    """Return the columns of tables further down that name the person once more."""
    return {
        name: [column.name for column in columns if column.role is Role.PERSON]
        for name, columns in tables.columns.items()
        if name != tables.database.people
    }


def _keys_of_rows(database: Database, name: str) -> pl.Series:
    """Return the key of the person of each row of a table."""
    people = database.tables[database.people]
    return people[database.keys[database.people][0]][database.persons[name]]


def _refuse_two_people(tables: LinkedTables) -> None:
    """Raise if a row leads to one person by its parent, and names another."""
    for name, columns in _person_columns(tables).items():
        for column in columns:
            frame, keys = tables.database.tables[name], _keys_of_rows(tables.database, name)
            other = int((frame[column] != keys).sum())
            if other:
                raise DataError(
                    f"{counted(other, 'row')} of '{name}' belong to one person by the parent, and "
                    f"to another by '{column}': nobody can be counted. Correct them, or give the "
                    "column the role 'identifier'"
                )


def _with_persons(tables: LinkedTables, frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the released tables, in which a person is named by the same new key everywhere."""
    asked = _person_columns(tables)
    if not any(asked.values()):
        return frames
    released = tables.like(frames)
    made = dict(frames)
    for name, columns in asked.items():
        keys = _keys_of_rows(released, name)
        whole = released.tables[name].with_columns(keys.alias(column) for column in columns)
        made[name] = whole.select(n for n in tables.frames[name].columns if n in whole.columns)
    return made


def _refuse_unlinked(made: LinkedRelease) -> None:
    """Count once more on the finished tables: every key joins, and no category is of a few."""
    released = made.original.like(made.frames)
    if any(released.orphans.values()):
        raise PrivacyError("released rows lead to nobody: nothing was written")
    for name, columns in made.original.columns.items():
        for column in columns:
            word = column.kind is Kind.CATEGORY and not column.keep_rare
            if word and column.name in made.frames[name].columns:
                _refuse_rare(made, name, column.name)


def _refuse_rare(made: LinkedRelease, table: str, column: str) -> None:
    """Raise if a released word of the original is one that fewer than k people hold."""
    series = made.original.database.tables[table][column]
    if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return
    held = pl.DataFrame({"word": series, "who": made.original.database.persons[table]})
    people = held.drop_nulls().group_by("word").agg(pl.col("who").n_unique())
    rare = people.filter(pl.col("who") < made.condenser.k)["word"]
    shown = int(made.frames[table][column].is_in(rare.implode()).sum())
    if shown:
        raise PrivacyError(
            f"{shown} released values of {table}.{column} are held by fewer than "
            f"{made.condenser.k} people: nothing was written"
        )


def _compared(made: LinkedRelease) -> ComparedPeople:
    apart = None if made.apart is None else made.apart.database
    released = made.original.like(made.frames)
    return ComparedPeople(made.original.database, released, apart, made.original.columns)


def _audited(
    made: LinkedRelease, splits: Splits | None, options: Condensing, command: str, *, whole: bool
) -> Audit:
    """Return the audit of people, with the guarantee in words."""
    people = _compared(made)
    k, title = max(made.condenser.k, 2), "Condensed tables"
    if splits is not None:
        audit = audit_of_splits(
            people.aligned(not whole)[0], splits, options.seed, people,
            quick=not whole, k=k, title=title,
        )  # fmt: skip
    elif options.audit:
        audit = audit_people(people, options.seed, k=k, title=title, quick=not whole)
    else:
        audit = unaudited_people(people, k=k, title=title).extended(untried=UNAUDITED)
    rests_on = _rests_on(made.condenser)
    fewest = min(rests_on.values())
    share = audit.result["metrics"].get("nearest_record_share")
    return audit.extended(
        guarantee={
            "text": guarantee_text(people.databases[1].n_people, rests_on, share),
            "rows": [
                {
                    "name": "fewest people that anything shown rests on",
                    "asked": made.condenser.k,
                    "found": fewest,
                    "holds": fewest >= made.condenser.k,
                }
            ],
        },
        smallest_group=fewest,
        sections=[
            *rules_section(_rules(made.condenser)),
            *notes_section([*made.original.notes(), *made.condenser.notes_]),
            *left_out_section(made.original.left_out()),
        ],
        command=command,
        provenance={"release seed": seed_policy(options.seed)},
    )


def guarantee_text(people: int, rests_on: Mapping[str, int], share: float | None = None) -> str:
    """Return the guarantee in words that an officer can repeat.

    >>> guarantee_text(500, {"visits: a category": 20}).partition(". ")[0]
    '500 released people; none is a person of the data'
    """
    fewest = min(rests_on.values())
    leaf = min((n for piece, n in rests_on.items() if LEAF_PIECE in piece), default=fewest)
    text = (
        f"{people:,} released people; none is a person of the data. Every number shown rests on "
        f"at least {fewest:,} people, every dependence, also between one row and the next, on at "
        f"least {leaf:,}. A released history as a whole is invented; it is not shared by "
        f"{fewest:,} people."
    )
    if share is None:
        return text
    return (
        f"{text} Of 100 released people, {100 * share:.0f} lie nearer to somebody in the data than "
        "to somebody who is not (50 is chance)."
    )


def _rules(condenser: Any) -> list[dict[str, Any]]:
    """Return the rules within and between tables, and how many released rows break each."""
    return [
        {
            "rule": one.rule,
            "source": "found in the tables" if one.found else "given",
            "released records that break it": condenser.broken_rules_.get(one.rule, 0),
        }
        for one in condenser.rules_
    ]


def _rests_on(condenser: Any) -> dict[str, int]:
    """Return what a release shows of each table, and of how many people at least."""
    return {
        f"{table}: {piece}": people
        for table, shown in condenser.rests_on_.items()
        for piece, people in shown.items()
    }


def _manifest(
    made: LinkedRelease, source: dict[str, Any], options: Condensing, tried: list[dict[str, Any]]
) -> Manifest:
    condenser, rests_on = made.condenser, _rests_on(made.condenser)
    people, fewest = made.size, min(rests_on.values())
    links = {
        name: [f"{'+'.join(columns)} -> {parent}" for columns, parent in pairs]
        for name, pairs in made.original.arguments["links"].items()
    }
    apart = None if made.apart is None else made.apart.database.n_people
    return Manifest(
        method=METHOD,
        parameters={n: v for n, v in options.values().items() if n not in _UNTOLD}
        | {"k": condenser.k, "unit": f"person (table '{made.original.arguments['people']}')",
           "links": links,
           "chosen": [{n: row[n] for n in ("k", "for", "privacy", "use")} for row in tried]},
        guarantee={"in words": guarantee_text(people, rests_on), RESTS_ON: rests_on},
        verified={
            "everything shown rests on at least k people": fewest >= condenser.k,
            "every released row leads to a released person": True,
            "no released category is held by fewer than k people": True,
        },
        counts={
            "released": people,
            **({} if apart is None else {"kept apart as the control": apart}),
            "rows": {name: frame.height for name, frame in made.frames.items()},
            "rules": _rules(made.condenser),
        },
        columns={
            f"{table}.{name}": entry
            for table, columns in made.original.columns.items()
            for name, entry in column_entries(
                columns, declared=True, released=made.frames[table].columns
            ).items()
        },
        source=source,
        output={"tables": {name: frame.columns for name, frame in made.frames.items()}},
        seed=seed_policy(options.seed),
    )  # fmt: skip


def _write(job: Job, made: LinkedRelease, manifest: Manifest, audit: Audit, suffix: str) -> None:
    """Write one file a table and the manifest; only the report where the verdict is bad."""
    job.refuse_bad(audit)

    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        parts = {}
        for name, frame in made.frames.items():
            file = file_of(name, suffix)
            put_it = partial(put_table, frame, name=file)
            parts[file] = write_part(folder, file, frame.height, put_it)
        return with_verdict(manifest, audit, job.accepted), parts

    with job.reported(audit):
        write_parts(job.output, put, sources=job.sources, sign_key=job.signer, force=job.force)


def _summary(made: LinkedRelease) -> dict[str, Any]:
    database = made.original.database
    return {
        "people": database.n_people,
        **({} if made.apart is None else {"kept_apart": made.apart.database.n_people}),
        "released_people": made.size,
        "tables": {name: frame.height for name, frame in made.frames.items()},
        "rows": sum(len(rows) for rows in database.persons.values()),
        "released_rows": sum(made.frames[name].height for name in database.persons),
        "rules_kept": len(made.condenser.rules_) - len(made.condenser.broken_rules_),
        "fewest_people": min(_rests_on(made.condenser).values()),
    }


def _table_notes(made: LinkedRelease) -> list[str]:
    """Return the size of each table before and after."""
    database = made.original.database
    return [
        f"{name}: {counted(database.tables[name].height, 'row')} -> {frame.height:,}"
        for name, frame in made.frames.items()
    ]
