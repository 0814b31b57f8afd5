"""Where the records are that wait, and whether they still read as they did."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from tulle.errors import DataError
from tulle.moments import Ints
from tulle.workflows.stream.lines import Lines
from tulle.workflows.stream.sources import Source


class Whereabouts:
    """Of every waiting record, by its number, the place in the source and a checksum of its line.

    A record that was edited while it waited would be condensed as it never came. The checksums are
    keyed with a salt of this state; still, whoever holds the state can test guesses with them. So
    it is for its owner only, and where waiting records are sealed it holds no checksum.
    """

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        self.places: dict[int, Any] = {}
        self.checks: dict[int, str] = {}

    def check(self, text: bytes | None) -> str:
        """The checksum of a line."""
        return blake2b(text or b"", key=self.salt, digest_size=16).hexdigest()

    def keep(self, waiting: Iterable[int], before: int, rows: Ints, lines: Lines) -> None:
        """Keeps those that wait; the records from ``before`` on were these rows of the lines."""
        places, checks = self.places, self.checks
        self.places, self.checks = {}, {}
        for number in waiting:
            if number < before:
                self.places[number] = places[number]
                if number in checks:
                    self.checks[number] = checks[number]
                continue
            row = int(rows[number - before])
            self.places[number] = lines.places[row]
            self.checks[number] = (
                lines.checks[row] if lines.checks else self.check(lines.texts[row])
            )

    def read_again(self, owed: Sequence[Mapping[str, Any]], source: Source) -> list[bytes | None]:
        """The lines of records that the state left out, if they are what they were."""
        wanted = [self.places[waiter["number"]] for waiter in owed]
        gone = len(wanted) if not source.goes_back else wanted.count(None)
        if gone:
            raise DataError(
                f"{gone} records wait and {source.name} does not bring them again: pass the --key "
                "that sealed them in the state, or begin a new state with one"
            )
        texts = source.again(wanted)
        for waiter, text in zip(owed, texts, strict=True):
            check = self.check(text)
            if self.checks.setdefault(waiter["number"], check) != check:  # old states have none
                raise changed(source)
        if not source.goes_back:
            self.places = dict.fromkeys(self.places)
        return texts

    def to_json(self, *, sealed: bool) -> dict[str, Any]:
        """What :meth:`restore` needs."""
        places = {"waiting": {str(number): place for number, place in self.places.items()}}
        if sealed:
            return places
        checks = {str(number): check for number, check in self.checks.items()}
        return places | {"waiting_checks": checks, "waiting_salt": self.salt.hex()}

    def restore(self, entries: Mapping[str, Any]) -> None:
        """Goes on with what a checkpoint says."""
        self.places = {int(number): place for number, place in entries["waiting"].items()}
        checks = entries.get("waiting_checks", {})
        self.checks = {int(number): check for number, check in checks.items()}
        if "waiting_salt" in entries:
            self.salt = bytes.fromhex(entries["waiting_salt"])


def changed(source: Source) -> DataError:
    """A record that waits is not what it was."""
    return DataError(
        f"a record that waits reads differently now: the source changed. Put {source.name} back as "
        "it was, or begin a new state, where --key keeps records that wait"
    )
