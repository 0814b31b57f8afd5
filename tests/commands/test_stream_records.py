"""Texts to records: read together or one by one, the records and the refusals are the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tulle.errors import DataError
from tulle.io._json_lines import parse_json
from tulle.io._text import TypedRecords
from tulle.stream import _sources as sources
from tulle.stream._records import RecordReader
from tulle.stream._sources import LineReader

pytestmark = pytest.mark.slow

CSV_FIRST = ["a,n,x,t,d,b", "u,3,1.5,word,2024-01-05,true", ",,,,,", "v,-4,2e3,9,1999-12-31,False"]
JSON_FIRST = [
    {"a": "u", "n": 3, "x": 1.5, "t": "word", "d": "2024-01-05", "b": True, "é": "z"},
    {"a": None, "n": None, "x": None, "t": None, "d": None, "b": None, "é": None},
    {"a": "v", "n": -4, "x": 2e3, "t": "9", "d": "1999-12-31", "b": False, "é": 'q"'},
]


def learnt(kind: str, separator: str = ",") -> RecordReader:
    lines = [line.replace(",", separator) for line in CSV_FIRST]
    header, rest = lines[0].encode(), [line.encode() for line in lines[1:]]
    if kind == "ndjson":
        header, rest = None, [json.dumps(row).encode() for row in JSON_FIRST]
    reader = RecordReader(kind, header)
    assert reader.begin(rest, {}, []).frame.height == 3
    return reader


def one_by_one(reader: RecordReader, texts: list[bytes]) -> TypedRecords:
    """The same, each text read by itself."""
    parts = [reader.records([text]) for text in texts]
    frame = pl.concat([reader.records([]).frame, *(part.frame for part in parts)])
    places = np.array([at for at, part in enumerate(parts) if part.frame.height], dtype=np.int64)
    refused = {at: part.refused[0] for at, part in enumerate(parts) if part.refused}
    return TypedRecords(frame, places, refused, sum(part.surplus for part in parts))


def same(together: TypedRecords, one_by_one: TypedRecords) -> None:
    assert together.refused == one_by_one.refused
    assert together.surplus == one_by_one.surplus
    np.testing.assert_array_equal(together.places, one_by_one.places)
    assert_frame_equal(together.frame, one_by_one.frame, check_exact=True)


numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-100, 100),
    st.floats(-10, 10, width=16),
)
odd_fields = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "NA",
            "-",
            '""',
            '"a"',
            '"a,b"',
            '"a""b"',
            '"""a"',
            '"a"b',
            'a"b',
            ' "a"',
            '"',
            '"a',
            'a"',
            '""a',
            "a\rb",
        ]
        + ["inf", "nan", "1e999", "+5", "007", "1_0", " 5", "5 ", "0x1", "-0", ".5", "5.", "1e-400"]
        + ["é", "\ufeff1", "\x00", "\u2028", "\U0001f600", "a,b", '"a\rb"', "2024-02-30", "TRUE"]
    ),
    st.text(max_size=6).map(lambda text: text.replace("\n", "")),
    numbers.map(str),
)
usual_csv = st.tuples(
    st.sampled_from(["u", "v", "", '"u,v"', '"u""v"']),
    st.sampled_from(["3", "-4", ""]),
    numbers.map(str),
    st.sampled_from(["word", '"9"']),
    st.sampled_from(["2024-01-05", '"2024-01-05"', ""]),
    st.sampled_from(["true", "False", ""]),
)
csv_lines = st.one_of(
    usual_csv.map(",".join),
    usual_csv.map(",".join),
    st.lists(odd_fields, min_size=6, max_size=6).map(",".join),
    st.lists(odd_fields, max_size=8).map(",".join),
)


@given(st.lists(st.one_of(csv_lines.map(str.encode), st.binary(max_size=8)), max_size=8))
def test_csv_lines_read_the_same_together_and_one_by_one(lines: list[bytes]) -> None:
    texts = [line.replace(b"\n", b"") for line in lines]
    reader = learnt("csv")
    same(reader.records(texts), one_by_one(reader, texts))


def split(content: bytes, size: int, *, partial: bool = False) -> tuple[list[bytes | None], Any]:
    """The texts of CSV that comes in blocks of some size, by the numbers of their lines."""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    blocks = iter(parts)
    reader = LineReader(lambda _: next(blocks, b""), "", quoted=True, partial=partial)
    found = [lines for lines in iter(lambda: reader.read(3), None) if len(lines)]
    lines = sources.Lines.joined(found) if found else sources.NO_LINES
    return lines.texts, {lines.numbers[at]: why for at, why in lines.faults.items()}


