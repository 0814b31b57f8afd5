"""Disks that fill up, renames that fail, clocks that jump, and commands that are stopped."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.reference.stopping import run_and_stop
from tests.reference.streams import OPTIONS, rows, same_groups, write_ndjson
from tests.releases.test_file_pairs import release
from tulle._commands.hide import hide
from tulle._commands.stream import stream
from tulle.releases import manifest as manifests
from tulle.releases import read_manifest, verify_release

ORIGINALS = {name: getattr(os, name) for name in ("replace", "link", "fsync")}


def holds(path: Path) -> bool:
    return all(row["holds"] for row in verify_release(path))


def failing(name: str, call: int, number: int) -> Callable[..., Any]:
    """Return a function of the operating system that fails once, at some call of it."""
    calls = iter(range(1_000))

    def fail(*given: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise OSError(number, os.strerror(number))
        return ORIGINALS[name](*given, **options)

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EXDEV])
@pytest.mark.parametrize("name", ["replace", "link", "fsync"])
@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("exists", [False, True])
def test_a_failing_call_leaves_the_old_release_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int, number: int, exists: bool
) -> None:
    path = tmp_path / "r.bin"
    if exists:
        release(path, b"old")
    monkeypatch.setattr(os, name, failing(name, call, number))
    try:
        release(path, b"new", force=True)
        written = True
    except OSError:
        written = False
    monkeypatch.undo()
    if path.exists():
        assert holds(path)
        assert path.read_bytes() == b"new" or (exists and not written)
    else:
        assert not exists
        assert not written
    release(path, b"again", force=True)
    assert holds(path)
    assert sorted(os.listdir(tmp_path)) == ["r.bin", "r.bin.manifest.json"]


def test_a_disk_that_is_full_while_the_data_are_written(tmp_path: Path) -> None:
    path = tmp_path / "r.bin"
    release(path, b"old")

    from tulle.releases import write_release

    made = read_manifest(path)

    def full(file: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        write_release(path, full, made, force=True)
    assert path.read_bytes() == b"old"
    assert holds(path)
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.slow
def test_a_process_that_may_write_little_says_so_in_one_line(tmp_path: Path) -> None:
    """The limit on the size of files stands for a full disk: the kernel refuses to write."""
    source = tmp_path / "t.csv"
    rng = iter(range(10**9))
    lines = (f"{20 + next(rng) * 7 % 61},{next(rng) * 5 % 90}\n" for _ in range(3_000))
    source.write_text("age,pay\n" + "".join(lines))

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))

    done = subprocess.run(
        [sys.executable, "-m", "tulle", "condense", source, "-o", tmp_path / "r.csv", "--k", "5"],
        capture_output=True,
        text=True,
        preexec_fn=small,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "r.csv" in done.stderr or "File too large" in done.stderr
    assert not list(tmp_path.glob("*r.csv*"))


# --- clocks ------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_does_not_matter_to_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datetime

    class Early(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime(1970, 1, 1, tzinfo=tz)

    path = tmp_path / "r.bin"
    release(path, b"old")
    monkeypatch.setattr(manifests.datetime, "datetime", Early)
    release(path, b"new", force=True)
    assert read_manifest(path).created.startswith("1970")
    assert path.read_bytes() == b"new"
    assert holds(path)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0, 4_000_000_000])
def test_a_clock_that_jumps_does_not_matter_to_a_stream(tmp_path: Path, moment: int) -> None:
    """Times of files go back and forth; every record counts once, and no snapshot is doubled."""
    made = rows(300)
    whole = write_ndjson(tmp_path / "whole.ndjson", made)
    stream(str(whole), tmp_path / "one", state=tmp_path / "st1", **OPTIONS)
    source = write_ndjson(tmp_path / "in.ndjson", made[:180])
    stream(str(source), tmp_path / "two", state=tmp_path / "st2", **OPTIONS)
    write_ndjson(source, made[180:], "a")
    for path in (source, tmp_path / "st2", *(tmp_path / "two").iterdir()):
        os.utime(path, (moment, moment))
    done = stream(str(source), tmp_path / "two", state=tmp_path / "st2", **OPTIONS)
    assert done.summary["seen"] == 300
    same_groups(tmp_path / "st1", tmp_path / "st2")


# --- commands that are stopped -----------------------------------------------------------------


@pytest.mark.slow
def test_stopped_commands_leave_whole_releases(tmp_path: Path) -> None:
    """Over 1,000 stops of all commands are in benchmarks/bench_kills.py."""
    names = ("hide", "sketch", "sites encode", "sites agree", "inspect", "keygen")
    told = run_and_stop(tmp_path, 0.04, *names, seed=1)
    assert [row["command"] for row in told] == list(names)
    assert sum(row["killed"] + row["interrupted"] for row in told) >= 10
    assert [row["problems"] for row in told] == [[]] * len(names)


class Stop(BaseException):
    """Nothing catches it but what cleans up, as with an interrupt."""


@pytest.mark.slow
@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("name", ["replace", "link", "fsync"])
def test_an_interrupt_at_any_step_leaves_the_old_release_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    shop, secret, out = tmp_path / "shop.dat", tmp_path / "secret.txt", tmp_path / "out"
    shop.write_text("1 2 3\n" * 20 + "1 2\n" * 9 + "3\n" * 9)
    secret.write_text("1, 2 -> 3\n")
    out.mkdir()
    options: dict[str, Any] = {"rules": secret, "min_support": 10, "force": True}
    hide(shop, out / "h.dat", seed=0, report=out / "h.json", **options)
    before = (out / "h.dat").read_bytes()
    calls = iter(range(1_000))

    def stop(*given: Any, **more: Any) -> Any:
        if next(calls) == call:
            raise Stop
        return ORIGINALS[name](*given, **more)

    monkeypatch.setattr(os, name, stop)
    with suppress(Stop):
        hide(shop, out / "h.dat", seed=1, report=out / "h.json", **options)
    monkeypatch.undo()
    assert holds(out / "h.dat")
    stopped = (out / "h.dat").read_bytes()
    hide(shop, out / "h.dat", seed=1, report=out / "h.json", **options)
    assert stopped in (before, (out / "h.dat").read_bytes())
    assert sorted(os.listdir(out)) == ["h.dat", "h.dat.manifest.json", "h.json"]
