"""Records that leave this process only under a key that ends with it.

A pickle may reach a disk. So what a stream keeps of records as they are is in a pickle only in
sealed form: a copy in this process opens it, any other process is told to use a saved state.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

from tulle.errors import KeyMaterialError
from tulle.keys import SecretKey

_USE = "stream/pickle"
_BOUND = b"tulle-stream-pickle-v1"  # what the sealed bytes are bound to


class Sealed:
    """Anything of a length that is sealed when it is pickled, unless it is empty."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {"sealed": _locked(self.__dict__)} if len(self) else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_opened(state["sealed"]) if "sealed" in state else state)


@cache
def _key() -> SecretKey:
    return SecretKey.generate()


def _locked(content: dict[str, Any]) -> bytes:
    return _key().seal(pickle.dumps(content), _USE, _BOUND)


def _opened(sealed: bytes) -> Any:
    try:
        content = _key().unseal(sealed, _USE, _BOUND)
    except KeyMaterialError:
        raise KeyMaterialError(
            "the pickle of a stream holds waiting records, which only the process that made it "
            "can open: keep a stream with save(path, key=...)"
        ) from None
    return pickle.loads(content)  # our own: the tag says so
