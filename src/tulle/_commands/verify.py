"""``tulle verify``: a release, its manifest, and perhaps the key that signed it."""

from __future__ import annotations

import os

from tulle._commands._decision import Done
from tulle._commands._sources import sources_read
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.io._formats import display_name, existing_file
from tulle.keys import PublicKey
from tulle.releases import has_manifest, read_manifest, verify_release


def verify(
    release: FilePath,
    key: FilePath | None = None,
    *,
    source: FilePath | None = None,
    source_key: FilePath | None = None,
) -> Done:
    """Check a release; one whose manifest is there but unreadable is broken, not missing."""
    owner = None if key is None else PublicKey.load(key)
    if source_key is not None and source is None:
        raise ParameterError("--source-key is the key for --source FILE: name that file as well")
    place = None if source is None else sources_read(source)[0]
    origin = place if place is None or os.path.isdir(place) else existing_file(place)
    try:
        rows = verify_release(release, owner, source=origin, source_key=source_key)
        manifest = read_manifest(release)
    except DataError as error:
        if has_manifest(release):
            raise PrivacyError(str(error)) from None
        raise
    summary = {
        "release": display_name(release),
        "method": manifest.method,
        "created": manifest.created,
        "holds": all(row["holds"] is True for row in rows),
    }
    return Done(summary, {"checks": rows}, [])


def refuse_broken(checked: Done) -> None:
    """Raise an error that names the checks that failed."""
    broken = [row["check"] for row in checked.tables["checks"] if row["holds"] is not True]
    if broken:
        raise PrivacyError(f"{checked.summary['release']} fails: {'; '.join(broken)}")
