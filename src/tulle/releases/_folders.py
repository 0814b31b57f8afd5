"""A release as a folder of parts, with one manifest next to it that names each of them.

``release.parquet/part-00000.parquet`` ... and ``release.parquet.manifest.json``. Parts are written
into a hidden folder. Once the whole is verified, the manifest is put down under the name ``.next``,
the folder takes its name (this is the moment at which the release exists), then the manifest takes
its own. A run that is killed in between is completed or undone by :func:`settle`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from tulle._files import (
    abandoned,
    alone_in,
    atomic_write,
    digest,
    hidden_name,
    refuse_same,
    sync_folder,
)
from tulle._files import digest_of as digest_of_file
from tulle._json import read_json
from tulle.errors import DataError, OutputExists
from tulle.keys import SigningKey
from tulle.releases import _file_pairs as file_pairs
from tulle.releases._file_pairs import content, manifest_path, next_to
from tulle.releases.manifest import Manifest, refuse_unverified

Place = str | os.PathLike[str]
Part = dict[str, Any]  # records, sha256
Parts = Mapping[str, Part]  # by name


def is_folder(path: Place) -> bool:
    """Tell whether a release is one of many parts, or was until its folder disappeared."""
    if Path(path).is_dir():
        return True
    with suppress(OSError, ValueError, KeyError, TypeError, DataError):
        return "parts" in read_json(content(manifest_path(path)))["output"]
    return False


def check_target(path: Place, *, sources: tuple[Place, ...] = (), force: bool = False) -> None:
    target = Path(path)
    for source in sources:
        refuse_same(source, path)
        refuse_same(source, manifest_path(path))
        if target.is_dir() and target.resolve() in Path(source).resolve().parents:
            raise OutputExists(f"{target} holds the source: a release needs a name of its own")
    settle(target)
    if target.exists() and not (force and file_pairs.has_manifest(target)):
        remedy = "pass --force to replace it" if force is False else "it is not a release"
        raise OutputExists(f"{target} exists already: {remedy}, or choose another name")
    if not target.exists() and manifest_path(path).exists() and not force:
        raise OutputExists(f"{manifest_path(path)} exists already: pass --force to replace it")
    if not target.parent.is_dir():
        raise DataError(f"the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"no permission to write into the folder {target.parent}")


def write_parts(
    path: Place,
    put: Callable[[Path], tuple[Manifest, Parts]],
    *,
    sources: tuple[Place, ...] = (),
    sign_key: SigningKey | None = None,
    force: bool = False,
) -> Manifest:
    """Write a folder of parts and its manifest, or nothing.

    ``put`` writes parts into a hidden folder and returns the manifest, with every guarantee
    verified, and the parts by name. Files that it does not name are those of attempts that failed:
    they are removed. With ``sign_key`` the manifest is signed.
    """
    target, beside = Path(path), manifest_path(path)
    check_target(target, sources=sources, force=force)
    staged = hidden_name(target, "parts")
    staged.mkdir()
    mode = stat.S_IMODE(staged.stat().st_mode)
    os.chmod(staged, 0o700)  # until it is verified
    try:
        manifest, parts = put(staged)
        refuse_unverified(manifest)
        complete = _completed(staged, target, manifest, parts)
        complete = complete if sign_key is None else complete.signed(sign_key)
        os.chmod(staged, mode)
        with alone_in(target.parent):
            with atomic_write(next_to(beside), force=True) as file:
                file.write(complete.to_json().encode())
            _rename(staged, target)
            os.replace(next_to(beside), beside)
        with suppress(OSError):
            sync_folder(target.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    _remove_hidden(target)
    return complete


def write_part(folder: Path, name: str, records: int, put: Callable[[BinaryIO], None]) -> Part:
    """Write one part of a release into the folder and return what the manifest says of it.

    It takes its name when it is complete. Whoever writes it again, because nobody knows whether
    the first attempt came to its end, writes the same bytes.
    """
    attempt = folder / f".{name}.{secrets.token_hex(8)}"
    with open(attempt, "x+b") as file:
        put(file)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        entry = {"records": records, "sha256": digest_of_file(file)}
    os.replace(attempt, folder / name)
    return entry


def settle(path: Place) -> None:
    target, beside = Path(path), manifest_path(path)
    staged = next_to(beside)
    if not target.parent.is_dir():
        return
    if staged.exists() or not target.exists():
        with alone_in(target.parent):
            old = abandoned(target, "old", own=True)
            if old and not target.exists():
                os.rename(old[0], target)
            if staged.exists() and target.is_dir():
                with suppress(OSError, ValueError, KeyError, TypeError, DataError):
                    if read_json(content(staged))["output"]["sha256"] == digest_of(target):
                        os.replace(staged, beside)
            if target.is_dir() or not target.exists():
                staged.unlink(missing_ok=True)
    _remove_hidden(target)


def has_manifest(path: Place) -> bool:
    settle(path)
    return manifest_path(path).is_file()


def read_manifest(path: Place) -> Manifest:
    settle(path)
    return file_pairs.read_manifest(path)


def digest_of(path: Place) -> str:
    """Return the digest of the folder as it is: the names and digests of all files in it."""
    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"{path} does not exist, though its manifest does")
    return _digest_of_parts({str(n): digest(folder / n) for n in _files_in(folder)})


def compare_parts(path: Place, manifest: Manifest) -> str:
    """Say how the files of the folder differ from the parts that the manifest names."""
    named = manifest.output["parts"]
    found = {str(name) for name in _files_in(Path(path))}
    missing, unnamed = len(named.keys() - found), len(found - named.keys())
    changed = sum(digest(Path(path) / n) != named[n]["sha256"] for n in found & named.keys())
    words = f"SHA-256 of {len(named)} parts"
    differences = {"missing": missing, "not named": unnamed, "changed": changed}
    told = [f"{count} {what}" for what, count in differences.items() if count]
    return f"{words}: {', '.join(told)}" if told else words


def _completed(staged: Path, target: Path, manifest: Manifest, parts: Parts) -> Manifest:
    """Remove what is not a part, and return the manifest that names all that is."""
    found = {str(name) for name in _files_in(staged)}
    if parts.keys() - found:
        raise DataError(f"{len(parts.keys() - found)} parts of {target} were not written")
    for stray in found - parts.keys():
        (staged / stray).unlink()
    sha256 = _digest_of_parts({name: part["sha256"] for name, part in parts.items()})
    listed = {name: dict(parts[name]) for name in sorted(parts)}
    return manifest.completed(folder=target.name, sha256=sha256, parts=listed)


def _digest_of_parts(digests: Mapping[str, str]) -> str:
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def _files_in(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]


def _rename(staged: Path, target: Path) -> None:
    """Give the finished folder its name; what had it before is kept until then."""
    if target.exists():
        os.rename(target, hidden_name(target, "old"))
    os.rename(staged, target)


def _remove_hidden(target: Path) -> None:
    """Remove what killed or finished runs left, once the release has its name."""
    for hidden in abandoned(target, "old", own=True) if target.exists() else []:
        if hidden.is_dir():
            shutil.rmtree(hidden, ignore_errors=True)
        else:
            hidden.unlink(missing_ok=True)
    for hidden in abandoned(target, "parts"):
        if hidden.is_dir():
            shutil.rmtree(hidden, ignore_errors=True)
