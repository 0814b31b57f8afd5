"""``tulle sites summary``, ``agree``, ``rotate`` and ``decode``: what the sites do themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from tulle._commands._decision import Done
from tulle._commands._options import Options
from tulle._commands._sources import check_files
from tulle._files import atomic_write
from tulle._report.model import Judgement, Verdict
from tulle._types import FilePath
from tulle.errors import DataError, KeyMaterialError, ParameterError, TulleError
from tulle.guessing.columns import guess_columns
from tulle.io._formats import Format, display_name, format_of, is_sql, readable_as
from tulle.io.read import read_table
from tulle.io.write import put_table
from tulle.keys import SecretKey
from tulle.releases import has_manifest, read_manifest
from tulle.sites._choices import MEASURED, OPTIONS, merged
from tulle.sites._sealed import FORMAT
from tulle.sites.agreement import SiteAgreement
from tulle.sites.codec import SiteCodec
from tulle.sites.summary import SiteSummary, merge_summaries, written_differently
from tulle.table.policy import Policy, load_policy
from tulle.table.schema import Column, Kind, Role, kind_of

ENCODED = "site codes"
MATCHED = "pseudonym"  # how the column is coded by which people are matched
CARRIED = "tulle.fingerprint"  # in a Parquet file of codes, in case its manifest is lost
_SHORTEST = 8  # characters of a passphrase


def pseudonymised(details: Sequence[str] = ()) -> Judgement:
    """Return what is to be said of codes: whoever holds the agreement can read them."""
    return {
        "level": "caution",
        "reason": "These codes are pseudonymised data about people: anyone who holds the agreement "
        "can read them, and anyone who knows some of the people can work some of them out.",
        "next": "Send them only to a miner who is bound by contract not to try, and keep the "
        "agreement at the sites.",
        "details": list(details),
    }


def unmeasured() -> Verdict:
    """Return the verdict on codes as their manifest has it: it goes to the miner."""
    return {
        "privacy": pseudonymised(),
        "use": {
            "level": "undecided",
            "reason": "Not decided: whether miners find the same in the codes was not measured.",
            "next": "Ask the sites for their reports (tulle sites encode --report).",
            "details": [],
        },
    }


def summarise(
    source: FilePath, output: FilePath, *, policy: FilePath | None = None, force: bool = False
) -> Done:
    """Write what a site may share with the others about its table."""
    format_of(source)
    reads = {"INPUT": source, "--policy": policy}
    check_files(reads, writes={"--output": output}, force=force)

    table = read_table(source)
    if policy:
        known = load_policy(policy, table.columns)
    else:
        # a column that is empty or the same everywhere may be full of news at the other sites: it
        # must not be left out for all of them
        guesses = guess_columns(table)
        telling = [g for g in guesses if g.column.role is not Role.IGNORED or g.distinct > 1]
        known = Policy(tuple(_typed(guess.column, table.schema) for guess in telling))
    summary = SiteSummary.of(table, known if known.columns else None)
    summary.save(output, force=force)
    rows = [
        {
            "column": c.name, "kind": c.kind, "role": c.role, "low": c.low, "high": c.high,
            "written": c.written or None, "alike": c.alike,
        }
        for c in summary.columns
    ]  # fmt: skip
    notes = written_differently([summary])
    notes += [
        f"summary   {output}",
        "It contains no category and no exact extreme: it can be sent.",
    ]
    return Done({"columns": len(rows)}, {"told": rows}, notes)


def agree(
    output: FilePath,
    *,
    summaries: Sequence[FilePath] = (),
    policy: FilePath | None = None,
    passphrase: str | None = None,
    key_file: FilePath | None = None,
    force: bool = False,
    **choices: Any,
) -> Done:
    """Create the agreement and write it sealed; create a key file that does not exist yet."""
    is_new = key_file is not None and not Path(key_file).exists()
    reads = {os.path.realpath(path): path for path in summaries} | {"--policy": policy}
    keys = {"--key-file": key_file}
    writes = {"--output": output} | (keys if is_new else {})
    check_files(reads if is_new else reads | keys, writes=writes, force=force)
    given = {name: choice for name, choice in choices.items() if choice not in (None, (), {})}
    named = {} if policy is None else load_policy(policy).parameters.get("sites", {})
    words = {name: f"{policy}: '{name}' in [sites]" for name in named}
    words |= {name: "--range" if name == "ranges" else f"--{name}" for name in given}
    with Options(words=words).naming():
        agreement = _agreement(summaries, policy, given)
    notes = written_differently([SiteSummary.load(path) for path in summaries])
    if key_file is not None and is_new:
        SecretKey.generate().save(key_file)
        notes.append(f"key file  {key_file} (new: every site needs it)")
    lock = lock_of(passphrase, key_file)
    if isinstance(lock, str) and len(lock) < _SHORTEST:
        raise KeyMaterialError(f"the passphrase needs at least {_SHORTEST} characters")
    agreement.save(output, lock, force=force)
    notes += [
        f"agreement {output}",
        "Compare the fingerprint by phone. Send the file one way and what opens it another way.",
    ]
    return Done(facts_of(agreement), {"columns": agreement.describe()}, notes)


def rotate(
    agreement: FilePath,
    output: FilePath | None = None,
    *,
    passphrase: str | None = None,
    key_file: FilePath | None = None,
    listed: Sequence[str] = (),
    values: Sequence[FilePath] = (),
    force: bool = False,
) -> Done:
    """Write the agreement under a new key next to the old one, which stays readable.

    ``listed`` columns get a mapping table of the categories in ``values``: tables of this site,
    and vocabularies that the others have sealed. Nothing of them is shown.
    """
    if bool(listed) != bool(values):
        raise ParameterError(
            "--list names the columns of a mapping table, --values the files that "
            "hold their categories: give both"
        )
    check_files({"AGREEMENT": agreement, "--key-file": key_file}, force=force)

    lock = lock_of(passphrase, key_file)
    old = SiteAgreement.load(agreement, lock)
    codec = knowing(SiteCodec(old), values)
    tables = {name: codec.values_of(name) for name in listed}
    new = old.rotate(tables)
    path = Path(agreement)
    target = Path(output or path.with_name(f"{path.stem}.g{new.generation}{path.suffix}"))
    reads = {"AGREEMENT": agreement, "--key-file": key_file}
    check_files(reads, writes={"--output": target}, force=force)
    new.save(target, lock, force=force)
    notes = [f"agreement {target}", f"old       {agreement} (kept: it decodes what it encoded)"]
    rows = [{"column": name, "categories": len(held)} for name, held in tables.items()]
    found = {"mapping_tables": rows} if rows else {}
    return Done({**facts_of(new), "replaces": old.fingerprint}, found, notes)


def lock_of(passphrase: str | None, key_file: FilePath | None) -> str | SecretKey:
    """Return what opens a sealed file: the key of a key file, or a passphrase."""
    if key_file is not None:
        return SecretKey.load(key_file)
    if not passphrase:
        raise KeyMaterialError("pass a passphrase, or the key file (--key-file FILE)")
    return passphrase


def load_agreement(
    path: FilePath, passphrase: str | None, key_file: FilePath | None, release: str | None
) -> SiteAgreement:
    agreement = SiteAgreement.load(path, lock_of(passphrase, key_file))
    return agreement if release is None else agreement.for_release(release)


def knowing(codec: SiteCodec, values: Sequence[FilePath]) -> SiteCodec:
    """Return the codec with the values of tables, and of vocabularies that other sites shared."""
    for path in values:
        begin = b""
        with suppress(OSError), open(path, "rb") as file:
            begin = file.read(64)
        if begin.startswith(b'{"format": "' + FORMAT.encode()):
            codec.load_vocabulary(path)
        else:
            codec.learn(read_table(path))
    return codec


def facts_of(agreement: SiteAgreement) -> dict[str, Any]:
    return {"fingerprint": agreement.fingerprint, "generation": agreement.generation}


def _agreement(
    summaries: Sequence[FilePath], policy: FilePath | None, choices: dict[str, Any]
) -> SiteAgreement:
    """Create an agreement from a policy, from summaries, or from both (kinds and ranges)."""
    if not summaries and policy is None:
        raise DataError("an agreement needs a policy (--policy FILE) or summaries from the sites")
    if not summaries:
        return SiteAgreement.from_policy(policy or "", **choices)
    kept = {} if policy is None else load_policy(policy).options("sites", OPTIONS)
    wanted = merged(kept, choices)
    told_by_sites = [SiteSummary.load(path) for path in summaries]
    schema, ranges = merge_summaries(told_by_sites, wanted.get("match"))
    if policy is None:
        return SiteAgreement.create(schema, **merged({"ranges": ranges}, choices))
    known = load_policy(policy, [column.name for column in schema])
    measured = [column for column in known.columns if column.kind in MEASURED]
    told = {c.name: c.bounds or ranges.get(c.name) for c in measured}
    public = {name: ends for name, ends in told.items() if ends is not None}
    return SiteAgreement.create(known, **merged({"ranges": public}, wanted))


def _typed(column: Column, types: Mapping[str, Any]) -> Column:
    """Return a column as sites code it, by its type: they know no special values and no forms."""
    kind = column.kind
    if kind in (*MEASURED, Kind.ORDERED) and not types[column.name].is_numeric():
        dated = types[column.name] == pl.Date or isinstance(types[column.name], pl.Datetime)
        kind = Kind.DATETIME if dated else Kind.CATEGORY
    elif kind is Kind.ORDERED:
        kind = kind_of(types[column.name])
    return Column(column.name, kind, column.role, reason=column.reason)


# ``tulle sites decode``: what the miner sent back, in the words of the sites.

_TEXT = (".txt", ".md", ".log", ".out", ".dot", ".tree", ".rules")


def decode(
    source: FilePath,
    output: FilePath,
    *,
    agreement: FilePath,
    passphrase: str | None = None,
    key_file: FilePath | None = None,
    release: str | None = None,
    values: Sequence[FilePath] = (),
    kind: str | None = None,
    keep_unknown: bool = False,
    decimals: int | None = None,
    force: bool = False,
) -> Done:
    """Decode tables, rules, trees, centres and JSON; the result is for its owner only."""
    reads = {os.path.realpath(path): path for path in (source, agreement, *values)}
    if is_sql(output):
        raise ParameterError("decoded results must be written to a file, not to a database")
    check_files(reads | {"--key-file": key_file}, writes={"--output": output}, force=force)
    suffix = Path(os.fspath(source)).suffix.lower()
    chosen = kind or ("json" if suffix == ".json" else "text" if suffix in _TEXT else "table")
    if decimals is not None and chosen != "text":
        raise ParameterError(f"--decimals is for thresholds in text, not for {chosen}")

    shared = load_agreement(agreement, passphrase, key_file, release)
    found = _carried(source)
    if found is not None and found != shared.fingerprint:
        raise DataError(
            f"{display_name(source)} was encoded under agreement {found}, but this one is "
            f"{shared.fingerprint}: use the agreement (and --release) that it was encoded with"
        )
    codec = knowing(SiteCodec(shared, unknown="keep" if keep_unknown else "error"), values)
    write = _decoded(codec, source, output, chosen, decimals)
    with atomic_write(output, force=force, mode=0o600) as file:
        write(file)
    unknown = codec.unknown_count_
    notes = [f"decoded   {output} (readable by you only)"]
    if unknown:
        notes.append(
            "Unknown aliases belong to values of other sites: pass their vocabularies with "
            "--values (tulle sites encode --vocabulary FILE)."
        )
    notes += [  # thresholds that do not lead back to one value
        f"Thresholds of the column '{name}' were printed with too few digits: decoded, they may be "
        f"off by {off:,.3g}{unit}. Ask the miner for more (export_text(tree, decimals=10))"
        for name, (off, unit) in codec.rough_.items()
    ]
    return Done({**facts_of(shared), "kind": chosen, "unknown_aliases": unknown}, {}, notes)


def _decoded(
    codec: SiteCodec, source: FilePath, output: FilePath, kind: str, decimals: int | None
) -> Callable[[BinaryIO], object]:
    """Decode the result, and return a function that writes it."""
    if kind == "text":
        text = codec.decode_text(_text_of(source), decimals=decimals)
        return lambda file: file.write(text.encode())
    if kind == "json":
        try:
            found = codec.decode_json(json.loads(_text_of(source)))
            decoded = (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{source} is not valid text (it contains an unpaired surrogate)"
            ) from None
        except RecursionError:
            raise DataError(f"{source} is nested too deeply") from None
        except TulleError:
            raise
        except ValueError:
            raise DataError(f"{source} is not JSON: give its kind with --kind") from None
        return lambda file: file.write(decoded)
    format_of(output)

    table = read_table(source)
    if kind == "centers":
        table = codec.decode_centers(table)
    else:
        table = codec.decode_rules(table) if kind == "rules" else codec.inverse_transform(table)
    return lambda file: put_table(table, file, output)


def _text_of(source: FilePath) -> str:
    try:
        return Path(source).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{source} is not UTF-8 text: give its kind with --kind") from None


def _carried(source: FilePath) -> str | None:
    """Return the fingerprint next to a table, or inside it if the manifest is lost."""
    if has_manifest(source):
        found = read_manifest(source).parameters.get("fingerprint")
    elif Path(source).suffix.lower() == ".parquet" and Path(source).is_file():
        with readable_as(source, Format.PARQUET):
            found = pl.read_parquet_metadata(Path(source)).get(CARRIED)
    else:
        found = None
    return None if found is None else str(found)