quoted_pieces = st.sampled_from(
    ["a", "1", ",", ";", '"', '""', ',"', '",', "\n", "\n", "\r\n", '"\n', "x" * 30]
)


@given(st.lists(quoted_pieces, max_size=25), st.integers(1, 40), st.booleans())
def test_records_of_csv_do_not_depend_on_blocks(
    pieces: list[str], size: int, partial: bool
) -> None:
    content = "".join(pieces).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "LONGEST", 25)
        assert split(content, size, partial=partial) == split(content, 10_000, partial=partial)


NOTES = b"age,code,note\n"


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_text_may_have_line_breaks(size: int) -> None:
    content = b'35,X,"first\n\nlast"\n36,"""Y""\r\n",ok\n37,Z,5" x 6" nail\n'
    texts, faults = split(content, size)
    assert faults == {}
    reader = RecordReader("csv", NOTES.strip())
    found = reader.begin(texts, {}, [])
    assert found.frame.rows() == [
        (35, "X", "first\n\nlast"),
        (36, '"Y"\r\n', "ok"),
        (37, "Z", '5" x 6" nail'),
    ]


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("content", "texts", "faults"),
    [
        (b'1,"ok\n2,b\n3,"c"\n4,d\n', [None, b'3,"c"', b"4,d"], {1: "unbalanced quotes"}),
        (
            b'1,5" nail\n2,6" nail\n3,c\n',
            [None, None, b"3,c"],
            {1: "unbalanced quotes", 2: "a quote is not closed"},
        ),
        (b'1,"a"b\n2,c\n', [None, b"2,c"], {1: "unbalanced quotes"}),
        (b'1,a\n2,"b\n3,c', [b"1,a", None], {2: "a quote is not closed"}),
    ],
)
def test_a_stray_quote_does_not_swallow_the_stream(
    content: bytes, texts: list[bytes | None], faults: dict[int, str], size: int
) -> None:
    found, why = split(content, size)
    if b"nail" in content:  # the second nail opens a quote that the rest of the file is in
        assert (found, why) == ([None, None], faults)
    else:
        assert (found, why) == (texts, faults)


def test_quotes_that_are_open_at_the_end_of_a_run_stay_open() -> None:
    assert split(b'1,a\n2,"b\n3,c', 100, partial=True) == ([b"1,a"], {})


def test_a_quote_that_is_not_closed_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LONGEST", 20)
    texts, faults = split(b'1,"a\n' + b"2,bbb\n" * 6, 7)
    assert texts == [None, *[b"2,bbb"] * 4]
    assert faults == {1: "longer than 1 MiB"}


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    st.text(max_size=5),
    st.sampled_from(["2024-01-05", "9", '"', "\\", "a\nb", "\x7f", "{}", "\U0001f600"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["a", "n"]), st.integers(), max_size=1),
)


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    row: dict[str, Any] = dict(draw(st.sampled_from(JSON_FIRST)))
    for name in draw(st.lists(st.sampled_from([*row, "more"]), max_size=2)):
        row[name] = draw(odd_values)
    for name in draw(st.lists(st.sampled_from(list(row)), max_size=2)):
        row.pop(name, None)
    names = draw(st.sampled_from([list(row), sorted(row, reverse=True)]))
    text = json.dumps({n: row[n] for n in names}, ensure_ascii=draw(st.booleans()))
    change = draw(st.sampled_from(["", "", "", "cut", "comma", "double", "space", "escape"]))
    if change == "cut":
        text = text[: draw(st.integers(0, len(text)))]
    elif change == "comma":
        text = draw(
            st.sampled_from([text[:-1] + ",}", text.replace(",", ",,", 1), "{," + text[1:]])
        )
    elif change == "double":
        text = draw(
            st.sampled_from([text[:-1] + ', "n": 5}', text + text, text + " " + text, text + "x"])
        )
    elif change == "space":
        text = draw(st.sampled_from([" ", "\t", "\r", "\ufeff", "\x00"])) + text.replace(
            ":", " :\t"
        )
    elif change == "escape":
        text = text.replace(
            "u", draw(st.sampled_from(["\\u0075", "\\ud800", "\\ud83d\\ude00", "\\x"]))
        )
    return text.encode("utf-8", errors="surrogatepass")


