"""Writing, reading and verifying a release, wherever it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, BinaryIO

from tulle._files import digest
from tulle.errors import OutputExists, ParameterError
from tulle.io._formats import is_sql, split_sheet
from tulle.keys import PublicKey, SigningKey
from tulle.releases import _database as database
from tulle.releases import _on_disk as on_disk
from tulle.releases.manifest import ALGORITHM, Draft, Manifest, is_source, refuse_unverified

Place = str | os.PathLike[str]


def write_release(
    path: Place,
    write: Callable[[BinaryIO], None],
    manifest: Manifest,
    *,
    sources: tuple[Place, ...] = (),
    sign_key: SigningKey | None = None,
    force: bool = False,
) -> Manifest:
    """Write data and manifest, or nothing; return the completed manifest.

    ``write`` puts the data into a binary file. A manifest without a verified guarantee is refused:
    no guarantee, no output. With ``sign_key`` the manifest is signed.
    """
    refuse_unverified(manifest)
    with releasing(path, sources=sources, sign_key=sign_key, force=force) as draft:
        write(draft.file)
        draft.finish(manifest)
    assert draft.manifest is not None
    return draft.manifest


@contextmanager
def releasing(
    path: Place,
    *,
    sources: tuple[Place, ...] = (),
    sign_key: SigningKey | None = None,
    force: bool = False,
) -> Iterator[Draft]:
    """Write a release in two steps: its data, then what its manifest says of them.

    Both appear at the end of the block; whatever is raised in it leaves nothing.
    """
    refuse_folder(path)
    kind = _kind(path)
    kind.check_target(path, sources=sources, force=force)
    with kind.draft(path, sign_key=sign_key, force=force) as draft:
        yield draft


def check_target(
    path: Place, *, sources: tuple[Place, ...] = (), in_parts: bool = False, force: bool = False
) -> None:
    """Refuse a bad output before any work is done for it; ``in_parts`` if it may be a folder."""
    if split_sheet(path)[1] is not None:
        raise ParameterError(f"a release is a whole file, not a sheet of a workbook: got '{path}'")
    if not in_parts:
        refuse_folder(path)
    _kind(path).check_target(path, sources=sources, force=force)


def refuse_folder(path: Place) -> None:
    """Refuse to put a file in the place of a folder, such as a release of many parts."""
    if not is_sql(path) and os.path.isdir(path):
        raise OutputExists(
            f"{path} is a folder, and this release is one file: remove the folder, or choose "
            "another name"
        )


def has_manifest(path: Place) -> bool:
    """Tell whether a table is a release, that is, has a manifest next to it."""
    found: bool = _kind(path).has_manifest(path)
    return found


def read_manifest(path: Place) -> Manifest:
    """Read the manifest of a release.

    Parameters
    ----------
    path : path-like or str
        The release itself, a file or ``URI#table``; its manifest is found next to it.

    Returns
    -------
    Manifest

    Raises
    ------
    TulleError
        If there is no manifest, or it is not readable as one.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from tulle import Sketcher, read_manifest
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.parquet"
    >>> _ = Sketcher().fit_transform(["a cat and a dog sat", "the dog and the cat"]).save(path)
    >>> read_manifest(path).holds
    True
    """
    found: Manifest = _kind(path).read_manifest(path)
    return found


def verify_release(
    path: Place,
    key: PublicKey | Place | None = None,
    *,
    source: Place | None = None,
    source_key: Place | None = None,
) -> list[dict[str, Any]]:
    """Check a release against its manifest, and the manifest against a key or the source.

    Parameters
    ----------
    path : path-like or str
        The release, a file or ``URI#table``.
    key : PublicKey or path-like, optional
        The key of whoever vouches for the release, or its file: the manifest must be signed by it.
        Without a key nobody vouches for the manifest.
    source : path-like, optional
        The file that the release is said to be made from. Only its owner can check this.
    source_key : path-like, optional
        The owner's key for it; else the one in ``TULLE_SOURCE_KEY``, or in the user's settings.

    Returns
    -------
    list of dict
        One row per check: ``check`` (what was checked), ``holds`` (bool) and ``detail``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tulle import Sketcher, verify_release
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.parquet"
    >>> _ = Sketcher().fit_transform(["a cat and a dog sat", "the dog and the cat"]).save(path)
    >>> [row["holds"] for row in verify_release(path)]
    [True, True]
    """
    owner = key if key is None or isinstance(key, PublicKey) else PublicKey.load(key)
    found, same = _compared(path)
    told = (
        on_disk.compare_parts(path, found.output["parts"]) if "parts" in found.output else "SHA-256"
    )
    rows = [
        {"check": "data unchanged since the release", "holds": same, "detail": told},
        {
            "check": "guarantee verified when it was made",
            "holds": found.holds,
            "detail": ", ".join(map(str, found.verified)),
        },
    ]
    named = on_disk.named_beside(path, found.output)
    if named:
        holds = all(place.is_file() and digest(place) == sha256 for place, sha256 in named.items())
        detail = ", ".join(place.name for place in named)
        rows.append({"check": "what lies beside it unchanged", "holds": holds, "detail": detail})
    if owner is not None:
        signer = found.signature.get("key", "nobody")
        detail = f"Ed25519, {owner.fingerprint()}"
        holds = found.signed_by(owner)
        told = detail if holds else f"{detail}; signed by {signer}, or changed since"
        rows.append({"check": "manifest signed with the key", "holds": holds, "detail": told})
    if source is not None:
        entry = found.source.get("digest")
        entry = entry if isinstance(entry, dict) else {}
        rows.append(
            {
                "check": "made from the source",
                "holds": bool(entry) and is_source(source, entry, source_key),
                "detail": ALGORITHM if entry else "the manifest holds no digest of a source",
            }
        )
    return rows


def _compared(path: Place) -> tuple[Manifest, bool]:
    """Return the manifest, and whether the data match it; both may be replaced meanwhile."""
    kind, found = _kind(path), read_manifest(path)
    while (same := kind.digest_of(path) == found.output.get("sha256")) is False:
        again = read_manifest(path)
        if again == found:
            break
        found = again
    return found, same


def _kind(path: Place) -> ModuleType:
    return database if is_sql(path) else on_disk
