"""The server: a port of this machine, a link, and nothing in the logs."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import webbrowser
from pathlib import Path

from tulle.errors import DataError, ParameterError


def serve(folder: str | os.PathLike[str], port: int = 0, *, browser: bool = True) -> None:
    """Print the one-time link and serve the app of a folder until somebody interrupts it."""
    root = Path(folder).resolve()
    if not root.is_dir():
        raise DataError(f"{folder} is not a folder: create it, or name another one")
    if not os.access(root, os.W_OK):
        raise DataError(f"no permission to write into {folder}: all work is kept there")
    try:
        import uvicorn

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
        warming = threading.Timer(1.0, _warm_up)  # after the first page
        warming.daemon = True
        warming.start()
        if browser:
            webbrowser.open(guard.link)
        _run(uvicorn.Server(config), sock)


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


def _run(server: object, sock: socket.socket) -> None:
    from tulle._app.jobs import end_all

    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[sock])  # type: ignore[attr-defined]
    end_all()


def _warm_up() -> None:
    """Load what the first pages need while the person still looks at the start."""
    import sklearn.datasets  # noqa: F401  (the demo table)

    from tulle._report.render import bundle

    bundle()
    import altair  # noqa: F401
