"""``tulle audit``: two or three table files in, a report and the state of the gates out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from tulle._choices import GATES
from tulle._commands._columns import with_file_codes, words_of
from tulle._commands._condensed import RESTS_ON
from tulle._commands._condensing import Condensing, make_release
from tulle._commands._linked import is_linked, open_linked
from tulle._commands._memory import half_of_memory, needed, parse_size
from tulle._commands._options import Gates, resolve
from tulle._commands._sources import check_files
from tulle._report.editions import K
from tulle._report.model import Changes, Gate, Guarantee, Promise, Result
from tulle._report.words import BOUND, PRESETS
from tulle._types import FilePath
from tulle.auditing import Audit, audit, check_gates, gate_rows
from tulle.auditing._batches import audit_batches
from tulle.auditing._database import ComparedPeople, refuse_known_keys
from tulle.auditing._gates import check_limits
from tulle.auditing._measures import stated_rules
from tulle.auditing.audit import audit_people
from tulle.errors import ParameterError, PrivacyError
from tulle.guessing.columns import infer_columns
from tulle.io._formats import Format, display_name, format_of
from tulle.io.read import codes_as_text, open_table, read_like, read_written
from tulle.releases import has_manifest, read_manifest, verify_release
from tulle.table._series import is_opaque
from tulle.table.schema import Column, Role


@dataclass(frozen=True)
class Auditing(Gates):
    """The options of ``tulle audit``, with gates of its own."""

    target: str | None = None
    k: int = K
    attempts: int | None = None
    seed: int | None = None
    max_earlier: float | None = None
    max_worst_case: float | None = None
    preset: int | None = None  # of PRESETS: the smallest group that is customary somewhere
    memory: str | None = None  # beyond which tables are read in batches; half of the machine's


class _Files(NamedTuple):
    """What is compared, and who else is known."""

    original: FilePath
    release: FilePath
    control: FilePath | None
    earlier: Sequence[FilePath]
    known: FilePath | None
    worst_case: bool  # whether releases like this one are made


# what part of a release understates: such a gate would pass for that reason
_GATES_OF_WHOLE = tuple(
    name for name in GATES if name not in ("max_copies", "max_worst_case", "min_accuracy_ratio")
)


def audit_files(
    original: FilePath,
    release: FilePath,
    *,
    control: FilePath | None = None,
    earlier: Sequence[FilePath] = (),
    known: FilePath | None = None,
    policy: FilePath | None = None,
    report: FilePath | None = None,
    edition: str = "owner",
    worst_case: bool = False,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Audit:
    """Audit table files, and write ``report`` if given.

    Gates are measured here, not enforced: :func:`check_outcome` does that.

    Options (target, k, attempts, seed) and gates that are not given come from the section
    ``[audit]`` of the policy. Kinds and roles come from the policy, else from the manifest of
    the release; else kinds are guessed as ``condense`` does, and roles only of the columns that
    the release left out. ``worst_case`` makes releases as the manifest says that this one was
    made.
    """
    options = resolve("audit", Auditing(), policy, given)
    linked = is_linked(original, options.policy)
    if linked and has_manifest(original) and not has_manifest(release):
        original, release = release, original  # the order in which one speaks of it
    for file in () if linked else (original, release):
        format_of(file)
    files = _Files(original, release, control, earlier, known, worst_case)
    # an original may be audited against itself
    given_files = (original, release, control, *earlier, known)
    tables = {os.path.realpath(path): path for path in given_files if path is not None}
    reads, whole = tables | {"--policy": policy}, tuple(tables)
    folders, databases = ((), whole) if linked else (whole, ())
    check_files(reads, report=report, folders=folders, databases=databases, force=force)
    _refuse_other_kinds(release)
    limits = {name: getattr(options, name) for name in GATES}
    with options.naming():
        check_limits(
            limits, control=control is not None, earlier=bool(earlier), worst_case=worst_case
        )
    if linked:
        found = _audit_linked(files, options)
    else:
        found = (_audit_large if _are_large(files, options) else _audit_whole)(files, options)
    found = found.extended(
        guarantee=_guarantee(release), command=command, context=dict(options.policy.context)
    ).extended(**_made(release))
    found = found.extended(
        gates=[*gate_rows(found.result, limits), *_preset_gate(found.result, options)]
    )
    if report is not None:
        found.save(report, edition=edition, force=force)
    return found


_JUDGED_ELSEWHERE = {  # the method of a manifest -> what judges such releases
    "hide": "baskets: tulle hide --report attacks the hidden rules and counts the others that were "
    "lost, and tulle mine shows what a miner finds",
    "sketch": "sketches: tulle sketch --report attacks and measures them",
    "site codes": "codes: tulle sites encode --report attacks and mines them",
    "union of site codes": "codes: tulle sites encode --report attacks and mines those of a site",
    "people of several sites, matched": "codes: tulle sites encode --report attacks and mines "
    "those of a site",
}


def _refuse_other_kinds(release: FilePath) -> None:
    """Refuse what is not a table of people: measures of tables would say something false of it."""
    kind = _JUDGED_ELSEWHERE.get(read_manifest(release).method) if has_manifest(release) else None
    if kind is not None:
        raise ParameterError(
            f"tulle audit is for tables of people, and {display_name(release)} is a release of "
            f"{kind}. tulle verify checks that it is unchanged"
        )


def _audit_whole(files: _Files, options: Auditing) -> Audit:
    """Audit tables that memory holds."""
    further: dict[str, Any] = {}
    outside = () if files.control is None else (files.control,)
    compared = [files.original, files.release, *outside, *files.earlier]
    table, written = read_written(files.original)
    others = [read_like(file, table, files.original) for file in compared[1:]]
    columns = _known_columns(table, others[0], files.release, options)
    described = [column for column in columns.values() if isinstance(column, Column)]
    columns |= {column.name: column for column in with_file_codes(described, written, table)}
    words = words_of(columns.values())
    table, released, *rest = codes_as_text([table, *others], compared, words)
    further |= {"control": rest.pop(0)} if outside else {}
    further |= {"earlier": tuple(rest)} if files.earlier else {}
    opaque = [name for name, dtype in table.schema.items() if is_opaque(dtype)]
    table = table.drop(name for name in opaque if name not in released.columns)
    policy = {name: entry for name, entry in columns.items() if name in table.columns}
    asked = _asked(files, options, columns, table)
    with options.naming():
        found = audit(table, released, **further, policy=policy, **asked)
    if options.policy_file is None:
        return found
    return found.extended(**stated_rules(options.policy.rules or (), table, released))


def _audit_linked(files: _Files, options: Auditing) -> Audit:
    """Audit people who have rows in several tables."""
    asked = {"--earlier": files.earlier or None, "--known": files.known,
             "--worst-case": files.worst_case or None}  # fmt: skip
    _refuse_given(asked, "is for a single table, not for linked ones: drop it")
    policy, file = options.policy, options.policy_file
    people = open_linked(files.original, policy, file)
    released = open_linked(files.release, policy, file, like=people).database
    others = None
    if files.control is not None:
        others = open_linked(files.control, policy, file, like=people).database
    refuse_known_keys(people.database, released)
    compared = ComparedPeople(people.database, released, others, people.columns)
    with options.naming():
        return audit_people(compared, options.seed, **_told(files, options))


def _are_large(files: _Files, options: Auditing) -> bool:
    """Return whether the tables should not be read into memory whole."""
    both = [file for file in files[:2] if format_of(file) is not Format.SQL]
    return sum(map(needed, both)) > _memory(options)


def _memory(options: Auditing) -> int:
    """Return the bytes beyond which tables are read in batches."""
    with options.naming():
        return int(half_of_memory()) if options.memory is None else parse_size(options.memory)


def _refuse_given(asked: Mapping[str, Any], why: str) -> None:
    """Raise if one of some options was given."""
    for word, given in asked.items():
        if given is not None:
            raise ParameterError(f"{word} {why}")


_LARGE = (
    "needs the whole tables in memory, and these are larger than that: a part of a release "
    "understates it. Drop it, or raise --memory"
)


def _audit_large(files: _Files, options: Auditing) -> Audit:
    """Audit people drawn by lot, and look for everybody's copies in all records."""
    _refuse_given({options.word(name): getattr(options, name) for name in _GATES_OF_WHOLE}, _LARGE)
    opened = [open_table(file) for file in (files.original, files.release, *files.earlier)]
    table, released, *before = opened
    first, shown = next(table.batches()), next(released.batches())
    columns = _known_columns(first, shown, files.release, options)
    kept = [n for n, dtype in table.schema.items() if n in shown.columns or not is_opaque(dtype)]
    control = files.control
    with options.naming():
        return audit_batches(
            lambda: table.batches(kept),
            released.batches,
            None if control is None else read_like(control, first, files.original),
            {name: entry for name, entry in columns.items() if name in kept},
            earlier=[one.batches for one in before],
            rules=(options.policy.rules or ()) if options.policy_file is not None else (),
            memory=_memory(options) // 2,
            **_asked(files, options, columns, first),
        )


