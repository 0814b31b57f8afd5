"""``tulle condense`` of linked tables: other people with rows of their own, one file a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._checks import check_int
from tulle._choices import GATES
from tulle._commands._columns import column_entries
from tulle._commands._condensed import RESTS_ON
from tulle._commands._decision import UNAUDITED, Job, Refused, decided, with_verdict
from tulle._commands._linked import LinkedTables, file_of, open_linked, refuse_no_folder, suffix_of
from tulle._commands._options import Options
from tulle._commands._sources import source_entry
from tulle._plurals import counted
from tulle.errors import DataError, ParameterError, PrivacyError, TulleError
from tulle.table.schema import Kind, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.auditing._database import ComparedPeople
    from tulle.auditing._splits import Splits
    from tulle.database.database import Database
    from tulle.exploring import Exploration
    from tulle.exploring._choice import Climbed
    from tulle.exploring._points import Point, PointSettings, Round, Spec
    from tulle.releases import Manifest
    from tulle.table.schema import Column

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
    def people(self) -> int:
        """How many people are released."""
        return self.original.like(self.frames).n_people


def condense_linked(
    source: FilePath,
    output: FilePath,
    options: Options,
    *,
    report: FilePath | None,
    control: FilePath | None,
    refused: Mapping[str, Any],
    sign_key: FilePath | None,
    accept_risk: str | None,
    command: str,
    force: bool,
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, str]], list[str], Audit]:
    """Condense linked tables, attack the release, and write it unless the verdict is bad.

    ``refused`` are arguments that only a single table has. Returns the parts of ``Condensed``.
    """
    from tulle.auditing._pictures import size_section

    given: Any = options
    _refuse_others(options, refused)
    refuse_no_folder(output, "--output")
    job = Job.opened(
        output, {"INPUT": source, "--policy": options.policy_file, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        databases=("INPUT", "--control"), in_parts=True, force=force,
    )  # fmt: skip
    whole = open_linked(source, options.policy, options.policy_file)
    entry = source_entry(source, whole.database.n_people)  # before it can change
    original, apart = whole, None
    if given.holdout is not None:
        with options.naming(share=options.word("holdout")):
            original, apart = whole.divided(given.holdout, _seed_apart(given.seed))
    if control is not None:
        apart = open_linked(control, options.policy, options.policy_file, like=whole)
    work = _LinkedWork(original, apart, given, command, whole=report is not None)
    made, climbed = work.finished()
    tried = climbed.rows() if work.chooses else []
    why = (
        climbed.why
        if tried
        else "it was given"
        if given.k
        else "nothing was attacked to choose it by"
    )
    found = climbed.audit(
        context=dict(options.policy.context),
        accepted_risk=job.accepted,
        sections=size_section(tried, why),
        tried=sorted({row["k"] for row in tried}),
    )
    manifest = _manifest(made, entry, given, tried)
    _write(job, made, manifest, found, suffix_of(source))
    notes = [*whole.notes(), *made.condenser.notes_, *_table_notes(made)]
    notes += [f"Of the sizes tried, {why}."] if tried else []
    summary = _summary(made) | {"chosen": {"k": made.condenser.k, "tried": tried, "why": why}}
    return summary, [], whole.left_out(), notes, found


@dataclass(frozen=True)
class _LinkedWork:
    """One release of linked tables that is asked for, and how it is judged at a k."""

    original: LinkedTables
    apart: LinkedTables | None
    options: Any
    command: str
    whole: bool  # whether the audit is
    made: dict[int | None, LinkedRelease] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether nobody said how large groups are."""
        people = self.original.columns[self.original.database.people]
        levels = any(column.role is Role.LEVEL for column in people)
        return bool(self.options.audit) and self.options.k is None and not levels

    def finished(self) -> tuple[LinkedRelease, Climbed]:
        """Return the release to write, and how it was found."""
        from tulle.exploring._choice import Climbed, climb, sizes_for

        if self.chooses:
            sizes = sizes_for(self.original.database.n_people, quick=self.options.quick)
            climbed = climb(sizes, self.measured, fresh=self.apart is None)
        else:
            point = self.measured(None, "whole")
            climbed = Climbed(point, [point])
        return self.made[climbed.point.spec.k], climbed

    def measured(self, k: int | None, round: Round) -> Point:
        """Make the release at a k, and judge it; one that cannot be made ends the search."""
        from tulle.exploring._points import Point, Spec, worst

        spec, people = Spec(round, self.options.synthesis, k=k), self.original.database.n_people
        options = self.options if k is None else replace(self.options, k=k)
        try:
            if k not in self.made:
                self.made[k] = _made(self.original, self.apart, options)
        except (DataError, PrivacyError) as error:
            if not self.made:
                raise
            return Point(f"{k}-{round}", spec, people, error=str(error))
        made, splits = self.made[k], self._splits(options, round)
        whole = self.whole and round == "whole"
        found = _audited(made, splits, options, self.command, whole=whole)
        attacks = found.result["attacks"]
        return Point(
            f"{k}-{round}", spec, people, made.people, **worst(attacks),
            attacks=attacks, verdict=found.verdict, audit=dict(found.result),
        )  # fmt: skip

    def _splits(self, options: Any, round: Round) -> Splits | None:
        """Attack releases of parts of the people; None where others are there to compare with."""
        if not options.audit or (self.apart is not None and round == "whole"):
            return None
        import numpy as np

        from tulle._random import as_generator
        from tulle.auditing._splits import attack_linked_splits, bounds

        people, seed = self.original.database.n_people, options.seed
        count, most = bounds(people, choosing=round == "quick", quick=options.quick)

        def make(members: Any, strangers: Any, seed: int) -> ComparedPeople:
            # a part is tried, and never released: it may break rules
            tried = replace(options, seed=seed, accept_broken_rules=True)
            return _compared(_made(self.original.of(members), self.original.of(strangers), tried))

        # of other people in each round and at each k: none is judged by the splits that chose it
        own = (seed, options.k or 0, round == "whole")
        quick = not (self.whole and round == "whole")
        try:
            rng = as_generator(None) if seed is None else np.random.default_rng(own)
            return attack_linked_splits(people, make, rng, count, most=most, quick=quick)
        except TulleError:
            return None  # too few people for a release of a part of them


