"""Sealed files: a line of JSON that anyone may read, then bytes that only the key holder can.

The line names the format, its version, what is inside, how the key is made and the nonce; it is
authenticated together with the content (AES-256-GCM), so that no bit of either can be changed
unnoticed. A passphrase is stretched by scrypt at a cost that this version fixes: a header that asks
for another cost is refused before any work is done for it. The file gets mode 0600.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from tulle._files import atomic_write
from tulle.errors import KeyMaterialError
from tulle.keys import SecretKey

FORMAT, VERSION = "tulle-sealed", 1
_SCRYPT = {"name": "scrypt", "n": 2**17, "r": 8, "p": 1}  # what SecretKey.from_passphrase does
_KEY_FILE = {"name": "key file"}
_LONGEST_HEADER = 2048
_LONGEST_FILE = 2**30

Lock = str | SecretKey  # a passphrase, or the key of a key file


class _Header(NamedTuple):
    """What of the readable first line differs from file to file."""

    kdf: dict[str, Any]
    salt: bytes
    nonce: bytes
    check: bytes  # tells a wrong key from a changed file; the tag would tell a guesser as much
    length: int


def seal(plain: bytes, content: str, lock: Lock) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    kdf = _SCRYPT if isinstance(lock, str) else _KEY_FILE
    key = _key(lock, salt)
    check = key.derive("sites/seal/check", 8)
    header = _Header(kdf, salt, nonce, check, len(plain) + 16)  # the tag of AES-GCM takes 16 bytes
    own = {n: v.hex() if isinstance(v, bytes) else v for n, v in header._asdict().items()}
    entries = {"format": FORMAT, "version": VERSION, "content": content, **own}
    line = json.dumps(entries).encode("ascii") + b"\n"
    return line + AESGCM(key.derive("sites/seal/aes")).encrypt(nonce, plain, line)


def unseal(
    sealed: bytes, content: str, lock: Lock, name: str = "the file", opener: str = "key file"
) -> bytes:
    """Return the content; raise a clear error for each thing that can be wrong.

    ``opener`` is where a key comes from, in words.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    line, _, hidden = sealed[: _LONGEST_HEADER + 1].partition(b"\n")
    header = _read_header(line, content, name)
    hidden = sealed[len(line) + 1 :]
    if isinstance(lock, str) and header.kdf == _KEY_FILE:
        raise KeyMaterialError(f"{name} is sealed with a key file, not with a passphrase")
    if isinstance(lock, SecretKey) and header.kdf == _SCRYPT:
        raise KeyMaterialError(f"{name} is sealed with a passphrase, not with a key file")
    if len(hidden) < header.length:
        raise KeyMaterialError(
            f"{name} is truncated: it has {len(hidden)} of {header.length} sealed bytes"
        )
    key = _key(lock, header.salt)
    if not secrets.compare_digest(key.derive("sites/seal/check", 8), header.check):
        what = "passphrase" if isinstance(lock, str) else opener
        raise KeyMaterialError(f"the {what} does not open {name} (or its first line was changed)")
    try:
        plain = AESGCM(key.derive("sites/seal/aes")).decrypt(header.nonce, hidden, line + b"\n")
    except InvalidTag:
        raise KeyMaterialError(
            f"{name} was changed after it was sealed: get a fresh copy from another site"
        ) from None
    return plain


def write_sealed(
    path: str | os.PathLike[str], plain: bytes, content: str, lock: Lock, *, force: bool = False
) -> None:
    """Write a sealed file that only its owner can read."""
    sealed = seal(plain, content, lock)
    with atomic_write(path, force=force, mode=0o600) as file:
        file.write(sealed)


def read_sealed(
    path: str | os.PathLike[str], content: str, lock: Lock, opener: str = "key file"
) -> bytes:
    try:
        if Path(path).stat().st_size > _LONGEST_FILE:
            raise KeyMaterialError(f"{path} is too large for a sealed file")
        sealed = Path(path).read_bytes()
    except OSError as error:
        raise KeyMaterialError(f"cannot read {path}: {error.strerror}") from None
    return unseal(sealed, content, lock, str(path), opener)


def _read_header(line: bytes, content: str, name: str) -> _Header:
    try:
        entries = json.loads(line)
        if entries["format"] != FORMAT:
            raise ValueError
        version = entries["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeyMaterialError(f"{name} is not a sealed file of Tulle") from None
    if version != VERSION:
        raise KeyMaterialError(
            f"{name} was sealed in another version of the format: this version of Tulle reads "
            f"version {VERSION}. Use the version of Tulle that wrote it, or a newer one"
        )
    try:
        salt, nonce, check = (bytes.fromhex(entries[part]) for part in ("salt", "nonce", "check"))
        header = _Header(dict(entries["kdf"]), salt, nonce, check, int(entries["length"]))
        inside = str(entries["content"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise KeyMaterialError(f"the first line of {name} is damaged") from None
    if inside != content:
        raise KeyMaterialError(f"{name} is a sealed file of Tulle, but not a {content}")
    if header.kdf not in (_SCRYPT, _KEY_FILE) or len(header.salt) != 16 or len(header.nonce) != 12:
        raise KeyMaterialError(f"{name} asks for a key derivation that Tulle does not use")
    return header


def _key(lock: Lock, salt: bytes) -> SecretKey:
    if isinstance(lock, str):
        return SecretKey.from_passphrase(lock, salt)
    if not isinstance(lock, SecretKey):
        raise KeyMaterialError(f"pass a passphrase or a SecretKey. Got {type(lock).__name__}")
    return SecretKey(lock.derive(f"sites/seal/{salt.hex()}"))