def _asked(
    files: _Files, options: Auditing, columns: Mapping[str, Any], table: pl.DataFrame
) -> dict[str, Any]:
    """Return what is asked of an audit of a single table, whatever holds it."""
    known = None if files.known is None else read_like(files.known, table, files.original)
    worst_case = _maker(files.release, columns) if files.worst_case else None
    further = {"known": known, "worst_case": worst_case, "random_state": options.seed}
    return {**_told(files, options), **further}


def _told(files: _Files, options: Auditing) -> dict[str, Any]:
    """Return what is asked of any audit."""
    title = f"Audit of {os.path.basename(display_name(files.release).rstrip('/'))}"
    asked = {name: getattr(options, name) for name in ("target", "k", "attempts")}
    return {**asked, "title": title}


def _preset_gate(result: Result, options: Auditing) -> list[Gate]:
    """Return the gate of a customary group size, which only groups can pass."""
    if options.preset is None:
        return []
    known = [preset.k for preset in PRESETS]
    if options.preset not in known:
        raise ParameterError(f"must be one of {known}", subject=options.word("preset"))
    smallest = result.get("smallest_group")
    if smallest is None:
        raise ParameterError(
            "needs a release by condensation with its manifest: there is no group to measure",
            subject=options.word("preset"),
        )
    holds = smallest >= options.preset
    limit = float(options.preset)
    return [{"name": "smallest_group", "limit": limit, "value": float(smallest), "holds": holds}]


