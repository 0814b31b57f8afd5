"""Files that workflows write beside a release."""

from __future__ import annotations

import errno

import pytest

from tulle._commands._sources import writing_beside
from tulle.errors import DataError


def test_what_is_there_already_is_told_with_what_cannot_be_written() -> None:
    told = r"page\.html.*No space left on device.*the release is there"
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(DataError, match=told), writing_beside("the release is there", "page.html"):
        raise full
