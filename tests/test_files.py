from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tulle import _files as files
from tulle._files import atomic_write, digest, refuse_existing, refuse_same
from tulle.errors import DataError, OutputExists, TulleError


def test_file_appears_with_its_bytes(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as file:
        file.write(b"whole")
        assert os.listdir(tmp_path) == []
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("nameless", [True, False])
def test_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a", force=True) as file:
        file.write(b"new")
        raise RuntimeError
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_without_tmpfile_the_result_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    with atomic_write(tmp_path / "a") as file:
        file.write(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]


def test_existing_output_is_refused_before_and_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OutputExists, match="--force"), atomic_write(tmp_path / "a"):
        pass
    with pytest.raises(OutputExists, match="meanwhile"), atomic_write(tmp_path / "b") as file:
        file.write(b"mine")
        (tmp_path / "b").write_bytes(b"theirs")
    assert (tmp_path / "b").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"), atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == []


def test_mode_missing_folder_and_folder_as_target(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "secret", mode=0o600) as file:
        file.write(b"x")
    assert stat.S_IMODE(os.stat(tmp_path / "secret").st_mode) == 0o600
    with pytest.raises(DataError), atomic_write(tmp_path / "no" / "a"):
        pass
    with pytest.raises(OutputExists, match="folder"), atomic_write(tmp_path):
        pass


def test_source_is_never_the_output(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"x")
    (tmp_path / "link").symlink_to(source)
    for name in ("a", "link"):
        with pytest.raises(TulleError, match="source"):
            refuse_same(source, tmp_path / name)
    refuse_same(source, tmp_path / "other")


def test_digest_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert digest(tmp_path / "a").startswith("ba7816bf8f01cfea")


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputExists), atomic_write(tmp_path / "pipe", force=True):
        pytest.fail("it was opened")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(DataError, match="folder"):
        refuse_existing(tmp_path / "r", force=False)
