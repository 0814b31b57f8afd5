from __future__ import annotations

import csv
import datetime
import gzip
import io
import os
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tulle.errors import DataError, ParameterError
from tulle.io import _csv as csv_reader
from tulle.io import _text as blocks
from tulle.io._formats import display_name, format_of
from tulle.io.read import read_batches, read_schema, read_table, rebatched

SECRET = "Wollstonecraft"


def file(folder: Path, content: bytes | str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def column(folder: Path, *values: str) -> pl.Series:
    lines = "".join(f"{i},{value}\n" for i, value in enumerate(values))
    return read_table(file(folder, "n,v\n" + lines))["v"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", ""], [1, 2, None]),
        (["1"] * 300 + ["1.5"], [1.0] * 300 + [1.5]),
        (["1"] * 300 + ["x"], ["1"] * 300 + ["x"]),
        (["01234", "98765"], ["01234", "98765"]),
        (["0.5", "007.5"], ["0.5", "007.5"]),
        (["+4930123", "+4930124"], ["+4930123", "+4930124"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["9007199254740993", "1.5"], ["9007199254740993", "1.5"]),
        (["9007199254740993", "1"], [9007199254740993, 1]),
        (["-1", "0", " 7"], [-1, 0, 7]),
        (["1", "NA", "?", "null"], [1, None, None, None]),
        (["NA", "NB"], ["NA", "NB"]),
        (["NA", "NA"], ["NA", "NA"]),
        (["1e3", "-inf", ".5"], [1000.0, float("-inf"), 0.5]),
        (["True", "FALSE", ""], [True, False, None]),
        (["1_000", "2"], ["1_000", "2"]),
        (['""', "x"], ["", "x"]),
    ],
)
def test_types_come_from_every_value(tmp_path: Path, values: list[str], expected: list) -> None:
    assert column(tmp_path, *values).to_list() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-02-29", ""], [datetime.date(2024, 2, 29), None]),
        (["2024-02-29"] * 200 + ["2023-02-29"], None),
        (["31.12.2023", "1.2.2024"], [datetime.date(2023, 12, 31), datetime.date(2024, 2, 1)]),
        (["31/12/2023", "01/02/2024"], [datetime.date(2023, 12, 31), datetime.date(2024, 2, 1)]),
        (["12/31/2023", "01/02/2024"], [datetime.date(2023, 12, 31), datetime.date(2024, 1, 2)]),
        (["01/02/2024", "03/04/2024"], None),  # day first or month first: nobody can tell
        (["0000-01-01"], None),
        (["20-01-01"], None),
        (
            ["2024-01-02 03:04:05.25", "2024-01-02 03:04:05"],
            [
                datetime.datetime(2024, 1, 2, 3, 4, 5, 250000),
                datetime.datetime(2024, 1, 2, 3, 4, 5),
            ],
        ),
        (["2024-01-02T03:04"], [datetime.datetime(2024, 1, 2, 3, 4)]),
        (
            ["20.07.2024 00:18:23", "1.2.2024 9:38:00.5"],
            [
                datetime.datetime(2024, 7, 20, 0, 18, 23),
                datetime.datetime(2024, 2, 1, 9, 38, 0, 500000),
            ],
        ),
        (["12.04.2024 09:38", "NA"], [datetime.datetime(2024, 4, 12, 9, 38), None]),
        (
            ["09/24/2024 20:20", "01/02/2024 00:00"],
            [datetime.datetime(2024, 9, 24, 20, 20), datetime.datetime(2024, 1, 2)],
        ),
        (["24/09/2024 20:20:01"], [datetime.datetime(2024, 9, 24, 20, 20, 1)]),
        (["9/24/2024 8:20 PM"], [datetime.datetime(2024, 9, 24, 20, 20)]),
        (["9/24/2024 12:20:01 am"], [datetime.datetime(2024, 9, 24, 0, 20, 1)]),
        (["2024/9/24 8:20"], [datetime.datetime(2024, 9, 24, 8, 20)]),
        (["01/02/2024 20:20", "03/04/2024 10:10"], None),
        (["01/02/2024 1:20 AM", "03/04/2024 10:10 PM"], None),
        (["9/24/2024 13:20 PM"], None),
        (["20.07.2024 24:00"], None),
        (["20.07.2024 00:18", "20.07.2024"], None),
        (["23:59:59", "NA"], [datetime.time(23, 59, 59), None]),
        (["24:00:00"], None),
    ],
)
def test_dates_if_the_whole_column_is_one(
    tmp_path: Path, values: list[str], expected: list | None
) -> None:
    found = column(tmp_path, *values).to_list()
    assert found == (values if expected is None else expected)


