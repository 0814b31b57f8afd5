from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tulle.errors import DataError, PrivacyError, TulleError
from tulle.files import OutputExists
from tulle.releases import Manifest, manifest_path, read_manifest, verify_release, write_release


def manifest(**changes: object) -> Manifest:
    entries = {
        "method": "test",
        "parameters": {"k": 3},
        "guarantee": {"k": 3},
        "verified": {"smallest group": 3},
    }
    return Manifest(**{**entries, **changes})  # type: ignore[arg-type]


def release(path: Path, content: bytes = b"data", **options: object) -> Manifest:
    return write_release(path, lambda file: file.write(content), manifest(), **options)  # type: ignore


def test_release_is_data_and_manifest_that_verify(tmp_path: Path) -> None:
    made = release(tmp_path / "r.bin")
    assert sorted(os.listdir(tmp_path)) == ["r.bin", "r.bin.manifest.json"]
    assert read_manifest(tmp_path / "r.bin") == made
    assert all(row["holds"] for row in verify_release(tmp_path / "r.bin"))
    assert made.output["file"] == "r.bin"
    assert set(made.versions) >= {"python", "tulle", "numpy"}


def test_changed_data_is_noticed(tmp_path: Path) -> None:
    release(tmp_path / "r.bin")
    (tmp_path / "r.bin").write_bytes(b"data!")
    assert not all(row["holds"] for row in verify_release(tmp_path / "r.bin"))


def test_no_guarantee_no_output(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="nothing was written"):
        write_release(tmp_path / "r", lambda file: None, manifest(verified={}))
    assert os.listdir(tmp_path) == []


def test_failing_writer_leaves_the_old_release(tmp_path: Path) -> None:
    release(tmp_path / "r")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def fail(file: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_release(tmp_path / "r", fail, manifest(), force=True)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_overwriting_needs_force_and_never_takes_the_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"people")
    with pytest.raises(TulleError, match="source itself"):
        release(source, sources=(source,), force=True)
    release(tmp_path / "r", sources=(source,))
    with pytest.raises(OutputExists, match="--force"):
        release(tmp_path / "r")
    release(tmp_path / "r", b"new", force=True)
    assert (tmp_path / "r").read_bytes() == b"new"
    assert source.read_bytes() == b"people"


def test_manifest_errors_are_clear(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a release"):
        verify_release(tmp_path / "r")
    manifest_path(tmp_path / "r").write_text("{")
    with pytest.raises(DataError, match="not a manifest"):
        verify_release(tmp_path / "r")
    newer = manifest().to_dict() | {"format": 99}
    manifest_path(tmp_path / "r").write_text(json.dumps(newer))
    with pytest.raises(DataError, match="format 99"):
        verify_release(tmp_path / "r")


CHILD = """
import os, signal, sys
from tulle.releases import Manifest, write_release

def crash_at(point):
    calls = 0
    def wrap(function):
        def counted(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return counted
    for name in ("open", "link", "replace", "unlink", "fsync"):
        setattr(os, name, wrap(getattr(os, name)))

path, content, point = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
made = Manifest("test", {}, {"k": 3}, {"smallest group": 3}, counts={"size": len(content)})
write_release(path, lambda file: file.write(b"old" * 100_000), made, force=True)
print("ready", flush=True)
if point:
    crash_at(point)
while True:
    write_release(path, lambda file: file.write(content * 100_000), made, force=True)
    if point:
        break
"""


def run_child(folder: Path, point: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "r"), "new", str(point)],
        stdout=subprocess.PIPE,
    )


def assert_old_or_new(folder: Path) -> str:
    assert all(row["holds"] for row in verify_release(folder / "r"))
    assert sorted(os.listdir(folder)) == ["r", "r.manifest.json"]
    content = (folder / "r").read_bytes()
    assert content in (b"old" * 100_000, b"new" * 100_000)
    return content[:3].decode()


def test_crash_at_each_step_leaves_the_old_release_or_the_new(tmp_path: Path) -> None:
    states = []
    for point in range(1, 40):
        folder = tmp_path / str(point)
        folder.mkdir()
        child = run_child(folder, point)
        child.communicate()
        states.append(assert_old_or_new(folder))
        if child.returncode == 0:
            break
    else:
        pytest.fail("the child never came to its end")
    assert states[0] == "old"
    assert states[-1] == "new"
    assert states == sorted(states, reverse=True), "old, then new, and never back"


def test_kills_at_random_moments_leave_the_old_release_or_the_new(tmp_path: Path) -> None:
    moments = random.Random(0)
    for _ in range(6):
        child = run_child(tmp_path, 0)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moments.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert_old_or_new(tmp_path)
