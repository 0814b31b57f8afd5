"""What workflows say of the files they read."""

from __future__ import annotations

import os
from typing import Any

from tulle.files import digest
from tulle.tables.formats import display_name, is_sql, split_sheet

Path = str | os.PathLike[str]


def file_sources(*sources: Path | None) -> tuple[str, ...]:
    """Files (not sheets) and database tables that were read: no release may replace them."""
    return tuple(str(s) if is_sql(s) else split_sheet(s)[0] for s in sources if s is not None)


def source_entry(source: Path, records: int) -> dict[str, Any]:
    """The source in a manifest: its name without folder or password, its digest, its size."""
    entry: dict[str, Any] = {"name": os.path.basename(display_name(source)), "records": records}
    if not is_sql(source):
        entry["sha256"] = digest(split_sheet(source)[0])
    return entry