def test_time_stamps_with_an_offset_are_utc(tmp_path: Path) -> None:
    found = column(tmp_path, "2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05Z")
    assert found.dtype == pl.Datetime("us", "UTC")
    assert [moment.hour for moment in found] == [1, 3]


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    found = column(tmp_path, "2024-01-02T03:04:05.123456789")
    assert found.dtype == pl.Datetime("ns")
    assert found.dt.nanosecond().item() == 123456789


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_is_found(tmp_path: Path, separator: str) -> None:
    table = f'a{separator}b\n1{separator}"x{separator}y"\n'
    assert read_table(file(tmp_path, table)).rows() == [(1, f"x{separator}y")]


def test_a_separator_that_no_record_has_is_part_of_a_name(tmp_path: Path) -> None:
    assert read_table(file(tmp_path, "weight|kg\n70\n")).columns == ["weight|kg"]
    assert read_table(file(tmp_path, "a;b;c,d\n1,2\n")).columns == ["a;b;c", "d"]
    assert read_table(file(tmp_path, "a;b\n")).columns == ["a", "b"]


def test_decimal_commas_where_semicolons_separate(tmp_path: Path) -> None:
    path = file(tmp_path, "a;b;c\n1,5;01,5;1.234,5\n-2;2;3\nNA;3;4\n")
    assert read_table(path).rows() == [(1.5, "01,5", "1.234,5"), (-2.0, "2", "3"), (None, "3", "4")]
    assert read_table(file(tmp_path, 'a,b\n"1,5",2\n'))["a"].to_list() == ["1,5"]


@pytest.mark.parametrize("text", ["Zoë,Größe\n1,Müller\n", "n,name\n1,ascii\n2,Gößmann\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, text: str, encoding: str) -> None:
    found = read_table(file(tmp_path, text.encode(encoding)))
    assert found.columns == text.split("\n")[0].split(",")
    assert found.row(-1)[1] == text.strip().split(",")[-1]


def test_latin_1_that_looks_like_utf_8_in_places(tmp_path: Path) -> None:
    text = "n,name\n1,Ü–30\n2,déjà\n3,café\xa0: «été»\n"
    assert read_table(file(tmp_path, text.encode("cp1252")))["name"].to_list() == [
        "Ü–30",
        "déjà",
        "café\xa0: «été»",
    ]


def test_encodings_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    rows = "".join(f"{i},plain\n" for i in range(50)) + "50,Gößmann\n"
    found = read_table(file(tmp_path, ("n,name\n" + rows).encode("latin-1")))
    assert found["name"].to_list()[-1] == "Gößmann"
    mixed = b"n,name\n" + "1,Zoë\n".encode() * 20 + "2,Zoë\n".encode("latin-1") * 20
    with pytest.raises(DataError, match="line 22"):
        read_table(file(tmp_path, mixed))


def refusal(path: Path) -> str:
    messages = []
    for read in (read_table, lambda p: list(read_batches(p))):
        with pytest.raises(DataError) as caught:
            read(path)
        messages.append(str(caught.value))
        assert SECRET not in messages[-1]
        assert caught.value.__cause__ is None
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (f"a,b\n{SECRET},2\n{SECRET}\n3,4\n", "1 record.*2 fields.*line 3"),
        (f"a,b\n1,2\n{SECRET},2,3\n\n{SECRET}\n", "2 records.*2 fields.*line 3"),
        (f'a,b\n"x\ny",2\n{SECRET}\n', "line 4"),
        (f'a,b\n1,"{SECRET}\n3,4\n', "closed"),
        (f'a,b\n1,"{SECRET}"x\n3,4\n', "line 2"),
        (f'a,b\n1,2\n{SECRET} "x,y",2\n', "line 3"),
        (f'a,b\n1,5" nail\n2,6" {SECRET}\n', "line 2"),
        (f"a,b,a\n1,2,{SECRET}\n", "'a'"),
        (f"a,b\r1,{SECRET}\r", "lone CR"),
        (f"a,b\n1,{SECRET}\n".encode("utf-16")[:-1], "UTF-16"),
        (b"a,b\n1,\0\n", "NUL"),
    ],
)
def test_broken_csv_is_refused_without_its_cells(
    tmp_path: Path, content: bytes | str, words: str
) -> None:
    path = file(tmp_path, content)
    assert str(path) in refusal(path)
    with pytest.raises(DataError, match=words):
        read_table(path)


