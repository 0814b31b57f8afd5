"""Where records come from: standard input, a file (growing or not), a folder, a broker.

A source delivers lines in order and knows its position as a JSON value: opened at a position it
delivers exactly the lines after it. It reads at most a block ahead of what is asked for, so a slow
condenser slows the source down and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tulle.workflows.stream.lines import Lines

Position = dict[str, Any]
PAUSE = 0.2  # seconds that a source waits for lines before it says that there are none yet


class Source(Protocol):
    """What the stream needs of a source."""

    name: str
    goes_back: bool  # whether lines that were delivered before this run can be had again

    @property
    def position(self) -> Position:
        """Everything up to here was delivered."""

    def read(self, most: int) -> Lines | None:
        """The next lines, none if there are none yet, None if there will be none."""

    def header(self) -> bytes | None:
        """The first line of the first file, if files begin with the names of columns."""

    def again(self, places: Sequence[Any]) -> list[bytes | None]:
        """The texts of lines that were delivered before."""

    def close(self) -> None:
        """Lets go of files and connections."""
