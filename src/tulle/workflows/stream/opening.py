"""From the word on the command line to a source."""

from __future__ import annotations

import os
from pathlib import Path

from tulle.errors import DataError, TulleError
from tulle.workflows.stream.files import FileSource
from tulle.workflows.stream.folder import FolderSource
from tulle.workflows.stream.pipe import StandardInput
from tulle.workflows.stream.sources import Position, Source

_BROKERS = ("nats://", "tls://")
_PIPE = "standard input"
_KINDS = {"offset": "a file", "done": "a folder", "sequence": "a broker"}  # by what they save
_ENDINGS = {"csv": (".csv", ".tsv", ".txt"), "ndjson": (".ndjson", ".jsonl", ".json")}
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def format_of_source(address: str) -> str:
    """CSV or NDJSON, by the ending of the file or of the first files in a folder."""
    if address.startswith(_BROKERS):
        return "ndjson"
    names = [address]
    if os.path.isdir(address):
        names = sorted(entry.name for entry in os.scandir(address) if entry.is_file())
    for name in names:
        for kind, endings in _ENDINGS.items():
            if name.endswith(endings):
                return kind
    if address.endswith(_PACKED):
        raise DataError(f"{address} is packed: unpack it first, or pipe it in with - as the source")
    raise TulleError(f"cannot tell whether {address} is CSV or NDJSON: say --format csv or ndjson")


def open_source(
    address: str,
    kind: str,
    *,
    follow: bool,
    position: Position | None,
    restart: str | None,
) -> Source:
    """Standard input (``-``), a broker (``nats://``), a folder or a file, at a position."""
    header, continued = kind == "csv", restart == "continued"
    if address == "-":
        _require_kind(position, _PIPE)
        return StandardInput(has_header=header, position=position, restart=restart)
    if address.startswith(_BROKERS):
        from tulle.workflows.stream.broker import NatsSource

        if header:
            raise TulleError("messages of a broker are NDJSON: one object a message")
        _require_kind(position, _KINDS["sequence"])
        return NatsSource(address, follow=follow, position=position, continued=continued)
    if os.path.isdir(address):
        _require_kind(position, _KINDS["done"])
        endings = _ENDINGS[kind]
        return FolderSource(
            address, has_header=header, endings=endings, follow=follow, position=position
        )
    if not os.path.exists(address):
        raise DataError(f"{address} does not exist")
    _require_kind(position, _KINDS["offset"])
    return FileSource(
        address, has_header=header, follow=follow, position=position, continued=continued
    )


def _require_kind(position: Position | None, wanted: str) -> None:
    """A position of one kind of source means nothing to another."""
    if position is None:
        return
    before = next((kind for key, kind in _KINDS.items() if key in position), _PIPE)
    if before != wanted:
        raise DataError(f"this state has read from {before}: go on with that, or start a new state")


def refuse_shared_names(
    source: str,
    output: str | os.PathLike[str],
    state: str | os.PathLike[str],
    report: str | os.PathLike[str] | None,
) -> None:
    """Refuses one name for two things: the later one would be written over the other."""
    taken = {Path(source).resolve(): "the source", Path(output).resolve(): "the output folder"}
    for option, name in (("--state", state), ("--report", report)):
        if name is None:
            continue
        path = Path(name).resolve()
        if path in taken:
            raise TulleError(f"{option} {name} is {taken[path]} itself: give it a name of its own")
        taken[path] = f"the file of {option}"
