"""``tulle sites join``: the miner's union of the codes of several sites."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.progress import bar
from tulle.releases import Manifest, check_target, read_manifest, verify_release, write_release
from tulle.tables.reading import read_batches, read_schema
from tulle.tables.writing import put_batches
from tulle.workflows.site_tables import ENCODED, carried
from tulle.workflows.sites import Done, FilePath
from tulle.workflows.sources import sources_read

UNION = "union of site codes"


def join(sources: Sequence[FilePath], output: FilePath, *, force: bool = False) -> Done:
    """The miner's side: one table of the codes of several sites, or a reason why not."""
    if len(sources) < 2:
        raise DataError("a union needs the codes of at least two sites")
    check_target(output, sources=sources_read(*sources), force=force)
    manifests = [_checked(source) for source in sources]
    _refuse_mixture(sources, manifests)
    first = manifests[0]
    agreed = str(first.parameters["fingerprint"])
    schema = _schema(sources, manifests)

    def batches() -> Iterator[pl.DataFrame]:
        with bar("Joining", len(sources)) as advance:
            for source in sources:
                for batch in read_batches(source):
                    yield batch.select(schema.names()).cast(schema)
                advance(1)

    records = [int(manifest.counts["records"]) for manifest in manifests]
    manifest = Manifest(
        method=UNION,
        parameters={"fingerprint": agreed, "tables": len(sources)},
        guarantee={"one agreement, one schema, no table twice": True},
        verified={"fingerprints equal": True, "tables unchanged": True, "no table twice": True},
        counts={"records": sum(records)},
        columns=first.columns,
        source={"tables": [manifest.source["table"] for manifest in manifests]},
        output={"columns": schema.names()},
    )
    write_release(
        output,
        lambda file: put_batches(batches(), file, output, words=carried(agreed)),
        manifest,
        sources=sources_read(*sources),
        force=force,
    )
    rows = [{"table": os.fspath(s), "records": count} for s, count in zip(sources, records)]
    facts = {"fingerprint": agreed, "records": sum(records)}
    return Done(facts, {"joined": rows}, [])


def _checked(source: FilePath) -> Manifest:
    """The manifest of a table of codes that is unchanged since it was encoded."""
    manifest = read_manifest(source)
    if manifest.method not in (ENCODED, UNION):
        raise DataError(f"{source} holds no site codes, but a release by {manifest.method}")
    if not all(row["holds"] for row in verify_release(source)):
        raise DataError(f"{source} was changed after it was encoded: ask the site for it again")
    if manifest.method == UNION:
        raise DataError(f"{source} is a union already: join the tables of the sites")
    if "fingerprint" not in manifest.parameters or "table" not in manifest.source:
        raise DataError(f"the manifest of {source} names no agreement")
    return manifest


def _refuse_mixture(sources: Sequence[FilePath], manifests: Sequence[Manifest]) -> None:
    first = manifests[0]
    seen: dict[str, FilePath] = {}
    for source, manifest in zip(sources, manifests):
        if manifest.parameters["fingerprint"] != first.parameters["fingerprint"]:
            raise DataError(
                f"{source} was encoded under agreement {manifest.parameters['fingerprint']}, "
                f"{sources[0]} under {first.parameters['fingerprint']}: their codes do not match"
            )
        if manifest.columns != first.columns:
            raise DataError(f"{source} and {sources[0]} have different columns")
        # the bytes of the codes, and the keyed name of the table that they were made from
        names = {manifest.output["sha256"], manifest.source["table"]} - {""}
        for name in names & set(seen):
            raise DataError(f"{source} and {seen[name]} are the same table: it would count twice")
        seen.update(dict.fromkeys(names, source))


def _schema(sources: Sequence[FilePath], manifests: Sequence[Manifest]) -> pl.Schema:
    """The columns of the union: codes are numbers, aliases text, plain columns as they are."""
    schemas = [read_schema(source) for source in sources]
    joined: dict[str, Any] = {}
    for name, entry in manifests[0].columns.items():
        found = [schema.get(name) for schema in schemas]
        if any(dtype is None for dtype in found):
            raise DataError(f"not every table has the column '{name}' of its manifest")
        if entry["coded"] != "plain":
            joined[name] = pl.Float64() if entry["coded"] == "number" else pl.String()
            continue
        kinds = {dtype for dtype in found if dtype != pl.Null}
        if len(kinds) > 1 and not all(dtype is not None and dtype.is_numeric() for dtype in kinds):
            raise DataError(f"the plain column '{name}' has different types at different sites")
        joined[name] = pl.Float64() if len(kinds) > 1 else next(iter(kinds), pl.String())
    return pl.Schema(joined)
