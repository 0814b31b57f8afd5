"""Which source a release was made from: a digest that only its owner can check.

Whoever knows a file but for one cell could try values until a plain digest fits. This one is keyed
by a secret that stays with the owner, and salted, so that two releases do not show whether the
source changed in between.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tulle._files import OutputExists
from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey

ALGORITHM = "HMAC-SHA256"
VARIABLE = "TULLE_SOURCE_KEY"


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
    path: str | os.PathLike[str],
    told: Mapping[str, Any],
    key: str | os.PathLike[str] | None,
) -> bool:
    """Return whether a file is the one that a manifest's entry was made from."""
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
