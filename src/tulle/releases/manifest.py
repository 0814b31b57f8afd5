"""The record of a release, and its form as JSON."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from typing import Any

from tulle import __version__
from tulle._json import plain
from tulle.errors import DataError

FORMAT = 1
_PACKAGES = ("numpy", "scikit-learn", "polars")


@dataclass(frozen=True)
class Manifest:
    """Record how a release was made and what was verified; it never holds a cell of the source.

    Parameters
    ----------
    method : str
        The method, such as ``"condense"``.
    parameters : mapping
        Its parameters by name.
    guarantee : mapping
        What was asked for.
    verified : mapping
        What was checked on the finished result. A release without it is never written.
    counts : mapping
        Records released, suppressed, withheld or released as they are.
    columns : mapping
        Name, kind and role of each column.
    source : mapping
        Name, size and SHA-256 digest of the source.
    output : mapping
        Name, size and SHA-256 digest of the release.
    verdict : mapping
        The judgements on ``privacy`` and ``use``, as the public may read them.
    accepted_risk : str
        Why the release was written although the verdict on privacy is bad; else empty.
    seed : str
        Where the seed came from, never the seed itself.
    created : str
        Time of the release (UTC).
    versions : mapping
        Versions of Tulle and of the libraries it used.
    format : int
        Version of the manifest's layout.

    Examples
    --------
    >>> from tulle import Manifest
    >>> manifest = Manifest(
    ...     method="condense",
    ...     parameters={"k": 10},
    ...     guarantee={"smallest group": 10},
    ...     verified={"smallest group": 11},
    ... )
    >>> manifest.holds
    True
    """

    method: str
    parameters: Mapping[str, Any]
    guarantee: Mapping[str, Any]  # what was asked
    verified: Mapping[str, Any]  # what was checked on the finished result
    counts: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    verdict: Mapping[str, Any] = field(default_factory=dict)
    accepted_risk: str = ""
    seed: str = "operating system"
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def holds(self) -> bool:
        """Return whether something was verified, and nothing of it failed."""
        return bool(self.verified) and all(_holds(value) for value in self.verified.values())

    def completed(self, **output: Any) -> Manifest:
        """Add what is known at the end: the output, the time and the versions.

        Parameters
        ----------
        **output
            Name, size and digest of the release.

        Returns
        -------
        Manifest
        """
        entries = self.to_dict()
        entries["output"] = {**entries["output"], **output}
        entries["created"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entries["versions"] = {"python": platform.python_version(), "tulle": __version__}
        entries["versions"] |= {package: version(package) for package in _PACKAGES}
        return Manifest(**entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as plain dictionaries.

        Returns
        -------
        dict
        """
        return asdict(self)

    def to_json(self) -> str:
        """Return the manifest as JSON text.

        Returns
        -------
        str
        """
        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> Manifest:
        """Read what :meth:`to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            The JSON.
        place : str
            Where it was read from, for error messages.

        Returns
        -------
        Manifest
        """
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError):
            raise DataError(f"{place} is not a Tulle manifest") from None
        if isinstance(found.format, int) and found.format > FORMAT:
            raise DataError(
                f"{place} has format {found.format}: this version of Tulle reads formats up to "
                f"{FORMAT}"
            )
        sections = [getattr(found, part.name) for part in fields(cls) if "Mapping" in part.type]
        if found.format != FORMAT or not all(isinstance(part, dict) for part in sections):
            raise DataError(f"{place} is not a Tulle manifest")
        return found


def _holds(value: Any) -> bool:
    """Return whether a finding holds; counts and words do, false and nothing do not."""
    if isinstance(value, Mapping):
        return _holds(value.get("holds", True))
    if isinstance(value, list | tuple):
        return all(map(_holds, value))
    known = plain(value)
    return known is not None and known is not False
