"""Signed releases: whatever is changed, by whomever, is noticed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.releases.test_file_pairs import manifest, release
from tulle import PublicKey, SigningKey
from tulle.cli import tulle
from tulle.errors import KeyMaterialError, PrivacyError
from tulle.releases import Manifest, manifest_path, read_manifest, verify_release, write_release


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, [str(argument) for argument in arguments])


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture
def signed(tmp_path: Path, key: SigningKey) -> Path:
    release(tmp_path / "r.bin", sign_key=key)
    key.save(tmp_path / "k")
    key.public.save(tmp_path / "k.pub")
    return tmp_path / "r.bin"


def holds(path: Path, key: PublicKey | Path) -> list[bool]:
    return [row["holds"] for row in verify_release(path, key)]


def test_a_signed_release_verifies_with_the_public_key_or_its_file(
    signed: Path, key: SigningKey
) -> None:
    assert holds(signed, key.public) == [True, True, True]
    assert holds(signed, signed.with_name("k.pub")) == [True, True, True]
    assert [row["holds"] for row in verify_release(signed)] == [True, True]
    assert holds(signed, SigningKey.generate().public) == [True, True, False]


def test_a_release_that_nobody_signed_fails_with_a_key(tmp_path: Path, key: SigningKey) -> None:
    release(tmp_path / "r.bin")
    assert holds(tmp_path / "r.bin", key.public) == [True, True, False]


def test_the_layout_of_the_manifest_does_not_matter(signed: Path, key: SigningKey) -> None:
    beside = manifest_path(signed)
    entries = json.loads(beside.read_text())
    beside.write_text(json.dumps(dict(reversed(entries.items()))))
    assert holds(signed, key.public) == [True, True, True]


def _entries(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    beside = manifest_path(path)
    entries = json.loads(beside.read_text())
    change(entries)
    beside.write_text(json.dumps(entries))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e["parameters"].update(k=1000),
        lambda e: e["verified"].update({"all is well": True}),
        lambda e: e.update(created="2020-01-01T00:00:00+00:00"),
        lambda e: e["signature"].update(value=e["signature"]["value"][:-4] + "AAA="),
        lambda e: e["signature"].update(value="no base64!"),
        lambda e: e["signature"].update(value=None),
        lambda e: e["signature"].update(value=""),
        lambda e: e["signature"].update(algorithm="none"),
        lambda e: e.update(signature={}),
        lambda e: e.pop("signature"),
    ],
)
def test_any_change_of_the_manifest_fails(
    signed: Path, key: SigningKey, change: Callable[[dict[str, Any]], Any]
) -> None:
    _entries(signed, change)
    assert holds(signed, key.public)[-1] is False
    found = run("verify", signed, "--key", signed.with_name("k.pub"))
    assert isinstance(found.exception, PrivacyError)
    assert "\n" not in str(found.exception)
    assert found.exception.exit_code == 1


def test_data_of_another_release_fail_though_both_are_signed(signed: Path, key: SigningKey) -> None:
    release(signed.with_name("other.bin"), b"other data", sign_key=key)
    signed.write_bytes(b"other data")
    assert holds(signed, key.public) == [False, True, True]
    manifest_path(signed.with_name("other.bin")).replace(manifest_path(signed))
    assert holds(signed, key.public) == [True, True, True]  # it is that release, renamed


@pytest.mark.parametrize("text", ["", "[" * 200_000, "9" * 5_000, "{}", '{"method": 1}', "\xff"])
def test_a_manifest_that_is_none_fails_in_one_line(signed: Path, text: str) -> None:
    manifest_path(signed).write_bytes(text.encode("latin-1"))
    found = run("verify", signed)
    assert isinstance(found.exception, PrivacyError)
    assert str(manifest_path(signed)) in str(found.exception)


def test_a_staged_manifest_that_is_none_does_not_block(signed: Path, key: SigningKey) -> None:
    staged = manifest_path(signed).with_name(manifest_path(signed).name + ".next")
    for text in ("[" * 200_000, "9" * 5_000, "null", '{"output": 1}'):
        staged.write_text(text)
        assert holds(signed, key.public) == [True, True, True]
        assert not staged.exists()


@pytest.mark.slow
def test_the_exit_code_and_one_line_of_a_real_process(signed: Path) -> None:
    signed.write_bytes(b"changed")
    done = subprocess.run(
        [sys.executable, "-m", "tulle", "verify", signed, "--key", signed.with_name("k.pub")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "data unchanged" in done.stderr


@pytest.mark.parametrize(
    "verified",
    [{}, {"x": 0}, {"x": 1}, {"x": "no"}, {"x": "true"}, {"x": None}, {"x": {"holds": "false"}}]
    + [{"x": {"holds": True}}, {"x": [True]}, {"x": False}, {"x": True, "y": 11}],
)
def test_only_true_counts_as_verified(tmp_path: Path, verified: dict[str, Any]) -> None:
    made = manifest(verified=verified)
    assert not made.holds
    with pytest.raises(PrivacyError):
        write_release(tmp_path / "r", lambda file: None, made)
    assert os.listdir(tmp_path) == []


def test_keygen_makes_a_pair_that_only_the_owner_reads(tmp_path: Path) -> None:
    made = run("keygen", tmp_path / "k", "--json")
    assert made.exit_code == 0
    told = json.loads(made.stdout)
    assert stat.S_IMODE(os.stat(tmp_path / "k").st_mode) == 0o600
    private, public = SigningKey.load(tmp_path / "k"), PublicKey.load(tmp_path / "k.pub")
    assert private.public == public
    assert told["fingerprint"] == public.fingerprint()
    assert run("keygen", tmp_path / "k").exit_code
    assert SigningKey.load(tmp_path / "k").public == public
    assert run("keygen", tmp_path / "k", "--force").exit_code == 0
    assert PublicKey.load(tmp_path / "k.pub") != public


def test_files_that_hold_no_such_key_are_refused(tmp_path: Path, key: SigningKey) -> None:
    key.save(tmp_path / "k")
    key.public.save(tmp_path / "k.pub")
    (tmp_path / "odd").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for load, names in (
        (SigningKey.load, ("k.pub", "odd", "missing")),
        (PublicKey.load, ("k", "odd", "missing", ".")),
    ):
        for name in names:
            with pytest.raises(KeyMaterialError) as caught:
                load(tmp_path / name)
            assert str(tmp_path / name) in str(caught.value)


def test_a_signing_key_is_never_shown(key: SigningKey) -> None:
    import pickle

    assert repr(key) == "SigningKey(hidden)"
    with pytest.raises(KeyMaterialError):
        pickle.dumps(key)


@pytest.mark.slow
def test_every_releasing_command_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("keygen", "k")
    for name, step in (("people.csv", 7), ("others.csv", 5)):
        rows = (f"{20 + i * i % 37},{i * step % 90}\n" for i in range(60))
        Path(name).write_text("age,pay\n" + "".join(rows))
    Path("shop.dat").write_text("1 2 3\n" * 5 + "1 2\n2\n3\n4\n")
    Path("secret.txt").write_text("1, 2 -> 3\n")
    Path("notes.txt").write_text("a cat and a dog sat\nthe dog and the cat\n")
    monkeypatch.setenv("TULLE_PASSPHRASE", "long enough a passphrase")
    sign = ("--sign-key", "k")
    runs = {
        "c.csv": ("condense", "people.csv", "-o", "c.csv", "--k", 5, "--no-audit", *sign),
        "h.dat": ("hide", "shop.dat", "-o", "h.dat", "--rules", "secret.txt", "--min-support", 3)
        + sign,
        "s.parquet": ("sketch", "notes.txt", "-o", "s.parquet", *sign),
        "out/snapshot-000001.parquet": ("stream", "people.csv", "-o", "out", "--state", "state")
        + ("--k", 5, "--init", 30, *sign),
    }
    ranges = ("--range", "age=0..99", "--range", "pay=0..99")
    known = 'kind = "integer"\nrole = "quasi-identifier"\n'
    Path("policy.toml").write_text(f"[columns.age]\n{known}[columns.pay]\n{known}")
    agreed = run("sites", "agree", "-o", "a", "--policy", "policy.toml", *ranges)
    assert agreed.exit_code == 0, agreed.exception
    runs["e.parquet"] = ("sites", "encode", "people.csv", "-o", "e.parquet", "-a", "a", *sign)
    runs["f.parquet"] = ("sites", "encode", "others.csv", "-o", "f.parquet", "-a", "a", *sign)
    runs["u.parquet"] = ("sites", "join", "e.parquet", "f.parquet", "-o", "u.parquet", *sign)
    for name, arguments in runs.items():
        done = run(*arguments)
        assert done.exit_code == 0, (name, done.exception)
        assert holds(Path(name), Path("k.pub")) == [True, True, True], name
    assert run("condense", "people.csv", "-o", "d.csv", "--sign-key", "k.pub").exit_code
    assert not Path("d.csv").exists()
    monkeypatch.setenv("TULLE_SIGN_KEY", "k")
    assert run("sketch", "notes.txt", "-o", "t.parquet").exit_code == 0
    assert read_manifest("t.parquet").signed_by(PublicKey.load("k.pub"))


def test_a_table_of_a_database_is_signed_too(tmp_path: Path, key: SigningKey) -> None:
    import polars as pl

    from tulle.io.write import put_table

    target = f"sqlite:///{tmp_path / 'x.db'}#t"
    frame = pl.DataFrame({"a": [1, 2]})
    made = Manifest("test", {}, {}, {"checked": True})
    write_release(target, lambda file: put_table(frame, file, target), made, sign_key=key)
    assert [row["holds"] for row in verify_release(target, key.public)] == [True, True, True]
