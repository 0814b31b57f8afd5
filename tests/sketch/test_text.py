"""The tokeniser and the files of text."""

from __future__ import annotations

import gzip

import pytest

from tulle.errors import DataError
from tulle.sketch._records import documents, is_text_file, tokens


def read(path):
    return list(documents(path))


def test_tokens_are_lower_case_runs_of_two_or_more():
    assert tokens("Die Straße, 42 x_y -- a I ÉTÉ été") == [
        "die",
        "straße",
        "42",
        "x_y",
        "été",
        "été",
    ]
    assert tokens("") == tokens("! ? a") == []


def test_kinds_by_name():
    assert all(map(is_text_file, ["a.JSONL.gz", "b.csv", "c.txt", "d.parquet"]))
    assert not any(map(is_text_file, ["b.dat", "b.dat.gz", "text"]))


def test_documents_of_all_kinds_also_gzipped(tmp_path):
    lines = '{"text": "one two"}\n\n{"text": null}\n'
    (tmp_path / "d.jsonl").write_text(lines)
    (tmp_path / "d.csv").write_text('n,text\n1,"one, two\nthree"\n2,\n')
    (tmp_path / "d.txt").write_text("one two\n\nthree")
    (tmp_path / "e.txt").write_text("été", encoding="utf-16")
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert read(tmp_path / "d.jsonl") == ["one two", ""]
    assert read(tmp_path / "d.jsonl.gz") == ["one two", ""]
    assert read(tmp_path / "d.csv") == ["one, two\nthree", ""]
    assert read(tmp_path / "d.txt") == ["one two", "", "three"]
    assert read(tmp_path / "e.txt") == ["été"]


@pytest.mark.parametrize(
    "name,content,message",
    [
        ("a.jsonl", b"", "empty"),
        ("a.jsonl", b"{\n[1]\n", "2 lines"),
        ("a.jsonl", b'{"txt": "secret words"}\n', "'txt'"),
        ("a.jsonl", b'{"secret": 1, "a": 2}\n{"a": 3}\n', "'a'"),
        ("a.jsonl", b'{"secret": 1}\n{"a": 3}\n', "common"),
        ("a.jsonl", b'{"text": 5}\n', "1 record"),
        ("a.jsonl", b'{"text": "secret"}\n5\n{"text": "b"}\n[]\n', "2 lines"),
        ("a.jsonl", b"[" * 100_000, "1 line"),
        ("a.jsonl", b"\n\n", "document"),
        ("a.jsonl.gz", b"\x1f\x8b\x08\x00secret", "damaged"),
        ("a.jsonl.gz", b"secret words", "1 line"),  # its first bytes say what a file is
        ("a.csv", b"texts,n\nsecret words,2\n", "'texts'"),
        ("a.csv", b"text\n4711\n", "text"),
        ("a.csv", b"text\n", "document"),
        ("a.txt", b"\xff\xfe\x00secret", "UTF-8"),
    ],
)
def test_wrong_files_are_refused_without_a_cell(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        list(documents(tmp_path / name))
    assert "secret" not in str(caught.value)


def test_a_byte_order_mark_is_no_letter(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}')
    assert read(tmp_path / "a.txt") == read(tmp_path / "a.jsonl") == ["one"]


def test_missing_file(tmp_path):
    with pytest.raises(DataError):
        list(documents(tmp_path / "absent.txt"))
