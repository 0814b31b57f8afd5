"""A folder as a source of ``tulle stream``: which files are read, and whether they are the same."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reference.streams import OPTIONS, rows, write_csv, write_ndjson
from tulle._commands.stream import stream
from tulle.errors import DataError, TulleError
from tulle.stream import _folder as folders
from tulle.stream import _saved as archive
from tulle.stream._checkpoints import locked
from tulle.stream._folder import FolderSource

pytestmark = pytest.mark.slow

ENDINGS = {"csv": (".csv", ".txt"), "ndjson": (".ndjson", ".json")}


def opened(
    folder: Path, position: dict | None = None, kind: str = "csv", follow: bool = False
) -> FolderSource:
    saved = None if position is None else json.loads(json.dumps(position))
    return FolderSource(
        str(folder), has_header=kind == "csv", endings=ENDINGS[kind], follow=follow, position=saved
    )


def read_all(source: FolderSource) -> list[bytes | None]:
    texts: list[bytes | None] = []
    source.header()
    while (lines := source.read(100)) is not None:
        texts += lines.texts
    return texts


def files(folder: Path, **contents: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


def test_a_state_is_not_taken_for_that_of_another_folder(tmp_path: Path) -> None:
    made = rows(300)
    for place, folder in enumerate([tmp_path / "one", tmp_path / "two"]):
        folder.mkdir()
        write_csv(folder / "day.csv", made[:150] if place == 0 else made[150:])
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(tmp_path / "one"), tmp_path / "out", **options)
    with pytest.raises(DataError, match=r"day\.csv"):
        stream(str(tmp_path / "two"), tmp_path / "out", **options)
    shutil.copytree(tmp_path / "one", tmp_path / "moved")  # the same files elsewhere are the same
    done = stream(str(tmp_path / "moved"), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["resumed_after"]) == (150, 150)


@pytest.mark.parametrize("change", ["replaced", "appended", "end", "beginning"])
def test_a_file_that_changes_after_it_was_read_is_noticed(change: str, tmp_path: Path) -> None:
    content = "a,b\n" + "1,2\n" * 3_000
    source = opened(files(tmp_path / "in", one=content))
    assert len(read_all(source)) == 3_000
    (tmp_path / "in" / "one.csv").write_text(
        {
            "replaced": content.replace("1", "3"),
            "appended": content + "1,2\n",
            "end": content[:-2] + "7\n",
            "beginning": content.replace("1", "8", 1),
        }[change]
    )
    with pytest.raises(DataError, match=r"one\.csv"):
        opened(tmp_path / "in", source.position).read(100)


def test_a_file_that_grows_after_it_was_read_is_noticed_in_the_same_run(tmp_path: Path) -> None:
    source = opened(files(tmp_path / "in", one="a,b\n1,2\n"))
    assert read_all(source) == [b"1,2"]
    with (tmp_path / "in" / "one.csv").open("a") as file:
        file.write("3,4\n")
    with pytest.raises(DataError, match=r"one\.csv"):
        source.read(100)


def test_files_that_were_read_are_opened_once_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(files(tmp_path / "in", one="a,b\n1,2\n", two="a,b\n3,4\n"))
    read_all(source)
    marked: list[int] = []
    mark = FolderSource._mark
    monkeypatch.setattr(
        FolderSource,
        "_mark",
        lambda self, file, size: marked.append(size) or mark(self, file, size),
    )
    again = opened(tmp_path / "in", source.position)
    assert [again.read(100) for _ in range(5)] == [None] * 5
    assert len(marked) == 2


def test_states_without_marks_are_read(tmp_path: Path) -> None:
    folder = files(tmp_path / "in", one="a,b\n1,2\n", two="a,b\n3,4\n")
    old = {"done": ["one.csv"], "file": None, "header": "a,b"}
    source = opened(folder, old)
    assert read_all(source) == [b"3,4"]
    assert [mark is None for mark in source.position["marks"]] == [True, False]
    (folder / "one.csv").write_text("a,b\n5,6\n7,8\n")  # nobody knows what it was
    assert read_all(opened(folder, source.position)) == []


def test_a_file_that_was_read_to_its_end_may_be_taken_away_at_once(tmp_path: Path) -> None:
    folder = files(tmp_path / "in", one="a,b\n1,2\n3,4")
    source = opened(folder)
    source.header()
    assert [source.read(1).texts for _ in range(2)] == [[b"1,2"], [b"3,4"]]
    assert source.current is not None  # nobody has met its end yet
    position = source.position
    source.close()
    files(folder, two="a,b\n5,6\n")
    assert read_all(opened(folder, position)) == [b"5,6"]
    os.unlink(folder / "one.csv")
    assert read_all(opened(folder, position)) == [b"5,6"]
    files(folder, one="a,b\n1,2\n3,4\n7,8\n")
    with pytest.raises(DataError, match=r"one\.csv"):
        opened(folder, position)


def test_half_a_file_that_was_taken_away_is_missed(tmp_path: Path) -> None:
    folder = files(tmp_path / "in", one="a,b\n1,2\n3,4\n")
    source = opened(folder)
    source.header()
    source.read(1)
    position = source.position
    source.close()
    assert read_all(opened(folder, position)) == [b"3,4"]
    os.unlink(folder / "one.csv")
    with pytest.raises(DataError, match=r"one\.csv"):
        opened(folder, position)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_an_empty_folder_says_so_or_is_waited_at(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PAUSE", 0.01)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "packed.gz").touch()
    with pytest.raises(DataError):
        stream(str(folder), tmp_path / "out", state=tmp_path / "st", kind=kind)

    def arrive() -> None:
        time.sleep(0.1)
        write = write_csv if kind == "csv" else write_ndjson
        write(folder / "late.part", rows(120)).rename(folder / f"late.{kind}")
        for _ in range(500):
            time.sleep(0.02)
            if (tmp_path / "out").exists():
                break
        os.kill(os.getpid(), signal.SIGTERM)

    arriving = threading.Thread(target=arrive)
    arriving.start()
    options = {**OPTIONS, "follow": True, "every": 100, "kind": kind}
    done = stream(str(folder), tmp_path / "out", state=tmp_path / "st", **options)
    arriving.join()
    assert done.summary["seen"] == 120


@pytest.mark.parametrize("name", ["s.csv", "a.txt", "plain"])
def test_a_state_in_the_folder_is_no_data(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "day0.csv", rows(120))
    for number in (1, 2):
        done = stream(str(folder), folder / "out", state=folder / name, **OPTIONS)
        assert (done.summary["seen"], done.summary["rejected"]) == (120 * number, 0)
        assert not any("were ignored" in note for note in done.notes)
        write_csv(folder / f"day{number}.csv", rows(120, seed=number))


def test_a_state_and_a_report_in_a_folder_of_json_are_no_data(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = write_ndjson(folder / "day0.ndjson", rows(120)).read_text()
    (folder / "day0.ndjson").write_text(lines + "broken\n")
    options = {**OPTIONS, "state": folder / "a.json", "report": folder / "r.json", "force": True}
    for _ in range(2):
        done = stream(str(folder), folder / "out", **options)
        assert (done.summary["seen"], done.summary["rejected"]) == (120, 1)
    assert (folder / "r.json").exists()


def test_a_state_is_locked_whatever_links_lead_to_it(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    (tmp_path / "link").symlink_to(tmp_path / "st")
    for held, asked in (("st", "link"), ("link", "st")):
        with locked(tmp_path / held), pytest.raises(TulleError):
            stream(str(source), tmp_path / "out", state=tmp_path / asked, **OPTIONS)
    stream(str(source), tmp_path / "out", state=tmp_path / "link", **OPTIONS)
    assert (tmp_path / "link").is_symlink()  # and what it leads to is the state
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert done.summary["resumed_after"] == 120


def test_no_flipped_bit_in_a_state_is_unexpected(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(60))
    stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    content = (tmp_path / "st").read_bytes()
    sound = archive.read_parts(io.BytesIO(content))[0]
    directory = content.index(b"PK\x01\x02")
    places = {*range(100), *range(0, directory, 97), *range(directory, len(content))}
    for place in sorted(places):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        with suppress(DataError):  # unless the bit means nothing: one of a date, say
            assert archive.read_parts(io.BytesIO(damaged))[0] == sound
