"""Excel workbooks: one sheet in, one sheet out, in memory.

Excel knows numbers, booleans, text and points in time, so a few types come back changed:
whole numbers beyond 2**53, times finer than a millisecond, before 1900-03-01 or after 9999, and
times with a zone are written as text; decimals that are all whole come back as integers, time
stamps that are all at midnight as dates. Empty text and NaN come back as missing.
"""

from __future__ import annotations

import datetime
import io
import logging
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from tulle._files import check_unpacked
from tulle.errors import DataError, nearest_name
from tulle.io._formats import Format, Source, existing_file, extra_library, readable_as, split_sheet
from tulle.io._headers import refuse_doubled, refuse_record
from tulle.io._text_types import TEMPORAL, ColumnGuess
from tulle.table._precision import EXACT

_SOME = 1000  # records that are compared with the header
_FIRST_DAY = datetime.date(1900, 3, 1)  # before it, Excel counts a day that never was
_LAST_DAY = datetime.date(9999, 12, 31)
_MOST_ROWS, _MOST_COLUMNS, _LONGEST_TEXT = 1_048_575, 16_384, 32_767


def read_excel(source: Source) -> pl.DataFrame:
    name, sheet = split_sheet(source)
    path = existing_file(name)
    reader = extra_library("fastexcel", "excel", Format.EXCEL)
    with readable_as(source, Format.EXCEL):
        _refuse_bomb(path)
    with readable_as(source, Format.EXCEL), _quiet():
        book = reader.read_excel(path)
        chosen = _sheet(name, book.sheet_names, sheet)
        header = book.load_sheet(chosen, header_row=None, n_rows=1, dtypes="string").to_polars()
        if not header.width:
            raise DataError(f"{name}: the sheet is empty: a table needs a header line")
        frame = book.load_sheet(chosen, schema_sample_rows=None).to_polars()
        names = [text or "" for text in header.row(0)] + [""] * (frame.width - header.width)
        refuse_doubled(name, [text for text in names if text.strip()])
        tidy = _tidy(name, frame, names)
        refuse_record(name, tidy.head(_SOME))
        return tidy


# A workbook is a zip of XML. A few bytes of it unpack into gigabytes, and two cells in opposite
# corners of a sheet make readers lay out all the cells between them.

_CELL = re.compile(rb"""\sr=["']([A-Z]{1,3})([0-9]{1,7})["']""")
_SPARSE = 100  # cells laid out for each that is filled, at most,
_FEW_CELLS = 10_000_000  # unless they are few
_PIECE = 1 << 20


def _refuse_bomb(path: Path) -> None:
    """Raise for a workbook that unpacks or spreads out into far more than it holds."""
    with zipfile.ZipFile(path) as book:
        size, unpacked = path.stat().st_size, 0
        for member in book.infolist():
            # a member longer than it says fails its checksum
            spread = _SheetExtent() if member.filename.startswith("xl/worksheets/") else None
            with book.open(member) as file:
                while piece := file.read(_PIECE):
                    unpacked += len(piece)
                    check_unpacked(path, size, unpacked)
                    if spread is not None:
                        spread.add(piece)
            if spread is not None and spread.area > max(_FEW_CELLS, _SPARSE * spread.cells):
                raise DataError(
                    f"{path}: a sheet has {spread.cells:,} cells spread over {spread.area:,} "
                    "places: delete the cells far away from the table"
                )


class _SheetExtent:
    """How many cells a sheet has, and how many places they span."""

    def __init__(self) -> None:
        self.cells = self._rows = self._columns = 0
        self._rest = b""

    @property
    def area(self) -> int:
        return self._rows * self._columns

    def add(self, piece: bytes) -> None:
        """Take a piece of the XML into account; a cell may be cut by its end."""
        text = self._rest + piece
        cut = max(0, text.rfind(b"<"))
        found = _CELL.findall(text, 0, cut)
        self._rest = text[cut:][-_PIECE:]
        self.cells += len(found)
        if found:
            self._rows = max(self._rows, max(int(row) for _, row in found))
            widest = max({name for name, _ in found}, key=lambda name: (len(name), name))
            self._columns = max(self._columns, _column_number(widest))


