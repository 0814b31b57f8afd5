"""A release on disk: a file, or a folder of parts, with its manifest next to it.

``release.parquet`` (or ``release.parquet/part-00000.parquet`` ...) has its manifest next to it,
``release.parquet.manifest.json``. Data are written where nobody sees them: into a file without a
name, or into a hidden folder. Then the manifest is put down under the name ``.next``, the data take
their name (this is the moment at which the release exists), and the manifest takes its own. A run
that is killed in between is completed or undone by :func:`settle`, which reading, verifying and
writing call first: what there is afterwards is the old release or the new one, never a mixture.
Meanwhile the folder around them is locked, so that no other run undoes what a live one is about to
complete.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tulle._files import (
    abandoned,
    alone_in,
    atomic_write,
    digest,
    hidden_name,
    refuse_existing,
    refuse_same,
    remove_leftovers,
    sync_folder,
)
from tulle._files import digest_of as digest_of_file
from tulle._json import read_json
from tulle.errors import DataError, OutputExists
from tulle.keys import SigningKey
from tulle.releases.manifest import Draft, Manifest, refuse_unverified

Place = str | os.PathLike[str]
Part = dict[str, Any]  # records, sha256
Parts = Mapping[str, Part]  # by name
_LARGEST = 64 << 20  # bytes of a manifest: one with 100,000 columns has a fifth of that
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)  # a manifest that may be anything


def manifest_path(release: Place) -> Path:
    path = Path(release)
    if not path.name:
        raise DataError(f"'{release}' is not a file: give the path of a release")
    return path.with_name(path.name + ".manifest.json")


def named_beside(release: Place, output: Mapping[str, Any]) -> dict[Path, str]:
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


def check_target(path: Place, *, sources: tuple[Place, ...] = (), force: bool = False) -> None:
    """Refuse to write over a source, or over anything that ``force`` does not replace."""
    target, beside = Path(path), manifest_path(path)
    in_parts = _is_folder(path)
    for source in sources:
        refuse_same(source, path)
        refuse_same(source, beside)
        if in_parts and target.resolve() in Path(source).resolve().parents:
            raise OutputExists(f"{target} holds the source: a release needs a name of its own")
    if not in_parts:
        refuse_existing(path, force=force)
    elif target.exists() and not (force and has_manifest(target)):
        remedy = "it is not a release" if force else "pass --force to replace it"
        raise OutputExists(f"{target} exists already: {remedy}, or choose another name")
    refuse_existing(beside, force=force)


@contextmanager
def draft(
    path: Place, *, sign_key: SigningKey | None = None, force: bool = False
) -> Iterator[Draft]:
    """Write a file and its manifest at the end, or none of them."""
    target, beside = Path(path), manifest_path(path)
    settle(target)
    with ExitStack() as until_both_are_named:
        with atomic_write(target, force=force) as file:
            yield (made := Draft(file))
            file.flush()
            file.seek(0)
            complete = made.complete(sign_key, file=target.name, sha256=digest_of_file(file))
            until_both_are_named.enter_context(alone_in(target.parent))
            _put_down(complete, beside)
        os.replace(_next_to(beside), beside)


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
    settle(target)
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
            _put_down(complete, beside)
            if target.exists():  # what had the name before is kept until the new one has it
                os.rename(target, hidden_name(target, "old"))
            os.rename(staged, target)
            os.replace(_next_to(beside), beside)
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
    """Complete or undo what a killed run left between its steps."""
    target, beside = Path(path), manifest_path(path)
    staged = _next_to(beside)
    for file in (target, beside, staged):
        remove_leftovers(file)
    old = abandoned(target, "old", own=True)
    if staged.exists() or (old and not target.exists()):
        with alone_in(target.parent):  # a living run has completed it by then
            if old and not target.exists():
                with suppress(FileNotFoundError):
                    os.rename(old[0], target)
            with suppress(*_UNREADABLE):
                if read_json(_content(staged))["output"]["sha256"] == digest_of(target):
                    os.replace(staged, beside)
            staged.unlink(missing_ok=True)
    _remove_hidden(target)


def has_manifest(path: Place) -> bool:
    settle(path)
    return manifest_path(path).is_file()


def read_manifest(path: Place) -> Manifest:
    settle(path)
    beside = manifest_path(path)
    try:
        return Manifest.from_json(_content(beside), str(beside))
    except FileNotFoundError:
        raise DataError(f"{path} has no manifest ({beside.name}): it is not a release") from None


def digest_of(path: Place) -> str:
    """Return the digest of a file, or of the names and digests of all files in a folder."""
    folder = Path(path)
    if not folder.exists():
        raise DataError(f"{path} does not exist, though its manifest does")
    if not folder.is_dir():
        return digest(path)
    return _digest_of_parts({name: digest(folder / name) for name in _files_in(folder)})


def compare_parts(path: Place, named: Parts) -> str:
    """Say how the files of a folder differ from the parts that its manifest names."""
    found = _files_in(Path(path))
    missing, unnamed = len(named.keys() - found), len(found - named.keys())
    changed = sum(digest(Path(path) / n) != named[n]["sha256"] for n in found & named.keys())
    words = f"SHA-256 of {len(named)} parts"
    differences = {"missing": missing, "not named": unnamed, "changed": changed}
    told = [f"{count} {what}" for what, count in differences.items() if count]
    return f"{words}: {', '.join(told)}" if told else words


def _is_folder(path: Place) -> bool:
    """Tell whether a release is one of many parts, or was until its folder disappeared."""
    if Path(path).is_dir():
        return True
    with suppress(*_UNREADABLE):
        return "parts" in read_json(_content(manifest_path(path)))["output"]
    return False


def _completed(staged: Path, target: Path, manifest: Manifest, parts: Parts) -> Manifest:
    """Remove what is not a part, and return the manifest that names all that is."""
    found = _files_in(staged)
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


def _files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def _remove_hidden(target: Path) -> None:
    """Remove what killed or finished runs left, once the release has its name."""
    left = abandoned(target, "old", own=True) if target.exists() else []
    for hidden in [*left, *abandoned(target, "parts")]:
        if hidden.is_dir():
            shutil.rmtree(hidden, ignore_errors=True)
        else:
            hidden.unlink(missing_ok=True)


def _content(file: Path) -> bytes:
    """Return the content of a manifest, unless it is larger than any manifest."""
    if file.stat().st_size > _LARGEST:
        raise DataError(f"{file} is too large for a Tulle manifest")
    return file.read_bytes()


def _put_down(manifest: Manifest, beside: Path) -> None:
    with atomic_write(_next_to(beside), force=True) as file:
        file.write(manifest.to_json().encode())


def _next_to(beside: Path) -> Path:
    """Name a manifest that is put down before its release has its name."""
    return beside.with_name(beside.name + ".next")
