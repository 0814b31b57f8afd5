"""The server: a port of this machine, a link, and nothing in the logs."""

from __future__ import annotations

import contextlib
import html
import os
import shutil
import socket
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from tulle._files import atomic_write
from tulle.errors import DataError, ParameterError

if TYPE_CHECKING:
    import uvicorn

    from tulle._app.guard import Guard


def serve(folder: str | os.PathLike[str], port: int = 0, *, browser: bool = True) -> None:
    """Print the one-time link and serve the app of a folder until somebody interrupts it."""
    root = Path(folder).resolve()
    if not root.is_dir():
        raise DataError(f"{folder} is not a folder: create it, or name another one")
    if not os.access(root, os.W_OK):
        raise DataError(f"no permission to write into {folder}: all work is kept there")
    try:
        import uvicorn

        from tulle._app import views
        from tulle._app.guard import Guard
        from tulle._app.pages import application
    except ModuleNotFoundError as error:
        raise DataError(
            f"the app needs the package '{error.name}': pip install 'tulle[app]'"
        ) from None

    os.umask(0o077)
    with _listening(port) as sock:
        guard = Guard(application(root), sock.getsockname()[1])
        config = uvicorn.Config(
            guard,
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        print(guard.link, flush=True)
        views.warm.clear()
        warming = threading.Timer(1.0, _warm_up)  # after the first page
        warming.daemon = True
        warming.start()
        _run(uvicorn.Server(config), sock, guard if browser else None)


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen()  # whoever opens the link at once waits instead of being turned away
    except OSError as error:
        sock.close()
        raise ParameterError(f"--port {port} cannot be used: {error.strerror}") from None
    return sock


def _run(server: uvicorn.Server, sock: socket.socket, guard: Guard | None) -> None:
    """Serve; a browser may run in the foreground, so it is opened beside, and once it is served."""
    from tulle._app.jobs import end_all

    page = None if guard is None else Path(tempfile.mkdtemp(prefix="tulle-"), "open.html")
    if guard is not None and page is not None:
        opening = threading.Thread(target=_open, args=(server, guard, page), daemon=True)
        opening.start()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[sock])
    finally:
        if page is not None:
            shutil.rmtree(page.parent, ignore_errors=True)
        end_all()


_PAGE = """<!doctype html><title>Tulle</title><meta http-equiv="refresh" content="0;url={0}">
<a href="{0}">Open Tulle</a>
"""


def _open(server: uvicorn.Server, guard: Guard, page: Path) -> None:
    """Lead a browser to the link by a file, until it is used.

    Every user of this machine can read the command line of a browser, and would be there first.
    """
    while not server.started:
        time.sleep(0.02)
    with atomic_write(page, mode=0o600) as file:
        file.write(_PAGE.format(html.escape(guard.link)).encode())
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
    while not guard.is_entered:
        time.sleep(0.1)
    shutil.rmtree(page.parent, ignore_errors=True)


def _warm_up() -> None:
    """Load what the first pages need while the person still looks at the start."""
    from tulle._app import views

    try:
        import altair  # noqa: F401
        import sklearn.datasets  # noqa: F401  (the demo table)

        from tulle._app import pictures  # noqa: F401
    finally:
        views.warm.set()
