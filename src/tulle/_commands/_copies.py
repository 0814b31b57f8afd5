"""What ``tulle condense`` draws from one fitted model, and what lies beside a release."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import polars as pl

from tulle._checks import check_int
from tulle._files import atomic_write, digest, refuse_existing
from tulle._json import plain
from tulle._relations.language import quote
from tulle._report.codebook import codebook_page
from tulle._types import FilePath
from tulle.errors import ParameterError
from tulle.io._dialect import Dialect
from tulle.io._formats import is_sql
from tulle.io._statistics_files import FileLabels
from tulle.io.write import put_table

if TYPE_CHECKING:
    from tulle._commands._condensing import Condensing

_MOST_COPIES = 100
_PACKED = (".gz", ".zst", ".bz2", ".xz")

Put = Callable[[BinaryIO], None]


def parse_rows(rows: Any) -> int | tuple[str, dict[str, int]] | None:
    """Return how many records are wanted, or of which column and each of its values how many.

    >>> parse_rows("ill=yes:500,no:500")
    ('ill', {'yes': 500, 'no': 500})
    """
    if rows is None or isinstance(rows, int):
        return rows if rows is None else check_int("condense", "rows", rows, 1)
    text = str(rows)
    if text.strip().isdecimal():
        return check_int("condense", "rows", int(text), 1)
    column, equals, quotas = text.partition("=")
    found: dict[str, int] = {}
    for part in quotas.split(","):
        value, _, count = part.strip().rpartition(":")
        if not equals or not value or not count.isdecimal() or not int(count) or value in found:
            raise ParameterError(
                "must be a number of records, or quotas such as ill=yes:500,no:500",
                parameter="rows",
            )
        found[value] = int(count)
    return column.strip(), found


def draw_rows(
    condenser: Any, original: pl.DataFrame, target: str | None, rows: Any
) -> pl.DataFrame:
    """Draw the records that are wanted, columns in the order of the original."""
    wanted = parse_rows(rows)
    if not isinstance(wanted, tuple):
        return _drawn(condenser, original, target, wanted)
    column, quotas = wanted
    if column not in original.columns:
        raise ParameterError(f"there is no column '{column}' for quotas", parameter="rows")
    parts = [
        _drawn(condenser, original, target, count, where=_equals(original, column, value))
        for value, count in quotas.items()
    ]
    whole = pl.concat(parts)
    if condenser._totals is not None:
        whole = condenser._totals.calibrate(whole)
    return whole[condenser._rng.permutation(whole.height)]


def _drawn(
    condenser: Any, original: pl.DataFrame, target: str | None, n: int | None, **more: str
) -> pl.DataFrame:
    drawn = condenser.sample(n, **more)
    if target is not None:
        X, y = drawn
        drawn = X.with_columns(pl.Series(target, y))
    found: pl.DataFrame = drawn.select([n for n in original.columns if n in drawn.columns])
    return found


def _equals(original: pl.DataFrame, column: str, value: str) -> str:
    """Return the condition that a column has a value that was written on a command line."""
    mark = "'" if '"' in value else '"'
    plain = original.schema[column].is_numeric()
    return f"{quote(column)} = {value if plain else f'{mark}{value}{mark}'}"


# -- what lies beside a release ------------------------------------------------------------------


def ledger_path(output: FilePath) -> Path:
    return Path(output).with_name(Path(output).name + ".ledger.json")


def codebook_paths(output: FilePath) -> list[Path]:
    name = Path(output).name
    return [Path(output).with_name(f"{name}.codebook.{ending}") for ending in ("json", "html")]


def copy_path(output: FilePath, number: int) -> Path:
    """Return where a copy of a release is; the first is the release itself.

    >>> copy_path("wages.csv.gz", 2).name
    'wages.2.csv.gz'
    """
    path = Path(output)
    ends = path.suffixes[-2:] if path.suffix in _PACKED else path.suffixes[-1:]
    suffix = "".join(ends)
    return path.with_name(f"{path.name.removesuffix(suffix)}.{number}{suffix}")


def wants_ledger(output: FilePath, options: Condensing) -> bool:
    """Tell whether estimates are measured: without a word where they are what a release is for."""
    if options.ledger is not None:
        return options.ledger
    meant = options.copies != 1 or options.policy.estimates
    return bool(meant) and not isinstance(parse_rows(options.rows), tuple) and not is_sql(output)


def check_beside(output: FilePath, options: Condensing, *, force: bool) -> None:
    """Refuse rows, and files beside the release, that cannot be had, before any work is done."""
    copies = check_int("condense", "copies", options.copies, 1)
    if isinstance(parse_rows(options.rows), tuple) and options.ledger:
        raise ParameterError("--ledger is for a release with the shares of INPUT: drop the quotas")
    if copies > _MOST_COPIES:
        raise ParameterError(f"must be at most {_MOST_COPIES}. Got {copies}.", parameter="copies")
    paths = [copy_path(output, number) for number in range(2, copies + 1)]
    paths += [ledger_path(output)] if options.ledger else []
    paths += codebook_paths(output) if options.codebook else []
    if is_sql(output) and paths:
        raise ParameterError(
            "--copies, --ledger and --codebook write files beside the release: choose a file as "
            "the output"
        )
    for path in paths:
        refuse_existing(path, force=force)


@contextmanager
def written_beside(files: Mapping[Path, Put], *, force: bool) -> Iterator[dict[str, Any]]:
    """Write files before the release that names them; none is left where the block fails."""
    written: dict[Path, dict[str, str]] = {}
    try:
        for path, put in files.items():
            with atomic_write(path, force=force) as file:
                put(file)
            written[path] = {"file": path.name, "sha256": digest(path)}
        named = list(written.values())
        ledger = [entry for entry in named if entry["file"].endswith(".ledger.json")]
        book = [entry for entry in named if ".codebook." in entry["file"]]
        copies = [entry for entry in named if entry not in ledger + book]
        yield {
            **({"copies": copies} if copies else {}),
            **({"ledger": ledger[0]} if ledger else {}),
            **({"codebook": book} if book else {}),
        }
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def beside_files(
    output: FilePath,
    copies: list[pl.DataFrame],
    ledger: dict[str, Any] | None,
    book: dict[str, Any] | None,
    dialect: Dialect | FileLabels | None,
) -> dict[Path, Put]:
    """Return what is written beside a release: its other copies, the ledger, the codebook."""

    def put_copy(frame: pl.DataFrame) -> Put:
        return lambda file: put_table(frame, file, os.fspath(output), dialect)

    files: dict[Path, Put] = {
        copy_path(output, number): put_copy(frame) for number, frame in enumerate(copies, 2)
    }
    if ledger is not None:
        files[ledger_path(output)] = lambda file: _put_json(ledger, file)
    if book is not None:
        as_json, as_page = codebook_paths(output)
        files[as_json] = lambda file: _put_json(book, file)
        files[as_page] = lambda file: _put(codebook_page(book), file)
    return files


def _put_json(entries: dict[str, Any], file: BinaryIO) -> None:
    _put(json.dumps(plain(entries), indent=1, allow_nan=False) + "\n", file)


def _put(text: str, file: BinaryIO) -> None:
    file.write(text.encode())


def told_beside(
    output: FilePath, copies: list[pl.DataFrame], ledger: dict[str, Any] | None
) -> list[str]:
    """Say what lies beside a release, and which effects it has lost."""
    told = []
    if copies:
        names = ", ".join(copy_path(output, number + 2).name for number in range(len(copies)))
        told.append(f"further draws of the same model (the audit saw the first only): {names}")
    if ledger is not None:
        told.append(f"error ledger, for `tulle estimate`: {ledger_path(output).name}")
    if ledger is not None and (lost := ledger["lost"]):
        told.append(
            f"{len(lost)} of {ledger['clear']} clear effects in regressions are not seen in the "
            f"release, such as {'; '.join(lost[:3])}: `tulle estimate` allows for that"
        )
    return told
