"""What workflows say of the files they read, and of those they write beside a release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tulle._files import digest, refuse_existing
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, is_sql, split_sheet
from tulle.releases import manifest_path


def sources_read(*sources: FilePath | None) -> tuple[str, ...]:
    """Files (not sheets) and database tables that were read: no release may replace them."""
    return tuple(str(s) if is_sql(s) else split_sheet(s)[0] for s in sources if s is not None)


def check_names(
    *, output: FilePath, report: FilePath | None, others: dict[str, FilePath | None], force: bool
) -> None:
    """Refuses a bad report, and names that are one file, before any work is done.

    ``others`` are the other files of the run by the names of their options: no release, manifest
    or report may take the place of one of them, nor of each other.
    """
    if report is not None:
        if not str(report).lower().endswith((".html", ".htm", ".json", ".md")):
            raise ParameterError(f"A report ends in .html, .json or .md. Got '{report}'.")
        refuse_existing(report, force=force)
    names = {"--output": output, "the manifest": manifest_path(output), "--report": report}
    seen: dict[str, str] = {}
    for name, path in (names | others).items():
        if path is None:
            continue
        first = seen.setdefault(os.path.realpath(path), name)
        if first != name:
            raise ParameterError(f"{first} and {name} are the same file: give each its own name")


@contextmanager
def writing_beside(there: str, other: FilePath) -> Iterator[None]:
    """Says of a report or the like that cannot be written what is there already."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{other}: cannot be written ({error.strerror}); {there}") from None


def source_entry(source: FilePath, records: int) -> dict[str, Any]:
    """The source in a manifest: its name without folder or password, its digest, its size."""
    entry: dict[str, Any] = {"name": os.path.basename(display_name(source)), "records": records}
    if not is_sql(source):
        entry["sha256"] = digest(split_sheet(source)[0])
    return entry