def test_ragged_records_are_counted_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 32)
    rows = ["1,2"] * 40
    rows[7] = rows[30] = "1"
    with pytest.raises(DataError, match="2 records.*2 fields.*line 9"):
        read_table(file(tmp_path, "a,b\n" + "\n".join(rows)))


def test_a_record_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 1000)
    monkeypatch.setattr(blocks, "LONGEST_RECORD", 10_000)
    with pytest.raises(DataError, match="line 3"):
        read_table(file(tmp_path, 'a,b\n1,2\n1,"' + "x\n" * 20_000))


def test_blank_lines_are_no_records_but_a_lone_column_may_be_missing(tmp_path: Path) -> None:
    assert read_table(file(tmp_path, "a,b\r\n\r\n1,2\r\n\r\n3,4\r\n\r\n")).rows() == [
        (1, 2),
        (3, 4),
    ]
    assert read_table(file(tmp_path, "a\n1\n\n3\n"))["a"].to_list() == [1, None, 3]


def test_header_only_and_unnamed_columns(tmp_path: Path) -> None:
    frame = read_table(file(tmp_path, "a,b"))
    assert (frame.shape, frame.columns) == ((0, 2), ["a", "b"])
    assert read_table(file(tmp_path, ",b\n0,1\n")).columns == ["column_1", "b"]


def test_quoted_newlines_at_every_block_boundary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(i, f'line "{i}"\nnext, {"x" * (i % 7)}') for i in range(60)]
    path = tmp_path / "t.csv"
    pl.DataFrame(rows, schema=["n", "text"], orient="row").write_csv(path)
    for size in (40, 41, 43, 64, 1000):
        monkeypatch.setattr(blocks, "BLOCK", size)
        assert read_table(path).rows() == rows


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.ndjson", "t.jsonl.gz"])
def test_batches_have_one_schema_and_all_records(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 200)
    text = ["1"] * 99 + ["1.5"]
    if "csv" in name:
        content = "n,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(text))
    else:
        content = "".join(f'{{"n":{i},"v":{v}}}\n' for i, v in enumerate(text))
    raw = gzip.compress(content.encode()) if name.endswith("gz") else content
    path = file(tmp_path, raw, name)
    batches = list(read_batches(path, rows=30))
    assert [batch.height for batch in batches] == [30, 30, 30, 10]
    assert {tuple(batch.schema.items()) for batch in batches} == {
        (("n", pl.Int64()), ("v", pl.Float64()))
    }
    assert pl.concat(batches).equals(read_table(path))
    assert read_table(path, columns=["v"]).columns == ["v"]
    assert read_schema(path) == batches[0].schema


def test_damaged_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(40_000).hex().encode())
    for name in ("t.csv.gz", "t.ndjson.gz"):
        assert "gzip" in refusal(file(tmp_path, packed[:-2000], name))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        (f'{{"a": 1}}\n{{"a": "{SECRET}"\n', "line 2"),
        (f'{{"a": "{SECRET}"}}\n\n[1]\n', "line 3"),
        ('{"a": 1}\n{"a": NaN}\n', "line 2"),
        ('{"a": [1]}\n', "'a'"),
        ('{"a": 1}\n{"a": {"b": [1]}}\n', "'a.b'"),
    ],
)
def test_broken_ndjson(tmp_path: Path, content: str, words: str) -> None:
    path = file(tmp_path, content, "t.ndjson")
    refusal(path)
    with pytest.raises(DataError, match=words):
        read_table(path)


def test_ndjson_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        '{"n": 1, "t": "2024-01-01", "m": 1, "b": true, "z": "01234", '
        '"big": 12345678901234567890}\n'
        '{"n": 1.5, "t": null, "m": "x", "b": 1, "late": "2024-01-01"}\n'
    )
    for size in (50, 5000):
        monkeypatch.setattr(blocks, "BLOCK", size)
        frame = read_table(file(tmp_path, lines, "t.jsonl"))
        assert dict(frame.schema) == {
            "n": pl.Float64,
            "t": pl.Date,
            "m": pl.String,
            "b": pl.String,
            "z": pl.String,
            "big": pl.String,
            "late": pl.Date,
        }
        assert frame["m"].to_list() == ["1", "x"]
        assert frame["big"].to_list() == ["12345678901234567890", None]


