from __future__ import annotations

import copy
import os
import pickle
import stat
from pathlib import Path

import pytest

from tulle import SecretKey, SigningKey
from tulle.errors import KeyMaterialError, OutputExists, PrivacyWarning


def test_key_is_never_shown_nor_pickled() -> None:
    key = SecretKey(b"k" * 32)
    for text in (repr(key), str(key), f"{key}"):
        assert (b"k" * 4).hex() not in text
        assert "kkkk" not in text
    with pytest.raises(KeyMaterialError):
        pickle.dumps(key)


def test_derivation_is_stable_and_separate() -> None:
    key = SecretKey(b"k" * 32)
    assert key.derive("a", 16) == SecretKey(b"k" * 32).derive("a", 16)
    assert key.derive("a", 16) != key.derive("b", 16)
    assert key.derive("a", 16) != SecretKey.generate().derive("a", 16)


def test_file_round_trip_is_private_and_not_replaced(tmp_path: Path) -> None:
    key = SecretKey.generate()
    key.save(tmp_path / "key")
    assert SecretKey.load(tmp_path / "key") == key
    assert stat.S_IMODE(os.stat(tmp_path / "key").st_mode) == 0o600
    with pytest.raises(OutputExists):
        SecretKey.generate().save(tmp_path / "key")


@pytest.mark.parametrize("kind", [SecretKey, SigningKey])
def test_a_key_that_others_can_read_is_used_with_a_warning(
    kind: type[SecretKey | SigningKey], tmp_path: Path
) -> None:
    path = tmp_path / "k.key"
    kind.generate().save(path)
    kind.load(path)
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.warns(PrivacyWarning, match="chmod 600"):
            kind.load(path)


def test_bad_key_files_get_a_clear_word(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("tulle-secret-key-v1:zz")
    (tmp_path / "other").write_bytes(b"\xff\xfe")
    for name in ("bad", "other", "absent"):
        with pytest.raises(KeyMaterialError):
            SecretKey.load(tmp_path / name)
    with pytest.raises(KeyMaterialError):
        SecretKey(b"short")


@pytest.mark.slow
def test_passphrase_gives_the_same_key_for_the_same_salt() -> None:
    first = SecretKey.from_passphrase("correct horse", b"s" * 16)
    assert first == SecretKey.from_passphrase("correct horse", b"s" * 16)
    assert first != SecretKey.from_passphrase("correct horse", b"t" * 16)
    with pytest.raises(KeyMaterialError):
        SecretKey.from_passphrase("", b"s" * 16)


def test_copies_are_the_same_key() -> None:
    key = SecretKey.generate()
    assert copy.deepcopy(key) == copy.copy(key) == key
    assert len({key, copy.deepcopy(key)}) == 1


def test_what_is_sealed_opens_with_the_same_key_use_and_content_only() -> None:
    key = SecretKey.generate()
    sealed = key.seal(b"somebody", "test/one", b"a record")
    assert b"somebody" not in sealed
    assert sealed != key.seal(b"somebody", "test/one", b"a record")
    assert key.unseal(sealed, "test/one", b"a record") == b"somebody"
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for opener, content, use, bound in (
        (SecretKey.generate(), sealed, "test/one", b"a record"),
        (key, changed, "test/one", b"a record"),
        (key, sealed[:5], "test/one", b"a record"),
        (key, b"", "test/one", b"a record"),
        (key, sealed, "test/two", b"a record"),
        (key, sealed, "test/one", b"a table"),
    ):
        with pytest.raises(KeyMaterialError):
            opener.unseal(content, use, bound)


@pytest.mark.slow
def test_a_passphrase_is_the_same_letters_on_every_keyboard() -> None:
    salt = bytes(16)
    composed, decomposed = "caf\u00e9 au lait", "cafe\u0301 au lait"
    assert SecretKey.from_passphrase(composed, salt) == SecretKey.from_passphrase(decomposed, salt)
    with pytest.raises(KeyMaterialError) as error:
        SecretKey.from_passphrase("secret\udcff", salt)
    assert "secret" not in str(error.value)


def test_pseudonyms_join_what_two_sites_hold_and_nothing_else() -> None:
    key = SecretKey(b"k" * 32)
    first = key.pseudonyms(["A1", " B2 ", None, 3])
    assert first == SecretKey(b"k" * 32).pseudonyms(["A1", "B2", None, "3"])
    assert first[2] is None
    assert all(len(name) == 32 for name in first if name is not None)
    assert not set(first[:2]) & set(key.pseudonyms(["A1", "B2"], use="study"))
    assert not set(first[:2]) & set(SecretKey.generate().pseudonyms(["A1", "B2"]))
