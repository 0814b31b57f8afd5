"""``tulle sites join``: the miner's table, from the codes of several sites.

Sites with the same columns hold other people: their tables go one below the other. Sites that match
people hold other columns of the same ones: these go next to each other, by pseudonym.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._commands._decision import Done
from tulle._commands._sources import check_files, signing_key, sources_read
from tulle._commands.sites import CARRIED, ENCODED, MATCHED, unmeasured
from tulle._plurals import counted
from tulle._progress import bar
from tulle._types import FilePath
from tulle.errors import DataError
from tulle.io.read import read_batches, read_schema, read_table
from tulle.io.write import put_batches
from tulle.releases import Manifest, read_manifest, releasing, verify_release
from tulle.sites.matching import match_people

UNION = "union of site codes"
PEOPLE = "people of several sites, matched"
_SMALL = 10  # people left out: fewer are not counted for anybody to read
_FEW = 200  # aliases: a column of more is one of names, which no two sites need share


class _Part(NamedTuple):
    """The codes of one site, as their manifest tells them."""

    source: FilePath
    fingerprint: str
    columns: Mapping[str, Any]
    records: int
    table: str  # the keyed name of the table that the codes were made from
    sha256: str


def join(
    sources: Sequence[FilePath],
    output: FilePath,
    *,
    sign_key: FilePath | None = None,
    force: bool = False,
) -> Done:
    """Join the codes of several sites into one table on the miner's side, or say why not."""
    if len(sources) < 2:
        raise DataError("a join needs the codes of at least two sites")
    reads = {os.path.realpath(path): path for path in sources_read(*sources, sign_key)}
    check_files(reads, release=output, force=force)

    signer = signing_key(sign_key)
    parts = [_checked(source) for source in sources]
    first = parts[0]
    for part in parts:
        if part.fingerprint != first.fingerprint:
            raise DataError(
                f"{part.source} was encoded under agreement {part.fingerprint}, "
                f"{first.source} under {first.fingerprint}: their codes do not match"
            )
    entries = first.columns.items()  # by one of them, perhaps, people are matched
    by = next((name for name, entry in entries if entry["coded"] == MATCHED), None)
    joined = _union(parts) if by is None else _people(parts, by)
    words = {CARRIED: first.fingerprint}
    read = sources_read(*sources, sign_key)
    with releasing(output, sources=read, sign_key=signer, force=force) as draft:
        put_batches(joined.batches, draft.file, output, words=words)
        draft.finish(joined.manifest)
    return joined.done()


class _Joined(NamedTuple):
    """What is written, and what is said of it once it is there."""

    manifest: Manifest
    batches: Iterable[pl.DataFrame]
    done: Callable[[], Done]


def _union(parts: Sequence[_Part]) -> _Joined:
    first = parts[0]
    seen: dict[str, FilePath] = {}
    for part in parts:
        if part.columns != first.columns:
            raise DataError(f"{part.source} and {first.source} have different columns")
        # sites without a record look alike, and count nothing
        names = {part.sha256, part.table} - {""} if part.records else set()
        for name in names & set(seen):
            raise _same_table(part.source, seen[name])
        seen.update(dict.fromkeys(names, part.source))
    schema = _schema(parts)
    records = sum(part.records for part in parts)
    manifest = _manifest(UNION, parts, records, first.columns, "one schema, no table twice")
    aliased = [name for name, entry in first.columns.items() if entry["coded"] == "alias"]
    seen_aliases: list[pl.DataFrame] = []

    def done() -> Done:
        rows = [{"table": os.fspath(part.source), "records": part.records} for part in parts]
        facts = {"fingerprint": first.fingerprint, "records": records}
        compared = _compared(aliased, seen_aliases) if seen_aliases else []
        return Done(facts, {"joined": rows, "aliases": compared}, _notes(compared), unmeasured())

    return _Joined(manifest, _batches(parts, schema, aliased, seen_aliases), done)


def _people(parts: Sequence[_Part], by: str) -> _Joined:
    """Put the columns of the people who are in all tables next to each other."""
    tables = []
    for part in parts:
        schema = _schema([part])
        tables.append(read_table(part.source).select(schema.names()).cast(schema))
        _refuse_other_height(part, tables[-1].height)
    found = match_people(tables, by)
    columns = {name: entry for part in parts for name, entry in part.columns.items() if name != by}
    people = found.table.height
    manifest = _manifest(PEOPLE, parts, people, columns, "nobody twice, no pseudonym")
    rows = [
        {"table": os.fspath(part.source), "matched": people, "left_out": _told(count)}
        for part, count in zip(parts, found.left_out)
    ]
    facts = {"fingerprint": parts[0].fingerprint, "records": people}
    notes = [
        f"The pseudonyms of '{by}' are not in the joined table, but still in those of the sites: "
        "delete these once they are joined."
    ]
    if people < _SMALL:
        notes.append(f"Only {people} people were matched: do all sites write '{by}' alike?")
    return _Joined(
        manifest, [found.table], lambda: Done(facts, {"joined": rows}, notes, unmeasured())
    )


def _told(left_out: int) -> int | str:
    """Return a number of people unless it is so small that it tells about single ones."""
    return left_out if left_out >= _SMALL else f"fewer than {_SMALL}"