@pytest.mark.parametrize("first", ['"2024-01-01"', "5"])
def test_ndjson_mixtures_of_dates_and_numbers_lose_nothing(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = "5" if "-" in first else '"2024-01-01"'
    content = f'{{"v": {first}}}\n' * 5 + f'{{"v": {second}}}\n' * 5
    for size in (16, 20, 5000):
        monkeypatch.setattr(blocks, "BLOCK", size)
        found = read_table(file(tmp_path, content, "t.jsonl"))["v"].to_list()
        assert found == [first.strip('"')] * 5 + [second.strip('"')] * 5


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather", "t.xlsx"])
def test_binary_files_that_are_not_what_they_say(tmp_path: Path, name: str) -> None:
    assert "cannot be read as" in refusal(file(tmp_path, SECRET * 50, name))
    assert "cannot be read as" in refusal(file(tmp_path, b"", name))


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_table(file(tmp_path, "x", "table.doc"))
    with pytest.raises(DataError):
        read_table(tmp_path / "table.parquet.gz")
    with pytest.raises(DataError):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="folder"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(DataError, match="'agee'.*'age'"):
        read_table(file(tmp_path, "age\n1\n"), columns=["agee"])


def test_formats_by_name() -> None:
    assert str(format_of("A.CSV.GZ")) == "CSV"
    assert str(format_of("book.xlsx#Sheet 2")) == "Excel"
    assert str(format_of("POSTGRESQL://host/db#t")) == "SQL"


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ann:hunter2@host/db#t",
        "postgresql://ann:hunter2@host/db?password=hunter2#t",
        "postgresql://host/db?user=ann&password=hunter2#t",
        "postgresql://ann:hun#hunter2@host/db#t",
        "postgresql://ann:hun?hunter2@host/db#t",
        "postgresql://host/db#SELECT * FROM t WHERE name = 'hunter2'",
        "postgresql://ann:hunter2@host/db#with x as (select 'hunter2') select * from x",
        "postgresql://host/db#select*from t where name='hunter2'",
        "postgresql://host/db#/* all */ SELECT 'hunter2'",
        "postgresql://host/db#-- all\nSELECT 'hunter2'",
        "postgresql://host/db#(SELECT 'hunter2')",
        "postgresql://host/db#values ('hunter2')",
        "postgresql://host/db#EXPLAIN SELECT 'hunter2'",
    ],
)
def test_no_password_or_query_is_shown(source: str) -> None:
    assert "hunter2" not in display_name(source)
    assert display_name(source).startswith("postgresql://")


def test_rebatched_keeps_every_record() -> None:
    frames = [pl.DataFrame({"n": range(start, stop)}) for start, stop in ((0, 3), (3, 3), (3, 20))]
    for rows in (1, 4, 5, 20, 50):
        batches = list(rebatched(frames, rows))
        assert pl.concat(batches)["n"].to_list() == list(range(20))
        assert {batch.height for batch in batches[:-1]} <= {rows}
    assert [b.height for b in rebatched([frames[0].clear()], 4)] == [0]


numbers = ["5", "05", "-0", "-0.5", "+5", " 5", "1.5", "1,5", "9007199254740993", "1e400", "nan"]
numbers += ["-7", "0", "0.0", "00", "NA", '"5"', '"05"', "-", "x", "true", "9" * 20]
numbers += ["2024-01-02", "1600-01-01T00:00:00", "2024-01-02T03:04:05.123456789"]
numbers += ["2024-01-02T03:04:05.123456", "2024-01-02T03:04:05", "03/04/2024", "31/12/2024"]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(st.sampled_from(numbers), min_size=1, max_size=4).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=12)
    ),
    separator=st.sampled_from(",;"),
)
def test_types_do_not_depend_on_where_a_block_ends(
    tmp_path: Path, cells: list[str], separator: str
) -> None:
    if separator == ",":
        cells = [cell.replace("1,5", "x") for cell in cells]
    lines = "".join(f"{i}{separator}{cell}\n" for i, cell in enumerate(cells))
    path = file(tmp_path, f"n{separator}v\n{lines}")
    whole = read_table(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 6)
        assert read_table(path).equals(whole, null_equal=True)
        assert pl.concat(read_batches(path, rows=3)).equals(whole, null_equal=True)
        assert read_table(path, columns=["v"]).equals(whole.select("v"), null_equal=True)


