"""``tulle sites decode``: what the miner sent back, in the words of the sites."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tulle._commands._sources import check_files
from tulle._commands.sites import CARRIED, Done, facts_of, knowing, load_agreement
from tulle._files import atomic_write
from tulle.errors import DataError, ParameterError, TulleError
from tulle.io._formats import Format, display_name, format_of, is_sql, readable_as
from tulle.releases import has_manifest, read_manifest

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle._types import FilePath
    from tulle.sites.codec import SiteCodec

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

    from tulle.sites.codec import SiteCodec

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
        decoded = _decoded_json(codec, source)
        return lambda file: file.write(decoded)
    format_of(output)

    from tulle.io.read import read_table
    from tulle.io.write import put_table

    table = read_table(source)
    if kind == "centers":
        table = codec.decode_centers(table)
    else:
        table = codec.decode_rules(table) if kind == "rules" else codec.inverse_transform(table)
    return lambda file: put_table(table, file, output)


def _decoded_json(codec: SiteCodec, source: FilePath) -> bytes:
    try:
        found = codec.decode_json(json.loads(_text_of(source)))
        return (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        raise DataError(f"{source} is not valid text (it contains an unpaired surrogate)") from None
    except RecursionError:
        raise DataError(f"{source} is nested too deeply") from None
    except TulleError:
        raise
    except ValueError:
        raise DataError(f"{source} is not JSON: give its kind with --kind") from None


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
        import polars as pl

        with readable_as(source, Format.PARQUET):
            found = pl.read_parquet_metadata(Path(source)).get(CARRIED)
    else:
        found = None
    return None if found is None else str(found)
