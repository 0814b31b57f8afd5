"""Secret keys: made by the operating system, derived by HKDF, never shown.

A :class:`SecretKey` is one master secret. Every use derives its own bytes from it with a label,
so that a sketch, a column and a site never share key material. The key has no readable ``repr``,
is not pickled, and is written only where the owner says, with file mode 0600.
"""

from __future__ import annotations

import os
import secrets
import unicodedata
from pathlib import Path
from typing import Any, NoReturn

from tulle._files import atomic_write
from tulle.errors import KeyMaterialError

_HEADER = "tulle-secret-key-v1:"
_NONCE = 12  # bytes


class SecretKey:
    """Hold a master secret of 32 bytes that is never shown, logged or pickled.

    Create one with :meth:`generate`, keep it with :meth:`save`, read it back with :meth:`load`,
    or stretch it from a passphrase with :meth:`from_passphrase`.

    Parameters
    ----------
    secret : bytes
        Exactly 32 bytes. Use :meth:`generate` unless you already hold such a secret.

    Raises
    ------
    KeyMaterialError
        If ``secret`` is not 32 bytes.

    Examples
    --------
    >>> from tulle import SecretKey
    >>> key = SecretKey.generate()
    >>> key
    SecretKey(hidden)
    >>> key.derive("sketch/signs", 16) == key.derive("sketch/signs", 16)
    True
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise KeyMaterialError("a SecretKey needs 32 bytes: use SecretKey.generate()")
        self._secret = secret

    @classmethod
    def generate(cls) -> SecretKey:
        """Generate a new key from the operating system's entropy.

        Returns
        -------
        SecretKey
        """
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_passphrase(cls, passphrase: str, salt: bytes) -> SecretKey:
        """Stretch a passphrase into a key with scrypt (2**17 rounds), slow to guess.

        Parameters
        ----------
        passphrase : str
            Any text that is not empty.
        salt : bytes
            At least 16 bytes; the same passphrase and salt give the same key.

        Returns
        -------
        SecretKey
        """
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        if not passphrase:
            raise KeyMaterialError("the passphrase is empty")
        if len(salt) < 16:
            raise KeyMaterialError("the salt needs at least 16 bytes")
        try:  # keyboards of different systems compose the same letters differently
            letters = unicodedata.normalize("NFC", passphrase).encode()
        except UnicodeEncodeError:
            raise KeyMaterialError("the passphrase is not valid text: set it in UTF-8") from None
        return cls(Scrypt(salt=salt, length=32, n=2**17, r=8, p=1).derive(letters))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SecretKey:
        """Read a key file that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The key file.

        Returns
        -------
        SecretKey

        Raises
        ------
        KeyMaterialError
            If the file cannot be read or is not a key file.
        """
        try:
            text = Path(path).read_text("ascii").strip()
            if not text.startswith(_HEADER):
                raise ValueError
            return cls(bytes.fromhex(text.removeprefix(_HEADER)))
        except OSError as error:
            raise KeyMaterialError(f"cannot read the key file {path}: {error.strerror}") from None
        except ValueError:
            raise KeyMaterialError(f"{path} is not a Tulle key file") from None

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the key to a file that only its owner can read.

        Parameters
        ----------
        path : path-like
            The file to create.
        force : bool
            Replace a file that exists.
        """
        with atomic_write(path, force=force, mode=0o600) as file:
            file.write((_HEADER + self._secret.hex() + "\n").encode("ascii"))

    def derive(self, use: str, length: int = 32) -> bytes:
        """Derive bytes for one use by HKDF-SHA256; other uses learn nothing from them.

        Parameters
        ----------
        use : str
            The label of the use, such as ``"sketch/signs"``.
        length : int
            Number of bytes.

        Returns
        -------
        bytes
        """
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = b"tulle/v1/" + use.encode()
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self._secret)

    def seal(self, plain: bytes, use: str, bound: bytes) -> bytes:
        """Encrypt bytes (AES-256-GCM) so that only this key opens them.

        Parameters
        ----------
        plain : bytes
            What to encrypt.
        use : str
            The label of the use; :meth:`unseal` must give the same one.
        bound : bytes
            Context that is authenticated but not encrypted, such as a file's header.

        Returns
        -------
        bytes
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE)
        return nonce + AESGCM(self.derive(use)).encrypt(nonce, plain, bound)

    def unseal(self, sealed: bytes, use: str, bound: bytes) -> bytes:
        """Decrypt what :meth:`seal` encrypted for the same use and context.

        Parameters
        ----------
        sealed : bytes
            What :meth:`seal` returned.
        use : str
            The label given to :meth:`seal`.
        bound : bytes
            The context given to :meth:`seal`.

        Returns
        -------
        bytes

        Raises
        ------
        KeyMaterialError
            If the key, the use or the context differ, or the bytes were changed.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self.derive(use)).decrypt(sealed[:_NONCE], sealed[_NONCE:], bound)
        except (InvalidTag, ValueError):  # of what is cut short, too
            raise KeyMaterialError("sealed with another key, or changed since") from None

    def fingerprint(self) -> str:
        """Return eight groups of hex digits that two owners can compare by phone.

        Returns
        -------
        str
            It reveals nothing about the key.
        """
        digits = self.derive("fingerprint", 16).hex()
        return "-".join(digits[start : start + 4] for start in range(0, 32, 4))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.derive("hash", 8))

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    def __copy__(self) -> SecretKey:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> SecretKey:
        return self

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SecretKey is never pickled: save it with key.save(path) and load it where needed"
        )
