"""Options of ``tulle sites``: what opens an agreement, and choices for single columns."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import rich_click as click

agreement = click.option(
    "--agreement", "-a", required=True, metavar="FILE", help="The sealed agreement."
)
key_file = click.option(
    "--key-file",
    metavar="FILE",
    help="Opens the agreement. Without it: TULLE_PASSPHRASE, or you are asked.",
)
release = click.option(
    "--release", metavar="LABEL", help="Codes of this release only: other labels, other codes."
)


class Named(click.ParamType):
    """``NAME=...`` with something read from what follows."""

    name = "named"

    def __init__(self, read: Callable[[str], Any], example: str) -> None:
        self.read = read
        self.example = example

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        name, found, rest = str(value).rpartition("=")
        try:
            if not found or not name:
                raise ValueError
            return name, self.read(rest)
        except (ValueError, OSError):
            self.fail(f"{value!r} is not like {self.example}", param, ctx)


def _end(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    return text.strip()


def _ends(text: str) -> tuple[Any, Any]:
    low, high = text.split("..")
    if high.startswith("."):  # three dots are no range up to a fraction
        raise ValueError
    return _end(low), _end(high)


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8-sig") as file:
        return [line.rstrip("\r\n") for line in file if line.strip()]


RANGE = Named(_ends, "age=0..120 or born=1900-01-01..2030-12-31")
LIMITS = Named(lambda text: [_end(part) for part in text.split(",")], "age=15,30,45")
NUMBERS = Named(lambda text: [int(part) for part in text.split(",")], "age=1,4,6")
LISTED = Named(_lines, "illness=illnesses.txt (one category a line)")
SHARE = Named(float, "sex=0.1")


def ask_passphrase(key_file: str | None, *, new: bool = False) -> str | None:
    """From the environment or from the keyboard; never from the command line."""
    if key_file is not None:
        return None
    given = os.environ.get("TULLE_PASSPHRASE")
    return given or click.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True)
