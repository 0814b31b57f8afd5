"""From the word on the command line to a source."""

from __future__ import annotations

import os
from typing import Any

from tulle.errors import DataError, TulleError
from tulle.workflows.stream.files import FileSource
from tulle.workflows.stream.folder import FolderSource
from tulle.workflows.stream.pipe import StandardInput
from tulle.workflows.stream.sources import Source

_ENDINGS = {"csv": (".csv", ".tsv", ".txt"), "ndjson": (".ndjson", ".jsonl", ".json")}


def format_of_source(address: str) -> str:
    """CSV or NDJSON, by the ending of the file or of the first files in a folder."""
    if address.startswith(("nats://", "tls://")):
        return "ndjson"
    names = [address]
    if os.path.isdir(address):
        names = sorted(entry.name for entry in os.scandir(address) if entry.is_file())
    for name in names:
        for kind, endings in _ENDINGS.items():
            if name.endswith(endings):
                return kind
    raise TulleError(f"cannot tell whether {address} is CSV or NDJSON: say --format csv or ndjson")


def open_source(
    address: str,
    kind: str,
    *,
    follow: bool,
    position: dict[str, Any] | None,
    restart: str | None,
) -> Source:
    """Standard input (``-``), a broker (``nats://``), a folder or a file, at a position."""
    header = kind == "csv"
    if address == "-":
        return StandardInput(has_header=header, position=position, restart=restart)
    if address.startswith(("nats://", "tls://")):
        from tulle.workflows.stream.broker import NatsSource

        if header:
            raise TulleError("messages of a broker are NDJSON: one object a message")
        return NatsSource(address, follow=follow, position=position)
    if os.path.isdir(address):
        return FolderSource(
            address,
            has_header=header,
            endings=_ENDINGS[kind],
            follow=follow,
            position=position,
        )
    if not os.path.exists(address):
        raise DataError(f"{address} does not exist")
    return FileSource(
        address,
        has_header=header,
        follow=follow,
        position=position,
        continued=restart == "continued",
    )
