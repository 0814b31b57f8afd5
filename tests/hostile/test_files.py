"""Files that somebody crafted: one line, in bounded time and memory, without a cell."""

from __future__ import annotations

import gzip
import io
import json
import resource
import sqlite3
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.reference.streams import OPTIONS, rows, write_ndjson
from tulle import Sketches, StreamCondenser, read_batches, read_fimi, read_rules, read_table
from tulle._commands.stream import stream
from tulle._json import dtype_from_json, dtype_to_json, series_from_json, series_to_json
from tulle.errors import DataError, ParameterError, PolicyError, PrivacyWarning, TulleError
from tulle.io._text import record_blocks
from tulle.io.write import write_table
from tulle.releases import manifest_path
from tulle.rules.rule import support_count
from tulle.stream._saved import read_parts, to_bytes
from tulle.table.policy import load_policy, parse_policy

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a few megabytes for many: the tests are not to take as long as the bombs would."""
    monkeypatch.setattr("tulle._files._HARMLESS", 8 * MEGABYTE)


@contextmanager
def bounded(megabytes: int = 700) -> Iterator[None]:
    """Fail if the process grows by much more than what a harmless file takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < megabytes * 1024


# --- packed files ------------------------------------------------------------------------------


def bomb(path: Path, text: bytes, times: int) -> Path:
    """Write a gzip file of a text again and again, packed as tightly as gzip can."""
    path.write_bytes(gzip.compress(text, 9) * times)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("line", [b"1,2\n", b"\0", b'"', b"a"])
