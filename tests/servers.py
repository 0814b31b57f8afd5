"""Servers that the tests drive for real; a missing one is a failure, never a skipped test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def mariadb_server() -> Iterator[str]:
    """A fresh MariaDB on a free loopback port; gives ``mysql://user:password@host:port/db``."""
    if not (install := shutil.which("mariadb-install-db")):
        raise RuntimeError("MariaDB is not installed: run scripts/test-tools")
    folder = Path(tempfile.mkdtemp(prefix="tulle-mariadb-"))
    run = _as_ordinary_user(folder)
    place, port, first = folder / "data", _free_port(), folder / "first.sql"
    first.write_text(
        "CREATE DATABASE clinic;\nCREATE USER ann@'127.0.0.1' IDENTIFIED BY 'a:b@c';\n"
        "GRANT ALL ON clinic.* TO ann@'127.0.0.1';\n"
    )
    try:
        _checked([*run, install, "--no-defaults", f"--datadir={place}", "--skip-name-resolve"])
        server = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin") or "mariadbd"
        options = [f"--datadir={place}", f"--socket={folder}/socket", f"--port={port}"]
        options += ["--bind-address=127.0.0.1", f"--init-file={first}", f"--pid-file={folder}/pid"]
        command = [*run, server, "--no-defaults", "--skip-name-resolve", *options]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        try:
            _wait_for(port, process)
            yield f"mysql://ann:a%3Ab%40c@127.0.0.1:{port}/clinic"
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("MariaDB did not start")


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
