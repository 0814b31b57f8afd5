"""Servers that the tests drive for real; a missing one is a failure, never a skipped test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_server() -> Iterator[str]:
    """A fresh PostgreSQL on a free loopback port; gives ``postgresql://user@host:port/db``."""
    programs = _postgres_programs()
    folder = Path(tempfile.mkdtemp(prefix="tulle-postgres-"))
    data, log = folder / "data", folder / "log"
    run = _as_ordinary_user(folder)
    port = _free_port()
    try:
        initdb = [programs / "initdb", "-D", data, "-U", "tulle", "-A", "trust", "-E", "UTF8", "-N"]
        _checked([*run, *initdb, "--locale=C"])
        settings = f"-h 127.0.0.1 -p {port} -k {folder} -F -c shared_buffers=16MB"
        control = [*run, programs / "pg_ctl", "-D", data, "-w"]
        _checked([*control, "-l", log, "-o", settings, "start"])
        try:
            yield f"postgresql://tulle@127.0.0.1:{port}/postgres"
        finally:
            _checked([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve())
    if not found:
        raise RuntimeError("PostgreSQL is not installed: run scripts/test-tools")
    return found[-1].parent


def _as_ordinary_user(folder: Path) -> list[str]:
    """The server refuses to run as root: then somebody else runs it."""
    if os.geteuid() != 0:
        return []
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    switch = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*switch, "env", f"HOME={folder}"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _checked(command: list[str | Path]) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")