def _column_number(letters: bytes) -> int:
    """Return the number of a column, from 1.

    >>> _column_number(b"A"), _column_number(b"XFD")
    (1, 16384)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def excel_book(frame: pl.DataFrame) -> bytes:
    """Return a workbook with one sheet, made in memory so that no plain copy lies on the disk."""
    _refuse_too_large(frame)
    packed = io.BytesIO()
    book = extra_library("xlsxwriter", "excel", Format.EXCEL).Workbook(
        packed,
        {
            "in_memory": True,
            # a cell is what it is: text that begins with = is not a formula
            "strings_to_formulas": False,
            "strings_to_numbers": False,
            "strings_to_urls": False,
        },
    )
    storable = frame.select(_storable(series) for series in frame)
    _refuse_blank_records(storable)
    storable.write_excel(book, "data", dtype_formats={pl.Datetime: "yyyy-mm-dd hh:mm:ss.000"})
    book.close()
    return packed.getvalue()


def _sheet(name: str, sheets: list[str], wanted: str | None) -> str:
    if wanted is None and len(sheets) == 1:
        return sheets[0]
    if wanted is None:
        raise DataError(
            f"{name} has {len(sheets)} sheets: choose one, such as '{name}#{sheets[0]}'"
        )
    if wanted not in sheets:
        raise DataError(f"{name} has no sheet '{wanted}': {nearest_name(wanted, sheets)}")
    return wanted


def _tidy(book: str, frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Give names and types as a table would have them; drop wholly blank columns and records."""
    columns = []
    for i, (series, name) in enumerate(zip(frame, names), 1):
        filled = series.null_count() < len(series)
        if filled and not name.strip() and i > 1:  # the first may be an index that pandas wrote
            raise DataError(
                f"{book}: column {i} of the sheet has values but no name: a table begins with one "
                "row of names, without a title above it or merged cells in it"
            )
        if filled or name.strip():
            columns.append(_typed(series).alias(name if name.strip() else f"column_{i}"))
    tidy = pl.DataFrame(columns)
    if tidy.width > 1:
        tidy = tidy.filter(~pl.all_horizontal(pl.all().is_null()))
    return tidy


def _typed(series: pl.Series) -> pl.Series:
    if series.dtype.is_float():
        whole = series.drop_nulls()
        fits = ((whole.floor() == whole) & (whole.abs() <= EXACT)).all()
        return series.cast(pl.Int64) if fits else series
    if series.dtype == pl.Datetime:
        days = series.dt.date()
        if (days < datetime.date(1900, 1, 1)).all():
            return series.dt.time()
        midnight = (series.dt.time() == datetime.time(0)).all()
        return days if midnight else series.cast(pl.Datetime("us"))
    if series.dtype == pl.String:
        guess = ColumnGuess(TEMPORAL)
        guess.update(series)
        return series.to_frame().select(guess.expression(series.name)).to_series()
    return series.cast(pl.String) if series.dtype == pl.Null else series


def _storable(series: pl.Series) -> pl.Series:
    """Return the values as Excel keeps them; what it would change becomes text."""
    dtype = series.dtype
    if dtype.is_integer():
        extremes: list[Any] = [series.min() or 0, series.max() or 0]  # as Python's numbers
        inside = all(-EXACT <= extreme <= EXACT for extreme in extremes)
        return series.cast(pl.Int64 if inside else pl.String)
    if dtype.is_float() or dtype == pl.Decimal:
        numbers = series.cast(pl.Float64).fill_nan(None)
        if numbers.is_infinite().any():
            raise DataError(
                f"the column '{series.name}' contains infinite values, which Excel cannot store"
            )
        return numbers
    if dtype == pl.Date:
        known = series.is_between(_FIRST_DAY, _LAST_DAY).all()
        return series if known else series.dt.to_string("iso")
    if dtype == pl.Datetime:
        fine = series.dt.nanosecond() % 1_000_000 != 0
        known = series.dt.date().is_between(_FIRST_DAY, _LAST_DAY).all()
        text = series.dtype.time_zone or fine.any() or not known  # type: ignore[attr-defined]
        return series.dt.to_string("iso:strict") if text else series
    if dtype == pl.Time:
        return series.dt.to_string("iso")
    return series


def _refuse_too_large(frame: pl.DataFrame) -> None:
    if frame.height > _MOST_ROWS or frame.width > _MOST_COLUMNS:
        raise DataError(
            f"the table has {frame.height} records and {frame.width} columns: Excel holds at most "
            f"{_MOST_ROWS} and {_MOST_COLUMNS}; write Parquet or CSV"
        )
    for series in frame:
        if series.dtype == pl.String and (series.str.len_chars() > _LONGEST_TEXT).any():
            raise DataError(
                f"the column '{series.name}' contains text longer than {_LONGEST_TEXT} characters, "
                "which Excel cannot store: write Parquet or CSV"
            )


def _refuse_blank_records(frame: pl.DataFrame) -> None:
    """Refuse rows without a value: Excel does not count them, and they would not come back."""
    empty = [s.is_null() | (s == "") if s.dtype == pl.String else s.is_null() for s in frame]
    blank = pl.DataFrame([s.alias(str(i)) for i, s in enumerate(empty)]).min_horizontal()
    # between the values of a lone column a blank cell can be nothing but a missing value
    lost = int((blank if frame.width > 1 else blank.tail(1)).sum())
    if lost:
        raise DataError(
            f"{lost} records have no value in any column: Excel would not count them as records; "
            "write Parquet or CSV"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the reader from writing to standard error about columns without a value."""
    logger = logging.getLogger("fastexcel.types.dtype")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