def _manifest(
    method: str, parts: Sequence[_Part], records: int, columns: Mapping[str, Any], promise: str
) -> Manifest:
    return Manifest(
        method=method,
        parameters={"fingerprint": parts[0].fingerprint, "tables": len(parts)},
        guarantee={f"one agreement, {promise}": True},
        verified={"fingerprints equal": True, "tables unchanged": True, promise: True},
        counts={"records": records},
        columns=columns,
        source={"tables": [part.table for part in parts]},
        output={"columns": list(columns)},
        verdict=unmeasured(),
    )


def _compared(names: Sequence[str], seen: Sequence[pl.DataFrame]) -> list[dict[str, Any]]:
    """Return for each column how many aliases there are, and how many at one site only.

    One site's own ways of writing show here: values cannot be compared, for nobody can read them.
    """
    sites, records = pl.col("site").n_unique(), pl.col("records").sum()
    found = pl.concat(seen).group_by("column", "alias").agg(sites, records)
    rows = []
    for name in names:
        own = found.filter(pl.col("column") == name)
        alone = own.filter(pl.col("site") == 1)
        rows.append(
            {
                "column": name,
                "aliases": own.height,
                "at_one_site_only": alone.height,
                "records_with_these": int(alone["records"].sum()),
            }
        )
    return rows


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warn of columns of which hardly an alias occurs at two sites."""
    return [
        f"{row['at_one_site_only']} of {counted(row['aliases'], 'alias')} of the column "
        f"'{row['column']}' occur at one site only ({counted(row['records_with_these'], 'record')}"
        "): ask the sites whether they write its values alike (m and M are two values)"
        for row in rows
        if 2 * row["at_one_site_only"] > row["aliases"] and row["aliases"] <= _FEW
    ]


def _batches(
    parts: Sequence[_Part], schema: pl.Schema, names: Sequence[str], aliases: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Yield the codes of one table after another; raise if one differs from its manifest.

    How often each alias occurs at each site goes into ``aliases``.
    """
    seen: dict[tuple[int, int], FilePath] = {}
    with bar("Joining", len(parts)) as advance:
        for site, part in enumerate(parts):
            records = content = 0
            for batch in read_batches(part.source):
                codes = batch.select(schema.names()).cast(schema)
                records += codes.height
                hashes = codes.hash_rows(seed=0).to_numpy()
                content += int(np.sum(hashes, dtype=np.uint64))
                named = codes.select(names).unpivot(variable_name="column", value_name="alias")
                counts = named.drop_nulls().group_by("column", "alias").len("records")
                aliases.append(counts.with_columns(site=pl.lit(site)))
                yield codes
            _refuse_other_height(part, records)
            # the same records in any order, name and format
            twin = seen.setdefault((records, content % 2**64), part.source)
            if records and twin is not part.source:
                raise _same_table(part.source, twin)
            advance(1)


def _checked(source: FilePath) -> _Part:
    """Return what the manifest says of a table of codes that is unchanged since it was encoded."""
    manifest = read_manifest(source)
    if manifest.method not in (ENCODED, UNION, PEOPLE):
        raise DataError(
            f"{source} is not a table of site codes but a release made by {manifest.method}"
        )
    if not all(row["holds"] for row in verify_release(source)):
        raise DataError(f"{source} was changed after it was encoded: ask the site for a new copy")
    if manifest.method != ENCODED:
        raise DataError(f"{source} is joined already: join the tables of the sites")
    try:
        return _Part(
            source,
            str(manifest.parameters["fingerprint"]),
            {name: {"coded": str(entry["coded"])} for name, entry in manifest.columns.items()},
            int(manifest.counts["records"]),
            str(manifest.source["table"]),
            str(manifest.output["sha256"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(
            f"the manifest of {source} names no agreement, or is damaged: ask the site for a new "
            "copy"
        ) from None


def _refuse_other_height(part: _Part, records: int) -> None:
    if records != part.records:
        raise DataError(
            f"{part.source} holds {counted(records, 'record')}, but its manifest says "
            f"{part.records}"
        )


def _same_table(source: FilePath, twin: FilePath) -> DataError:
    return DataError(f"{source} and {twin} are the same table: it would count twice")


def _schema(parts: Sequence[_Part]) -> pl.Schema:
    """Return the columns of the union: codes are numbers, aliases text, plain columns unchanged."""
    schemas = [read_schema(part.source) for part in parts]
    joined: dict[str, Any] = {}
    for name, entry in parts[0].columns.items():
        if any(name not in schema for schema in schemas):
            raise DataError(f"not every table has the column '{name}' of its manifest")
        found = {
            schema[name]
            for part, schema in zip(parts, schemas)
            if not _is_empty(part, name, schema[name])
        }
        if entry["coded"] == "plain":
            if len(found) > 1 and not all(dtype.is_numeric() for dtype in found):
                raise DataError(f"the plain column '{name}' has different types at different sites")
            empty = [pl.DataFrame(schema={name: dtype}) for dtype in found or {pl.String()}]
            joined[name] = pl.concat(empty, how="vertical_relaxed").schema[name]
        elif entry["coded"] in ("alias", MATCHED):
            joined[name] = pl.String()
        elif all(dtype.is_numeric() for dtype in found):
            joined[name] = pl.Float64()
        else:
            raise DataError(f"the column '{name}' holds text at some site, not codes of numbers")
    return pl.Schema(joined)


def _is_empty(part: _Part, name: str, dtype: pl.DataType) -> bool:
    """Return whether a column says nothing about its type: empty columns of text files are text."""
    if not part.records or dtype == pl.Null:
        return True
    if dtype != pl.String:
        return False
    batches = read_batches(part.source, columns=[name])
    return all(batch[name].null_count() == len(batch) for batch in batches)
