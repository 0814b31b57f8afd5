"""``tulle sites decode``: what the miner sent back, in the words of the sites."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from tulle.errors import DataError
from tulle.files import atomic_write, refuse_existing, refuse_same
from tulle.releases import manifest_path, read_manifest
from tulle.sites.codec import SiteCodec
from tulle.sites.sealed import FORMAT
from tulle.tables.formats import format_of
from tulle.tables.reading import read_table
from tulle.tables.writing import put_table
from tulle.workflows.sites import Done, FilePath, facts_of, load_agreement
from tulle.workflows.sources import sources_read

KINDS = ("table", "centers", "rules", "json", "text")
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
    """Decodes tables, rules, trees, centres and JSON; the result is for its owner's eyes."""
    for secret in sources_read(source, agreement, *values):
        refuse_same(secret, output)
    refuse_existing(output, force=force)
    shared = load_agreement(agreement, passphrase, key_file, release)
    _refuse_other_agreement(source, shared.fingerprint)
    codec = SiteCodec(shared, unknown="keep" if keep_unknown else "error")
    for path in values:
        if _is_vocabulary(path):
            codec.load_vocabulary(path)
        else:
            codec.learn(read_table(path))
    chosen = kind or _kind_of(source)
    write = _decoded(codec, source, output, chosen, decimals)
    with atomic_write(output, force=force, mode=0o600) as file:
        write(file)
    unknown = codec.unknown_count_
    notes = [f"decoded   {output} (readable by you only)"]
    if unknown:
        notes.append(
            "Unknown aliases belong to values of other sites: --values takes their vocabularies "
            "(tulle sites encode --vocabulary FILE)."
        )
    return Done({**facts_of(shared), "kind": chosen, "unknown_aliases": unknown}, {}, notes)


def _decoded(
    codec: SiteCodec, source: FilePath, output: FilePath, kind: str, decimals: int | None
) -> Callable[[BinaryIO], object]:
    """What writes the decoded result, decoding done."""
    if kind == "text":
        text = codec.decode_text(_text_of(source), decimals=decimals)
        return lambda file: file.write(text.encode())
    if kind == "json":
        try:
            found = json.loads(_text_of(source))
        except ValueError:
            raise DataError(f"{source} is not JSON: name its kind with --kind") from None
        decoded = json.dumps(codec.decode_json(found), indent=2, ensure_ascii=False) + "\n"
        return lambda file: file.write(decoded.encode())
    format_of(output)
    table = read_table(source)
    if kind == "centers":
        table = codec.decode_centers(table)
    else:
        table = codec.decode_rules(table) if kind == "rules" else codec.inverse_transform(table)
    return lambda file: put_table(table, file, output)


def _kind_of(source: FilePath) -> str:
    suffix = Path(os.fspath(source)).suffix.lower()
    if suffix == ".json":
        return "json"
    return "text" if suffix in _TEXT else "table"


def _text_of(source: FilePath) -> str:
    try:
        return Path(source).read_text("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{source} is no text in UTF-8: name its kind with --kind") from None


def _is_vocabulary(path: FilePath) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(64).startswith(b'{"format": "' + FORMAT.encode())
    except OSError:
        return False


def _refuse_other_agreement(source: FilePath, fingerprint: str) -> None:
    """Results that carry a fingerprint must carry the right one."""
    if not manifest_path(source).exists():
        return
    found = read_manifest(source).parameters.get("fingerprint", fingerprint)
    if found != fingerprint:
        raise DataError(
            f"{source} was encoded under agreement {found}, and this one is {fingerprint}: use the "
            "agreement (and --release) that it was encoded with"
        )
