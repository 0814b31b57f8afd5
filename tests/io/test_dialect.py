"""A CSV file is written back as it came: the same dialect, and the same bytes."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.io._dialect import Dialect
from tulle.io.read import read_table, read_written
from tulle.io.write import put_table

SEPARATORS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16")
QUOTING = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)
DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%-d.%-m.%Y", "%Y/%m/%d", "%-d/%-m/%Y", "%m/%d/%Y")
STAMPS = (
    "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S+02:00", "%d.%m.%Y %H:%M",
    "%-m/%-d/%Y %-I:%M %p", "%Y-%m-%dT%H:%M:%S",
)  # fmt: skip
CLOCKS = ("%H:%M", "%H:%M:%S", "%-H:%M", "%-I:%M %P", "%I:%M %p")
TRUTHS = (("true", "false"), ("TRUE", "FALSE"), ("True", "False"))
MISSING = ("", "NA", "n/a", "?")


def written_back(path: Path) -> tuple[bytes, Dialect | None]:
    """Return a file as it is written after it was read, and its dialect."""
    table, dialect = read_written(path)
    file = io.BytesIO()
    put_table(table, file, path.name, dialect)
    return file.getvalue(), dialect


@st.composite
def files(draw: Any) -> tuple[bytes, str]:
    """Draw a file as some program writes it."""
    rows = draw(st.integers(12, 30))
    separator = draw(st.sampled_from(SEPARATORS))
    mark = "," if separator == ";" else "."
    digits, gone = draw(st.integers(1, 3)), draw(st.sampled_from(MISSING))
    day, stamp, clock = (draw(st.sampled_from(forms)) for forms in (DAYS, STAMPS, CLOCKS))
    yes, no = draw(st.sampled_from(TRUTHS))
    start = datetime(2019, 1, 1) + timedelta(minutes=draw(st.integers(0, 10**6)))
    times = [start + timedelta(days=37 * row, minutes=131 * row) for row in range(rows)]
    table = [
        [
            f"{draw(st.integers(0, 9)):03d}",
            draw(st.sampled_from(["Köln", "a b", 'say "x"', f"x{separator}y", "Ann"])),
            f"{row * 7 - 30}.{draw(st.integers(1, 10**digits - 1)):0{digits}d}".replace(".", mark),
            gone if row == 3 else str(row),
            pl.Series([at.date()]).dt.to_string(day)[0],
            pl.Series([at]).dt.to_string(stamp)[0],
            pl.Series([at]).dt.to_string(clock)[0],
            yes if row % 3 else no,
        ]
        for row, at in enumerate(times)
    ]
    names = ["code", "city", "amount", "count", "day", "stamp", "clock", "truth"]
    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=separator,
        quoting=draw(st.sampled_from(QUOTING)),
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
    )
    writer.writerows([names, *table])
    return text.getvalue().encode(draw(st.sampled_from(ENCODINGS))), "table.csv"


@pytest.mark.slow
@given(file=files())
def test_an_unchanged_table_is_written_back_byte_by_byte(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[bytes, str]
) -> None:
    content, name = file
    path = tmp_path_factory.mktemp("came") / name
    path.write_bytes(content)
    again, dialect = written_back(path)
    assert again == content
    table = read_table(path)
    path.write_bytes(again)
    assert read_table(path).equals(table)
    assert written_back(path)[1] == dialect


@pytest.mark.parametrize(
    "content",
    [
        b'"name","n","x"\n"Ann",1,2.5\n"Bob",NA,NA\n"Cy",3,0.5\n',  # as R writes it
        b"a|b\r\n1|x y\r\n2|\r\n",
        b'a\tb\n"1\t2"\t3.10\nx\t4.00\n',
        b"m;t\n2021-03;1.234,50 \x80\n2021-04;7,00 \x80\n",
        b"t\n2021-09-20T17:47:07.250Z\n2021-09-21T17:47:07.500Z\n",
    ],
)
def test_files_of_other_programs_are_written_back_byte_by_byte(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    assert written_back(path)[0] == content


def test_a_release_finer_than_its_source_loses_no_digit(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"a;t\r\n1,50;2020-01-01 10:00:00\r\n2,25;2020-01-02 11:30:00\r\n")
    dialect = read_written(path)[1]
    assert dialect is not None
    finer = pl.DataFrame({"a": [1.0, 2.125, 1e-7], "t": [datetime(2020, 1, 1, 1, 1, 1, 5000)] * 3})
    assert dialect.lines(finer, first=False).decode().split("\r\n")[:3] == [
        "1,00;2020-01-01 01:01:01.005",
        "2,125;2020-01-01 01:01:01.005",
        "0,0000001;2020-01-01 01:01:01.005",
    ]


def test_a_dialect_holds_no_cell_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("who,when,much\nWollstonecraft,27.04.1759,17.5\nShelley,30.08.1797,20.25\n")
    dialect = read_written(path)[1]
    assert dialect is not None
    shown = repr(dialect) + str(dialect.told(["when", "much"]))
    assert not any(cell in shown for cell in ("Woll", "Shel", "1759", "17.5", "20.25"))


def test_letters_that_the_encoding_lacks_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="--plain"):
        Dialect(encoding="cp1252").lines(pl.DataFrame({"a": ["Łódź"]}), first=True)


def test_a_column_of_another_type_is_written_plainly() -> None:
    from tulle.io._dialect import ColumnForm

    forms = {"day": ColumnForm("%d.%m.%Y"), "much": ColumnForm("0,00"), "when": ColumnForm("0.0")}
    frame = pl.DataFrame({"day": ["other"], "much": [3], "when": [date(2020, 2, 1)]})
    assert Dialect(columns=forms).lines(frame, first=False) == b"other,3,2020-02-01\n"
    frame = pl.DataFrame({"day": [1.5], "much": [True], "when": [None]})
    assert Dialect(columns=forms).lines(frame, first=False) == b"1.5,true,\n"
