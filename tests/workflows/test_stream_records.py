"""Lines to records: parsed together or one by one, the records and the refusals are the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tulle.errors import DataError
from tulle.stream._records import RecordReader, Records

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
    reader.learn([row for row, _ in map(reader.parse, rest) if row is not None], [])
    return reader


def same(together: Records, one_by_one: Records) -> None:
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


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(csv_lines.map(str.encode), st.binary(max_size=8)), max_size=8))
def test_csv_lines_read_the_same_together_and_one_by_one(lines: list[bytes | None]) -> None:
    texts = [None if line is None else line.replace(b"\n", b"") for line in lines]
    same(learnt("csv").records(texts), learnt("csv").one_by_one(texts, range(len(texts))))


@settings(max_examples=100, deadline=None)
@given(st.lists(csv_lines.map(str.encode), max_size=12), st.integers(0, 12))
def test_csv_lines_read_the_same_in_batches_of_any_size(lines: list[bytes], cut: int) -> None:
    texts: list[bytes | None] = [line.replace(b"\n", b"") for line in lines]
    whole, reader = learnt("csv").records(texts), learnt("csv")
    first, second = reader.records(texts[:cut]), reader.records(texts[cut:])
    after = {place + len(texts[:cut]): reason for place, reason in second.refused.items()}
    assert whole.refused == first.refused | after
    assert_frame_equal(whole.frame, pl.concat([first.frame, second.frame]), check_exact=True)


def three_columns() -> RecordReader:
    reader = RecordReader("csv", b"age,code,note")
    reader.learn([{"age": "35", "code": "X", "note": "ok"}], [])
    return reader


def test_both_halves_of_a_text_with_a_line_break_are_refused() -> None:
    found = three_columns().records([b'35,X,"first line', b'99,Y,second line"', b"36,Y,ok"])
    assert found.frame["age"].to_list() == [36]
    assert found.refused == {
        0: "quotes do not match",
        1: "inside quotes that a line before has opened",
    }
    alone = three_columns().records([b'99,Y,second line"', b"36,Y,ok"])  # the other half is gone
    assert (alone.frame["age"].to_list(), alone.refused) == ([36], {0: "quotes do not match"})


def test_whole_lines_inside_quotes_are_no_records() -> None:
    lines = [b'35,X,"ok', b"88,X,bad", b"", b'89,""X"",bad', b'90,X,bad"', b"36,Y,ok"]
    for cut in range(len(lines) + 1):  # in one batch or in two
        reader = three_columns()
        frames = [reader.records(lines[:cut]).frame, reader.records(lines[cut:]).frame]
        assert pl.concat(frames)["age"].to_list() == [36]


def test_a_text_that_ends_where_another_begins_keeps_quotes_open() -> None:
    lines = [b'35,"X', b'88,Y",bad,"ok', b"89,Y,bad", b'90,Y,bad"', b"36,Y,ok"]
    assert three_columns().records(lines).frame["age"].to_list() == [36]


@pytest.mark.parametrize(
    "after", [[b'36,"Y",ok'], [None, b"36,Y,ok"], [b"1,Y," + b"o" * (1 << 16), b"36,Y,ok"]]
)
def test_a_stray_quote_does_not_swallow_the_stream(after: list[bytes | None]) -> None:
    found = three_columns().records([b'35,X,"ok', b"88,X,bad", *after])
    assert 88 not in found.frame["age"]
    assert found.frame["age"].to_list()[-1] == 36


def test_a_quote_in_a_bare_field_opens_nothing() -> None:
    found = three_columns().records([b'35,X,5" nail', b"36,Y,ok"])
    assert (found.frame["age"].to_list(), found.refused) == ([36], {0: "quotes do not match"})


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


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(json_lines(), json_lines(), st.binary(max_size=8)), max_size=8))
def test_json_lines_read_the_same_together_and_one_by_one(lines: list[bytes]) -> None:
    texts: list[bytes | None] = [line.replace(b"\n", b"") for line in lines]
    reader = learnt("ndjson")
    same(reader.records(texts), reader.one_by_one(texts, range(len(texts))))


def test_usual_lines_are_parsed_together_and_odd_ones_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow: list[bytes | None] = []
    for kind in ("csv", "ndjson"):
        reader = learnt(kind)
        usual = {
            "csv": [line.encode() for line in CSV_FIRST[1:]],
            "ndjson": [json.dumps(row).encode() for row in JSON_FIRST] + [b'{"n": 7, "x": 1}'],
        }[kind]
        parse = reader.parse
        monkeypatch.setattr(reader, "parse", lambda text, _: slow.append(text) or parse(text))
        found = reader.records([*usual, b"odd", *usual])
        assert found.places.tolist() == [
            *range(len(usual)),
            *range(len(usual) + 1, 2 * len(usual) + 1),
        ]
        assert slow == [b"odd"]
        slow.clear()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_every_separator_has_a_usual_form(separator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = learnt("csv", separator)
    monkeypatch.setattr(reader, "parse", None)
    lines = [line.replace(",", separator).encode() for line in CSV_FIRST[1:]]
    assert reader.records(lines).frame["n"].to_list() == [3, None, -4]


def test_texts_that_are_no_texts_are_refused() -> None:
    reader = learnt("ndjson")
    found = reader.records([b'{"t": "\\ud800"}', b'{"t": "\\ud83d\\ude00"}', b"\xff", None, b""])
    assert found.refused == {
        0: "half a surrogate pair in a text",
        2: "not UTF-8",
        3: "longer than 1 MiB",
    }
    assert found.frame["t"].to_list() == ["\U0001f600"]


def test_a_long_field_in_quotes_is_a_field() -> None:
    reader = learnt("csv")
    line = f'u,3,1.5,"{"w" * 200_000}""",2024-01-05,true'.encode()
    for found in (reader.records([line]), reader.one_by_one([line], [0])):
        assert found.frame["t"].str.len_chars().to_list() == [200_001]


def test_a_table_of_thousands_of_columns_is_read_one_by_one() -> None:
    names = [f"column {place}" for place in range(6_000)]
    reader = RecordReader("csv", ",".join(names).encode())
    line = ",".join(["1"] * len(names)).encode()
    row, _ = reader.parse(line)
    assert row is not None
    reader.learn([row], [])
    assert reader.records([line, line]).frame.shape == (2, len(names))


def test_what_was_learnt_is_restored_or_refused() -> None:
    reader = learnt("csv")
    entries = json.loads(json.dumps(reader.to_json()))
    again = RecordReader("csv", CSV_FIRST[0].encode())
    again.restore(entries)
    assert again.types == reader.types
    assert again.records([CSV_FIRST[1].encode()]).frame.schema["d"] == pl.Date
    with pytest.raises(DataError, match="other columns"):
        RecordReader("csv", b"a,b").restore(entries)
    for unknown in (["number", -1], ["date", 999], ["date", 0]):
        with pytest.raises(DataError, match="another version"):
            again.restore({**entries, "types": {"a": unknown}})
