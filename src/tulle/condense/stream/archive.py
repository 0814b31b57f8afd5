"""The file of a stream's state: a zip of NumPy arrays and one JSON header, with a digest.

``numpy.load`` and any zip reader open it. ``header.json`` names the format and its version and
holds the SHA-256 over everything else, so that a damaged file is refused. Statistics only: records
that still wait are in it as they are, sealed by a key, or not at all, as the caller says.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey

FORMAT = "tulle-stream-state"
# 1 did not tell the ranges of the last snapshot; 2 showed the groups of the stream as they were,
# and had waiting records standardised
VERSION = 3
_HEADER = "header.json"
_USE = "stream/waiting"
_BOUND = b"tulle-stream-waiting-v1"  # what a sealed part is bound to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same state is the same bytes

# what zipfile raises where a bit was flipped: an unknown compression, a password, and so on
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ArithmeticError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
)

Arrays = dict[str, NDArray[Any]]


def to_bytes(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """One file from a header of JSON values and named arrays."""
    members = {f"{name}.npy": _as_npy(array) for name, array in sorted(arrays.items())}
    entries = {"format": FORMAT, "version": VERSION, **header}
    entries["sha256"] = _digest(entries, members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in [(_HEADER, json.dumps(entries).encode()), *members.items()]:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return buffer.getvalue()


def from_bytes(content: bytes, *, origin: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays, after the format, the version and the digest were checked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in sorted(archive.namelist())}
        header: dict[str, Any] = json.loads(members.pop(_HEADER))
        if header["format"] != FORMAT:
            raise KeyError
        if header["version"] > VERSION:
            raise DataError(
                f"{origin} has format {header['version']}: this Tulle reads up to {VERSION}"
            )
        expected = header.pop("sha256")
    except _DAMAGE as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{origin} is not the state of a stream, or it is damaged") from None
    if _digest(header, members) != expected:
        raise DataError(f"{origin} is damaged: its digest does not match its content")
    arrays = {
        name.removesuffix(".npy"): np.load(io.BytesIO(member), allow_pickle=False)
        for name, member in members.items()
    }
    return header, arrays


def seal(arrays: Arrays, key: SecretKey) -> NDArray[np.uint8]:
    """Arrays that only the key opens, as bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return np.frombuffer(key.seal(buffer.getvalue(), _USE, _BOUND), dtype=np.uint8)


def unseal(sealed: NDArray[np.uint8], key: SecretKey) -> Arrays:
    """The arrays again."""
    try:
        opened = key.unseal(sealed.tobytes(), _USE, _BOUND)
    except KeyMaterialError:
        raise KeyMaterialError("the waiting records were sealed with another key") from None
    with np.load(io.BytesIO(opened), allow_pickle=False) as arrays:
        return dict(arrays)


def _as_npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _digest(header: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, content in sorted(members.items()):
        total.update(name.encode() + b"\0" + content)
    return total.hexdigest()
