"""A release as two files.

``release.parquet`` has its manifest next to it, ``release.parquet.manifest.json``. The manifest is
put down first under the name ``.next``, then the data takes its name (this is the moment at which
the release exists), then the manifest takes its own. A run that is killed in between is completed
or undone by :func:`settle`, which reading, verifying and writing call first: what there is
afterwards is the old release or the new one, never a mixture. Meanwhile the folder is locked, so
that no other run undoes what a live one is about to complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tulle._files import (
    alone_in,
    atomic_write,
    digest,
    refuse_existing,
    refuse_same,
    remove_leftovers,
)
from tulle._files import digest_of as digest_of_file
from tulle._json import read_json
from tulle.errors import DataError
from tulle.keys import SigningKey
from tulle.releases.manifest import Draft, Manifest

_LARGEST = 64 << 20  # bytes of a manifest: one with 100,000 columns has a fifth of that


def manifest_path(release: str | os.PathLike[str]) -> Path:
    path = Path(release)
    if not path.name:
        raise DataError(f"'{release}' is not a file: give the path of a release")
    return path.with_name(path.name + ".manifest.json")


def named_beside(release: str | os.PathLike[str], output: Mapping[str, Any]) -> dict[Path, str]:
    """Return the copies, ledger and codebook that a manifest names, with digests.

    Only the names of files count, not their folders: a manifest may be forged.
    """
    try:
        ledger = filter(None, [output.get("ledger")])
        named = [*output.get("copies", []), *ledger, *output.get("codebook", [])]
        place = Path(release)
        return {place.with_name(Path(one["file"]).name): str(one["sha256"]) for one in named}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"the manifest of {release} does not say what lies beside it") from None


def check_target(
    path: str | os.PathLike[str],
    *,
    sources: tuple[str | os.PathLike[str], ...] = (),
    force: bool = False,
) -> None:
    for source in sources:
        refuse_same(source, path)
        refuse_same(source, manifest_path(path))
    refuse_existing(path, force=force)
    refuse_existing(manifest_path(path), force=force)


@contextmanager
def draft(
    path: str | os.PathLike[str], *, sign_key: SigningKey | None = None, force: bool = False
) -> Iterator[Draft]:
    """Write both files at the end, or none."""
    target, beside = Path(path), manifest_path(path)
    settle(target)
    with ExitStack() as until_both_are_named:
        with atomic_write(target, force=force) as file:
            yield (made := Draft(file))
            file.flush()
            file.seek(0)
            complete = made.complete(sign_key, file=target.name, sha256=digest_of_file(file))
            until_both_are_named.enter_context(alone_in(target.parent))
            with atomic_write(next_to(beside), force=True) as staged:
                staged.write(complete.to_json().encode())
        os.replace(next_to(beside), beside)


def settle(path: str | os.PathLike[str]) -> None:
    """Complete or undo what a killed run left between its two steps."""
    beside = manifest_path(path)
    staged = next_to(beside)
    for file in (path, beside, staged):
        remove_leftovers(file)
    if not staged.exists():
        return
    with alone_in(staged.parent):  # a living run has completed it by then
        with suppress(OSError, ValueError, KeyError, TypeError):
            if read_json(content(staged))["output"]["sha256"] == digest(path):
                os.replace(staged, beside)
        staged.unlink(missing_ok=True)


def has_manifest(path: str | os.PathLike[str]) -> bool:
    settle(path)
    return manifest_path(path).is_file()


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    settle(path)
    beside = manifest_path(path)
    try:
        return Manifest.from_json(content(beside), str(beside))
    except FileNotFoundError:
        raise DataError(f"{path} has no manifest ({beside.name}): it is not a release") from None


def digest_of(path: str | os.PathLike[str]) -> str:
    if not Path(path).is_file():
        raise DataError(f"{path} does not exist, though its manifest does")
    return digest(path)


def content(file: Path) -> bytes:
    """Return the content of a manifest, unless it is larger than any manifest."""
    if file.stat().st_size > _LARGEST:
        raise DataError(f"{file} is too large for a Tulle manifest")
    return file.read_bytes()


def next_to(beside: Path) -> Path:
    """Name a manifest that is put down before its release has its name."""
    return beside.with_name(beside.name + ".next")