def test_a_gzip_bomb_is_refused(tmp_path: Path, line: bytes) -> None:
    path = bomb(tmp_path / "t.csv.gz", line * (MEGABYTE // len(line)), 20)
    assert path.stat().st_size < MEGABYTE // 10
    with bounded(), pytest.raises(DataError) as caught:
        for _ in read_batches(path):
            pass
    assert str(path) in str(caught.value)


def test_a_bomb_is_refused_before_a_record_of_it_is_read(tmp_path: Path) -> None:
    path = bomb(tmp_path / "t.csv.gz", b"a,b\n" * (MEGABYTE // 4), 20)
    with pytest.raises(DataError, match="unpacks"):
        next(record_blocks(path, quoted=True))


def test_a_gzip_bomb_of_baskets_is_refused(tmp_path: Path) -> None:
    path = bomb(tmp_path / "shop.dat.gz", b"1 2\n" * (MEGABYTE // 4), 20)
    with bounded(), pytest.raises(DataError, match="unpacks"):
        read_fimi(path)


def test_a_table_that_packs_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,x\n" * 500_000))
    assert read_table(path).height == 500_000


def workbook(path: Path, sheet: bytes, times: int = 1) -> Path:
    """Write a workbook whose only sheet has these rows, the same again and again."""
    from xlsxwriter import Workbook

    buffer = io.BytesIO()
    book = Workbook(buffer)
    book.add_worksheet().write_row(0, 0, ["a", "b"])
    book.close()
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            with new.open(name, "w", force_zip64=True) as file:
                if "worksheets" not in name:
                    file.write(content)
                    continue
                head, tail = content.split(b"</sheetData>")
                file.write(head)
                for _ in range(times):
                    file.write(sheet)
                file.write(b"</sheetData>" + tail)
    return path


@pytest.mark.slow
def test_an_excel_bomb_is_refused(tmp_path: Path) -> None:
    row = b'<row r="2"><c r="A2"><v>1</v></c></row>' * 20_000
    path = workbook(tmp_path / "bomb.xlsx", row, 20)
    with bounded(), pytest.raises(DataError, match="unpacks"):
        read_table(path)


def test_two_cells_in_opposite_corners_are_refused(tmp_path: Path) -> None:
    row = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    with bounded(), pytest.raises(DataError) as caught:
        read_table(workbook(tmp_path / "far.xlsx", row))
    assert "3 cells" in str(caught.value)


def test_a_member_that_is_longer_than_it_says_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "lies.xlsx", b'<row r="2"><c r="A2"><v>1</v></c></row>' * 1000)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as book:
        entry = next(entry for entry in book.infolist() if "worksheets" in entry.filename)
    for place in range(len(content) - 4):
        if content[place : place + 4] == struct.pack("<I", entry.file_size):
            content[place : place + 4] = struct.pack("<I", 100)
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_table(path)


def test_an_honest_workbook_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": range(2000), "b": [f"x{i}" for i in range(2000)]})
    write_table(frame, tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx").equals(frame)


# --- many columns, deep nesting, long numbers ----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet", "arrow"])
def test_too_many_columns_are_counted_and_refused(tmp_path: Path, kind: str) -> None:
    names = [f"c{i}" for i in range(100_000 if kind == "csv" else 10_001)]
    path = tmp_path / f"wide.{kind}"
    if kind == "csv":
        path.write_text(",".join(names) + "\n" + ("1," * (len(names) - 1) + "1\n") * 4)
    elif kind == "ndjson":
        path.write_text((json.dumps(dict.fromkeys(names, 1)) + "\n") * 4)
    else:
        frame = pl.DataFrame({name: [1] for name in names})
        frame.write_parquet(path) if kind == "parquet" else frame.write_ipc(path)
    with bounded(), pytest.raises(DataError, match=f"{len(names):,} columns"):
        read_table(path)


@pytest.mark.slow
def test_a_thousand_columns_are_read(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(1_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ("1," * 999 + "1\n") * 4)
    assert read_table(path).shape == (4, 1_000)


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 50_000 + " = 1",
        "[" + "a." * 50_000 + "a]",
        "x = {" + "a." * 50_000 + "a = 1}",
        "[" * 50_000,
        "x = " + "[" * 50_000,
        "x = " + "{a = " * 50_000,
        "[columns.a]\nweight = " + "9" * 5_000,
        "[columns.a]\nkind = 'integer'\nrole = 'target'\nbounds = [0, " + "9" * 400 + "]",
        "#" * (5 * MEGABYTE),
        "\x00",
    ],
)
def test_policies_that_take_a_parser_hours_are_refused(tmp_path: Path, text: str) -> None:
    with bounded(), pytest.raises(PolicyError):
        parse_policy(text)
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    assert len(str(caught.value)) < 500


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    long = "9" * 5_000
    shop = tmp_path / "shop.dat"
    shop.write_text(f"1 2\n{long} 3\n")
    with pytest.raises(DataError, match="1 item number"):
        read_fimi(shop)
    shop.write_text(f"0000000000001 2\n{'0' * 5_000}7 3\n")
    assert sorted(read_fimi(shop).names.tolist()) == [1, 2, 3, 7]
    with pytest.raises(ParameterError, match="min_support"):
        support_count("test", long, 100)
    secret = tmp_path / "secret.txt"
    secret.write_text(f"a -> b ; support={long}\n")
    assert len(read_rules(secret).rules) == 1
    table = tmp_path / "t.csv"
    table.write_text(f"a,b\n1,{long}\n2,3\n")
    assert read_table(table).height == 2
    lines = tmp_path / "t.ndjson"
    lines.write_text(f'{{"a": {long}}}\n')
    with pytest.raises(DataError) as caught:
        read_table(lines)
    assert "999" not in str(caught.value)


def test_lines_of_json_nested_by_the_thousand(tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(DataError):
        read_table(path)


# --- states of streams ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("state")
    source = write_ndjson(folder / "in.ndjson", rows(300))
    stream(str(source), folder / "out", state=folder / "st", plain_waiting=True, **OPTIONS)
    return (folder / "st").read_bytes()


def refused(path: Path) -> None:
    with bounded(), pytest.raises(TulleError) as caught:
        StreamCondenser.load(path)
    assert "\n" not in str(caught.value)


def test_a_state_is_loaded(state: bytes, tmp_path: Path) -> None:
    (tmp_path / "st").write_bytes(state)
    assert StreamCondenser.load(tmp_path / "st").n_seen_ == 300


def test_a_packed_state_is_refused_before_it_is_unpacked(state: bytes, tmp_path: Path) -> None:
    path = tmp_path / "st"
    with (
        zipfile.ZipFile(io.BytesIO(state)) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
        with new.open("9.groups.means.npy", "w", force_zip64=True) as file:
            for _ in range(50):
                file.write(bytes(MEGABYTE))
    assert path.stat().st_size < MEGABYTE // 2
    refused(path)


def test_what_else_is_in_the_file_is_refused(state: bytes, tmp_path: Path) -> None:
    path = tmp_path / "st"
    path.write_bytes(bytes(MEGABYTE) + state)  # a zip reader skips what comes before
    refused(path)
    with path.open("wb") as file:  # a hole of a terabyte
        file.seek(1 << 40)
        file.write(state)
    refused(path)
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    refused(path)
    path.write_bytes(b"")
    refused(path)


def changed(state: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    header, arrays = read_parts(io.BytesIO(state))
    entry: Any = header
    for part in path[:-1]:
        entry = entry[part]
    entry[path[-1]] = value
    return to_bytes(header, arrays)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("encoder",), None),
        (("encoder",), {"n": 10**400}),
        (("names",), [["a"]]),
        (("names",), {}),
        (("seed",), "x"),
        (("location",), [0.0]),
        (("states",), []),
        (("states", 0, "history"), {"interval": -1}),
        (("states", 0, "seen"), 2**70),
        (("parameters",), {"k": 5, "__class__": 1}),
        (("labels",), {"name": "c", "type": "Object", "values": [1]}),
        (("labels",), {"name": "c", "type": ["List", ["List", "Int8"]], "values": [1]}),
        (("border",), {"table": ["odd", "x", "y"], "target": None}),
        (("version",), "2"),
        (("n_features",), -1),
        (("extra",), [1]),
    ],
)
def test_crafted_states_with_a_right_digest_are_refused(
    state: bytes, tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    (tmp_path / "st").write_bytes(changed(state, path, value))
    refused(tmp_path / "st")


@pytest.mark.parametrize(
    "series",
    [
        pl.Series("a", [1, None, 3], dtype=pl.UInt8),
        pl.Series("a", [2**100], dtype=pl.Int128),
        pl.Series("b", [0.1, float("inf"), None], dtype=pl.Float32),
        pl.Series("c", ["x", "ä", None]),
        pl.Series("c", ["x", "y", None, "x"], dtype=pl.Categorical),
        pl.Series("c", ["x", "y", None], dtype=pl.Enum(["y", "x", "z"])),
        pl.Series("d", [0, -1, None]).cast(pl.Date),
        pl.Series("d", [0, 10**15, None]).cast(pl.Datetime("us", "Europe/Berlin")),
        pl.Series("d", [0, 10**15, None]).cast(pl.Datetime("ns")),
        pl.Series("d", [5, None]).cast(pl.Duration("ms")),
        pl.Series("d", [5, None]).cast(pl.Time),
        pl.Series("d", ["1.25", None]).cast(pl.Decimal(10, 3)),
        pl.Series("e", [True, None]),
        pl.Series("f", [None, None]),
        pl.Series("g", [], dtype=pl.List(pl.Int8)),
    ],
)
def test_columns_survive_as_json(series: pl.Series) -> None:
    back = series_from_json(json.loads(json.dumps(series_to_json(series))))
    assert back.dtype == series.dtype
    assert back.name == series.name
    assert back.to_list() == series.to_list()
    assert dtype_from_json(dtype_to_json(series.dtype)) == series.dtype


@pytest.mark.parametrize(
    "entry", ["Object", "__name__", ["Enum", 3], ["List"], [], None, ["Array"]]
)
def test_types_that_nobody_saves_are_refused(entry: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        dtype_from_json(entry)


# --- sketches ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_crafted_and_damaged_sketches_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    lists = [[1.0, 1.0]] * 3
    for columns in (
        {"sketch": lists},
        {"sketch": lists, "length": [2, 2, 1]},
        {"sketch": [["x", "y"]] * 3, "length": [2] * 3},
    ):
        pl.DataFrame(columns).write_parquet(path)
        with bounded(), pytest.raises(DataError):
            Sketches.load(path)
    pl.DataFrame({"length": [2] * 3, "sketch": lists}).write_parquet(path)
    content = path.read_bytes()
    assert len(Sketches.load(path)) == 3
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(DataError):
            Sketches.load(path)


# --- the rest ------------------------------------------------------------------------------------


def test_text_in_sqlite_that_is_not_utf8_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a TEXT)")
        database.execute("INSERT INTO t VALUES ('fine'), (CAST(x'ff41' AS TEXT))")
    database.close()
    with pytest.raises(DataError):
        read_table(f"sqlite:///{path}#t")
    assert "panicked" not in capfd.readouterr().err


def test_a_huge_manifest_is_refused_before_it_is_read(tmp_path: Path) -> None:
    from tulle.releases import read_manifest

    release = tmp_path / "r.csv"
    with manifest_path(release).open("wb") as file:
        file.truncate(1 << 40)
    with bounded(), pytest.raises(DataError, match="too large"):
        read_manifest(release)


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.csv.gz"])
def test_cells_that_begin_like_formulas_are_counted_and_not_shown(
    tmp_path: Path, name: str
) -> None:
    frame = pl.DataFrame(
        {
            "note": ["=cmd|' /C calc'!A0", "@SUM(A1)", "plain", None],
            "phone": ["+49 secret", "-5", "+7.5", "-x"],
            "n": [-1, -2, 3, 4],
        }
    )
    with pytest.warns(PrivacyWarning) as caught:
        write_table(frame, tmp_path / name)
    (warning,) = caught
    text = str(warning.message)
    assert "4 cells" in text
    assert "'note' (2)" in text
    assert "'phone' (2)" in text
    assert "cmd" not in text
    assert "secret" not in text


@pytest.mark.filterwarnings("error")
def test_no_warning_where_nothing_runs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": ["-5", "+1,5", "x=1"], "n": [-1.0, 2.0, 3.0]})
    write_table(frame, tmp_path / "r.csv")
    odd = pl.DataFrame({"a": ["=1+1"]})
    write_table(odd, tmp_path / "r.parquet")
    write_table(odd, tmp_path / "r.xlsx")
