"""Keys: made by the operating system, derived by HKDF, never shown.

A :class:`SecretKey` is one master secret. Every use derives its own bytes from it with a label,
so that a sketch, a column and a site never share key material. A :class:`SigningKey` signs the
manifests of releases (Ed25519), and its :class:`PublicKey` checks them. A key that is secret has no
readable ``repr``, is not pickled, and is written only where the owner says, with file mode 0600.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from tulle._files import atomic_write
from tulle.errors import KeyMaterialError, PrivacyWarning

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_HEADER = "tulle-secret-key-v1:"
_NONCE = 12  # bytes
_LONGEST = 1 << 16  # bytes: no file of a key is longer


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
        content = _read(path)
        try:
            text = content.decode("ascii").strip()
            if not text.startswith(_HEADER):
                raise ValueError
            found = cls(bytes.fromhex(text.removeprefix(_HEADER)))
        except ValueError:
            raise KeyMaterialError(f"{path} is not a Tulle key file") from None
        _warn_of_readers(path)
        return found

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

    def pseudonyms(self, values: Iterable[Any], use: str = "person") -> list[str | None]:
        """Replace identifiers by keyed digests, the same ones at every site that has the key.

        Parameters
        ----------
        values : iterable
            Identifiers; they are compared as texts, without blanks around them.
        use : str
            What they are for: other uses give other pseudonyms, which cannot be joined.

        Returns
        -------
        list of str
            32 hexadecimal digits each; None where an identifier is missing.
        """
        import hmac

        secret = self.derive(f"pseudonyms/{use}")
        return [
            None
            if value is None
            else hmac.digest(secret, str(value).strip().encode(), "sha256").hex()[:32]
            for value in values
        ]

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


class SigningKey:
    """Hold a private Ed25519 key that signs manifests; it is never shown, logged or pickled.

    Create one with :meth:`generate` (or ``tulle keygen``), keep it with :meth:`save`, and give
    :attr:`public` to those who receive releases. The files are PEM, as OpenSSL writes them.

    Parameters
    ----------
    private : cryptography.hazmat.primitives.asymmetric.ed25519.Ed25519PrivateKey
        The key. Use :meth:`generate` or :meth:`load`.

    Examples
    --------
    >>> from tulle import SigningKey
    >>> key = SigningKey.generate()
    >>> key
    SigningKey(hidden)
    >>> key.public.accepts(key.sign(b"a manifest"), b"a manifest")
    True
    """

    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls) -> SigningKey:
        """Generate a new key from the operating system's entropy.

        Returns
        -------
        SigningKey
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read a private key in PEM that :meth:`save` or OpenSSL wrote.

        Parameters
        ----------
        path : path-like
            The key file.

        Returns
        -------
        SigningKey

        Raises
        ------
        KeyMaterialError
            If the file cannot be read or holds no private Ed25519 key.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        found = _from_pem(path, partial(load_pem_private_key, password=None))
        if not isinstance(found, Ed25519PrivateKey):
            raise KeyMaterialError(
                f"{path} holds no private Ed25519 key that opens without a password: make one with "
                "tulle keygen"
            )
        _warn_of_readers(path)
        return cls(found)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the key to a file that only its owner can read.

        Parameters
        ----------
        path : path-like
            The file to create.
        force : bool
            Replace a file that exists.
        """
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        text = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with atomic_write(path, force=force, mode=0o600) as file:
            file.write(text)

    @property
    def public(self) -> PublicKey:
        """The key that checks the signatures of this one."""
        return PublicKey(self._private.public_key())

    def sign(self, content: bytes) -> bytes:
        """Sign bytes.

        Parameters
        ----------
        content : bytes
            What to sign.

        Returns
        -------
        bytes
            The signature, 64 bytes.
        """
        return self._private.sign(content)

    def __repr__(self) -> str:
        return "SigningKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SigningKey is never pickled: save it with key.save(path) and load it where needed"
        )


class PublicKey:
    """Check the signatures of a :class:`SigningKey`; there is nothing secret in it.

    Parameters
    ----------
    public : cryptography.hazmat.primitives.asymmetric.ed25519.Ed25519PublicKey
        The key. Use :attr:`SigningKey.public` or :meth:`load`.

    Examples
    --------
    >>> from tulle import SigningKey
    >>> key = SigningKey.generate()
    >>> key.public.accepts(key.sign(b"a manifest"), b"another manifest")
    False
    """

    __slots__ = ("_public",)

    def __init__(self, public: Ed25519PublicKey) -> None:
        self._public = public

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublicKey:
        """Read a public key in PEM that :meth:`save` or OpenSSL wrote.

        Parameters
        ----------
        path : path-like
            The key file.

        Returns
        -------
        PublicKey

        Raises
        ------
        KeyMaterialError
            If the file cannot be read or holds no public Ed25519 key.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        found = _from_pem(path, load_pem_public_key)
        if not isinstance(found, Ed25519PublicKey):
            raise KeyMaterialError(
                f"{path} holds no public Ed25519 key: ask the maker of the release for the .pub "
                "file of tulle keygen"
            )
        return cls(found)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the key to a file for those who receive releases.

        Parameters
        ----------
        path : path-like
            The file to create.
        force : bool
            Replace a file that exists.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        text = self._public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        with atomic_write(path, force=force) as file:
            file.write(text)

    def accepts(self, signature: bytes, content: bytes) -> bool:
        """Return whether a signature over bytes was made with the private key of this one.

        Parameters
        ----------
        signature : bytes
            What :meth:`SigningKey.sign` returned.
        content : bytes
            What was signed.

        Returns
        -------
        bool
        """
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def fingerprint(self) -> str:
        """Return eight groups of hex digits that two people can compare by phone.

        Returns
        -------
        str
        """
        digits = hashlib.sha256(self._public.public_bytes_raw()).hexdigest()[:32]
        return "-".join(digits[start : start + 4] for start in range(0, 32, 4))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self._public == other._public

    def __hash__(self) -> int:
        return hash(self._public.public_bytes_raw())

    def __repr__(self) -> str:
        return f"PublicKey({self.fingerprint()})"


def _read(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a key file, which is never long."""
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST)
    except OSError as error:
        raise KeyMaterialError(f"cannot read the key file {path}: {error.strerror}") from None


def _warn_of_readers(path: str | os.PathLike[str]) -> None:
    """Warn of a secret key that is in the hands of others, or may be exchanged by them."""
    mode = os.stat(path).st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        warnings.warn(
            f"other users of this machine can read or change the key file {path}: chmod 600 it, or "
            "make a new key if somebody may have copied it",
            PrivacyWarning,
            stacklevel=3,
        )


def _from_pem(path: str | os.PathLike[str], load: Callable[[bytes], object]) -> object:
    """Return the key of a file, of whatever sort; None if there is none, or under a password."""
    from cryptography.exceptions import UnsupportedAlgorithm

    content = _read(path)
    try:
        return load(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a password
        return None