@pytest.mark.parametrize(
    "name, before, after",
    [
        ("t.csv", "a,b\n1,2\n", "a,b\n1,2\n3,x\n"),
        ("t.ndjson", '{"a": 1}\n', '{"a": 1}\n{"a": 2, "b": 3}\n'),
    ],
)
def test_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, name: str, before: str, after: str
) -> None:
    path = tmp_path / name
    path.write_text(before)
    frames = read_batches(path)
    path.write_text(after)
    with pytest.raises(DataError):
        list(frames)


fuzzing = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
pieces = st.sampled_from(["a", "1", ",", '"', '""', "\n", "\r\n", ";", "é"])


@pytest.mark.guarantee
@fuzzing
@given(parts=st.lists(pieces, max_size=25), size=st.sampled_from([8, 9, 13, 1000]))
def test_csv_is_refused_or_read_as_pythons_reader_does(
    tmp_path: Path, parts: list[str], size: int
) -> None:
    content = "x,y\n" + "".join(parts)
    with pytest.MonkeyPatch.context() as patch, suppress(DataError, csv.Error):
        patch.setattr(blocks, "BLOCK", size)
        patch.setattr(csv_reader, "ALL", ())  # text only
        found = read_table(file(tmp_path, content)).fill_null("").rows()
        records = csv.reader(io.StringIO(content, newline="\n"), strict=True)
        assert found == [tuple(record) for record in records if record][1:]


@pytest.mark.guarantee
@pytest.mark.slow
@fuzzing
@given(content=st.binary(max_size=60), name=st.sampled_from(["t.csv", "t.ndjson", "t.csv.gz"]))
def test_no_bytes_bring_anything_but_a_table_or_a_clear_word(
    tmp_path: Path, content: bytes, name: str
) -> None:
    for prefix in (b"", b"a,b\n", b'{"a": 1}\n', b"\x1f\x8b"):
        with suppress(DataError):
            read_table(file(tmp_path, prefix + content, name))


