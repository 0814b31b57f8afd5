"""The files of a command: checked before anything is loaded, and named in manifests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tulle._choices import REPORTS
from tulle._files import refuse_existing
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, existing_file, is_sql, parts_of, split_sheet
from tulle.keys import SigningKey
from tulle.releases import check_target, keyed_digest, manifest_path

_NONE: Mapping[str, Any] = MappingProxyType({})


def sources_read(*sources: FilePath | None) -> tuple[str, ...]:
    """Return the files (not sheets) and database tables read: no release may replace them."""
    return tuple(str(s) if is_sql(s) else split_sheet(s)[0] for s in sources if s is not None)


def check_files(
    reads: Mapping[str, FilePath | None],
    *,
    release: FilePath | None = None,
    report: FilePath | None = None,
    writes: Mapping[str, FilePath | None] = _NONE,
    folders: tuple[str, ...] = (),
    databases: tuple[str, ...] = (),
    in_parts: bool = False,
    force: bool,
) -> None:
    """Raise for paths that cannot work, before anything is loaded or read.

    ``reads`` and ``writes`` are files by the words of their options. Those that are read must be
    there, those that are written must not (unless ``force``), and no two may be one file. What is
    read may be a folder of parts if ``folders`` names it, of tables if ``databases`` does; a
    release ``in_parts`` may replace one.
    """
    sources = {name: sources_read(path)[0] for name, path in reads.items() if path is not None}
    for name, path in sources.items():
        if name in databases and os.path.isdir(path):
            continue
        parts: list[FilePath] = [*parts_of(path)] if name in folders else []
        for file in parts or [path]:
            if not is_sql(file):
                existing_file(file)
    outputs: dict[str, FilePath | None] = {**writes, "--report": report}
    if release is not None:
        check_target(release, sources=tuple(sources.values()), in_parts=in_parts, force=force)
        outputs |= {"--output": release, "the manifest": manifest_path(release)}
    _refuse_one_for_two(sources | outputs)
    _refuse_among_parts(sources, outputs)
    if report is not None and not str(report).lower().endswith(REPORTS):
        raise ParameterError(
            f"The name of a report must end in .html, .json or .md. Got '{report}'."
        )
    for target in (report, *writes.values()):
        if target is not None:
            refuse_existing(target, force=force)


def _refuse_one_for_two(names: Mapping[str, FilePath | None]) -> None:
    seen: dict[Any, str] = {}
    for name, path in names.items():
        if path is not None:
            first = seen.setdefault(_identity(path), name)
            if first != name:
                raise ParameterError(f"{first} and {name} are the same file: use different names")


def _refuse_among_parts(sources: Mapping[str, str], outputs: Mapping[str, FilePath | None]) -> None:
    """Refuse to write into a folder that is read: it would be read as a part the next time."""
    folders = {os.path.realpath(path) for path in sources.values() if os.path.isdir(path)}
    for name, path in outputs.items():
        if path is not None and os.path.dirname(os.path.realpath(path)) in folders:
            raise ParameterError(f"{name} is in the folder of a table: choose another folder")


def _identity(path: FilePath) -> Any:
    """Return the same for two paths of one file, which may be links or not exist yet."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


@contextmanager
def writing_beside(there: str, other: FilePath) -> Iterator[None]:
    """Add to the error of a report that cannot be written what was already written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {other} ({error.strerror}); {there}") from None


def signing_key(path: FilePath | None) -> SigningKey | None:
    """Return the key of ``--sign-key``, if there is one; loaded before any work is done."""
    return None if path is None else SigningKey.load(path)


def source_entry(source: FilePath, records: int) -> dict[str, Any]:
    """Return the source for a manifest: name (no folder, no password), keyed digest and size."""
    name = os.path.basename(display_name(source).rstrip("/"))
    entry: dict[str, Any] = {"name": name, "records": records}
    if not is_sql(source) and (told := keyed_digest(split_sheet(source)[0])):
        entry["digest"] = told
    return entry
