"""Blocks of bytes to lines: where they are cut does not matter."""

from __future__ import annotations

import io
import tempfile
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.stream import _sources as files
from tulle.stream import _sources as reading
from tulle.stream._records import RecordReader
from tulle.stream._sources import FileSource, LineReader, Lines

pytestmark = pytest.mark.slow

LONGEST = 12
pieces = st.sampled_from(
    [b"a", b"bc", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"x" * 13, b"y" * 40]
)


def expected(content: bytes, *, growing: bool) -> list[tuple[bytes | None, int]]:
    """Each line, or None if it is too long, with the place of its first byte."""
    found: list[tuple[bytes | None, int]] = []
    place = 0
    for raw in io.BytesIO(content):
        whole = raw.endswith(b"\n")
        text = raw.removesuffix(b"\n")
        if whole or not growing:
            line = text.removesuffix(b"\r") if len(text) <= LONGEST else None
            found.append(line.removeprefix(b"\xef\xbb\xbf") if line and not place else line)
        place += len(raw)
    return found


@given(st.lists(pieces, max_size=12), st.data(), st.booleans())
def test_lines_do_not_depend_on_blocks(
    parts: list[bytes], data: st.DataObject, growing: bool
) -> None:
    content = b"".join(parts)
    left = bytearray(content)

    def fetch(size: int) -> bytes | None:
        if data.draw(st.integers(0, 4)) == 4:
            return None
        block = bytes(left[: data.draw(st.integers(1, 20))])
        del left[: len(block)]
        return block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LONGEST", LONGEST)
        reader = LineReader(fetch, "origin", quoted=False, growing=growing)
        found: list[bytes | None] = []
        numbers: list[int] = []
        while (lines := reader.read(data.draw(st.integers(1, 4)))) is not None:
            found += lines.texts
            numbers += lines.numbers
            assert reader.number == len(found)
            if growing and not left and not len(lines):
                break
    assert found == expected(content, growing=growing)
    assert numbers == list(range(1, len(found) + 1))
    if not growing:
        assert reader.offset == len(content)
    assert reader.reached == len(content)


@given(st.lists(pieces, max_size=12), st.data())
def test_a_file_is_read_on_from_any_position(parts: list[bytes], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LONGEST", LONGEST)
        patch.setattr(reading, "BLOCK", 5)
        patch.setattr(files, "PAUSE", 0.0)
        _read_in_parts(b"".join(parts), data)


def _read_in_parts(content: bytes, data: st.DataObject) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        position, found, ended = None, [], False
        while not ended:
            source = FileSource(file.name, has_header=False, follow=False, position=position)
            with closing(source):
                lines = source.read(data.draw(st.integers(1, 3)))
                if lines is not None:
                    found += lines.texts
                position, ended = source.position, lines is None
    assert found == expected(content, growing=False)


def test_lines_of_several_files_are_joined() -> None:
    one = Lines([b"a"], [1], ["x"])
    two = Lines([b"b", None], range(1, 3), ["y", "y"], {1: "longer than 1 MiB"})
    assert Lines.joined([one]) is one
    assert Lines.joined([one, two]) == Lines(
        [b"a", b"b", None], [1, 1, 2], ["x", "y", "y"], {2: "longer than 1 MiB"}
    )


def test_lines_do_not_print_their_texts() -> None:
    lines = Lines([b"SECRET", None], [1, 2], ["origin"] * 2)
    assert repr(lines) == str(lines) == "<2 lines>"
    assert "SECRET" not in repr([lines, Lines.joined([lines, lines])])


def test_records_do_not_print_their_values() -> None:
    reader = RecordReader("csv", b"name,n")
    reader.begin([b"SECRET,1"], {}, [])
    found = reader.records([b"SECRET,1", b"SECRET"])
    assert repr(found) == str(found) == "<1 records, 1 lines refused>"