@pytest.mark.parametrize("name", ["^age$", "*"])
@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_a_name_that_reads_like_a_pattern_is_refused(
    name: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"in.{ending}"
    frame = pl.DataFrame({"age": [1, 2], name: [3, 4]})
    {"csv": frame.write_csv, "ndjson": frame.write_ndjson, "parquet": frame.write_parquet}[ending](
        path
    )
    with pytest.raises(DataError):
        read_table(path)


RECORDS = (
    "39,State-gov,77516,2024-01-02\n50,Self-emp,83311,2023-05-06\n38,Private,21564,2022-01-01\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "41,Private,77000,2023-01-02\n" + RECORDS,  # in the place of the header
        "39,State-gov,39,2024-01-02\n" + RECORDS,  # even where its cells are doubled
        "41,F,true\n40,G,false\n41,H,true\n",
        "2024-01-02,a\n2023-01-02,b\n",
        "1.5\n1.0\n2.0\n",
        "Smith,1985\nJones,1990\nSmyth,1970\n",  # years of birth
        "1985,2004\n1990,2010\n1970,1988\n1986,2005\n",
        "b,2000\na,100\nb,3000\n",  # the name is a value of the column
        "5,3,1\n5,4,1\n1,3,5\n",  # answers
        "A,20,80\nB,10,90\nB,30,70\n",  # two numbers always have a step
        "Region,2010,2020\nR0,100,200\nR1,9000,8000\n",  # years, or numbers like those below
        "1,2,2024-01-02\n1,3,2024-01-03\n3,1,2023-01-02\n",
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_record_is_not_taken_for_the_header(tmp_path: Path, text: str, name: str) -> None:
    if name.endswith(".xlsx"):
        book = xlsxwriter.Workbook(tmp_path / name)
        sheet = book.add_worksheet()
        for number, line in enumerate(text.splitlines()):
            sheet.write_row(number, 0, [_cell(field) for field in line.split(",")])
        book.close()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / name)
    said = str(caught.value).replace(str(tmp_path), "")  # whose number is any
    assert not any(cell in said for cell in ("39", "77000", "State-gov", "2024"))


def _cell(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text == "true" if text in ("true", "false") else text


@pytest.mark.parametrize(
    "text",
    [
        "country,2019,2020,2021\nCH,2019.5,1.5,3\nAT,2020.0,1.5,2022\n",  # years
        "0,1,2\n0,1,5\n1,0,1\n",  # pandas without names
        "32,39,41\n0,1,0\n1,1,0\n",  # items above booleans
        "age,40\n39,40\n38,41\n",
        "39,State-gov\n",  # a header alone
        "a,b\nx,y\n",
        "Region,2023,2024\nR0,100,200\nR1,9000,8000\n",
        "Region,2010,2015,2020\nR0,100,300,200\nR1,9000,8000,7000\n",
        "2019,2021,2023\n100,200,150\n9000,8000,2500\n",
        "2023,2022,2021\n2040,2014,1948\n1999,2022,2038\n2023,1900,2021\n",
        "Tag,6,12,18,24\nD0,6,12,18,24\nD1,1,1,1,1\nD0,80,81,82,83\n",
        "q,0.1,0.2,0.3\na,0.0,0.1,0.2\nb,0.3,0.4,0.5\n",
    ],
)
def test_numbers_may_be_names_where_they_are_no_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv").columns == text.splitlines()[0].split(",")
    assert next(iter(read_batches(tmp_path / "t.csv"))).height == text.count("\n") - 1


@pytest.mark.parametrize(
    "text",
    [
        "Umsatzliste 2023;;\nFiliale;Umsatz;Kunden\nA;100;3\nB;200;4\n",
        "Sales,, ,\nshop,turnover,customers,\nA,100,3,\n",
        ",,a\n1,2,3\n4,5,6\n",
    ],
)
def test_a_title_is_not_taken_for_the_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="2 columns") as caught:
        read_table(file(tmp_path, text))
    assert "Umsatzliste" not in str(caught.value)


def test_columns_without_a_name_or_a_value_are_no_title(tmp_path: Path) -> None:
    assert read_table(file(tmp_path, ",a,b\n0,x,1\n1,y,2\n")).columns == ["column_1", "a", "b"]
    trailing = read_table(file(tmp_path, "a;b;;\n1;8;;\n0;7;;NA\n"))
    assert trailing.columns == ["a", "b", "column_3", "column_4"]


@pytest.mark.parametrize("rows", [0, -1, 1.5])
def test_batches_have_a_record_at_least(tmp_path: Path, rows: object) -> None:
    with pytest.raises(ParameterError, match="'rows'.*read_batches"):
        read_batches(file(tmp_path, "a\nx\n"), rows=rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", ["ab", [], ["a", "a"]])
def test_columns_are_asked_for_by_a_list_of_names(tmp_path: Path, columns: object) -> None:
    with pytest.raises(ParameterError):
        read_table(file(tmp_path, "a,b\nx,y\n"), columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("block", [1 << 20, 20])
def test_numbers_that_floating_point_cannot_be_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    huge = read_table(file(tmp_path, "a,b\n1.5,x\n1e400,y\n-2,z\n"))
    assert huge["a"].to_list() == ["1.5", "1e400", "-2"]
    infinite = read_table(file(tmp_path, "a,b\n1.5,x\ninf,y\n-Infinity,z\n"))
    assert infinite["a"].to_list() == [1.5, float("inf"), float("-inf")]
    for lines in ('{"a": 9007199254740993}\n{"a": 1.5}\n', '{"a": 1.5}\n{"a": 9007199254740993}\n'):
        (tmp_path / "t.ndjson").write_text(lines)
        found = read_table(tmp_path / "t.ndjson")["a"].to_list()
        assert sorted(found) == ["1.5", "9007199254740993"]
    (tmp_path / "t.ndjson").write_text('{"a": 9007199254740993}\n{"a": 2}\n')
    assert read_table(tmp_path / "t.ndjson")["a"].to_list() == [9007199254740993, 2]
    (tmp_path / "t.ndjson").write_text('{"a": 1e300}\n{"a": 2}\n')
    assert read_table(tmp_path / "t.ndjson")["a"].to_list() == [1e300, 2.0]


def test_addresses_and_pipes_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_table("https://ann:hunter2@host/people.csv?token=hunter2&as=t.csv")
    assert "hunter2" not in str(caught.value)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError):
        read_table(tmp_path / "pipe.csv")