def preset_notes(preset: int | None) -> list[str]:
    """Return where a customary group size comes from, and what it bounds."""
    return [f"k = {found.k}: {found.source}. {BOUND}" for found in PRESETS if found.k == preset]


def check_outcome(found: Audit) -> None:
    """Raise if a gate failed, the release is not what its manifest says, or the verdict is bad.

    A bad verdict passes if the manifest says who accepted the risk when the release was made.
    """
    check_gates(found.result.get("gates", []))
    guarantee = found.result.get("guarantee")
    broken = [row["name"] for row in guarantee["rows"] if not row["holds"]] if guarantee else []
    if broken:
        raise PrivacyError(f"the release does not match its manifest: {', '.join(broken)}")
    privacy = found.verdict["privacy"]
    if privacy["level"] == "bad" and not found.result.get("accepted_risk"):
        raise PrivacyError(
            f"the verdict on privacy is 'bad': {privacy['reason']} A release that was made with "
            "--accept-risk REASON passes: its manifest keeps the reason"
        )


def attack_rows(found: Audit) -> list[dict[str, Any]]:
    """Return the attacks as rows for a summary."""
    figures = "rate", "low", "high", "baseline", "control", "risk"
    return [
        {"attack": name, **{figure: attack[figure] for figure in figures}}  # type: ignore[literal-required]
        for name, attack in found.result["attacks"].items()
    ]


def _known_columns(
    table: pl.DataFrame, released: pl.DataFrame, release: FilePath, options: Auditing
) -> dict[str, Any]:
    """Return what is known of the columns: a Column each, or only a role."""
    if options.described(table.columns):
        return {column.name: column for column in options.policy.columns}
    if has_manifest(release):
        return {
            name: _from_manifest(name, entry)
            for name, entry in read_manifest(release).columns.items()
            if name in table.columns and entry.get("role") is not None
        }
    # read as condense reads them; but what somebody knows or wants to know, nothing has said
    guessed = [
        replace(column, role=Role.QUASI)
        if column.name in released.columns and column.role is not Role.PERSON
        else column
        for column in infer_columns(table)
    ]
    shown = released.columns
    return {c.name: c for c in guessed if c.name in shown or not c.role.released}


def _maker(release: FilePath, known: Mapping[str, Any]) -> Callable[[Any, int], Any]:
    """Return a function that condenses a table as the manifest says the release was condensed."""
    made = read_manifest(release) if has_manifest(release) else None
    if made is None or not made.method.endswith("condensation"):
        raise ParameterError(
            "--worst-case makes releases like this one, and needs the manifest of a condensed "
            f"release next to it: {display_name(release)} has "
            f"{'none' if made is None else f'one of {made.method}'}"
        )
    kept = {
        name: made.parameters[name] for name in Condensing().values() if name in made.parameters
    }
    # a sample may have too few of a class: they are then condensed together
    options = Condensing(**{**kept, "small_classes": "pool"})
    columns = [entry for entry in known.values() if isinstance(entry, Column)]

    def make(table: pl.DataFrame, seed: int) -> pl.DataFrame:
        there = [column for column in columns if column.name in table.columns]
        return make_release(table, there, None, replace(options, seed=seed))[1]

    return make


def _from_manifest(name: str, entry: Mapping[str, Any]) -> Column | str:
    try:
        told = {key: entry[key] for key in ("missing", "codes", "format") if key in entry}
        words = {"name": name, "kind": entry["kind"], "role": entry["role"]}
        return Column.from_json(words | told)
    except (KeyError, ValueError, TypeError):
        return str(entry["role"])  # an unknown one is named by the audit


def _made(release: FilePath) -> Changes:
    """Return how many people the release rests on by its manifest, and of a risk accepted."""
    if not has_manifest(release):
        return {}
    made = read_manifest(release)
    smallest = made.counts.get("fewest people in a group")
    pieces = made.guarantee.get(RESTS_ON)
    if isinstance(pieces, Mapping) and pieces:
        smallest = min(pieces.values())
    return {
        "smallest_group": smallest if isinstance(smallest, int) else None,
        "accepted_risk": made.accepted_risk,
    }


def _guarantee(release: FilePath) -> Guarantee | None:
    """Return what the release's manifest guarantees, and whether the file still matches it."""
    if not has_manifest(release):
        return None
    made = read_manifest(release)
    rows: list[Promise] = [
        {"name": row["check"], "asked": True, "found": row["detail"], "holds": row["holds"]}
        for row in verify_release(release)
    ]
    return {"text": f"Made by {made.method}; its manifest says:", "rows": rows}
