from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle.errors import DataError
from tulle.transactions import Transactions, _kernels, fimi, fimi_blocks, read_fimi, write_fimi
from tulle.transactions.fimi import LARGEST_ITEM

LINES = st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), min_size=1, max_size=30)
TEXT = st.text(alphabet="0123456789 -x\t\r\n\x00\x0b\x1c", max_size=60)


def written(baskets: Transactions) -> bytes:
    file = io.BytesIO()
    write_fimi(baskets, file)
    return file.getvalue()


@pytest.mark.slow
@given(LINES)
@few(40)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, lines: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("fimi") / "baskets.dat"
    path.write_text("".join(" ".join(map(str, line)) + " \r\n" for line in lines))
    found = read_fimi(path)
    assert [set(basket) for basket in found.to_lists()] == [set(line) for line in lines]
    path.write_bytes(written(found))
    assert read_fimi(path).to_lists() == found.to_lists()


def test_gzip_and_missing_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat.gz"
    path.write_bytes(gzip.compress(b"3 1\n2"))
    assert read_fimi(path).to_lists() == [[1, 3], [2]]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged"):
        read_fimi(path)


def test_words(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat"
    path.write_text("bread milk\nbeer\n")
    assert read_fimi(path).to_lists() == [["bread", "milk"], ["beer"]]
    assert written(read_fimi(path)) == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        ("1 2\n\n3\n\n", "2 lines"),
        ("1 -2\n-3\n", "2 item"),
        (f"1 {LARGEST_ITEM + 1}\n", "1 item"),
        (f"1 {10**30}\n", "1 item"),
        ("1 x\n", "1 token"),
        ("bread\n\n", "1 line"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "baskets.dat"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_fimi(path)
    if not text.startswith("bread"):
        with pytest.raises(DataError):
            list(fimi_blocks(path, 1))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_fimi(tmp_path / "none.dat")


@given(TEXT)
def test_kernel_parses_like_python(text: str) -> None:
    data = text.encode()
    values = np.empty(len(data) + 1, dtype=np.int64)
    ends = np.empty(len(data) + 1, dtype=np.int64)
    view = np.frombuffer(data, dtype=np.uint8)
    count, lines, *complaints = _kernels.parse_numbers(view, LARGEST_ITEM, values, ends)
    rows = [line.split() for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    tokens = [token for row in rows for token in row]
    numbers = [int(token) for token in tokens if token.isdigit()]
    negative = sum(token[:1] == b"-" for token in tokens)
    wrong = len(tokens) - len(numbers) - negative
    huge = sum(number > LARGEST_ITEM for number in numbers)
    assert complaints == [sum(not row for row in rows), wrong, negative, huge]
    assert np.diff(ends[:lines], prepend=0).tolist() == [len(row) for row in rows]
    if not any(complaints):
        assert values[:count].tolist() == numbers


def test_numbers_are_written_in_their_order() -> None:
    names = np.array([0, 7, 10, 12345])
    baskets = Transactions.from_rows(np.array([0, 3, 3, 4]), np.array([0, 2, 3, 1]), names)
    assert written(baskets) == b"0 10 12345\n\n7\n"


def test_names_with_blanks_cannot_be_written() -> None:
    with pytest.raises(DataError, match="1 item"):
        written(Transactions.from_lists([["whole milk"]]))


@pytest.mark.parametrize("number", [-5, LARGEST_ITEM + 1, 2**62])
def test_numbers_that_no_reader_takes_are_not_written(number: int) -> None:
    baskets = Transactions.from_rows(np.array([0, 2]), np.array([0, 1]), np.array([number, 7]))
    with pytest.raises(DataError, match="1 item"):
        written(baskets)


def test_names_that_become_one_number_are_not_written() -> None:
    with pytest.raises(DataError):
        written(Transactions.from_lists([["7", "07"]]))
    assert written(Transactions.from_lists([["07", "7x"]])) == b"07 7x\n"


def test_blocks_are_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fimi, "_CHUNK", 7)
    path = tmp_path / "baskets.dat"
    lines = [[row, row + 1, 100] for row in range(23)]
    path.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
    blocks = list(fimi_blocks(path, 5))
    assert [len(block) for block in blocks] == [5, 5, 5, 5, 3]
    assert [basket for block in blocks for basket in block.to_lists()] == lines


def test_words_cannot_be_streamed(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat"
    path.write_text("bread milk\n")
    with pytest.raises(DataError):
        list(fimi_blocks(path, 5))


def test_blocked_cells_are_marked() -> None:
    sure = Transactions.from_lists([["a"], ["b"]])
    unknown = Transactions(np.array([0, 1, 1]), np.array([1], dtype=np.int32), sure.names)
    marked = Transactions(sure.indptr, sure.items, sure.names, unknown)
    assert written(marked) == b"a b?\nb\n"