_NO_FRONTIER = ("synthesis", "task", "scoring")  # of a single table


def explore_linked(
    source: FilePath,
    output: FilePath,
    options: Any,
    *,
    control: FilePath | None,
    target: str | None,
    quick: bool,
    command: str,
    progress: Any,
) -> Exploration:
    """Measure releases of linked tables at several k; ``output`` gets the points and the page."""
    from tulle._commands._condensing import Condensing
    from tulle._commands._options import resolve
    from tulle.exploring._points import Folder, PointSettings, data_digest, planned, point_name
    from tulle.exploring.explore import explored, settled_seed, share_apart

    _refuse_others(options, {"target": target}, _NO_FRONTIER)
    whole = open_linked(source, options.policy, options.policy_file)
    place = Folder(output)
    seed = settled_seed(options.seed, place)
    if control is not None:
        members, apart = (
            whole,
            open_linked(control, options.policy, options.policy_file, like=whole),
        )
    else:
        share = options.holdout
        with options.naming(share=options.word("holdout")):
            share = share_apart(whole.database.n_people) if share is None else share
            members, apart = whole.divided(share, _seed_apart(seed))
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
    given: Any,
    settings: PointSettings,
) -> Point:
    """Make a release of linked tables, or the reference in its place, attack it and use it."""
    import numpy as np

    from tulle.auditing._database import ComparedPeople
    from tulle.auditing._gates import gate_rows
    from tulle.auditing._learning import utility
    from tulle.auditing.audit import audit_people
    from tulle.exploring._points import Point, worst

    rng, people = np.random.default_rng(settings.seed), members.database.n_people
    frames: Mapping[str, Any] = members.database.tables
    try:
        if spec.is_release:
            frames = _made(members, apart, replace(given, k=spec.k)).frames
    except (DataError, PrivacyError) as error:
        return Point(name, spec, people, error=str(error))
    if spec.share is not None:
        frames = members.of(rng.permutation(people)[: round(spec.share * people)]).frames
    elif spec.method == "shuffled":
        frames = {table: _shuffled(frame, members.columns.get(table, ()), rng)
                  for table, frame in frames.items()}  # fmt: skip
    released = members.like(frames)
    compared = ComparedPeople(members.database, released, apart.database, members.columns)
    quick = spec.round == "quick" or not spec.is_release
    found = audit_people(compared, settings.seed, k=settings.k, attempts=settings.attempts,
                         quick=quick, title=f"Release with {spec.label}")  # fmt: skip
    if spec.is_release:
        found = found.extended(gates=gate_rows(found.result, settings.limits))
    score, scoring = utility(compared.aligned(quick)[0], None, None, rng)
    return Point(
        name, spec, people, released.n_people, **worst(found.result["attacks"]),
        utility=score, scoring=scoring, metrics=found.result["metrics"],
        attacks=found.result["attacks"], verdict=found.verdict, gates=found.result["gates"],
        audit=None if quick else dict(found.result),
    )  # fmt: skip


