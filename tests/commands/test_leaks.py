"""What lies beside a release rests on many people, or is for nobody but the owner to read."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands.condense import condense
from tulle._commands.hide import _OWNERS
from tulle._report.render import to_json
from tulle.cli import tulle
from tulle.errors import DataError, KeyMaterialError, ParameterError
from tulle.io.write import write_table
from tulle.releases import read_manifest, verify_release

pytestmark = pytest.mark.slow

N, K = 300, 10


def run(*words: object) -> Result:
    return CliRunner().invoke(tulle, [str(word) for word in words])


def people(**changed: Any) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "age": rng.integers(18, 90, N).tolist(),
        "income": (rng.integers(200, 900, N) * 100).tolist(),
        "ward": rng.choice(list("ABC"), N).tolist(),
    }
    for name, value in changed.items():
        columns.setdefault(name, [K, K + 1] * (N // 2))  # levels
        columns[name] = [value, *columns[name][1:]]
    return pl.DataFrame(columns, strict=False)


def manifest_of(table: pl.DataFrame, folder: Path, *words: object) -> str:
    source, release = folder / "t.csv", folder / "r.csv"
    write_table(table, source, force=True)
    done = run("condense", source, "-o", release, "--no-audit", "--force", *words)
    assert done.exit_code == 0, done.output
    return Path(f"{release}.manifest.json").read_text()


def without_digests(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    for name in ("created", "versions"):
        del found[name]
    del found["source"]["digest"], found["output"]["sha256"]
    found["counts"].pop("groups")  # of all people
    return found


@pytest.mark.parametrize(
    "one", [{"income": 999_999}, {"ward": "psychiatry"}, {"income": 999_999, "ward": "D"}]
)
def test_what_one_person_holds_changes_nothing_in_a_manifest(
    one: dict[str, Any], tmp_path: Path
) -> None:
    plain, rare = (
        without_digests(manifest_of(table, tmp_path, "--k", K))
        for table in (people(), people(**one))
    )
    assert rare == plain
    assert not any(str(value) in json.dumps(rare) for value in one.values())


def test_values_that_a_policy_declares_are_told(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text(
        '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n'
        '[columns.income]\nkind = "integer"\nrole = "sensitive"\nmissing = [999999]\n'
        '[columns.ward]\nkind = "category"\nrole = "quasi-identifier"\n'
    )
    found = json.loads(manifest_of(people(income=999_999), tmp_path, "--policy", policy, "--k", K))
    assert found["columns"]["income"]["missing"] == [999_999]


@pytest.mark.parametrize("level", [K - 3, 5 * K])
def test_the_level_of_one_person_is_in_no_manifest_and_no_public_report(
    level: int, tmp_path: Path
) -> None:
    told = []
    for one in (K, level):
        write_table(people(level=one), tmp_path / "t.csv", force=True)
        release = tmp_path / "r.csv"
        done = condense(tmp_path / "t.csv", release, levels="level", audit=False, force=True)
        manifest = without_digests(Path(f"{release}.manifest.json").read_text())
        public = json.loads(to_json(done.audit.result, "public"))
        assert "groups" not in [section["id"] for section in public["sections"]]
        told.append((manifest, public["guarantee"]))
    assert told[0] == told[1]


def test_records_withheld_are_not_counted_exactly(tmp_path: Path) -> None:
    table = people(level=N + 1)
    text = manifest_of(table, tmp_path, "--levels", "level", "--on-infeasible", "suppress")
    assert f"{N}," not in text
    assert "suppressed" not in json.loads(text)["counts"]


def test_an_unknown_number_cannot_be_read_from_the_digest_of_the_source(tmp_path: Path) -> None:
    manifest_of(people(), tmp_path, "--k", K)
    raw = (tmp_path / "t.csv").read_bytes()
    told = read_manifest(tmp_path / "r.csv").source["digest"]
    salt = told["salt"].encode()
    tries = {hashlib.sha256(text).hexdigest() for text in (raw, salt + raw, raw + salt)}
    tries |= {hmac.digest(key, raw, "sha256").hex() for key in (b"", salt)}
    assert told["value"] not in tries
    manifest_of(people(), tmp_path, "--k", K)  # the same source
    assert read_manifest(tmp_path / "r.csv").source["digest"]["value"] != told["value"]


def test_the_owner_proves_which_source_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, source, release = (tmp_path / name for name in ("owner.key", "t.csv", "r.csv"))
    monkeypatch.setenv("TULLE_SOURCE_KEY", str(key))
    assert run("keygen", tmp_path / "sign").exit_code == 0
    manifest_of(people(), tmp_path, "--k", K, "--sign-key", tmp_path / "sign")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    asked = ("verify", release, "--key", tmp_path / "sign.pub", "--source", source)
    assert run(*asked).exit_code == 0
    monkeypatch.setenv("TULLE_SOURCE_KEY", str(tmp_path / "none.key"))
    assert run(*asked, "--source-key", key).exit_code == 0
    assert isinstance(run(*asked).exception, KeyMaterialError)
    other = tmp_path / "other.csv"
    other.write_bytes(source.read_bytes() + b"\n")
    done = run("verify", release, "--source", other, "--source-key", key)
    assert done.exit_code == 1
    assert "made from the source" in str(done.exception)
    assert isinstance(run("verify", release, "--source-key", key).exception, ParameterError)


def test_without_a_place_for_a_key_the_manifest_holds_no_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TULLE_SOURCE_KEY")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    assert "digest" not in json.loads(manifest_of(people(), tmp_path, "--k", K))["source"]
    checked = verify_release(tmp_path / "r.csv", source=tmp_path / "t.csv")
    assert checked[-1]["holds"] is False
    monkeypatch.setenv("TULLE_SOURCE_KEY", str(tmp_path / "file" / "owner.key"))
    refused = run("condense", tmp_path / "t.csv", "-o", tmp_path / "again.csv")
    assert isinstance(refused.exception, KeyMaterialError)


def test_a_name_given_twice_in_a_manifest_is_refused(tmp_path: Path) -> None:
    assert run("keygen", tmp_path / "sign").exit_code == 0
    text = manifest_of(people(), tmp_path, "--k", K, "--sign-key", tmp_path / "sign")
    forged = text.replace("{", '{"parameters": {"k": 99},', 1)
    (tmp_path / "r.csv.manifest.json").write_text(forged)
    done = run("verify", tmp_path / "r.csv", "--key", tmp_path / "sign.pub")
    assert done.exit_code == 1
    assert "not a Tulle manifest" in str(done.exception)


def test_baskets_behind_a_hidden_rule_are_not_counted(tmp_path: Path) -> None:
    baskets = tmp_path / "b.txt"
    baskets.write_text("bread milk\n" * 30 + "bread tea\n" * 20 + "milk tea\n" * 10)
    rules = tmp_path / "rules.txt"
    rules.write_text("bread -> milk\n")
    release = tmp_path / "r.txt"
    words = ("--min-support", "0.2", "--min-confidence", "0.5")
    done = run("hide", baskets, "-o", release, "--rules", rules, *words)
    assert done.exit_code == 0, done.output
    assert not set(_OWNERS) & read_manifest(release).counts.keys()


def test_files_of_originals_and_of_the_owner_are_private(tmp_path: Path) -> None:
    os.umask(os.umask(0o022) & 0o022)
    write_table(people(), tmp_path / "t.csv")
    names = ("members.csv", "control.csv", "p.toml", "report.html", "audit.json", "public.json")
    members, control, policy, report, audit, public = (tmp_path / name for name in names)
    asked = ("audit", members, tmp_path / "r.csv", "--policy", policy)
    for words in (
        ("split", tmp_path / "t.csv", "-o", members, "--control", control, "--share", "30%"),
        ("inspect", members, "-o", policy),
        ("condense", members, "-o", tmp_path / "r.csv", "--policy", policy, "--report", report,
         "--k", K, "--accept-risk", "a test"),
        (*asked, "-o", audit),
        (*asked, "-o", public, "--public"),
    ):  # fmt: skip
        done = run(*words)
        assert done.exception is None or done.exit_code == 1, done.output
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == set(names) - {"public.json"}
    assert modes["public.json"] == modes["r.csv"] == modes["r.csv.manifest.json"] == 0o644


def test_more_columns_than_can_be_compared_are_refused_at_once(tmp_path: Path) -> None:
    table = pl.DataFrame({f"c{i}": [0, 1] for i in range(1_001)})
    write_table(table, tmp_path / "wide.parquet")
    done = run("condense", tmp_path / "wide.parquet", "-o", tmp_path / "r.parquet")
    assert isinstance(done.exception, DataError)
    assert "1,001 columns" in str(done.exception)
    assert 'role = "ignored"' in str(done.exception)
