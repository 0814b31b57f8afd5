"""Points as files: written whole, found again, never measured twice.

The name of a point's file holds a digest of the data, of everything that decides what is measured,
and of the version. A run that was stopped goes on with the points that are missing; a table that
has changed starts over.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tulle import __version__
from tulle._files import atomic_write
from tulle._json import plain
from tulle._types import FilePath
from tulle.errors import DataError
from tulle.exploring._points import People, Point, PointSettings, Spec

FORMAT = 1  # of the files; files in another one are measured again
_PRIVATE = 0o600  # a point tells about the original


def data_digest(people: People) -> str:
    """Return a digest of the people and of what is known of their columns."""
    running = hashlib.sha256()
    for table in (people.members, people.control):
        file = io.BytesIO()
        table.rechunk().write_ipc(file, compression="uncompressed")
        running.update(file.getbuffer())
    running.update(repr(people.columns).encode())
    return running.hexdigest()


def point_name(spec: Spec, settings: PointSettings, data: str) -> str:
    """Return the name of a point: what it is, and a digest of all that decides it."""
    decided = [asdict(spec), asdict(settings), data, FORMAT, __version__]
    text = json.dumps(plain(decided), sort_keys=True)
    what = f"k{spec.k}" if spec.is_release else f"{100 * (spec.share or 1):g}"
    method = f"{spec.method}{'-by-class' if spec.by_class else ''}"
    return f"{spec.round}-{method}-{what}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class Folder:
    """The folder of an exploration, or none: then points are kept in memory only."""

    def __init__(self, path: FilePath | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is None:
            return
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path} is a file: name a folder for the points")
        try:
            (self.path / "points").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"the folder {self.path} cannot be made: {reason}") from None

    def point(self, name: str) -> Point | None:
        """Return a point that was measured before; a file that cannot be read does not count."""
        if self.path is None:
            return None
        return _read(self.path / "points" / f"{name}.json")

    def keep(self, point: Point) -> None:
        """Write a point, whole or not at all."""
        if self.path is not None:
            self.write(f"points/{point.id}.json", json.dumps(plain(point.to_dict())))

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder, whole or not at all."""
        if self.path is not None:
            with atomic_write(self.path / name, force=True, mode=_PRIVATE) as file:
                file.write(text.encode())

    def settings(self) -> dict[str, Any]:
        """Return what an earlier run decided: the seed."""
        if self.path is None:
            return {}
        try:
            known = json.loads((self.path / "settings.json").read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def points_in(path: FilePath) -> Iterator[Point]:
    """Yield the points of a folder, also while another process is still measuring."""
    for file in sorted((Path(path) / "points").glob("*.json")):
        found = _read(file)
        if found is not None:
            yield found


def _read(file: Path) -> Point | None:
    try:
        return Point.from_dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None
