"""Releases of many parts: all of them or nothing, and verified part by part."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tulle.errors import DataError, OutputExists, PrivacyError
from tulle.releases import (
    Manifest,
    check_target,
    read_manifest,
    settle,
    verify_release,
    write_part,
    write_parts,
    write_release,
)


def made(holds: bool = True) -> Manifest:
    return Manifest("test", parameters={}, guarantee={}, verified={"groups": holds})


def put_words(*words: str) -> Any:
    """Write a part for each word, and a stray."""

    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        parts = {
            f"part-{place}.csv": write_part(
                folder, f"part-{place}.csv", 1, lambda file, word=word: file.write(word.encode())
            )
            for place, word in enumerate(words)
        }
        (folder / "part-0.csv.attempt-1").write_text("of an attempt that failed")
        return made(), parts

    return put


def words_in(release: Path) -> list[str]:
    return [path.read_text() for path in sorted(release.iterdir())]


def holds(release: Path) -> bool:
    return all(row["holds"] for row in verify_release(release))


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_release_holds_exactly_the_named_parts(tmp_path: Path) -> None:
    release = tmp_path / "r.csv"
    complete = write_parts(release, put_words("one", "two"))
    assert words_in(release) == ["one", "two"]
    assert sorted(complete.output["parts"]) == ["part-0.csv", "part-1.csv"]
    assert read_manifest(release) == complete
    assert holds(release)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "r.csv.manifest.json"]
    (tmp_path / "usual").mkdir()
    assert release.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_file_does_not_replace_a_folder_of_parts(tmp_path: Path) -> None:
    release = tmp_path / "r.csv"
    write_parts(release, put_words("one", "two"))
    for attempt in (
        lambda: check_target(release, force=True),
        lambda: write_release(release, lambda file: None, made(), force=True),
    ):
        with pytest.raises(OutputExists, match="folder"):
            attempt()
    check_target(release, in_parts=True, force=True)
    assert holds(release)
    shutil.rmtree(release)
    write_release(release, lambda file: None, made(), force=True)
    assert holds(release)


def change(release: Path) -> None:
    (release / "part-1.csv").write_text("other")


def remove(release: Path) -> None:
    (release / "part-1.csv").unlink()


def add(release: Path) -> None:
    (release / "part-2.csv").write_text("three")


def swap(release: Path) -> None:
    os.rename(release / "part-0.csv", release / "spare")
    os.rename(release / "part-1.csv", release / "part-0.csv")
    os.rename(release / "spare", release / "part-1.csv")


@pytest.mark.parametrize("meddle", [change, remove, add, swap])
def test_what_is_not_the_named_parts_is_found(tmp_path: Path, meddle: Any) -> None:
    release = tmp_path / "r.csv"
    write_parts(release, put_words("one", "two"))
    meddle(release)
    unchanged, verified = verify_release(release)
    assert not unchanged["holds"]
    assert verified["holds"]


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    release = tmp_path / "r.csv"
    write_parts(release, put_words("one"))
    shutil.rmtree(release)
    with pytest.raises(DataError, match=r"r\.csv"):
        verify_release(release)


def test_without_a_guarantee_nothing_is_written(tmp_path: Path) -> None:
    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        return made(holds=False), put_words("one")(folder)[1]

    with pytest.raises(PrivacyError):
        write_parts(tmp_path / "r.csv", put)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_named_but_not_there_is_refused(tmp_path: Path) -> None:
    def put(folder: Path) -> tuple[Manifest, dict[str, Any]]:
        parts = put_words("one")(folder)[1]
        return made(), parts | {"part-9.csv": parts["part-0.csv"]}

    with pytest.raises(DataError):
        write_parts(tmp_path / "r.csv", put)
    assert list(tmp_path.iterdir()) == []


def test_only_a_release_is_replaced_and_only_if_asked(tmp_path: Path) -> None:
    release = tmp_path / "r.csv"
    write_parts(release, put_words("old"))
    with pytest.raises(OutputExists):
        write_parts(release, put_words("new"))
    write_parts(release, put_words("new", "newer"), force=True)
    assert words_in(release) == ["new", "newer"]
    assert holds(release)
    assert not hidden(tmp_path)
    other = tmp_path / "mine.csv"
    other.mkdir()
    (other / "notes.txt").write_text("not a release")
    with pytest.raises(OutputExists):
        write_parts(other, put_words("new"), force=True)
    assert (other / "notes.txt").exists()


def test_a_folder_that_holds_the_source_is_never_replaced(tmp_path: Path) -> None:
    release = tmp_path / "r.csv"
    write_parts(release, put_words("one"))
    with pytest.raises(OutputExists):
        write_parts(release, put_words("two"), sources=(release / "part-0.csv",), force=True)


@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("replacing", [False, True])
def test_a_kill_between_any_two_steps_leaves_the_old_or_the_new_release(
    tmp_path: Path, step: int, replacing: bool
) -> None:
    release = tmp_path / "r.csv"
    if replacing:
        write_parts(release, put_words("old"))
    script = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_folders import put_words
from tulle.releases import write_parts
left = {step}
def dying(name):
    function = getattr(os, name)
    def call(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments, **options)
    return call
for name in ("chmod", "rename", "replace", "link"):
    setattr(os, name, dying(name))
write_parts(Path({str(release)!r}), put_words("new"), force=True)
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert killed.returncode in (-9, 0), killed.stderr.decode()
    settle(release)
    if release.exists():
        assert words_in(release) in (["new"], ["old"])
        assert holds(release)
    else:
        assert not replacing
        assert not (tmp_path / "r.csv.manifest.json").exists()
    assert not hidden(tmp_path)
    assert not list(tmp_path.glob("*.next"))