@given(st.lists(st.one_of(json_lines(), json_lines(), st.binary(max_size=8)), max_size=8))
def test_json_lines_read_the_same_together_and_one_by_one(lines: list[bytes]) -> None:
    texts = [line.replace(b"\n", b"") for line in lines]
    reader = learnt("ndjson")
    same(reader.records(texts), one_by_one(reader, texts))


def test_usual_lines_are_parsed_together_and_odd_ones_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow: list[bytes] = []
    reader = learnt("ndjson")
    usual = [json.dumps(row).encode() for row in JSON_FIRST] + [b'{"n": 7, "x": 1}']
    monkeypatch.setattr(
        "tulle.io._json_lines.parse_json", lambda text: slow.append(text) or parse_json(text)
    )
    found = reader.records([*usual, b"odd", *usual])
    assert found.places.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert slow == [b"odd"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_every_separator_is_found(separator: str) -> None:
    reader = learnt("csv", separator)
    lines = [line.replace(",", separator).encode() for line in CSV_FIRST[1:]]
    assert reader.records(lines).frame["n"].to_list() == [3, None, -4]


def test_later_records_fit_the_types_of_the_initial_ones() -> None:
    reader = learnt("csv")
    wrong = [
        b"u,03,1,w,,",
        b"u,3,x,w,,",
        b"u,3,1,w,2024-1-5,",
        b"u,3,1,w,,yes",
        b"u,3",
        b'u"x,y",1,1,w,,',
    ]
    found = reader.records([*wrong, b"", b'007, 5,NA,"007",2024-02-29,TRUE'])
    assert found.refused == {
        0: "column 'n' is not of type integer",
        1: "column 'x' is not of type decimal",
        2: "column 'd' is not of type date",
        3: "column 'b' is not of type boolean",
        4: "2 fields instead of 6",
        5: "unbalanced quotes",
    }
    assert found.frame.row(0)[:4] == ("007", 5, None, "007")
    assert found.places.tolist() == [7]


def test_texts_that_are_no_texts_are_refused() -> None:
    reader = learnt("ndjson")
    texts = [b'{"t": "\\ud800"}', b'{"t": "\\ud83d\\ude00"}', b"\xff", None, b"", b"\0"]
    found = reader.records(texts, {3: "longer than 1 MiB"})
    assert found.refused == {
        0: "an unpaired surrogate in a text",
        2: "not UTF-8",
        3: "longer than 1 MiB",
        5: "a zero byte in the text",
    }
    assert found.frame["t"].to_list() == ["\U0001f600"]


def test_a_long_field_in_quotes_is_a_field() -> None:
    reader = learnt("csv")
    line = f'u,3,1.5,"{"w" * 200_000}""",2024-01-05,true'.encode()
    assert reader.records([line]).frame["t"].str.len_chars().to_list() == [200_001]


def test_a_table_of_thousands_of_columns_is_read() -> None:
    names = [f"column {place}" for place in range(6_000)]
    reader = RecordReader("csv", ",".join(names).encode())
    line = ",".join(["1"] * len(names)).encode()
    reader.begin([line], {}, [])
    assert reader.records([line, line]).frame.shape == (2, len(names))


def test_what_was_learnt_is_restored_or_refused() -> None:
    reader = learnt("csv")
    entries = json.loads(json.dumps(reader.to_json()))
    again = RecordReader("csv", CSV_FIRST[0].encode())
    again.restore(entries)
    assert again.types == reader.types
    assert again.records([CSV_FIRST[1].encode()]).frame.schema["d"] == pl.Date
    with pytest.raises(DataError):
        RecordReader("csv", b"a,b").restore(entries)
    assert (again.encoding.name, again.to_json()) == (reader.encoding.name, reader.to_json())


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_the_encoding_is_settled_by_the_initial_records(kind: str) -> None:
    def text(word: str) -> str:
        return f"{word},1" if kind == "csv" else f'{{"a": "{word}", "n": 1}}'

    header = b"a,n" if kind == "csv" else None
    latin = [text(word).encode("cp1252") for word in ("Zoë", "Ü–30", "Gößmann")]
    reader = RecordReader(kind, header)
    assert reader.begin(latin, {}, []).frame["a"].to_list() == ["Zoë", "Ü–30", "Gößmann"]
    plain = RecordReader(kind, header)
    plain.begin([text("x").encode()], {}, [])
    later = [text("é").encode("cp1252"), text("é").encode(), text("x").encode()]
    found = plain.records(later)
    assert (found.frame["a"].to_list(), found.refused) == (["é", "x"], {0: "not UTF-8"})
