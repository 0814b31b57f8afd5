"""The record of a release, and its form as JSON."""

from __future__ import annotations

import base64
import datetime
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, BinaryIO

from tulle import __version__
from tulle._json import plain, read_json
from tulle.errors import DataError, PrivacyError

if TYPE_CHECKING:
    from tulle.keys import PublicKey, SigningKey
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from tulle.errors import KeyMaterialError, OutputExists
from tulle.keys import SecretKey

FORMAT = 1
_ALGORITHM = "Ed25519"
_PACKAGES = ("numpy", "scikit-learn", "polars")
ALGORITHM = "HMAC-SHA256"
VARIABLE = "TULLE_SOURCE_KEY"


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
        What was checked on the finished result, each with True: nothing else counts as verified. A
        release without it is never written.
    counts : mapping
        Records released, suppressed, withheld or released as they are.
    columns : mapping
        Name, kind and role of each column.
    source : mapping
        Name and size of the source, and a digest that its owner alone can check (HMAC-SHA256).
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
    signature : mapping
        Algorithm, fingerprint of the key and the signature over everything else; empty if the
        release is not signed.

    Examples
    --------
    >>> from tulle import Manifest
    >>> manifest = Manifest(
    ...     method="condense",
    ...     parameters={"k": 10},
    ...     guarantee={"smallest group": 10},
    ...     verified={"every group has at least 10 records": True},
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
    signature: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Tell whether something was verified and all of it is True; nothing else counts."""
        return bool(self.verified) and all(value is True for value in self.verified.values())

    def signed(self, key: SigningKey) -> Manifest:
        """Return the manifest with a signature over all of it, and so over the data's digest.

        Parameters
        ----------
        key : SigningKey
            The key of whoever vouches for the release.

        Returns
        -------
        Manifest
        """
        value = base64.b64encode(key.sign(self._signed_bytes())).decode("ascii")
        signature = {"algorithm": _ALGORITHM, "key": key.public.fingerprint(), "value": value}
        return replace(self, signature=signature)

    def signed_by(self, key: PublicKey) -> bool:
        """Tell whether the signature is there, made by this key, and over just this manifest.

        Parameters
        ----------
        key : PublicKey
            The key of whoever is said to vouch for the release.

        Returns
        -------
        bool
        """
        value = self.signature.get("value")
        if self.signature.get("algorithm") != _ALGORITHM or not isinstance(value, str):
            return False
        try:
            signature = base64.b64decode(value, validate=True)
        except ValueError:
            return False
        return key.accepts(signature, self._signed_bytes())

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

    def _signed_bytes(self) -> bytes:
        """All but the signature, in the one form that does not depend on blanks and order."""
        entries = {name: value for name, value in self.to_dict().items() if name != "signature"}
        text = json.dumps(plain(entries), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return b"tulle-manifest-v1:" + text.encode()

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
            found = cls(**read_json(text))
        except (ValueError, TypeError):
            raise DataError(f"{place} is not a Tulle manifest") from None
        if type(found.format) is int and found.format > FORMAT:
            raise DataError(
                f"{place} has format {found.format}: this version of Tulle reads formats up to "
                f"{FORMAT}"
            )
        sections = [getattr(found, part.name) for part in fields(cls) if "Mapping" in part.type]
        words = (found.method, found.seed, found.created)
        if (
            type(found.format) is not int
            or found.format != FORMAT
            or not all(isinstance(part, dict) for part in sections)
            or not all(isinstance(word, str) for word in words)
        ):
            raise DataError(f"{place} is not a Tulle manifest")
        return found


@dataclass
class Draft:
    """A release that is being written: its data go into ``file``, then :meth:`finish` is called."""

    file: BinaryIO
    manifest: Manifest | None = None

    def finish(self, manifest: Manifest) -> None:
        """Say how the data were made, and what was verified on them: no guarantee, no output."""
        refuse_unverified(manifest)
        self.manifest = manifest

    def complete(self, sign_key: SigningKey | None, **output: Any) -> Manifest:
        """Add what is known of the output at the end, and sign it if there is a key."""
        assert self.manifest is not None, "a release is finished before it is complete"
        whole = self.manifest.completed(**output)
        self.manifest = whole if sign_key is None else whole.signed(sign_key)
        return self.manifest


def refuse_unverified(manifest: Manifest) -> None:
    """Raise unless a guarantee was verified."""
    if not manifest.holds:
        raise PrivacyError(f"{manifest.method}: no guarantee was verified, nothing was written")


# Which source a release was made from. Whoever knows a file but for one cell could try values until
# a plain digest fits: this one is keyed by a secret that stays with the owner, and salted, so that
# two releases do not show whether the source changed in between.
def key_path() -> Path:
    """Return where the owner's key is: as the environment says, else in the user's settings."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(settings) / "tulle" / "source.key"


def keyed_digest(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the entry of a manifest; empty where this user has no place to keep a key."""
    key = _owners_key()
    if key is None:
        return {}
    salt = secrets.token_hex(16)
    return {"algorithm": ALGORITHM, "salt": salt, "value": _value(path, key, salt)}


def is_source(
    path: str | os.PathLike[str], told: Mapping[str, Any], key: str | os.PathLike[str] | None
) -> bool:
    """Tell whether a file is the one that a manifest's entry was made from."""
    opened = SecretKey.load(key_path() if key is None else key)
    value = _value(path, opened, str(told.get("salt")))
    return hmac.compare_digest(value.encode(), str(told.get("value")).encode())


def _owners_key() -> SecretKey | None:
    path = key_path()
    if not path.exists():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OutputExists):  # another process was faster: its key is the key
                SecretKey.generate().save(path)
        except (OSError, DataError):
            if VARIABLE in os.environ:
                raise KeyMaterialError(
                    f"{VARIABLE} names {path}, which cannot be written: name a file in a folder "
                    "of yours"
                ) from None
            return None
    return SecretKey.load(path)


def _value(path: str | os.PathLike[str], key: SecretKey, salt: str) -> str:
    running = hmac.new(key.derive("source"), salt.encode(), "sha256")
    within = Path(path).iterdir() if Path(path).is_dir() else [Path(path)]
    parts = sorted(p for p in within if p.is_file() and not p.name.startswith((".", "_")))
    for part in parts:
        with open(part, "rb") as file:
            while block := file.read(1 << 20):
                running.update(block)
    return running.hexdigest()
