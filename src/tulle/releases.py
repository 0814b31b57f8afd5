"""A release: the data, and a manifest that says how it was made and what was verified.

``release.parquet`` has its manifest beside it, ``release.parquet.manifest.json``. The two appear
together. The manifest is put down first under the name ``.next``, then the data takes its name
(this is the moment at which the release exists), then the manifest takes its own. A run that is
killed in between is completed or undone by :func:`settle`, which reading, verifying and writing
call first: what there is afterwards is the old release or the new one, never a mixture.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from tulle.errors import DataError, PrivacyError
from tulle.files import (
    atomic_write,
    digest,
    digest_of,
    refuse_existing,
    refuse_same,
    remove_leftovers,
)

FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """The record of a release; it holds counts and parameters, never a cell of the source."""

    method: str
    parameters: Mapping[str, Any]
    guarantee: Mapping[str, Any]  # what was asked
    verified: Mapping[str, Any]  # what was checked on the finished result
    counts: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    seed: str = "operating system"
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def manifest_path(release: str | os.PathLike[str]) -> Path:
    """Where the manifest of a release is."""
    path = Path(release)
    return path.with_name(path.name + ".manifest.json")


def write_release(
    path: str | os.PathLike[str],
    write: Callable[[BinaryIO], None],
    manifest: Manifest,
    *,
    sources: tuple[str | os.PathLike[str], ...] = (),
    force: bool = False,
) -> Manifest:
    """Writes data and manifest, or nothing; gives the completed manifest back.

    ``write`` puts the data into a binary file. A manifest without a verified guarantee is refused:
    no guarantee, no output.
    """
    target, beside = Path(path), manifest_path(path)
    settle(target)
    check_target(target, sources=sources, force=force)
    if not manifest.verified:
        raise PrivacyError(f"{manifest.method}: no guarantee was verified, nothing was written")
    with atomic_write(target, force=force) as file:
        write(file)
        file.flush()
        file.seek(0)
        complete = _completed(manifest, target, digest_of(file))
        with atomic_write(_next(beside), force=True) as staged:
            staged.write(_as_json(complete))
    os.replace(_next(beside), beside)
    return complete


def check_target(
    path: str | os.PathLike[str],
    *,
    sources: tuple[str | os.PathLike[str], ...] = (),
    force: bool = False,
) -> None:
    """Refuses a bad output before any work is done for it."""
    for source in sources:
        refuse_same(source, path)
        refuse_same(source, manifest_path(path))
    refuse_existing(path, force=force)
    refuse_existing(manifest_path(path), force=force)


def settle(path: str | os.PathLike[str]) -> None:
    """Completes or undoes what a killed run left between its two steps."""
    beside = manifest_path(path)
    staged = _next(beside)
    for file in (path, beside, staged):
        remove_leftovers(file)
    if not staged.exists():
        return
    with suppress(OSError, ValueError, KeyError):
        if json.loads(staged.read_bytes())["output"]["sha256"] == digest(path):
            os.replace(staged, beside)
            return
    staged.unlink(missing_ok=True)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of a release."""
    settle(path)
    beside = manifest_path(path)
    try:
        entries = json.loads(beside.read_bytes())
        found = Manifest(**entries)
    except FileNotFoundError:
        raise DataError(f"{path} has no manifest ({beside.name}): it is not a release") from None
    except (ValueError, TypeError):
        raise DataError(f"{beside} is not a manifest of Tulle") from None
    if found.format > FORMAT:
        raise DataError(f"{beside} has format {found.format}: this Tulle reads up to {FORMAT}")
    return found


def verify_release(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Checks a release against its manifest: one row (check, holds, detail) for each check."""
    found = read_manifest(path)
    if not Path(path).is_file():
        raise DataError(f"{path} does not exist, though its manifest does")
    same = digest(path) == found.output.get("sha256")
    return [
        {"check": "data unchanged since the release", "holds": same, "detail": "SHA-256"},
        {
            "check": "guarantee verified when it was made",
            "holds": bool(found.verified) and all(_holds(v) for v in found.verified.values()),
            "detail": ", ".join(_said(name, value) for name, value in found.verified.items()),
        },
    ]


def _completed(manifest: Manifest, target: Path, sha256: str) -> Manifest:
    entries = manifest.to_dict()
    entries["output"] = {**entries["output"], "file": target.name, "sha256": sha256}
    entries["created"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    packages = ("tulle", "numpy", "scikit-learn", "polars")
    entries["versions"] = {"python": platform.python_version()} | {p: version(p) for p in packages}
    return Manifest(**entries)


def _as_json(manifest: Manifest) -> bytes:
    return (json.dumps(manifest.to_dict(), indent=2, default=_plain_number) + "\n").encode()


def _plain_number(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a manifest cannot hold a {type(value).__name__}")


def _next(beside: Path) -> Path:
    return beside.with_name(beside.name + ".next")


def _holds(value: Any) -> bool:
    return value is not False and not (isinstance(value, Mapping) and value.get("holds") is False)


def _said(name: str, value: Any) -> str:
    """A verified promise in a few words: tables of it stay in the manifest."""
    if value is True or isinstance(value, list | Mapping):
        return name
    return f"{name} {value}"