def _shuffled(frame: pl.DataFrame, columns: Sequence[Column], rng: Any) -> pl.DataFrame:
    """Return a table in which columns have nothing to do with each other."""
    return frame.with_columns(
        frame[column.name].gather(rng.permutation(frame.height))
        for column in columns
        if column.role.released
    )


def _refuse_others(
    options: Any, refused: Mapping[str, Any], others: Sequence[str] = _OTHERS
) -> None:
    """Raise for what linked tables do not have."""
    words = [f"--{name}" for name, value in refused.items() if value is not None]
    words += [options.word(name) for name in others if name in options.words]
    if words:
        raise ParameterError(f"{words[0]} is for a single table, not for linked ones: drop it")
    if others is _OTHERS and options.people is not None:
        with options.naming():
            check_int("condense", "people", options.people, 1)


def _seed_apart(seed: int | None) -> Any:
    """Return a generator of its own: with the same seed, the members are drawn as before."""
    from tulle._random import as_generator, spawn

    return spawn(as_generator(seed), 1)[0]


def _made(original: LinkedTables, apart: LinkedTables | None, options: Any) -> LinkedRelease:
    from tulle.database.condenser import DatabaseCondenser

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
    import polars as pl

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
    from tulle.auditing._database import ComparedPeople

    apart = None if made.apart is None else made.apart.database
    released = made.original.like(made.frames)
    return ComparedPeople(made.original.database, released, apart, made.original.columns)


def _audited(
    made: LinkedRelease, splits: Splits | None, options: Any, command: str, *, whole: bool
) -> Audit:
    """Return the audit of people, with the guarantee in words."""
    from tulle._random import seed_policy
    from tulle.auditing._pictures import left_out_section, notes_section, rules_section
    from tulle.auditing._splits import audit_of_splits
    from tulle.auditing.audit import audit_people, unaudited_people

    people = _compared(made)
    k, title = max(made.condenser.k, 2), "Condensed tables"
    if splits is not None:
        found = audit_of_splits(
            people.aligned(not whole)[0], splits, options.seed, people,
            quick=not whole, k=k, title=title,
        )  # fmt: skip
    elif options.audit:
        found = audit_people(people, options.seed, k=k, title=title, quick=not whole)
    else:
        found = unaudited_people(people, k=k, title=title).extended(untried=UNAUDITED)
    rests_on = _rests_on(made.condenser)
    fewest = min(rests_on.values())
    share = found.result["metrics"].get("nearest_record_share")
    return found.extended(
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
    from tulle._shape.model import LEAF_PIECE

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
    made: LinkedRelease, source: dict[str, Any], options: Any, tried: list[dict[str, Any]]
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    condenser, rests_on = made.condenser, _rests_on(made.condenser)
    people, fewest = made.people, min(rests_on.values())
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


def _write(job: Job, made: LinkedRelease, manifest: Manifest, found: Audit, suffix: str) -> None:
    """Write one file a table and the manifest; only the report where the verdict is bad."""
    from tulle.io.write import put_table
    from tulle.releases import write_part, write_parts

    try:
        decided(found, job.accepted)
    except Refused:
        job.save_report(found)
        raise

    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        parts = {}
        for name, frame in made.frames.items():
            file = file_of(name, suffix)
            put_it = partial(put_table, frame, name=file)
            parts[file] = write_part(folder, file, frame.height, put_it)
        return with_verdict(manifest, found, job.accepted), parts

    with job.reported(found):
        write_parts(job.output, put, sources=job.sources, sign_key=job.signer, force=job.force)


def _summary(made: LinkedRelease) -> dict[str, Any]:
    database = made.original.database
    return {
        "people": database.n_people,
        **({} if made.apart is None else {"kept_apart": made.apart.database.n_people}),
        "released_people": made.people,
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
