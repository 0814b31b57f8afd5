"""Requests to the app without a network: plain ASGI messages in, the answer out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from click.testing import CliRunner

from tulle._app.guard import Guard
from tulle._app.pages import application
from tulle.cli import tulle

_COLUMNS = ("age", "cost")
PORT = 8765
HOST = f"127.0.0.1:{PORT}"


def streamed(folder: Path, records: int = 1_200) -> Path:
    """The state of a stream that ``tulle stream`` has read to its end."""
    rng = np.random.default_rng(0)
    rows = [dict(zip(_COLUMNS, row)) for row in rng.normal(50, 10, (records, 2)).round(2).tolist()]
    source = folder / "visits.ndjson"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    state = folder / "visits.state"
    words = ["stream", str(source), "-o", str(folder / "snapshots"), "--state", str(state)]
    done = CliRunner().invoke(tulle, [*words, "--k", "5", "--plain-waiting"])
    assert done.exit_code == 0, done.output
    return state


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Asked:
    """The app of a folder behind its guard, and a browser that may have opened the link."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.guard = Guard(application(folder, **options), PORT)
        self.cookie = ""

    def enter(self) -> Asked:
        answer = self.ask("GET", self.guard.link.partition(HOST)[2])
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        return asyncio.run(self._ask(method, path, body, headers))

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        path, _, query = path.partition("?")
        given = {"host": HOST, "cookie": self.cookie}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        client = given.pop("client", "127.0.0.1")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(n.encode(), v.encode()) for n, v in given.items() if v],
            "client": (client, 40000),
            "server": ("127.0.0.1", PORT),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        }
        blocks = [body[i : i + 1000] for i in range(0, len(body), 1000)] or [b""]
        messages = [
            {"type": "http.request", "body": block, "more_body": place < len(blocks) - 1}
            for place, block in enumerate(blocks)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.guard(scope, receive, send)
        start = sent[0]
        found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        text = b"".join(m.get("body", b"") for m in sent[1:]).decode(errors="replace")
        return Answer(start["status"], found, text)
