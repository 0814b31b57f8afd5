"""A whole file and a stream of the same bytes: the same records, or both refuse."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tulle.errors import DataError
from tulle.io import _text
from tulle.io.read import read_table
from tulle.stream import _sources as sources
from tulle.stream._records import RecordReader
from tulle.stream._sources import FileSource, Lines

pytestmark = pytest.mark.slow


def streamed(path: Path, most: int) -> pl.DataFrame:
    """What a stream reads of a file if all of it is initial; any refusal refuses it all."""
    kind = path.suffix[1:]
    source = FileSource(str(path), has_header=kind == "csv", follow=False, position=None)
    with closing(source):
        reader = RecordReader(kind, source.header(), source.name)
        parts = list(iter(lambda: source.read(most), None))
        if source.lines.unfinished:
            raise DataError("a quote is open")
    lines = Lines.joined(parts) if parts else sources.NO_LINES
    well_formed = [reader.well_formed(part.texts)[0] for part in parts]
    if not sum(well_formed):
        reader.refuse_no_header()
        raise DataError("no record")
    found = reader.begin(lines.texts, lines.faults, [])
    if found.refused:
        raise DataError("refused")
    again = reader.records(lines.texts, lines.faults)  # as records that come later
    assert_frame_equal(found.frame, again.frame, check_exact=True)
    assert again.refused == {}
    return found.frame


def outcome(read: Iterator[pl.DataFrame]) -> pl.DataFrame | None:
    try:
        return next(read)
    except DataError:
        return None


def is_utf8(content: bytes) -> bool:
    return content.decode(errors="replace").encode() == content


def compare(content: bytes, kind: str, *, block: int, most: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / f"in.{kind}"
        path.write_bytes(content)
        if kind == "ndjson" and is_utf8(content):  # the first block settles another encoding
            patch.setattr(_text, "BLOCK", block)
        whole = outcome(read_table(path) for _ in [0])
        patch.setattr(sources, "BLOCK", block)
        patch.setattr(sources, "PAUSE", 0.0)
        stream = outcome(streamed(path, most) for _ in [0])
    if kind == "csv" and whole is not None and whole.width == 1:
        values = whole.to_series().drop_nulls().to_list()
        if all(value in ("\r", "\r\r") for value in values):
            whole = None  # a stream does not begin with nothing but blank lines
    if whole is not None and not whole.height:
        whole = None
    assert (whole is None) == (stream is None)
    if whole is not None and stream is not None:
        assert_frame_equal(whole, stream, check_exact=True)


blocks = st.sampled_from([7, 64, 1 << 20])
cells = [
    "",
    "a",
    "b c",
    '"a"',
    '"a,b"',
    '"a;b"',
    '"a""b"',
    '"x\ny"',
    '"x\r\ny"',
    '""',
    'a"b"',
    ' "a"',
]
cells += [
    "1",
    "-7",
    "007",
    "+5",
    " 5",
    "5 ",
    "1.5",
    "1,5",
    "1e400",
    "9007199254740993",
    "nan",
    "NA",
]
cells += [
    "-",
    "true",
    "False",
    "2024-02-29",
    "2023-02-29",
    "31.12.2023",
    "01/02/2024",
    "31/12/2023",
]
cells += [
    "2024-01-02T03:04:05",
    "2024-01-02 03:04:05.25",
    "23:59:59",
    "é",
    "Ü–30",
    "\ufeffa",
    "a\rb",
]
odd_cells = ['a"b', '"a', '"a"b', 'a"', "\0", '"a" ', 'x "a,b" y']
headers = ["a,b", "a;b", "a\tb", "a|b", "a", ",b", ",", "a,a", '"a,b",c', "é,b", "1,2", "2020,1985"]
headers += [
    "a;b;c,d",
    "weight|kg",
    '{"a": 1}',
    "Ü,ß",
    '"a\nb",c',
    "",
    "41,x",
    "2024-01-01,x",
    'a"b"',
]
ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r\n", "\n\n", "\r\r\n"])


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    separator = draw(st.sampled_from(",,;\t|"))
    known = draw(st.lists(st.sampled_from(cells), min_size=1, max_size=4))
    cell = st.one_of(st.sampled_from(known), st.sampled_from(known + cells))
    if draw(st.booleans()):
        cell = st.one_of(cell, cell, cell, st.sampled_from(odd_cells))
    width = draw(st.sampled_from([1, 2, 2, 2, 3]))
    ragged = st.sampled_from([width] * 12 + [1, 3])
    end = draw(ends)
    text = (
        draw(st.sampled_from(headers)).replace(",", separator)
        if width == 2
        else separator.join("xyz"[:width])
    )
    for _ in range(draw(st.integers(0, 6))):
        text += draw(st.sampled_from([end, end, end, end, "\n\n", "\r\n\r\n"]))
        text += separator.join(draw(cell) for _ in range(draw(ragged)))
    text += draw(st.sampled_from(["", end]))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + text.encode(draw(st.sampled_from(["utf-8", "utf-8", "cp1252"])), "replace")


@given(csv_files(), blocks, st.integers(1, 9))
@example(b'a,b\n1,5" nail\n2,6" nail\n', 64, 9)
@example(b'a,b\n1,"x\n\ny"\n', 7, 1)
@example(b'a;b\na\n;"a"b', 7, 1)
@example(b"\r\r\n;", 7, 1)
def test_csv_is_the_same_language_everywhere(content: bytes, block: int, most: int) -> None:
    compare(content, "csv", block=block, most=most)


@given(
    st.lists(
        st.sampled_from([b"a", b"1", b",", b'"', b'""', b"\n", b"\r\n", b";", b"\xe9"]), max_size=20
    ),
    blocks,
)
def test_any_pieces_of_csv_are_the_same_language(parts: list[bytes], block: int) -> None:
    compare(b"x,y\n" + b"".join(parts), "csv", block=block, most=3)


values = [
    "1",
    "2.5",
    "-0",
    "1e3",
    "1e400",
    "9007199254740993",
    "12345678901234567890",
    "true",
    "null",
]
values += [
    '"a"',
    '"01"',
    '"2024-01-05"',
    '"2024-01-05T03:04:05"',
    '"NA"',
    '"\\u00e9"',
    '"é"',
    '"\\ud800"',
]
values += ["[1]", "{}", "NaN", '""', '"\\ud83d\\ude00"', "1.50", "10000000000000000000000.5"]
json_lines = ["", " ", "{}", "[1]", "5", '{"a": 1, "a": 2}', '{"a": 1,}', '{"": 1}', '{"a": 1} x']


@st.composite
def json_files(draw: st.DrawFn) -> bytes:
    known = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    value = st.one_of(*[st.sampled_from(known)] * 5, st.sampled_from(values))
    text = ""
    for _ in range(draw(st.integers(1, 6))):
        names = draw(st.sampled_from([["a", "b"], ["a", "b"], ["b", "a"], ["a"], ["a", "é"]]))
        line = (
            "{"
            + ", ".join(f"{json.dumps(n, ensure_ascii=False)}: {draw(value)}" for n in names)
            + "}"
        )
        text += draw(st.sampled_from([line] * 12 + json_lines))
        text += draw(st.sampled_from(["\n", "\n", "\r\n", "\n\n"]))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + text.encode(draw(st.sampled_from(["utf-8", "utf-8", "cp1252"])), "replace")


@given(json_files(), blocks, st.integers(1, 9))
def test_ndjson_is_the_same_language_everywhere(content: bytes, block: int, most: int) -> None:
    compare(content, "ndjson", block=block, most=most)
