"""A release: the data, and a manifest that says how it was made and what was verified.

The two appear together or not at all: on disk (:mod:`tulle.releases._on_disk`), or as two tables of
a database, in one transaction (:mod:`tulle.releases._database`).
"""

from tulle.releases._on_disk import manifest_path, named_beside, settle, write_part, write_parts
from tulle.releases.manifest import Manifest, keyed_digest
from tulle.releases.release import (
    check_target,
    has_manifest,
    read_manifest,
    refuse_folder,
    releasing,
    verify_release,
    write_release,
)

__all__ = [
    "Manifest",
    "check_target",
    "has_manifest",
    "keyed_digest",
    "manifest_path",
    "named_beside",
    "read_manifest",
    "refuse_folder",
    "releasing",
    "settle",
    "verify_release",
    "write_part",
    "write_parts",
    "write_release",
]
