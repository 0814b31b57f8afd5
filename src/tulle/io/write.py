"""Writing tables: any format, whole or batch by batch, all or nothing.

``put_table`` and ``put_batches`` write into an open binary file, for releases that appear
atomically; ``write_table`` and ``write_batches`` do that for a name, or for a database table in
one transaction.
"""

from __future__ import annotations

import gzip
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from queue import Full, Queue
from typing import Any, BinaryIO, cast

import polars as pl

from tulle._files import atomic_write
from tulle._plurals import counted
from tulle.errors import DataError, PrivacyWarning, TulleError
from tulle.io._dialect import Dialect
from tulle.io._formats import (
    STATISTICS,
    Format,
    Source,
    display_name,
    format_of,
    is_compressed,
    refuse_read_only,
)
from tulle.io._statistics_files import FileLabels, put_statistics
from tulle.io.read import open_table
from tulle.table._frames import to_polars


def write_table(
    frame: Any,
    target: Source,
    *,
    like: Source | Dialect | FileLabels | None = None,
    private: bool = False,
    force: bool = False,
) -> None:
    """Write a table to a file or database table, in the format that the name says.

    The file appears whole or not at all; a database table is written in one transaction.

    Parameters
    ----------
    frame : DataFrame (pandas, polars), pyarrow Table or array
        The table.
    target : path-like or str
        A file or database URI, as for :func:`read_table`.
    like : path-like or str, optional
        A CSV file: CSV is written as it is, with its separator, quotes, encoding, decimal commas
        and forms of dates.
    private : bool
        Let nobody but the owner of a new file read it.
    force : bool
        Replace what exists.

    Examples
    --------
    >>> import polars as pl, tempfile, pathlib
    >>> from tulle import read_table, write_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.parquet"
    >>> write_table(pl.DataFrame({"age": [40, 41]}), path)
    >>> read_table(path).height
    2
    """
    write_batches([to_polars(frame)], target, like=like, private=private, force=force)


def write_batches(
    frames: Iterable[pl.DataFrame],
    target: Source,
    *,
    like: Source | Dialect | FileLabels | None = None,
    private: bool = False,
    force: bool = False,
) -> None:
    """Write frames of one schema as one table, holding one of them in memory at a time.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        The batches.
    target : path-like or str
        A file or database URI, as for :func:`read_table`.
    like : path-like or str, optional
        A CSV file that CSV is written as, as for :func:`write_table`.
    private : bool
        Let nobody but the owner of a new file read it.
    force : bool
        Replace what exists.

    Examples
    --------
    >>> import polars as pl, tempfile, pathlib
    >>> from tulle import read_table, write_batches
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.parquet"
    >>> write_batches([pl.DataFrame({"age": [40]}), pl.DataFrame({"age": [41]})], path)
    >>> read_table(path)["age"].to_list()
    [40, 41]
    """
    refuse_read_only(target)
    if format_of(target) is Format.SQL:
        from tulle.io._sql import write_rows

        write_rows(_one_schema(frames)[1], str(target), force=force)
        return
    if not isinstance(like, Dialect | FileLabels | None):
        like = open_table(like).dialect()
    with atomic_write(target, force=force, mode=0o600 if private else 0o644) as file:
        put_batches(frames, file, target, dialect=like)


def put_table(
    frame: pl.DataFrame, file: BinaryIO, name: Source, dialect: Dialect | FileLabels | None = None
) -> None:
    put_batches([frame], file, name, dialect=dialect)


def put_batches(
    frames: Iterable[pl.DataFrame],
    file: BinaryIO,
    name: Source,
    *,
    words: dict[str, str] | None = None,
    dialect: Dialect | FileLabels | None = None,
) -> None:
    """Write frames of one schema into an open file, in the format of ``name``.

    What is on its way into a database goes as Arrow. ``words`` go into the metadata of Parquet,
    the format that has a place for them; ``dialect`` is how CSV is written, or the labels of files
    that have some.
    """
    kind = format_of(name)
    first, checked = _one_schema(frames)
    with _writing(name, kind):
        if kind is Format.EXCEL:
            from tulle.io._excel import excel_book

            refuse_alike(first.columns, kind)
            file.write(excel_book(flat(pl.concat(checked), kind)))
        elif kind in STATISTICS:
            refuse_alike(first.columns, kind)
            put_statistics(flat(pl.concat(checked), kind), file, kind, dialect)
        elif kind in (Format.CSV, Format.NDJSON):
            with _packed(file, is_compressed(name)) as stream:
                _put_lines(checked, stream, kind, _dialect_for(name, dialect))
        else:
            _put_binary(first, checked, file, kind, words)
        file.flush()


def flat(frame: pl.DataFrame, kind: Format) -> pl.DataFrame:
    """Return the columns in types that a format of flat values knows."""
    return frame.with_columns(_flat(series, kind) for series in frame)


