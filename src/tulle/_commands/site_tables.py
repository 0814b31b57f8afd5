"""``tulle sites encode``: a site's table to codes, and a report on what they reveal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import polars as pl

from tulle._attacks.result import AttackResult
from tulle._attacks.sites import WARNING, attack_tables, warnings_of, worst_of
from tulle._commands._decision import Done
from tulle._commands._sources import check_files, signing_key, sources_read, writing_beside
from tulle._commands.sites import (
    CARRIED,
    ENCODED,
    MATCHED,
    facts_of,
    load_agreement,
    pseudonymised,
    unmeasured,
)
from tulle._files import digest
from tulle._metrics.models import same_answers
from tulle._plurals import counted
from tulle._random import as_generator, seed_policy
from tulle._report.model import Given, Judgement, Section
from tulle._report.words import attack_label
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.errors import ParameterError
from tulle.io._formats import display_name, is_sql
from tulle.io.read import read_batches, read_schema, read_table
from tulle.io.write import put_batches
from tulle.releases import Manifest, releasing
from tulle.sites._columns import Aliased, Coded, Dropped, Graded, Matched, Plain, held_columns
from tulle.sites.agreement import SiteAgreement
from tulle.sites.codec import SiteCodec
from tulle.sites.matching import refuse_repeated
from tulle.table.schema import Role

_MOST_TOLD = 6  # columns in the verdict
LIMITS = (
    "Frequencies: an alias is as common as its value.",
    "Order: a code is larger if its value is.",
    "Equality: the same value has the same code in every record and at every site.",
    "Anything from the other sites: anyone who holds the agreement can read every table of codes.",
)
WHO = (
    "Who somebody is, from the other sites: anyone who holds the agreement can compute the "
    "pseudonym of everybody they know."
)


def encode(
    source: FilePath,
    output: FilePath,
    *,
    agreement: FilePath,
    passphrase: str | None = None,
    key_file: FilePath | None = None,
    release: str | None = None,
    clamp: bool = False,
    vocabulary: FilePath | None = None,
    report: FilePath | None = None,
    public: FilePath | None = None,
    seed: int | None = None,
    sign_key: FilePath | None = None,
    command: str = "",
    force: bool = False,
) -> Done:
    """Write the codes of a site's table, batch by batch, with their manifest.

    A report attacks the codes: by someone who has the table ``public``, else by someone who
    knows exactly how the values are distributed.
    """
    sources = sources_read(source, agreement, key_file, public, sign_key)
    check_files(
        {os.path.realpath(path): path for path in sources},
        release=output,
        report=report,
        writes={"--vocabulary": vocabulary},
        force=force,
    )
    if public is not None and report is None:
        raise ParameterError("what attackers know is only used in a report: pass --report FILE")

    signer = signing_key(sign_key)
    shared = load_agreement(agreement, passphrase, key_file, release)
    held = held_columns(shared.columns, read_schema(source).names())
    hidden = [c for c in held if not isinstance(c, Dropped | Plain | Matched)]  # worth an attack
    known = None if public is None else read_table(public, [c.name for c in hidden])
    rng = as_generator(seed)  # one for all batches: they must not draw alike
    codec = SiteCodec(shared, outside="clamp" if clamp else "error", random_state=rng)
    counts = {"records": 0}
    matched = [column.name for column in held if isinstance(column, Matched)]
    people: list[pl.Series] = []

    def batches() -> Iterator[pl.DataFrame]:
        for batch in read_batches(source):
            codes = codec.transform(batch)
            counts["records"] += codes.height
            people.extend(codes.select(matched))
            yield codes
        if people:  # nobody may occur in two batches
            refuse_repeated(pl.concat(people), "the table")

    options = {"release": release, "clamp": clamp}
    manifest = _manifest(shared, held, source, options, seed)  # before the source can change
    with releasing(output, sources=sources, sign_key=signer, force=force) as draft:
        put_batches(batches(), draft.file, output, words={CARRIED: shared.fingerprint})
        draft.finish(replace(manifest, counts=counts))
    there = f"the codes {display_name(output)} were written"
    if vocabulary is not None:
        with writing_beside(there, vocabulary):
            codec.save_vocabulary(vocabulary, force=force)
    attacks: list[AttackResult] = []
    same: dict[str, float] = {}
    if report is not None:
        attacks, same = _audited(held, read_table(source), read_table(output), known, seed)
    made = _report(shared, held, attacks, same, counts["records"], command)
    if report is not None:
        with writing_beside(there, report):
            made.save(report, force=force)
    notes = [WARNING] if warnings_of(attacks) else []
    if report is None:
        notes = ["Pass --report FILE to measure what these codes reveal."]
    summary = {**facts_of(shared), **counts}
    return Done(summary, {"attacks": _rows(attacks)}, notes, made.verdict)


def _manifest(
    agreement: SiteAgreement,
    held: Sequence[Coded],
    source: FilePath,
    options: Mapping[str, Any],
    seed: int | None,
) -> Manifest:
    """Return what the miner may know: nothing of the source, and of a column that it is coded."""
    sent = [column for column in held if not isinstance(column, Dropped)]
    # a plain digest would let the miner try guesses at a small table
    table = "" if is_sql(source) else agreement.keyed_id(digest(sources_read(source)[0]))
    moved = ["the end of its range"] if options["clamp"] else []
    if any(isinstance(column, Aliased) and column.other for column in agreement.columns):
        moved.append("'other'")
    back = " or ".join(["every code leads back to its value", *moved])
    return Manifest(
        method=ENCODED,
        parameters={**facts_of(agreement), **options},
        guarantee={"names and scales unreadable without the agreement": True},
        verified={back: True, "no two values share an alias": True},
        columns={column.name: {"coded": _coded(column)} for column in sent},
        source={"table": table},
        output={"columns": [column.name for column in sent]},
        verdict=unmeasured(),
        seed=seed_policy(seed),
    )


def _coded(column: Coded) -> str:
    if isinstance(column, Plain | Matched):
        return "plain" if isinstance(column, Plain) else MATCHED
    return "number" if isinstance(column, Graded) else "alias"


def _audited(
    held: Sequence[Coded],
    plain: pl.DataFrame,
    codes: pl.DataFrame,
    known: pl.DataFrame | None,
    seed: int | None,
) -> tuple[list[AttackResult], dict[str, float]]:
    """Return the attacks on the codes, and whether miners still find the same."""
    splits = {c.name: c.split for c in held if isinstance(c, Aliased) and c.split}
    codes = codes.drop(column.name for column in held if isinstance(column, Matched))
    attacks = attack_tables(plain, codes, known, splits=splits, random_state=seed)
    # miners predict the target, else the first column of categories
    named = [column for column in held if isinstance(column, Aliased)]
    targets = [column.name for column in named if column.role is Role.TARGET]
    target = next(iter([*targets, *(column.name for column in named)]), None)
    if target is None:
        return attacks, {}
    mined = plain.select(c.name for c in held if not isinstance(c, Dropped | Matched))
    return attacks, same_answers(mined, codes, target, as_generator(seed))


def _report(
    agreement: SiteAgreement,
    held: Sequence[Coded],
    attacks: list[AttackResult],
    same: dict[str, float],
    records: int,
    command: str,
) -> Audit:
    """Return the owner's report: how columns are coded, and what an adversary makes of it."""
    who = [WHO for column in held if isinstance(column, Matched)]
    lines = warnings_of(attacks)[:-1]
    rest = len(lines) - _MOST_TOLD
    more = [f"{counted(rest, 'more column')}: see the attacks."] if rest > 0 else []
    details = [*lines[:_MOST_TOLD], *more]  # what the attacks recovered, for the owner
    after = "Run this again with --report: it attacks the codes and mines them."
    if attacks:  # nobody has mined the codes yet
        after = "Mine the codes and the table with the same program, and compare what it finds."
    unmined = {**unmeasured()["use"], "next": after}
    use: Given = {} if same else {"use": cast("Judgement", unmined)}
    columns: Section = {
        "id": "columns",
        "title": "How each column is coded",
        "text": "Read this together with the attacks, which were run on this table.",
        "owner_only": True,
        "blocks": [
            {
                "type": "table",
                "columns": ["column", "type", "role", "coded"],
                "rows": [[c.name, c.type, str(c.role), c.in_words] for c in held],
            }
        ],
    }
    return Audit(
        {
            "title": "Codes of one site",
            "summary": f"{counted(records, 'record')} under the agreement {agreement.fingerprint}.",
            "guarantee": {
                "text": "Names and scales cannot be read without the agreement; every code was "
                "decoded again before it was written.",
                "rows": [],
            },
            "k": 10,
            "records": records,
            "metrics": same,
            "attacks": {result.name: result.to_dict() for result in attacks},
            "sections": [columns],
            "limits": [WARNING, *LIMITS, *who],
            "command": command,
            "provenance": {"fingerprint": agreement.fingerprint},
            "verdict": {"privacy": pseudonymised(details), **use},
        }
    )


def _rows(attacks: list[AttackResult]) -> list[dict[str, Any]]:
    """Return the worst attack on each column; the report has them all."""
    return [
        {
            "column": column,
            "worst_attack": attack_label(result.name.partition(":")[0]),
            "recovered": result.rate,
            "guessing": result.baseline,
        }
        for column, result in worst_of(attacks).items()
    ]
