"""``tulle keygen``: the private key for whoever releases, the public one for everybody else."""

from __future__ import annotations

import os
from typing import Any

from tulle._files import refuse_existing
from tulle._types import FilePath
from tulle.keys import SigningKey


def keygen(path: FilePath, *, force: bool = False) -> dict[str, Any]:
    """Write a new pair of keys; the private one appears last, so that its public one is there."""
    private, public = os.fspath(path), f"{os.fspath(path)}.pub"
    for file in (private, public):
        refuse_existing(file, force=force)
    key = SigningKey.generate()
    key.public.save(public, force=force)
    key.save(private, force=force)
    return {"private_key": private, "public_key": public, "fingerprint": key.public.fingerprint()}