def refuse_alike(names: Iterable[str], kind: Format) -> None:
    """Refuse names that differ only in case, or are blank, where the format does not allow it."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first is not name:
            raise DataError(
                f"{kind} does not distinguish the column names '{first}' and '{name}': rename one, "
                "or write Parquet or CSV"
            )
        if not name.strip():
            raise DataError(f"a column has no name: {kind} needs one; rename it")


def _flat(series: pl.Series, kind: Format) -> pl.Series:
    dtype = series.dtype
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise DataError(
            f"the column '{series.name}' holds lists, objects or bytes, which {kind} cannot store: "
            "write Parquet or Arrow"
        )
    if dtype == pl.Duration:
        return series.dt.to_string("iso")
    if dtype in (pl.Categorical, pl.Enum, pl.Null):
        return series.cast(pl.String)
    if kind is Format.SQL and dtype in (pl.UInt64, pl.Int128, pl.UInt128):
        return _whole_of_64_bits(series)
    if kind is Format.NDJSON and (dtype.is_float() or dtype.is_decimal()):
        if dtype.is_float() and series.is_infinite().any():
            raise DataError(
                f"the column '{series.name}' contains infinite values, which JSON cannot store"
            )
        return series.cast(pl.Float64) if dtype.is_decimal() else series
    return series


def _whole_of_64_bits(series: pl.Series) -> pl.Series:
    signed = series.cast(pl.Int64, strict=False)
    if signed.null_count() > series.null_count():
        raise DataError(
            f"the column '{series.name}' holds whole numbers beyond signed 64 bits, which a "
            "database cannot store: write Parquet, or convert it to text"
        )
    return signed


def _one_schema(frames: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame, Iterator[pl.DataFrame]]:
    rest = iter(frames)
    first = next(rest, None)
    if first is None or not first.width:
        raise DataError("a table without columns cannot be written")

    def checked() -> Iterator[pl.DataFrame]:
        for frame in chain([first], rest):
            if frame.schema != first.schema:
                raise DataError("the batches of a table differ in their columns or types")
            yield frame

    return first, checked()


def _put_lines(
    frames: Iterable[pl.DataFrame], stream: BinaryIO, kind: Format, dialect: Dialect
) -> None:
    formulas: Counter[str] = Counter()
    for i, frame in enumerate(frames):
        simple = flat(frame, kind)
        if kind is Format.CSV:
            formulas.update(_formulas(simple))
            stream.write(dialect.lines(simple, first=not i))
        elif simple.height:
            stream.write(simple.write_ndjson().encode())
    _warn_of_formulas(formulas)


# what a spreadsheet runs, if it is not just a number with a sign
_FORMULA = r"^[=+\-@\t\r]"
_SIGNED = r"^[+-]?[\d.,]*$"


def _formulas(frame: pl.DataFrame) -> dict[str, int]:
    texts = [series for series in frame if series.dtype == pl.String]
    counts = {
        series.name: int((series.str.contains(_FORMULA) & ~series.str.contains(_SIGNED)).sum() or 0)
        for series in texts
    }
    return {name: count for name, count in counts.items() if count}


def _warn_of_formulas(counts: Mapping[str, int]) -> None:
    if counts:
        named = ", ".join(f"'{name}' ({count})" for name, count in counts.items())
        warnings.warn(
            f"{counted(sum(counts.values()), 'cell', 'begin')} like a formula, in column {named}: "
            "a spreadsheet that opens the CSV may run them; import it as text, or write .xlsx",
            PrivacyWarning,
            stacklevel=2,
        )


def _dialect_for(name: Source, dialect: Dialect | FileLabels | None) -> Dialect:
    """Return how a file is written: one that is called .tsv is separated by tabs."""
    known = dialect if isinstance(dialect, Dialect) else Dialect()
    tabs = ".tsv" in PurePath(str(name).lower()).suffixes[-2:]
    return replace(known, separator="\t") if tabs else known


def _put_binary(
    first: pl.DataFrame,
    frames: Iterator[pl.DataFrame],
    file: BinaryIO,
    kind: Format,
    words: dict[str, str] | None,
) -> None:
    """Write frames as they come, with polars on a thread of its own.

    Polars would ask for each on a thread whose stack is too small for linear algebra, where making
    a frame can kill the process. So frames are made here and handed over one by one.
    """
    from polars.io.plugins import register_io_source

    handed: Queue[pl.DataFrame | None] = Queue(1)

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        while (frame := handed.get()) is not None:
            yield frame

    def write() -> None:
        lazy = register_io_source(source, schema=first.schema)
        if kind is Format.PARQUET:
            lazy.sink_parquet(file, metadata=words)
        else:
            lazy.sink_ipc(file)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        try:
            for frame in frames:
                _hand_over(frame, handed, written)
        finally:  # an error here leaves half a file, which its owner removes
            _hand_over(None, handed, written)
        written.result()


def _hand_over(
    frame: pl.DataFrame | None, handed: Queue[pl.DataFrame | None], written: Future[None]
) -> None:
    """Wait until the writer takes a frame; raise what has ended it."""
    while not written.done():
        with suppress(Full):
            handed.put(frame, timeout=0.1)
            return
    if frame is not None:
        written.result()


@contextmanager
def _writing(name: Source, kind: Format) -> Iterator[None]:
    try:
        yield
    except TulleError:
        raise
    except (OSError, pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        disk = (
            ": is the disk full?" if isinstance(error, OSError | pl.exceptions.PolarsError) else ""
        )
        raise DataError(
            f"{display_name(name)}: cannot be written as {kind} ({reason}){disk}"
        ) from None


@contextmanager
def _packed(file: BinaryIO, compressed: bool) -> Iterator[BinaryIO]:
    if not compressed:
        yield file
        return
    # neither name nor time: the same table gives the same bytes
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as stream:
        yield cast(BinaryIO, stream)
